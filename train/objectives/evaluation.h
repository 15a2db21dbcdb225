// Evaluation of a masked language model on a text.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/scratch_folder.h"
#include "data/pretraining/loader.h"
#include "data/tokenizers/tokenizer.h"
#include "nn/model.h"
#include "train/config/config.h"
#include "train/distributed/communicator.h"
#include "train/objectives/corpus.h"

namespace nystrom {

/// The sequences of at most `length` tokens of a data set.
std::shared_ptr<const Packing> packing_of(std::shared_ptr<const TokenDataset> dataset,
                                          std::int64_t length, const RunConfig& config);

/// The samples of a data set, packed and masked as `config` says.
MaskedSamples masked_samples(std::shared_ptr<const TokenDataset> dataset,
                             const Tokenizer& tokenizer, const RunConfig& config);

/// The samples of each source, as masked_samples, and their weights. Throws an InputError for a
/// source without a sequence, or without a token that can be masked.
std::vector<MaskedSamples> masked_sources(const std::vector<CorpusSource>& sources,
                                          const Tokenizer& tokenizer, const RunConfig& config);

/// The training data of a run from `batch` on, which `stage` of stages_of has. `samples` are the
/// masked_sources of the whole run's length. `options`: the batch of the run, and which part of it
/// this process has.
std::unique_ptr<Loader> training_loader(const RunConfig& config,
                                        const std::vector<CorpusSource>& sources,
                                        std::vector<MaskedSamples> samples, LoaderOptions options,
                                        const Stage& stage, std::int64_t batch);

/// The files of --text for a masked language model, cut and masked as in its training.
struct TextSamples {
  RunConfig config;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<std::filesystem::path> files;
  ScratchFolder scratch;  ///< holds the data set, tokens
  MaskedSamples samples;  ///< once tokenized

  /// `patterns` are paths and patterns. Throws an InputError if the folder has no masked language
  /// model, where its tokenizer does not fit (require_pretraining_tokens), and where no file
  /// matches.
  TextSamples(const ModelFolder& folder, const std::vector<std::string>& patterns,
              const std::vector<std::string>& overrides);
  /// Cuts and masks the text, which may take long. `takes`: see tokenize_text_option.
  void tokenize(Log& log, const std::function<bool(const TextPiece&)>& takes = {});
};

/// The results of an evaluation. Losses and accuracies are means over all masked tokens.
struct Evaluation {
  double loss = 0;      ///< cross-entropy, in nats
  double accuracy = 0;  ///< share of correct predictions, from 0 to 1
  /// The loss of a baseline that predicts each token with its frequency in all the text.
  double frequency_loss = 0;
  /// The accuracy of a baseline that always predicts the most frequent token of all the text.
  double frequency_accuracy = 0;
  std::int64_t tokens = 0;  ///< number of masked tokens
  /// The share of sequences with a correct sentence-order prediction, if the samples have one.
  std::optional<double> order_accuracy{};
  std::int64_t sequences = 0;
};

/// The results over all tokens of several sources.
Evaluation mean_of(std::span<const Evaluation> sources);

/// The number of occurrences of each id in the texts; 0 for special tokens, which are not masked.
std::vector<std::int64_t> count_tokens(std::span<const MaskedSamples> sources);

/// Writes what was measured of a batch: its part of each sum.
using MeasureBatch = std::function<void(const Batch& batch, std::span<double> sums)>;

/// `quantities` sums over the samples, each read once with the masks of epoch 0, in batches of
/// `micro_batch_size`. `progress` is called with the number of samples done. The processes share
/// the work. The sums are bit-identical in all of them and for any number of processes.
std::vector<double> sums_over_samples(const MaskedSamples& samples, std::int64_t micro_batch_size,
                                      std::size_t quantities, Communicator& communicator,
                                      const std::function<void(std::int64_t)>& progress,
                                      const MeasureBatch& measure);

/// Evaluates each sample once with the masks of epoch 0, in batches of `micro_batch_size`, without
/// dropout. `progress` is called with the number of samples done. The baseline knows `counts` of
/// the tokens; empty: those of `samples`. The processes share the work. The result is bit-identical
/// in all of them and for any number of processes. Throws an InputError if no token can be masked,
/// or the samples need a sentence-order head that the model lacks; a DivergedError unless the
/// losses are finite.
Evaluation evaluate_masked_lm(const Model& model, const MaskedSamples& samples,
                              std::int64_t micro_batch_size, Communicator& communicator,
                              const std::function<void(std::int64_t)>& progress = {},
                              std::span<const std::int64_t> counts = {});

/// The `count` longest of many sequences spread over the text, in the order of the text: masked,
/// and each a batch of one. Those of isolated samples are taken alone. Among equally long ones the
/// selection is spread evenly. A short text gives fewer.
std::vector<Batch> longest_sequences(MaskedSamples samples, std::int64_t count);

}  // namespace nystrom
