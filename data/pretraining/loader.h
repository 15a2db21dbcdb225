// Loading of a packed data set: a thread prepares the micro-batches of each step ahead. The result
// depends on seed, epoch and sample only. It does not depend on the number of ranks or
// micro-batches, or on restarts.
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

/// A source of batches: packed samples and the options of masking.
struct MaskedSamples {
  std::shared_ptr<const Packing> packing;
  std::shared_ptr<const MaskingTable> table;
  MaskingConfig masking;  ///< with sentence_order the packing must reserve a token for a second sep
  std::uint64_t seed = 0;
  std::optional<double> weight = std::nullopt;  ///< of sampling_weight; nothing: its samples
};

/// How often a Loader draws from a source, relative to its other sources.
double sampling_weight(const MaskedSamples& source);

struct SampleUse {
  std::int64_t sample;  ///< number in the packing
  std::int64_t epoch;   ///< the epoch, which decides its masks
  /// The value in Batch::sample_ids; of isolated pieces the first, over Packing::most_sequences.
  std::int64_t id;
  std::size_t source = 0;
};

/// Makes the batch of these samples of one source or several, which have the same options: their
/// sequences one behind another, without padding. `masked_share` takes the place of their
/// MaskingConfig::probability.
Batch make_batch(std::span<const MaskedSamples> sources, std::span<const SampleUse> uses,
                 std::optional<double> masked_share = {});

/// Computes `make(first)` … `make(end − 1)` ahead in several threads, and returns the results in
/// order. At most `ahead` results wait at a time.
class Prefetcher {
 public:
  /// Starts `workers` threads.
  Prefetcher(std::int64_t first, std::int64_t end, int workers, std::int64_t ahead,
             std::function<Batch(std::int64_t)> make);
  /// Stops the workers. Each finishes its current call.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next result; nothing after the last. Throws the exception of `make` for that result, and
  /// again if called again.
  std::optional<Batch> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct LoaderOptions {
  std::int64_t batch_size = 256;       ///< sequences of a step, over all ranks
  std::int64_t micro_batch_size = 32;  ///< sequences that are computed at once
  int rank = 0;
  int world_size = 1;
  /// Shorter sequences that take the place of one: batch_size and micro_batch_size are multiplied
  /// by it. The division into ranks and micro-batches stays that of the sizes themselves.
  std::int64_t sequences_for_one = 1;
  std::int64_t first_place = 0;  ///< position of the first sequence of step 0
  /// The share of the tokens that a step masks; empty: that of the sources. Called by the thread.
  std::function<double(std::int64_t step)> masked_share{};
};

/// The rank that computes each micro-batch of a Loader's step, in the order of the step's
/// sequences.
std::vector<int> micro_batch_ranks(const LoaderOptions& options);

/// The training data, step after step without end. Sequence i of step s has position p =
/// first_place + s · batch_size + i. It is sample p mod N of epoch p / N in the order of
/// SampleOrder, where N is the number of samples. A step may thus cross the end of an epoch. Rank r
/// of w gets sequences r · batch_size / w … (r + 1) · batch_size / w − 1 of each step. Of several
/// sources SourceOrder gives position p its source, and the p above is the number of the draw from
/// it.
class Loader {
 public:
  /// Starts at `first_step`; earlier steps cost nothing. Throws an InputError when the options do
  /// not fit together.
  Loader(std::vector<MaskedSamples> sources, LoaderOptions options, std::int64_t first_step = 0);
  // Not copyable: its thread refers to this object.
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The micro-batches of the next step on this rank. The last one may be smaller.
  std::vector<Batch> next();

 private:
  Batch make(std::int64_t unit) const;
  SampleUse draw(std::int64_t place) const;

  std::vector<MaskedSamples> sources_;
  LoaderOptions options_;
  std::vector<SampleOrder> orders_;     // of each source
  std::optional<SourceOrder> mixture_;  // of several sources
  std::int64_t first_row_, rows_;       // sequences of a step on this rank
  std::int64_t units_per_step_;
  std::unique_ptr<Prefetcher> batches_;  // last member: its thread uses the others
};

/// The evaluation data: every sample once, in the order of the data set, with the masks of epoch 0.
/// Batches have micro_batch_size sequences. Rank r of w gets batches r, r + w, … Uses rank,
/// world_size and micro_batch_size of `options`.
Prefetcher evaluation_batches(const MaskedSamples& source, const LoaderOptions& options);

}  // namespace nystrom
