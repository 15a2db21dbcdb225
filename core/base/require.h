// Checks with formatted messages. Include this in .cpp files only, because fmt does not compile in
// .cu files.
#pragma once

#include <fmt/core.h>
#include <fmt/format.h>

#include "core/base/error.h"

namespace nystrom {

/// Throws an Error with the formatted message unless `condition` holds. It reports misuse by
/// calling code.
template <class... Args>
void require(bool condition, fmt::format_string<Args...> message, Args&&... args) {
  if (!condition) throw Error(fmt::format(message, std::forward<Args>(args)...));
}

/// Throws an InputError unless `condition` holds. It reports wrong input of a user.
template <class... Args>
void require_input(bool condition, fmt::format_string<Args...> message, Args&&... args) {
  if (!condition) throw InputError(fmt::format(message, std::forward<Args>(args)...));
}

}  // namespace nystrom
