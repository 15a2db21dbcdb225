#include "train/distributed/gradient_sum.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/check.h"
#include "core/kernels.h"
#include "train/distributed/replicas.h"

namespace nystrom {

std::vector<std::int64_t> slab_bounds(std::int64_t slab_size, int processes,
                                      std::span<const SlabRange> undivided) {
  constexpr std::int64_t unit = 16;
  const std::int64_t units = (slab_size + unit - 1) / unit;
  std::vector<std::int64_t> bounds;
  for (std::int64_t r = 0; r <= processes; ++r)
    bounds.push_back(std::min((units * r + processes - 1) / processes * unit, slab_size));
  for (std::int64_t& bound : bounds) {
    const auto whole = std::ranges::upper_bound(undivided, bound, {}, &SlabRange::end);
    if (whole == undivided.end() || bound <= whole->begin || bound == slab_size) continue;
    bound = bound - whole->begin < whole->end - bound ? whole->begin : whole->end;
  }
  return bounds;
}

GradientSum::GradientSum(ParameterStore& store, Communicator& communicator,
                         std::vector<int> micro_batch_ranks, GradientSumOptions options)
    : store_(store),
      communicator_(communicator),
      options_(options),
      micro_batches_(static_cast<std::int64_t>(micro_batch_ranks.size())),
      bounds_(slab_bounds(store.slab_size(), communicator.size(), options_.undivided)) {
  // The number of micro-batches that each process has kept so far.
  std::vector<std::size_t> counts(static_cast<std::size_t>(communicator.size()), 0);
  bool leading = true;
  for (std::size_t m = 0; m < micro_batch_ranks.size(); ++m) {
    const int rank = micro_batch_ranks[m];
    leading = leading && rank == micro_batch_ranks[0];
    if (rank == communicator.rank()) {
      numbers_.push_back(static_cast<std::int64_t>(m));
      if (leading) ++leading_;
    }
    std::size_t& kept = counts.at(static_cast<std::size_t>(rank));
    if (!leading || m == 0) ++kept;
    if (rank_spans_.empty() || rank_spans_.back().rank != rank)
      rank_spans_.push_back({rank, kept - 1, kept});
    else
      rank_spans_.back().end = kept;
  }
  require(!options.deterministic || !options.rounded,
          "GradientSum: deterministic sums are not rounded");
  require(!numbers_.empty(), "GradientSum: process {} has no micro-batch", communicator.rank());
}

SlabRange GradientSum::own_range() const {
  if (!options_.sharded) return {0, store_.slab_size()};
  const auto rank = static_cast<std::size_t>(communicator_.rank());
  return {bounds_[rank], bounds_[rank + 1]};
}

void GradientSum::begin(std::size_t part, RunContext& run) {
  if (part == 0) {
    reduced_ = store_.slab_size();
    kept_.clear();
  }
  if (options_.deterministic || part + 1 < numbers_.size()) return;
  run.gradients_final = [this](std::int64_t place) {
    if (reduced_ - place >= options_.bucket) reduce_from(place);
  };
}

void GradientSum::end(std::size_t part) {
  if (options_.deterministic) keep_gradients(part);
}

/// Starts to reduce all gradients from `place` on that are not being reduced yet.
void GradientSum::reduce_from(std::int64_t place) {
  while (reduced_ > place) {
    const std::int64_t end = reduced_, begin = std::max(place, end - options_.bucket);
    if (!options_.sharded) communicator_.all_reduce(to_reduce({begin, end}, true));
    for (int owner = 0; options_.sharded && owner < communicator_.size(); ++owner) {
      const auto r = static_cast<std::size_t>(owner);
      const std::int64_t first = std::max(begin, bounds_[r]), last = std::min(end, bounds_[r + 1]);
      if (first < last)
        communicator_.reduce(to_reduce({first, last}, owner == communicator_.rank()), owner);
    }
    reduced_ = begin;
  }
}

/// The gradients of `range` in the type of their sum. `wanted`: this process needs the sum.
Tensor GradientSum::to_reduce(SlabRange range, bool wanted) {
  const Tensor exact = part_of_gradients(range.begin, range.end);
  if (!options_.rounded) return exact;
  const AllocationLabel label("rounded gradients");
  const Tensor low = exact.cast(DType::bf16);
  if (wanted) rounded_.emplace_back(range, low);
  return low;
}

double GradientSum::finish() {
  if (options_.deterministic) {
    add_in_order();
  } else {
    reduce_from(0);
    communicator_.wait();
    for (const auto& [range, values] : rounded_) {
      Tensor exact = part_of_gradients(range.begin, range.end);
      kernels::copy(values, exact);
    }
    rounded_.clear();
  }
  const bool own_alone = options_.sharded && !options_.deterministic;
  const SlabRange range = own_alone ? own_range() : SlabRange{0, store_.slab_size()};
  const double squares =
      range.size() > 0 ? sum_of_squares(part_of_gradients(range.begin, range.end)) : 0;
  if (!own_alone) {
    const double norm = std::sqrt(squares);
    if (communicator_.size() == 1) return norm;
    // Non-finite sums may differ in the bits of their NaNs.
    const std::uint64_t print = std::isfinite(norm) ? fingerprint({{store_.gradients()}}) : 0;
    require_same_replicas(
        communicator_, print, "gradients after their sum",
        "the memory or the processor of one of them is at fault; the step is not done");
    return norm;
  }
  std::vector<double> of_all(static_cast<std::size_t>(communicator_.size()), 0);
  of_all[static_cast<std::size_t>(communicator_.rank())] = squares;
  of_all = communicator_.sum(of_all);
  return std::sqrt(std::accumulate(of_all.begin(), of_all.end(), 0.0));
}

/// Moves the gradients of one micro-batch out of the slab.
void GradientSum::keep_gradients(std::size_t part) {
  Tensor gradients = store_.gradients();
  const AllocationLabel label("gradients of micro-batches");
  if (part > 0 && part < leading_)
    kernels::accumulate(gradients, 1, kept_[0]);
  else
    kept_.push_back(gradients.clone());
  kernels::fill(gradients, 0);
}

/// sum += kept gradients, from slab offset `begin` on.
void GradientSum::add_kept(std::size_t first, std::size_t end, std::int64_t begin,
                           Tensor& sum) const {
  for (std::size_t i = first; i < end; ++i)
    kernels::accumulate(kept_[i].slice(0, begin, begin + sum.numel()), 1, sum);
}

/// Sends the sum from process to process in pieces, so that all processes work at the same time.
/// The last process distributes the result.
void GradientSum::add_in_order() {
  constexpr std::int64_t piece = std::int64_t{1} << 18;
  const int own = communicator_.rank();
  for (std::int64_t begin = 0; begin < store_.slab_size(); begin += piece) {
    Tensor sum = part_of_gradients(begin, std::min(begin + piece, store_.slab_size()));
    for (std::size_t turn = 0; turn < rank_spans_.size(); ++turn) {
      const auto& [rank, first, end] = rank_spans_[turn];
      if (rank != own) continue;
      communicator_.wait();  // until earlier pieces are sent
      if (turn > 0) {
        communicator_.receive(sum, rank_spans_[turn - 1].rank);
        communicator_.wait();
        add_kept(first, end, begin, sum);
      } else {
        kernels::copy(kept_[first].slice(0, begin, begin + sum.numel()), sum);
        add_kept(first + 1, end, begin, sum);
      }
      if (turn + 1 < rank_spans_.size()) communicator_.send(sum, rank_spans_[turn + 1].rank);
    }
  }
  for (std::int64_t begin = 0; begin < store_.slab_size(); begin += options_.bucket)
    communicator_.broadcast(
        part_of_gradients(begin, std::min(begin + options_.bucket, store_.slab_size())),
        rank_spans_.back().rank);
  communicator_.wait();
  kept_.clear();
}

std::vector<double> GradientSum::losses_of_all(const std::vector<double>& own) {
  std::vector<double> all(static_cast<std::size_t>(micro_batches_), 0);
  for (std::size_t part = 0; part < own.size(); ++part)
    all[static_cast<std::size_t>(numbers_.at(part))] = own[part];
  return communicator_.sum(all);
}

void GradientSum::share_parameters() {
  if (!options_.sharded) return;
  communicator_.all_gather(store_.values(), bounds_);
  for (auto& [offset, exact] : store_.exact_values()) {
    const int owner =
        static_cast<int>(std::ranges::upper_bound(bounds_, offset) - bounds_.begin()) - 1;
    if (owner == communicator_.rank()) kernels::copy(store_.masters({offset, offset + 1}), exact);
    communicator_.broadcast(exact, owner);
  }
  communicator_.wait();
}

Tensor GradientSum::masters_for_first() {
  const Tensor own = store_.masters();
  const bool first = communicator_.is_first();
  if (own.numel() == store_.slab_size()) return first ? own : Tensor();
  Tensor all;
  if (first) all = Tensor::empty({store_.slab_size()}, own.dtype());
  for (int owner = 0; owner < communicator_.size(); ++owner) {
    const auto r = static_cast<std::size_t>(owner);
    for (std::int64_t begin = bounds_[r]; begin < bounds_[r + 1]; begin += options_.bucket) {
      const SlabRange range{begin, std::min(begin + options_.bucket, bounds_[r + 1])};
      const bool here = owner == communicator_.rank();
      if (!here && !first) continue;
      const Tensor piece =
          here ? store_.masters(range) : Tensor::empty({range.size()}, own.dtype(), own.device());
      if (here && !first) communicator_.send(piece, 0);
      if (!here) communicator_.receive(piece, owner);
      communicator_.wait();
      if (!first) continue;
      Tensor place = all.slice(0, range.begin, range.end);
      kernels::copy(piece.to(cpu_device), place);
    }
  }
  return all;
}

}  // namespace nystrom
