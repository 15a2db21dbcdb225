// The number of rounds of randomized tests.
#pragma once

#include <cstdlib>

namespace nystrom::testing {

/// 1, or NYSTROM_TEST_ROUNDS times as many cases as in `./dev test`. `./dev torture` sets it.
inline int test_rounds() {
  const char* rounds = std::getenv("NYSTROM_TEST_ROUNDS");
  return rounds && std::atoi(rounds) > 0 ? std::atoi(rounds) : 1;
}

}  // namespace nystrom::testing
