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

/// Normalizes to NFD, or to NFKD when `compatible`. With `compose` the forms are NFC and NFKC.
/// Throws an InputError when the text grows beyond AlignedText's limit.
void normalize_unicode(AlignedText& text, bool compatible, bool compose);

/// Creates the Precompiled normalizer: a SentencePiece charsmap in base64. It replaces text as
/// Hugging Face's tokenizers do, which differs from SentencePiece. A grapheme of up to five bytes
/// is replaced as a whole by the replacement of its shortest key. Otherwise each character is
/// looked up by itself. Throws an InputError "where: …" unless the text is the base64 code of a
/// valid charsmap.
TextNormalizer precompiled_normalizer(std::string_view base64, const std::string& where);

/// The character that stands for a byte in byte-level vocabularies, as UTF-8.
const std::string& byte_level_character(unsigned char byte);
/// The byte of such a character, or −1 for any other character.
int byte_of_character(char32_t character);

}  // namespace nystrom
