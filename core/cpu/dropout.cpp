// Dropout by counters: the mask of an element depends on its sample and place alone (core/rng.h).
#include "core/cpu/level.h"

#include "core/cpu/convert.h"
#include "core/cpu/parallel.h"
#include "core/kernels.h"

namespace nystrom::kernels::NYSTROM_LEVEL {
namespace {

constexpr int lanes = 16;  // counters computed side by side, so that the rounds vectorise

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

}  // namespace

void dropout(CView x, CView sample_ids, DropoutKey key, double p, View y) {
  const std::int64_t samples = x.shape[0];
  const std::int64_t size = samples == 0 ? 0 : x.numel() / samples;
  constexpr std::int64_t block = 4 * lanes;
  const std::int64_t blocks = (size + block - 1) / block;
  const PhiloxKey philox_key_of_step = philox_key(key.seed, key.step);
  // An element is dropped when its word lies below p · 2³².
  const auto threshold = static_cast<std::uint32_t>(p * 4294967296.0);
  visit_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = accumulate_t<T>;
    const A scale = static_cast<A>(1 / (1 - p));
    parallel_ranges(samples * blocks, elementwise_grain / block, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t s = i / blocks, first = i % blocks * block;
        std::uint32_t words[lanes][4];
        philox_lanes(philox_key_of_step, static_cast<std::uint32_t>(first / 4),
                     static_cast<std::uint64_t>(sample_ids.as<std::int64_t>()[s]), key.site, words);
        const auto* flat = &words[0][0];
        const std::int64_t n = size - first < block ? size - first : block;
        const T* source = x.as<T>() + s * size + first;
        T* target = y.as<T>() + s * size + first;
#pragma omp simd
        for (std::int64_t e = 0; e < n; ++e) target[e] = convert<T>(flat[e] < threshold ? A(0) : scale * load(source[e]));
      }
    });
  });
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
