// From the samples of a task to the micro-batches of each step. As in data/pretraining/loader.h,
// seed, epoch and sample alone decide what a step holds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/batch.h"
#include "data/pretraining/sample_order.h"
#include "data/tasks/task_dataset.h"

namespace nystrom {

/// Rows are as long as the longest of their batch, rounded up to a multiple of `multiple`, but at
/// most `sequence_length`, which as the multiple makes all rows that long.
struct PaddingOptions {
  std::int64_t multiple = 8;
  std::int64_t sequence_length = 512;
};

/// The batch of these samples with the given ids (Batch::sample_ids before choices).
Batch make_task_batch(const TaskDataset& dataset, std::span<const std::int64_t> samples,
                      std::span<const std::int64_t> ids, const PaddingOptions& padding);

struct TaskLoaderOptions {
  std::int64_t batch_size = 32;        ///< samples of a step, on all ranks
  std::int64_t micro_batch_size = 32;  ///< samples computed at once
  PaddingOptions padding;
  std::uint64_t seed = 0;
  int rank = 0;
  int world_size = 1;
};

/// The rank that computes each micro-batch of a step of TaskLoader, in their order.
std::vector<int> micro_batch_ranks(const TaskLoaderOptions& options);

/// Training: step after step without end. Which samples a step holds, and their ids, is the same as
/// in Loader: place p = s · batch_size + i of the run is place p mod N of epoch p / N in the order
/// of SampleOrder. Within the step they are sorted by length (equal ones by place) and cut into
/// micro-batches of micro_batch_size, so that short ones meet short ones; micro-batch k goes to
/// rank k mod world_size. The step's gradient is the same sum in another order.
class TaskLoader {
 public:
  /// InputError when the options do not fit together, or the data set is empty or not labelled.
  TaskLoader(std::shared_ptr<const TaskDataset> dataset, TaskLoaderOptions options,
             std::int64_t first_step = 0);

  /// This rank's micro-batches of the next step, at least one.
  std::vector<Batch> next();
  /// The step that next() returns.
  std::int64_t step() const { return step_; }
  /// Targets of all ranks in the step that next() returned last: what its loss is divided by.
  std::int64_t step_targets() const { return step_targets_; }

 private:
  std::shared_ptr<const TaskDataset> dataset_;
  TaskLoaderOptions options_;
  SampleOrder order_;
  std::int64_t step_;
  std::int64_t step_targets_ = 0;
};

/// Evaluation and prediction: every sample once, sorted by length within windows of 64
/// micro-batches (Batch::samples tells which they are), in micro-batches of micro_batch_size;
/// batch_size and seed are not used. Rank r of w takes micro-batches r, r + w, ….
class TaskEvaluationLoader {
 public:
  TaskEvaluationLoader(std::shared_ptr<const TaskDataset> dataset, TaskLoaderOptions options);

  /// Nothing after the last.
  std::optional<Batch> next();

 private:
  std::shared_ptr<const TaskDataset> dataset_;
  TaskLoaderOptions options_;
  std::vector<std::int64_t> order_;
  std::int64_t next_ = 0;
};

}  // namespace nystrom
