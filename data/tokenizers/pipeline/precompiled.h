// The normalizer of SentencePiece models in a tokenizer.json: a charsmap, base64 coded.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "data/tokenizers/pipeline/aligned_text.h"

namespace nystrom {

/// Replaces as Hugging Face's does, which differs from SentencePiece: a grapheme of up to five
/// bytes becomes as a whole what its shortest beginning in the map stands for; otherwise each
/// character is looked up by itself.
class Precompiled {
 public:
  /// InputError "where: …" when it is no base64 of a sound charsmap.
  Precompiled(std::string_view base64, const std::string& where);

  void apply(AlignedText& aligned) const;

 private:
  std::optional<std::string_view> replacement(std::string_view text) const;

  std::string charsmap_;
  std::array<bool, 128> changes_ascii_{};
};

}  // namespace nystrom
