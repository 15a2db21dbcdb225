// What a text says and what it hides, as tests/world has it. A failure shows the text at the
// line of the test.
#pragma once

#include <gtest/gtest.h>

#include <string_view>

namespace nystrom {

/// The line that calls a helper with this as its last default argument.
struct Caller {
  static constexpr Caller here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  const char* file;
  int line;
};

/// Expects `part` in `text`. A failure also shows `why`.
inline void expect_says(std::string_view text, std::string_view part, std::string_view why = "",
                        Caller caller = Caller::here()) {
  if (text.find(part) == text.npos)
    ADD_FAILURE_AT(caller.file, caller.line) << "expected: " << part << "\n"
                                             << why << "\ngot: " << text.substr(0, 50'000);
}

/// Expects that `part` is not in `text`. A failure also shows `why`.
inline void expect_hides(std::string_view text, std::string_view part, std::string_view why = "",
                         Caller caller = Caller::here()) {
  if (text.find(part) != text.npos)
    ADD_FAILURE_AT(caller.file, caller.line) << "unexpected: " << part << "\n"
                                             << why << "\ngot: " << text.substr(0, 50'000);
}

}  // namespace nystrom
