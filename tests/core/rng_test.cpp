#include "core/rng.h"

#include <gtest/gtest.h>

#include <set>

namespace nystrom::testing {
namespace {

/// The test vectors of Random123, the authors' implementation.
TEST(Philox, EqualsThePublishedVectors) {
  struct Case {
    PhiloxBlock counter;
    PhiloxKey key;
    PhiloxBlock expected;
  };
  const Case cases[] = {
      {{{0, 0, 0, 0}}, {{0, 0}}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
      {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
       {{0xffffffff, 0xffffffff}},
       {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
       {{0xa4093822, 0x299f31d0}},
       {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
  };
  for (const auto& [counter, key, expected] : cases) {
    const PhiloxBlock got = philox(key, counter);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(got.word[i], expected.word[i]);
  }
}

TEST(Mix64, EqualsThePublishedSplitMix64) {
  EXPECT_EQ(mix64(0), 0xe220a8397b1dcdafull);
  EXPECT_EQ(mix64(1234567), 6457827717110365317ull);
}

TEST(PhiloxKey, DiffersForEverySeedAndStream) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> keys;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (std::uint64_t stream = 0; stream < 100; ++stream) {
      const PhiloxKey key = philox_key(seed, stream);
      keys.emplace(key.word[0], key.word[1]);
    }
  }
  EXPECT_EQ(keys.size(), 10000);
}

TEST(UniformOpen, NeverReachesAnEnd) {
  EXPECT_GT(uniform_open(0), 0);
  EXPECT_LT(uniform_open(0xffffffff), 1);
  EXPECT_DOUBLE_EQ(uniform_open(0x80000000), 0.5 + 0.5 / 4294967296.0);
}

}  // namespace
}  // namespace nystrom::testing
