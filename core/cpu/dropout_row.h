// Dropout masks for many counters at a time, so that the rounds vectorise. core/rng.h defines the
// mask.
#pragma once

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include <cstring>

#include "core/cpu/convert.h"
#include "core/cpu/level.h"
#include "core/rng.h"

namespace nystrom {
namespace {

/// Philox words in 64-bit lanes. A multiplication reads the lower half of a lane and writes the
/// whole lane. So one shift is the only move between halves, and the upper halves may hold
/// anything.
typedef std::uint64_t PhiloxVector __attribute__((vector_size(NYSTROM_VECTOR_BYTES)));
constexpr int counters_per_vector = NYSTROM_VECTOR_BYTES / 8;
constexpr int philox_vectors = 4;  // in parallel, to hide the latency of multiplications
constexpr int lanes = philox_vectors * counters_per_vector;

NYSTROM_INLINE PhiloxVector multiply_lower_halves(PhiloxVector a, std::uint64_t factor) {
#if defined(__AVX512F__)
  // The masked intrinsic: for the plain one, GCC 12 warns of an uninitialised value.
  return reinterpret_cast<PhiloxVector>(_mm512_maskz_mul_epu32(
      0xff, reinterpret_cast<__m512i>(a), _mm512_set1_epi64(static_cast<long long>(factor))));
#elif defined(__AVX2__)
  return reinterpret_cast<PhiloxVector>(_mm256_mul_epu32(
      reinterpret_cast<__m256i>(a), _mm256_set1_epi64x(static_cast<long long>(factor))));
#elif defined(__SSE2__)
  return reinterpret_cast<PhiloxVector>(
      _mm_mul_epu32(reinterpret_cast<__m128i>(a), _mm_set1_epi64x(static_cast<long long>(factor))));
#else
  return (a & 0xffffffffu) * factor;
#endif
}

/// Words of the Philox blocks first … first + lanes − 1 of a sample: 4 words a block, block after
/// block.
NYSTROM_INLINE void philox_lanes(PhiloxKey key, std::uint32_t first, std::uint64_t sample,
                                 std::uint32_t site, std::uint32_t (&words)[4 * lanes]) {
  std::uint64_t counters[lanes];
  for (int i = 0; i < lanes; ++i) counters[i] = first + static_cast<std::uint32_t>(i);
  PhiloxVector c0[philox_vectors], c1[philox_vectors], c2[philox_vectors], c3[philox_vectors];
  std::memcpy(c0, counters, sizeof(c0));
  for (int v = 0; v < philox_vectors; ++v) {
    c1[v] = PhiloxVector{} + static_cast<std::uint32_t>(sample);
    c2[v] = PhiloxVector{} + (sample >> 32);
    c3[v] = PhiloxVector{} + site;
  }
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 4
    for (int v = 0; v < philox_vectors; ++v) {
      const PhiloxVector a = multiply_lower_halves(c0[v], 0xD2511F53u),
                         b = multiply_lower_halves(c2[v], 0xCD9E8D57u);
      c0[v] = (b >> 32) ^ c1[v] ^ std::uint64_t{key.word[0]};
      c2[v] = (a >> 32) ^ c3[v] ^ std::uint64_t{key.word[1]};
      c1[v] = b;
      c3[v] = a;
    }
    key.word[0] += 0x9E3779B9u;
    key.word[1] += 0xBB67AE85u;
  }
  for (int v = 0; v < philox_vectors; ++v) {
    const PhiloxVector low = (c0[v] & 0xffffffffu) | c1[v] << 32,
                       high = (c2[v] & 0xffffffffu) | c3[v] << 32;
    for (int i = 0; i < counters_per_vector; ++i) {
      const std::uint64_t pair[2] = {low[i], high[i]};
      std::memcpy(words + 4 * (v * counters_per_vector + i), pair, sizeof(pair));
    }
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
        // An element is dropped if its word is below p · 2³².
        threshold(static_cast<std::uint32_t>(p * 4294967296.0)),
        scale(static_cast<A>(1 / (1 - p))) {}

  /// factor[i] = 0 or 1 / (1 − p) for elements first … first + n − 1 of a sample.
  NYSTROM_INLINE void factors(std::int64_t sample, std::int64_t first, std::int64_t n,
                              A* factor) const {
    constexpr std::int64_t block = 4 * lanes;
    // A local copy: reads through `this` would prevent vectorisation.
    const std::uint32_t least = threshold;
    const A kept = scale;
    for (std::int64_t at = first / block * block; at < first + n; at += block) {
      std::uint32_t words[block];
      philox_lanes(key, static_cast<std::uint32_t>(at / 4), static_cast<std::uint64_t>(sample),
                   site, words);
      const std::int64_t begin = at < first ? first - at : 0,
                         end = first + n - at < block ? first + n - at : block;
      A* __restrict target = factor + at - first;
#pragma omp simd
      for (std::int64_t e = begin; e < end; ++e) target[e] = words[e] < least ? A(0) : kept;
    }
  }
  /// The factors of row r of n elements, where each sample has `per_sample` rows in the tensor.
  NYSTROM_INLINE void factors_of_row(const SampleRows& samples, std::int64_t r,
                                     std::int64_t per_sample, std::int64_t n, A* factor) const {
    const std::int64_t b = r / per_sample;
    factors(samples.sample(b), (samples.first_row(b) + r % per_sample) * n, n, factor);
  }
};

}  // namespace
}  // namespace nystrom
