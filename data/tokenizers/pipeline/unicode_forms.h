// Unicode's normal forms on aligned text.
#pragma once

#include "data/tokenizers/pipeline/aligned_text.h"

namespace nystrom {

/// NFD, or NFKD when `compatible`; composed again (NFC, NFKC) when `compose`.
void normalize_unicode(AlignedText& text, bool compatible, bool compose);

}  // namespace nystrom
