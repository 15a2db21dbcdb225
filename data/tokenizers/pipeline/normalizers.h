// The normalizers of a tokenizer.json: what happens to text before it is split into words.
#pragma once

#include <memory>

#include "data/tokenizers/pipeline/aligned_text.h"

namespace nystrom {

class JsonPart;

/// Const members are safe to use from several threads.
class TextNormalizer {
 public:
  virtual ~TextNormalizer() = default;
  virtual void apply(AlignedText& text) const = 0;
};

/// The normalizer that a part of a tokenizer.json describes. InputError that names a type which is
/// not known.
std::unique_ptr<TextNormalizer> read_normalizer(const JsonPart& part);

/// BERT's: `clean_text` drops control characters and makes all white space spaces,
/// `handle_chinese_chars` puts spaces around ideographs.
struct BertNormalizerOptions {
  bool clean_text = true, handle_chinese_chars = true, strip_accents = true, lower_case = true;
};
std::unique_ptr<TextNormalizer> bert_normalizer(const BertNormalizerOptions& options);

/// For each byte the character by which byte-level vocabularies write it, as UTF-8.
const std::string& byte_level_character(unsigned char byte);
/// The byte that such a character stands for, or −1.
int byte_of_character(char32_t character);
/// Writes every byte as such a character.
void to_byte_level(AlignedText& text);

}  // namespace nystrom
