// Parts of texts.
#pragma once

#include <cstdint>

namespace nystrom {

/// A range of bytes in a text.
struct TextRange {
  std::int64_t begin = 0, end = 0;
};

}  // namespace nystrom
