// The message of an error.
#pragma once

#include <string>

#include "core/base/error.h"

namespace nystrom::testing {

/// Returns the message of the Error that f throws, or an empty text.
template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace nystrom::testing
