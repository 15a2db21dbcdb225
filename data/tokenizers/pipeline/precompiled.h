// The Precompiled normalizer of a tokenizer.json: a SentencePiece charsmap in base64.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "data/tokenizers/pipeline/aligned_text.h"

namespace nystrom {

/// Replaces text as Hugging Face's tokenizers do, which differs from SentencePiece. A grapheme of
/// up to five bytes is replaced as a whole by the replacement of its shortest key. Otherwise each
/// character is looked up by itself.
class Precompiled {
 public:
  /// Throws an InputError "where: …" unless the text is the base64 code of a valid charsmap.
  Precompiled(std::string_view base64, const std::string& where);

  /// Normalizes `aligned`.
  void apply(AlignedText& aligned) const;

 private:
  std::optional<std::string_view> replacement(std::string_view text) const;

  std::string charsmap_;
  std::array<bool, 128> changes_ascii_{};
};

}  // namespace nystrom
