// Unicode normalization forms of aligned text.
#pragma once

#include "data/tokenizers/pipeline/aligned_text.h"

namespace nystrom {

/// Normalizes to NFD, or to NFKD when `compatible`. With `compose` the forms are NFC and NFKC.
/// Throws an InputError when the text grows beyond AlignedText's limit.
void normalize_unicode(AlignedText& text, bool compatible, bool compose);

}  // namespace nystrom
