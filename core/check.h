// require(): the one way to check an argument, with a formatted message. For .cpp files only (fmt does not compile in .cu).
#pragma once

#include <fmt/core.h>
#include <fmt/format.h>

#include "core/dtype.h"
#include "core/error.h"
#include "core/shape.h"

template <>
struct fmt::formatter<nystrom::Shape> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const nystrom::Shape& shape, Context& context) const {
    return fmt::formatter<std::string>::format(shape.to_string(), context);
  }
};

template <>
struct fmt::formatter<nystrom::DType> : fmt::formatter<const char*> {
  template <class Context>
  auto format(nystrom::DType dtype, Context& context) const {
    return fmt::formatter<const char*>::format(nystrom::name_of(dtype), context);
  }
};

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
