// What an error says.
#pragma once

#include <string>

#include "core/base/error.h"

namespace nystrom::testing {

/// The message of the Error that f throws; empty when it throws none.
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
