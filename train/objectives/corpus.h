// Turns text files into the tokenizer and the token shards of a run. Both are created once and kept
// in a cache.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "data/shards/shards.h"
#include "data/text/text.h"
#include "data/tokenizers/tokenizer.h"
#include "train/distributed/communicator.h"
#include "train/loop/run_spec.h"
#include "train/objectives/cache.h"

namespace nystrom {

/// The tokens of a source of data.train or data.validation (train/config/text_source.h).
struct CorpusSource {
  std::string name;  ///< empty where files are given alone
  std::optional<double> weight;
  std::shared_ptr<const TokenDataset> tokens;
  std::string origin;  ///< its option and name, for messages: "data.validation news"
};

/// The tokenizer and the data sets of a run.
struct Corpus {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<CorpusSource> train, validation;
  /// Their folders; a built-in tokenizer has none.
  std::filesystem::path tokenizer_folder, token_folder;
  /// Protects the token shards from prune_cache; null from cached_corpus.
  std::shared_ptr<const CacheUse> token_use;
};

/// Trains the tokenizer if the run has none, and tokenizes the text into shards. The cache is used
/// if it has the result for the same settings and files: their names and contents, which are read
/// for their checksums. Text is streamed, so memory does not grow with its size.
///
/// Collective: all processes tokenize together, and rank 0 writes the shards. A process that does
/// not see them, for example on another machine, writes its own.
///
/// Throws an InputError if files are missing or contain no text. After a stop signal to any process
/// all processes throw Interrupted; no incomplete folder remains.
Corpus prepare_corpus(const RunSpec& spec, Log& log, Communicator& communicator);

/// The corpus of a run with spec.inputs, which has a tokenizer. Each text of an example is a
/// document: the text, its pair, choices and negatives; the words of one with a space between; the
/// pixels of an image as bytes. Equal documents count once. The validation set has those of
/// task.validation, or those of task.validation_fraction that the rest has not.
///
/// Collective: rank 0 writes the shards, and so does a process that does not see them. Throws an
/// InputError as the readers of the task do, for examples without a text, and for images with
/// another tokenizer than bytes.
Corpus prepare_task_inputs(const RunSpec& spec, Log& log, Communicator& communicator);

/// The corpus of a run if the cache has all of it, else nothing. Creates no files. Warns of what
/// cannot be read as text, as prepare_corpus does.
std::optional<Corpus> cached_corpus(const RunSpec& spec, Log& log);

/// Tokenizes the text of the files of --text that `takes` accepts, null: all, as data.documents
/// says, into a data set at `folder`. It runs in one process on all threads, with a few MiB of text
/// in memory. Warns of what cannot be read as text (report_unreadable).
std::shared_ptr<const TokenDataset> tokenize_text_option(
    const std::vector<std::filesystem::path>& files, const RunConfig& config,
    const Tokenizer& tokenizer, const std::filesystem::path& folder, Log& log,
    const std::function<bool(const TextPiece&)>& takes = {});

/// Warns where more than a hundredth of the first tokens of a data set is unknown. `name` is its
/// own, for the message.
void warn_of_unknown(const std::string& name, const TokenDataset& set, Log& log);
/// The same for all sources of a corpus.
void warn_of_unknown(const Corpus& corpus, Log& log);

/// Statistics as the JSON that a data set keeps (TokenDataset::statistics).
std::string statistics_json(const TextStatistics& statistics);

/// The statistics of a data set's text, whether or not all its documents were taken. Throws an
/// InputError when the data set does not tell.
TextStatistics text_statistics(const TokenDataset& dataset);

/// Warns of documents that were left out of a data set because they cannot be read as text, and
/// says how to convert them. `source` names the option that the text came from ("data.train").
/// Throws an InputError when their share of the bytes is above `limit` (data.max_unreadable).
void report_unreadable(const std::string& source, const TokenDataset& dataset, double limit,
                       Log& log);

}  // namespace nystrom
