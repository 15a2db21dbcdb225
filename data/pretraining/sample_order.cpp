#include "data/pretraining/sample_order.h"

#include <bit>

#include "core/check.h"
#include "core/rng.h"

namespace nystrom {
namespace {

// Separates these draws from others under the same seed.
constexpr std::uint64_t order_stream = 0x6f72646572212121ull;
constexpr std::uint32_t rounds = 8;

}  // namespace

SampleOrder::SampleOrder(std::int64_t size, std::uint64_t seed) : size_(size), seed_(seed) {
  require(size > 0 && size <= std::int64_t{1} << 60, "SampleOrder: {} samples", size);
  half_bits_ = (std::bit_width(static_cast<std::uint64_t>(size - 1)) + 1) / 2;
}

std::int64_t SampleOrder::operator()(std::int64_t epoch, std::int64_t place) const {
  require(epoch >= 0 && place >= 0 && place < size_,
          "SampleOrder: place {} of epoch {}, with {} samples", place, epoch, size_);
  // A Feistel network permutes the numbers of 2 · half_bits bits, which are fewer than four times
  // the samples. Following its cycle up to the next sample permutes the samples (Black and Rogaway,
  // "Ciphers with Arbitrary Finite Domains", CT-RSA 2002).
  const PhiloxKey key = philox_key(mix64(seed_ ^ order_stream), static_cast<std::uint64_t>(epoch));
  const std::uint64_t low_bits = (std::uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<std::uint64_t>(place);
  do {
    std::uint64_t left = value >> half_bits_, right = value & low_bits;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const std::uint64_t mixed =
          left ^
          (philox(key, {{static_cast<std::uint32_t>(right), round, 0, 0}}).word[0] & low_bits);
      left = right;
      right = mixed;
    }
    value = left << half_bits_ | right;
  } while (value >= static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(value);
}

}  // namespace nystrom
