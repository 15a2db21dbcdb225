// From text files to token shards: the tokenizer and the data sets of a run, made once and kept in
// a cache.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "data/shards/shards.h"
#include "data/tokenizers/tokenizer.h"
#include "train/config/config.h"
#include "train/distributed/communicator.h"
#include "train/logging/log.h"
#include "train/pretrain/cache.h"

namespace nystrom {

/// What a run trains on.
struct Corpus {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const TokenDataset> train, validation;
  std::filesystem::path tokenizer_folder, token_folder;  ///< where they are kept
  std::shared_ptr<const CacheUse>
      token_use;  ///< keeps the tokens from being pruned; none from cached_corpus
};

/// Trains the tokenizer if asked, and tokenizes the text into shards, unless the cache holds both
/// for the same files (name, size and time of change) and settings. Streams: memory does not grow
/// with the text. InputError when files are missing or hold no text. Interrupted in all processes,
/// with nothing half made left behind, when a signal asks one to stop.
///
/// Several processes tokenize together, and the first one writes; one that does not see what it
/// wrote, on another machine, makes its own.
Corpus prepare_corpus(const RunConfig& config, Log& log, Communicator& communicator);

/// The same when all of it is in the cache; nothing otherwise. Makes nothing.
std::optional<Corpus> cached_corpus(const RunConfig& config);

/// What the text was that a data set came from, whether or not all its documents were taken.
/// InputError when the data set does not tell.
TextStatistics text_statistics(const TokenDataset& dataset);

/// Fills in what the model takes from the tokenizer: vocab_size where left out, and the padding id.
/// InputError when the tokenizer has more pieces than the model has rows, has no padding, or lacks
/// a token that masked language models need.
RunConfig fit_model_to_tokenizer(RunConfig config, const Tokenizer& tokenizer);

/// Tokenizes the documents whose number `takes` accepts into a data set at `folder`, on all
/// threads, a few MiB of text at a time. One process alone.
std::shared_ptr<const TokenDataset> tokenize(const std::vector<std::filesystem::path>& files,
                                             Documents documents, const Tokenizer& tokenizer,
                                             const std::filesystem::path& folder, Log& log,
                                             const std::function<bool(std::int64_t)>& takes);

}  // namespace nystrom
