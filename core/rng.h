// Philox4x32-10, a counter-based random number generator. The same (key, counter) gives the same
// bits on every device and in any order. Salmon et al., "Parallel Random Numbers: As Easy as 1, 2,
// 3", SC 2011.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace nystrom {

/// The key of a random stream.
struct PhiloxKey {
  std::uint32_t word[2];
};

/// A counter, or four random words.
struct PhiloxBlock {
  std::uint32_t word[4];
};

/// Ten rounds of Philox4x32 on `counter`, which give four independent uniform 32-bit words.
NYSTROM_HOST_DEVICE NYSTROM_INLINE PhiloxBlock philox(PhiloxKey key, PhiloxBlock counter) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = 0xD2511F53ull * counter.word[0];
    const std::uint64_t b = 0xCD9E8D57ull * counter.word[2];
    counter = {{static_cast<std::uint32_t>(b >> 32) ^ counter.word[1] ^ key.word[0],
                static_cast<std::uint32_t>(b),
                static_cast<std::uint32_t>(a >> 32) ^ counter.word[3] ^ key.word[1],
                static_cast<std::uint32_t>(a)}};
    key.word[0] += 0x9E3779B9u;
    key.word[1] += 0xBB67AE85u;
  }
  return counter;
}

/// The finaliser of SplitMix64 (Steele et al., OOPSLA 2014), which spreads a seed over 64 bits.
NYSTROM_HOST_DEVICE NYSTROM_INLINE std::uint64_t mix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/// The key of stream `stream` under `seed`. Streams, such as steps or parameter names, are
/// independent.
NYSTROM_HOST_DEVICE NYSTROM_INLINE PhiloxKey philox_key(std::uint64_t seed, std::uint64_t stream) {
  const std::uint64_t k = mix64(mix64(seed) ^ stream);
  return {{static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(k >> 32)}};
}

/// A uniform number in (0, 1). The end points are excluded, so its logarithm is finite.
NYSTROM_HOST_DEVICE NYSTROM_INLINE double uniform_open(std::uint32_t bits) {
  return (static_cast<double>(bits) + 0.5) * (1.0 / 4294967296.0);
}

/// The key of a dropout mask. The mask does not depend on the layout of a batch: padding,
/// micro-batches and ranks change nothing. Word e % 4 of philox(key(seed, step), {e / 4, s low, s
/// high, site}) decides element e of sample s.
struct DropoutKey {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint32_t site = 0;  ///< the number of the dropout in the model
};

/// Whose masks the rows of a dropout get: those of whole samples, or of chosen rows of samples.
struct SampleRows {
  const std::int64_t* ids;  ///< [b] sample ids, or [b, 2] ids and numbers of rows in their samples
  bool chosen;              ///< whether they are [b, 2]

  /// The sample of entry b.
  NYSTROM_HOST_DEVICE NYSTROM_INLINE std::int64_t sample(std::int64_t b) const {
    return ids[chosen ? 2 * b : b];
  }
  /// The first row of entry b in its sample.
  NYSTROM_HOST_DEVICE NYSTROM_INLINE std::int64_t first_row(std::int64_t b) const {
    return chosen ? ids[2 * b + 1] : 0;
  }
};

}  // namespace nystrom
