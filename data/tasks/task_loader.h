// Loading of a task's samples as micro-batches. As in data/pretraining/loader.h, a step depends on
// seed, epoch and sample only.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/batch.h"
#include "data/pretraining/loader.h"
#include "data/pretraining/sample_order.h"
#include "data/tasks/task_dataset.h"

namespace nystrom {

/// Sequences of tokens one behind another, without padding, with their offsets. Token types are
/// undefined if all are 0.
ModelInput joined_rows(std::span<const WrappedIds> sequences);

/// The numbers of sequences that share a batch, shorter sequences first: at most `batch_size`, with
/// at most `max_tokens` tokens if all were as long as the longest.
std::vector<std::vector<std::int64_t>> batches_by_length(
    std::span<const std::int64_t> lengths, std::int64_t batch_size,
    std::int64_t max_tokens = std::numeric_limits<std::int64_t>::max());

/// The ids of a text, with the special tokens.
using TextIds = std::span<const std::int32_t>;

/// Calls `compute` with the batches_by_length of texts: their numbers,
/// one for each sequence of the input.
void for_each_batch(
    const std::vector<TextIds>& texts, std::int64_t batch_size,
    const std::function<void(const std::vector<std::size_t>&, const ModelInput&)>& compute);

/// The batch of these samples with the given ids: Batch::sample_ids before choices. Features of
/// bags stay f16 where all are; without `read_bags` they are left out.
Batch make_task_batch(const TaskDataset& dataset, std::span<const std::int64_t> samples,
                      std::span<const std::int64_t> ids, bool read_bags = true);

/// The options of a task's loader.
struct TaskLoaderOptions {
  std::int64_t batch_size = 32;        ///< samples of a step, over all ranks
  std::int64_t micro_batch_size = 32;  ///< samples that are computed at once
  /// The samples of an evaluation or a prediction, at most: the first ones of the data set.
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  /// Samples are drawn alike, and their labels are not read: they need none.
  bool unlabelled = false;
  std::uint64_t seed = 0;
  int rank = 0;
  int world_size = 1;
};

/// The rank that computes each micro-batch of a TaskLoader's step, in their order. Throws an
/// InputError when a rank has none.
std::vector<int> micro_batch_ranks(const TaskLoaderOptions& options);

/// The training data, step after step without end. As with Loader, a step s has the positions
/// s · batch_size + i, which are the ids of its samples. Position p is sample p mod N of epoch p /
/// N in the order of SampleOrder. With TaskBalance::sampling it belongs to label p mod k, whose own
/// samples come in such an order. Batches of bags are read ahead. Within a step samples are sorted
/// by length, and equal ones by position. They are then cut into micro-batches of micro_batch_size,
/// so that lengths in a micro-batch are similar. Micro-batch k goes to rank k mod world_size. The
/// step's gradient is the same sum in another order.
class TaskLoader {
 public:
  /// Throws an InputError when the options do not fit together, when the data set is
  /// empty or unlabelled.
  TaskLoader(std::shared_ptr<const TaskDataset> dataset, TaskLoaderOptions options,
             std::int64_t first_step = 0);
  TaskLoader(const TaskLoader&) = delete;
  TaskLoader& operator=(const TaskLoader&) = delete;

  /// This rank's micro-batches of the next step, at least one; of bags without features.
  std::vector<Batch> next();
  /// A micro-batch with its features: bags are large, and whole() reads one after another. Call it
  /// once for each micro-batch of next(), in their order.
  Batch whole(const Batch& batch);
  /// The step that next() returns.
  std::int64_t step() const { return step_; }
  /// The number of targets of all ranks in the last step that next() returned. The step's loss is
  /// divided by it.
  std::int64_t step_targets() const { return step_targets_; }

 private:
  std::shared_ptr<const TaskDataset> dataset_;
  TaskLoaderOptions options_;
  std::function<std::int64_t(std::int64_t)> order_;  // the sample at a position
  std::vector<double> weights_;                      // of the labels
  std::int64_t step_;
  std::int64_t step_targets_ = 0;
  std::unique_ptr<Prefetcher> ahead_;  // of bags

  struct Use;
  std::vector<std::vector<Use>> parts_of(std::int64_t step) const;
  Batch make(const std::vector<Use>& part, bool read_bags) const;
};

/// The data for evaluation and prediction: every sample once, in the batches_by_length of windows
/// of 64 micro-batches. Batch::samples identifies the samples. batch_size and seed are not used.
/// Rank r of w gets micro-batches r, r + w, …. Bags share one up to 8192 rows.
class TaskEvaluationLoader {
 public:
  /// Uses rank, world_size and micro_batch_size of `options`.
  TaskEvaluationLoader(std::shared_ptr<const TaskDataset> dataset, TaskLoaderOptions options);
  TaskEvaluationLoader(const TaskEvaluationLoader&) = delete;
  TaskEvaluationLoader& operator=(const TaskEvaluationLoader&) = delete;

  /// The next batch of this rank; nothing after the last.
  std::optional<Batch> next() { return ahead_->next(); }
  /// The batches of all ranks.
  std::int64_t batches() const { return std::ssize(batches_); }

 private:
  std::shared_ptr<const TaskDataset> dataset_;
  std::vector<std::vector<std::int64_t>> batches_;  // of all ranks: their samples
  std::unique_ptr<Prefetcher> ahead_;
};

}  // namespace nystrom
