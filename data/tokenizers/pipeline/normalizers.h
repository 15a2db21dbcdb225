// The normalizers of a tokenizer.json: changes to text before it is split into words.
#pragma once

#include <functional>

#include "data/tokenizers/pipeline/aligned_text.h"

namespace nystrom {

class JsonPart;

/// Normalizes a text. Throws an InputError when it grows beyond AlignedText's limit. Several
/// threads may call it at the same time.
using TextNormalizer = std::function<void(AlignedText&)>;

/// Creates the normalizer that a part of a tokenizer.json describes. Throws an InputError for an
/// unknown type or a wrong value.
TextNormalizer read_normalizer(const JsonPart& part);

/// The character that stands for a byte in byte-level vocabularies, as UTF-8.
const std::string& byte_level_character(unsigned char byte);
/// The byte of such a character, or −1 for any other character.
int byte_of_character(char32_t character);
/// Replaces every byte by its character.
void to_byte_level(AlignedText& text);

}  // namespace nystrom
