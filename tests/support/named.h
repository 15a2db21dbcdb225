// Names of the cases of parameterised tests.
#pragma once

#include <concepts>
#include <ostream>
#include <string>

namespace nystrom::testing {

/// The base of a case. Its name is the first of the initialiser: {"name", …}. The constructor
/// spares it braces of its own.
struct Named {
  constexpr Named(const char* text) : name(text) {}

  const char* name;
};

/// Prints the name of a failing case for GoogleTest, which would print the bytes of a case if this
/// took a Named.
template <std::derived_from<Named> Case>
void PrintTo(const Case& test, std::ostream* out) {  // NOLINT: GoogleTest's name
  *out << test.name;
}

/// Makes the name of a case that of its test: the last argument of INSTANTIATE_TEST_SUITE_P.
inline constexpr auto case_name = [](const auto& test) { return std::string(test.param.name); };

}  // namespace nystrom::testing
