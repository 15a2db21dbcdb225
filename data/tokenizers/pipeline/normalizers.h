// The normalizers of a tokenizer.json: changes to text before it is split into words.
#pragma once

#include <memory>

#include "data/tokenizers/pipeline/aligned_text.h"

namespace nystrom {

class JsonPart;

/// Interface of the normalizers. Const members may be called from several threads.
class TextNormalizer {
 public:
  virtual ~TextNormalizer() = default;
  /// Normalizes `text`. Throws an InputError when it grows beyond AlignedText's limit.
  virtual void apply(AlignedText& text) const = 0;
};

/// Creates the normalizer that a part of a tokenizer.json describes. Throws an InputError for an
/// unknown type or a wrong value.
std::unique_ptr<TextNormalizer> read_normalizer(const JsonPart& part);

/// Options of BERT's normalizer. `clean_text` removes control characters and turns all white space
/// into spaces. `handle_chinese_chars` puts spaces around ideographs.
struct BertNormalizerOptions {
  bool clean_text = true, handle_chinese_chars = true, strip_accents = true, lower_case = true;
};
/// Creates BERT's normalizer.
std::unique_ptr<TextNormalizer> bert_normalizer(const BertNormalizerOptions& options);

/// The character that stands for a byte in byte-level vocabularies, as UTF-8.
const std::string& byte_level_character(unsigned char byte);
/// The byte of such a character, or −1 for any other character.
int byte_of_character(char32_t character);
/// Replaces every byte by its character.
void to_byte_level(AlignedText& text);

}  // namespace nystrom
