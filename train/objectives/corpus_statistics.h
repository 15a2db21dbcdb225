// A report on the data of a pretraining run: its documents and sequences, duplicates, and samples
// of masked text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/objectives/corpus.h"

namespace nystrom {

/// The documents of a data set.
struct DocumentStatistics {
  /// The text that was read. With data.validation_fraction it includes both data sets.
  TextStatistics text;
  std::int64_t documents = 0, tokens = 0;
  double median = 0;         ///< length of a document in tokens
  std::int64_t longest = 0;  ///< the same
  std::int64_t cut = 0;      ///< documents that are split over several sequences
  std::int64_t dropped = 0;  ///< remainders of documents too short for a sequence
  std::int64_t unknown = 0;  ///< unknown tokens
  std::int64_t sequences = 0;
};

/// The effect of masking on a token. replaced: by a random token; kept: predicted but unchanged.
enum class Masking { none, masked, replaced, kept };
struct ShownToken {
  std::string text;  ///< the original token, with a space in front if it begins a word
  Masking masking = Masking::none;
  std::string now;  ///< the token that the model sees; empty for Masking::none
};

/// A source of the training data.
struct SourceStatistics {
  std::string name;
  std::int64_t documents = 0, tokens = 0, sequences = 0;
  double share = 0;   ///< of the sequences that the run draws
  double passes = 0;  ///< over the source in the whole run
};

struct CorpusStatistics {
  DocumentStatistics train, validation;   ///< over all sources
  std::vector<SourceStatistics> sources;  ///< of data.train, if they have names
  std::int64_t duplicates = 0;  ///< training documents that equal an earlier training document
  std::int64_t overlap = 0;     ///< validation documents that equal a training document
  /// The share of the places of a step, sequences × length, without a token, in the first steps.
  /// They cost nothing.
  double padding = 0;
  double unit_tokens = 0;  ///< tokens of a masked word on average; 0 without masking.whole_word
  std::vector<std::string> units;                ///< the first words that are masked as wholes
  std::vector<std::vector<ShownToken>> samples;  ///< the first tokens of the run's first sequences
};

/// Reads the whole corpus and reports on it. `config` must be fitted to the tokenizer
/// (with_tokenizer). Documents are equal if the 128-bit hashes of their token ids are.
/// Memory: 16 bytes per training document, and one counter per distinct document length.
CorpusStatistics corpus_statistics(const RunConfig& config, const Corpus& corpus, Log& log);

/// The number of passes over the training data, which is `sequences` of data.sequence_length, in
/// the whole run. `config` must be fitted to the tokenizer.
double passes_over(const Corpus& corpus, std::int64_t sequences, const RunConfig& config);

/// Warnings about overlap, weights and empty places, one line each.
std::vector<std::string> data_warnings(const CorpusStatistics& report);
/// Warnings about fewer than one pass over the data, or more than 100.
std::vector<std::string> epoch_warnings(double epochs);

/// A sample as one line of text. Changed tokens are in brackets, "the [ship→[MASK]] sailed", or in
/// colour. The line contains no control characters except those of the colours.
std::string shown(const std::vector<ShownToken>& sample, bool colour);

}  // namespace nystrom
