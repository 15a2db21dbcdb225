#include "data/pretraining/sample_order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "core/check.h"
#include "core/rng.h"

namespace nystrom {
namespace {

// Separates these draws from others under the same seed.
constexpr std::uint64_t order_stream = 0x6f72646572212121ull;
constexpr std::uint64_t source_stream = 0x736f757263652121ull;
constexpr std::uint32_t rounds = 8;

/// The places of a block, of which the source with the least weight has at least four.
std::int64_t block_of(std::span<const double> weights) {
  const double share =
      *std::ranges::min_element(weights) / std::accumulate(weights.begin(), weights.end(), 0.0);
  require_input(share >= 1e-10, "a source has {} of the weight of all, at least 1e-10 expected",
                share);
  const auto places = static_cast<std::uint64_t>(std::ceil(4 / share));
  return static_cast<std::int64_t>(std::bit_ceil(std::max<std::uint64_t>(places, 1024)));
}

}  // namespace

SampleOrder::SampleOrder(std::int64_t size, std::uint64_t seed) : size_(size), seed_(seed) {
  require(size > 0 && size <= std::int64_t{1} << 60, "SampleOrder: {} samples", size);
  half_bits_ = (std::bit_width(static_cast<std::uint64_t>(size - 1)) + 1) / 2;
}

std::int64_t SampleOrder::operator()(std::int64_t position) const {
  require(position >= 0, "SampleOrder: position {}", position);
  // A Feistel network permutes the numbers of 2 · half_bits bits, which are fewer than four times
  // the samples. Following its cycle up to the next sample permutes the samples (Black and Rogaway,
  // "Ciphers with Arbitrary Finite Domains", CT-RSA 2002).
  const PhiloxKey key =
      philox_key(mix64(seed_ ^ order_stream), static_cast<std::uint64_t>(position / size_));
  const std::uint64_t low_bits = (std::uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<std::uint64_t>(position % size_);
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

SourceOrder::SourceOrder(std::span<const double> weights, std::uint64_t seed)
    : shares_(weights.begin(), weights.end()),
      block_(block_of(weights)),
      order_(block_, seed ^ source_stream) {
  std::partial_sum(shares_.begin(), shares_.end(), shares_.begin());
  const double sum = shares_.back();
  for (double& share : shares_) share /= sum;
}

std::int64_t SourceOrder::draws_before(std::int64_t block, std::size_t sources) const {
  if (sources == 0) return 0;
  // Rounded down, the draws of a block from one source differ by at most one from block to block.
  const double places = static_cast<double>(block) * static_cast<double>(block_);
  return static_cast<std::int64_t>(std::floor(places * shares_[sources - 1]));
}

SourceOrder::Draw SourceOrder::operator()(std::int64_t place) const {
  const std::int64_t block = place / block_;
  std::int64_t rank = order_(place);
  for (std::size_t source = 0;; ++source) {
    const std::int64_t before = draws_before(block, source + 1) - draws_before(block, source),
                       after =
                           draws_before(block + 1, source + 1) - draws_before(block + 1, source);
    if (rank < after - before || source + 1 == shares_.size()) return {source, before + rank};
    rank -= after - before;
  }
}

}  // namespace nystrom
