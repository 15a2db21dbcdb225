// core/base/require.h with formatters, for messages that contain shapes and types.
#pragma once

#include "core/base/require.h"
#include "core/dtype.h"
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
