// The gradients of all processes as one sum, and the state of the optimizer spread over them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nn/model.h"
#include "train/distributed/communicator.h"

namespace nystrom {

/// Bounds of equal ranges of a slab, one a process: range r is bounds[r] … bounds[r + 1] − 1.
/// Multiples of 16 but for the end; some may be empty.
std::vector<std::int64_t> slab_bounds(std::int64_t slab_size, int processes);

struct GradientSumOptions {
  /// Adds up the gradients of single micro-batches in their order within the step: the same bits in
  /// any number of processes. Each process keeps the gradients of its micro-batches until the end
  /// of the step.
  bool deterministic = false;
  /// Each process gets the sum of its own range alone, updates that, and keeps the masters of that
  /// alone (ZeRO-1: Rajbhandari et al., arXiv 1910.02054).
  bool sharded = false;
  /// Sends and adds in bf16. Not with deterministic.
  bool rounded = false;
  /// Elements that are reduced at once while backward goes on.
  std::int64_t bucket = std::int64_t{1} << 22;
};

/// Used by optimizer_step: begin and end around each micro-batch of this process, then finish.
class GradientSum {
 public:
  /// `micro_batch_ranks` says who computes each micro-batch of a step, in the order of the whole
  /// step. `store` is allocated for training before the first step, with masters of own_range() at
  /// least.
  GradientSum(ParameterStore& store, Communicator& communicator, std::vector<int> micro_batch_ranks,
              GradientSumOptions options);

  Communicator& communicator() const { return communicator_; }
  /// What this process updates: all of the slabs unless sharded.
  SlabRange own_range() const;

  /// Before micro-batch `part` of this process is computed. In the last one's backward, gradients
  /// are reduced as they become final.
  void begin(std::size_t part, RunContext& run);
  /// After its backward.
  void end(std::size_t part);
  /// Waits for the sum, and gives its norm: the same bits in all processes. Error where one has
  /// another sum than the others, unless each has its own range alone.
  double finish();

  /// The losses of all micro-batches of the step, in its order, from those of this process.
  std::vector<double> losses_of_all(const std::vector<double>& own);
  /// After an update of own_range(): everybody gets the others' values. Nothing to do unless
  /// sharded.
  void share_parameters();
  /// All masters, to be read by the first process: the store's own slab, or where it keeps a range
  /// alone a slab in the memory of the CPU, collected piece by piece. Undefined in the others.
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
  std::int64_t micro_batches_;         // of all processes in a step
  std::vector<std::int64_t> numbers_;  // of this process's micro-batches
  std::vector<std::int64_t> bounds_;   // of the processes' ranges
  std::int64_t reduced_ = 0;           // gradients from here on are being reduced

  /// A range on its way in bf16, to come back.
  struct Rounded {
    SlabRange range;
    Tensor values;
  };
  std::vector<Rounded> rounded_;

  /// Neighbouring micro-batches of one process, which adds them up in one go.
  struct RankSpan {
    int rank;
    std::size_t first, end;  // among kept_, in that process
  };
  std::vector<RankSpan> rank_spans_;
  std::size_t leading_ =
      0;  // micro-batches of this process at the beginning of the step: added up at once
  std::vector<Tensor> kept_;
};

}  // namespace nystrom
