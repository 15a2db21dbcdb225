// Dropout masks, many counters at a time, so that the rounds vectorise. See core/rng.h for what decides a mask.
#pragma once

#include "core/cpu/convert.h"
#include "core/rng.h"

namespace nystrom {
namespace {

constexpr int lanes = 16;  // counters computed side by side

/// Words of the Philox blocks first … first + lanes − 1 of a sample: words[lane][0 … 3].
NYSTROM_INLINE void philox_lanes(PhiloxKey key, std::uint32_t first, std::uint64_t sample, std::uint32_t site,
                                 std::uint32_t (&words)[lanes][4]) {
  std::uint32_t c0[lanes], c1[lanes], c2[lanes], c3[lanes];
  for (int i = 0; i < lanes; ++i) {
    c0[i] = first + static_cast<std::uint32_t>(i);
    c1[i] = static_cast<std::uint32_t>(sample);
    c2[i] = static_cast<std::uint32_t>(sample >> 32);
    c3[i] = site;
  }
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (int i = 0; i < lanes; ++i) {
      const std::uint64_t a = 0xD2511F53ull * c0[i];
      const std::uint64_t b = 0xCD9E8D57ull * c2[i];
      c0[i] = static_cast<std::uint32_t>(b >> 32) ^ c1[i] ^ key.word[0];
      c2[i] = static_cast<std::uint32_t>(a >> 32) ^ c3[i] ^ key.word[1];
      c1[i] = static_cast<std::uint32_t>(b);
      c3[i] = static_cast<std::uint32_t>(a);
    }
    key.word[0] += 0x9E3779B9u;
    key.word[1] += 0xBB67AE85u;
  }
  for (int i = 0; i < lanes; ++i) {
    words[i][0] = c0[i];
    words[i][1] = c1[i];
    words[i][2] = c2[i];
    words[i][3] = c3[i];
  }
}

/// One dropout of the model in one step.
template <class A>
struct DropoutMask {
  PhiloxKey key;
  std::uint32_t site, threshold;
  A scale;

  NYSTROM_INLINE DropoutMask(const DropoutKey& k, double p)
      : key(philox_key(k.seed, k.step)),
        site(k.site),
        // An element is dropped when its word lies below p · 2³².
        threshold(static_cast<std::uint32_t>(p * 4294967296.0)),
        scale(static_cast<A>(1 / (1 - p))) {}

  /// factor[i] = 0 or 1 / (1 − p) for elements first … first + n − 1 of a sample.
  NYSTROM_INLINE void factors(std::int64_t sample, std::int64_t first, std::int64_t n, A* factor) const {
    constexpr std::int64_t block = 4 * lanes;
    for (std::int64_t at = first / block * block; at < first + n; at += block) {
      std::uint32_t words[lanes][4];
      philox_lanes(key, static_cast<std::uint32_t>(at / 4), static_cast<std::uint64_t>(sample), site, words);
      const auto* flat = &words[0][0];
      const std::int64_t begin = at < first ? first - at : 0, end = first + n - at < block ? first + n - at : block;
      A* __restrict target = factor + at - first;
#pragma omp simd
      for (std::int64_t e = begin; e < end; ++e) target[e] = flat[e] < threshold ? A(0) : scale;
    }
  }
};

}  // namespace
}  // namespace nystrom
