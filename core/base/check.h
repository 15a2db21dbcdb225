// require(): the one way to check an argument, with a formatted message. For .cpp files only (fmt
// does not compile in .cu).
#pragma once

#include <fmt/core.h>
#include <fmt/format.h>

#include "core/base/error.h"

namespace nystrom {

/// Throws Error with the formatted message unless `condition` holds. For misuse by calling code.
template <class... Args>
void require(bool condition, fmt::format_string<Args...> message, Args&&... args) {
  if (!condition) throw Error(fmt::format(message, std::forward<Args>(args)...));
}

/// As require, for what a user can give wrongly: throws InputError.
template <class... Args>
void require_input(bool condition, fmt::format_string<Args...> message, Args&&... args) {
  if (!condition) throw InputError(fmt::format(message, std::forward<Args>(args)...));
}

}  // namespace nystrom
