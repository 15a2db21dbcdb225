// The Precompiled normalizer of a tokenizer.json: a SentencePiece charsmap in base64.
#pragma once

#include <string>
#include <string_view>

#include "data/tokenizers/pipeline/normalizers.h"

namespace nystrom {

/// Creates the normalizer. It replaces text as Hugging Face's tokenizers do, which differs from
/// SentencePiece. A grapheme of up to five bytes is replaced as a whole by the replacement of its
/// shortest key. Otherwise each character is looked up by itself. Throws an InputError "where: …"
/// unless the text is the base64 code of a valid charsmap.
TextNormalizer precompiled_normalizer(std::string_view base64, const std::string& where);

}  // namespace nystrom
