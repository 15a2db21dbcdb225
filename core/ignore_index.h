// The label of rows that a loss ignores.
#pragma once

#include <cstdint>

namespace nystrom {

/// Rows with this label have no loss and no gradient. It is the default of
/// torch.nn.CrossEntropyLoss.
inline constexpr std::int64_t ignore_index = -100;

}  // namespace nystrom
