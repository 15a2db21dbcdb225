// From a packed data set to the micro-batches of each step, made ahead by worker threads. What
// comes out is decided by seed, epoch and sample alone: the number of workers, ranks or
// micro-batches, or a restart, change nothing of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/batch.h"
#include "data/pretraining/masking.h"
#include "data/pretraining/packing.h"
#include "data/pretraining/sample_order.h"

namespace nystrom {

/// What batches are made of.
struct MaskedSamples {
  std::shared_ptr<const Packing> packing;
  std::shared_ptr<const MaskingTable> table;
  MaskingOptions masking;
  std::uint64_t seed = 0;
  /// Rows are as long as the longest of their batch, rounded up to a multiple of this, but never
  /// beyond the packing's sequence_length, which as a value here makes all rows that long.
  std::int64_t pad_multiple = 8;
  /// Samples become two segments for sentence-order prediction; the packing reserves a token for
  /// the further sep.
  bool sentence_order = false;
};

/// A sample as it takes part.
struct SampleUse {
  std::int64_t sample;  ///< in the packing
  std::int64_t epoch;   ///< of its masks
  std::int64_t id;      ///< for Batch::sample_ids
};

/// The batch of these samples, padded behind.
Batch make_batch(const MaskedSamples& source, std::span<const SampleUse> uses);

/// Results of `make(first)` … `make(end − 1)` in order, computed ahead by several threads, of which
/// at most `ahead` wait to be taken.
class Prefetcher {
 public:
  Prefetcher(std::int64_t first, std::int64_t end, int workers, std::int64_t ahead,
             std::function<Batch(std::int64_t)> make);
  /// Stops the workers; each ends with what it has begun.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next result, nothing after the last. Throws what `make` threw for it, and again when asked
  /// again.
  std::optional<Batch> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct LoaderOptions {
  std::int64_t batch_size = 256;       ///< sequences of a step, on all ranks
  std::int64_t micro_batch_size = 32;  ///< sequences computed at once
  int rank = 0;
  int world_size = 1;
  int workers = 1;
  std::int64_t prefetch = 8;  ///< micro-batches made ahead
};

/// The rank that computes each micro-batch of a step of Loader, in the order of the step's
/// sequences.
std::vector<int> micro_batch_ranks(const LoaderOptions& options);

/// Training: step after step without end. Sequence i of step s takes place p = s · batch_size + i
/// of the run: place p mod N of epoch p / N, where N is the number of samples, in the order of
/// SampleOrder; a step may reach over the end of an epoch. Rank r of w takes sequences r ·
/// batch_size / w … (r + 1) · batch_size / w − 1 of each step.
class Loader {
 public:
  /// Starts at `first_step`, at no cost for the steps before. InputError when the options do not
  /// fit together.
  Loader(MaskedSamples source, LoaderOptions options, std::int64_t first_step = 0);
  Loader(const Loader&) = delete;  // its workers know its place
  Loader& operator=(const Loader&) = delete;

  /// The micro-batches of the next step; the last may be smaller.
  std::vector<Batch> next();
  /// The step that next() returns.
  std::int64_t step() const { return step_; }

 private:
  Batch make(std::int64_t unit) const;

  MaskedSamples source_;
  LoaderOptions options_;
  SampleOrder order_;
  std::int64_t step_;
  std::int64_t first_row_, rows_;  // of a step, on this rank
  std::int64_t units_per_step_;
  std::unique_ptr<Prefetcher> batches_;  // last: its workers use the others
};

/// Evaluation: every sample once in the order of the data set, with the masks of epoch 0, in
/// batches of micro_batch_size (batch_size is not used). Rank r of w takes batches r, r + w, …
class EvaluationLoader {
 public:
  EvaluationLoader(MaskedSamples source, LoaderOptions options);
  EvaluationLoader(const EvaluationLoader&) = delete;
  EvaluationLoader& operator=(const EvaluationLoader&) = delete;

  /// Nothing after the last.
  std::optional<Batch> next() { return batches_->next(); }

 private:
  MaskedSamples source_;
  std::unique_ptr<Prefetcher> batches_;
};

}  // namespace nystrom
