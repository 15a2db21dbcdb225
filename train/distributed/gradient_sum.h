// Sums of gradients over all processes, and the sharding of the optimizer's state.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "nn/model.h"
#include "train/distributed/communicator.h"

namespace nystrom {

/// Bounds of equal ranges of a slab, one range a process: range r holds elements bounds[r] …
/// bounds[r + 1] − 1. All bounds but the last are multiples of 16. Ranges may be empty. A bound
/// inside an `undivided` range, in the order of the slab, moves to its nearer end.
std::vector<std::int64_t> slab_bounds(std::int64_t slab_size, int processes,
                                      std::span<const SlabRange> undivided = {});

/// How the processes of a run add up their gradients.
struct GradientSumOptions {
  /// Adds up the gradients of single micro-batches in their order within the step. Any number of
  /// processes then gives the same bits. Each process keeps the gradients of its micro-batches
  /// until the end of the step.
  bool deterministic = false;
  /// Shards the optimizer (ZeRO-1: Rajbhandari et al., arXiv 1910.02054). Each process gets the
  /// gradient sum of its own range, updates that range, and keeps the masters of that range only.
  bool sharded = false;
  /// Sends and adds gradients in bf16. Cannot be combined with `deterministic`.
  bool rounded = false;
  /// Number of elements that are reduced at once during the backward pass.
  std::int64_t bucket = std::int64_t{1} << 22;
  /// With `sharded`: ranges that belong to one process each (undivided_ranges of the optimizer).
  std::vector<SlabRange> undivided = {};
};

/// Adds up the gradients of one optimizer step over all processes. optimizer_step calls begin and
/// end around each micro-batch of this process, then finish.
class GradientSum {
 public:
  /// `micro_batch_ranks` holds the rank that computes each micro-batch, in the order of the whole
  /// step. `store` must be allocated for training before the first step, with masters of
  /// own_range() at least.
  GradientSum(ParameterStore& store, Communicator& communicator, std::vector<int> micro_batch_ranks,
              GradientSumOptions options);

  /// The communicator that connects the processes.
  Communicator& communicator() const { return communicator_; }
  /// The elements that this process updates: the whole slab, or its own range if sharded.
  SlabRange own_range() const;

  /// Called before micro-batch `part` of this process is computed. During the last backward pass,
  /// gradients are reduced as soon as they are final.
  void begin(std::size_t part, RunContext& run);
  /// Called after the backward pass of micro-batch `part`.
  void end(std::size_t part);
  /// Waits for the sum and returns its Euclidean norm, with the same bits in all processes. Throws
  /// an Error if the processes hold different sums; sharded sums are not compared.
  double finish();

  /// The losses of all micro-batches of the step, in its order, gathered from those of this
  /// process.
  std::vector<double> losses_of_all(const std::vector<double>& own);
  /// Distributes the parameters after each process has updated own_range(). Does nothing unless
  /// sharded.
  void share_parameters();
  /// All masters, for rank 0; the result is undefined in other processes. It is the store's own
  /// slab, or, if sharded, a slab in CPU memory that is collected piece by piece.
  Tensor masters_for_first();

 private:
  void reduce_from(std::int64_t place);
  Tensor to_reduce(SlabRange range, bool wanted);
  void keep_gradients(std::size_t part);
  void add_in_order();
  void add_kept(std::size_t first, std::size_t end, std::int64_t begin, Tensor& sum) const;
  Tensor part_of_gradients(std::int64_t begin, std::int64_t end) const {
    return store_.gradients().slice(0, begin, end);
  }

  ParameterStore& store_;
  Communicator& communicator_;
  GradientSumOptions options_;
  std::int64_t micro_batches_;         // micro-batches of a step, over all processes
  std::vector<std::int64_t> numbers_;  // the step's numbers of this process's micro-batches
  std::vector<std::int64_t> bounds_;   // bounds of the processes' ranges
  std::int64_t reduced_ = 0;           // gradients from this offset on are being reduced

  // Ranges that are being reduced in bf16, with their values before they are copied back.
  std::vector<std::pair<SlabRange, Tensor>> rounded_;

  /// Consecutive micro-batches of one process, which adds them up in one go.
  struct RankSpan {
    int rank;
    std::size_t first, end;  // indices into kept_ of that process
  };
  std::vector<RankSpan> rank_spans_;
  // Micro-batches of this process at the beginning of the step, which are added up at once.
  std::size_t leading_ = 0;
  std::vector<Tensor> kept_;
};

}  // namespace nystrom
