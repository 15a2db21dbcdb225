// The label of what a loss does not count.
#pragma once

#include <cstdint>

namespace nystrom {

/// As torch.nn.CrossEntropyLoss's default: rows with this label have no loss and no gradient.
inline constexpr std::int64_t ignore_index = -100;

}  // namespace nystrom
