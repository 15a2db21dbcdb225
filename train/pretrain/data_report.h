// What a run's data is like: how its documents become sequences, what is repeated, what masking
// makes of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/pretrain/corpus.h"

namespace nystrom {

/// The documents of a data set.
struct DocumentReport {
  TextStatistics
      text;  ///< what was read; with validation_fraction that of training and validation together
  std::int64_t documents = 0, tokens = 0;
  std::int64_t median = 0, longest = 0;  ///< tokens of a document
  std::int64_t cut = 0;                  ///< documents that lie in several sequences
  std::int64_t dropped = 0;              ///< remainders too short for a sequence
  std::int64_t unknown = 0;              ///< tokens
  std::int64_t sequences = 0;
};

/// What masking made of a token.
enum class Masking { none, masked, replaced, kept };
struct ShownToken {
  std::string text;  ///< what stood there; a space in front where a word begins
  Masking masking = Masking::none;
  std::string now;  ///< what the model sees in its place
};

struct DataReport {
  DocumentReport train, validation;
  std::int64_t duplicates = 0;  ///< training documents whose tokens an earlier one has too
  std::int64_t overlap = 0;     ///< validation documents whose tokens a training document has too
  double padding = 0;           ///< share of the positions of the first training steps
  std::vector<std::vector<ShownToken>> samples;  ///< the beginnings of the run's first sequences
};

/// Reads a corpus through. Equal documents are found by a 128-bit hash of their token ids: 16 bytes
/// of memory a training document. Beside these, memory grows with the number of different lengths
/// of documents alone. `config` has the settings that the run will have, its model fitted to the
/// tokenizer.
DataReport report_data(const RunConfig& config, const Corpus& corpus, Log& log);

/// Passes over the training sequences in the whole run.
double epochs(const RunConfig& config, std::int64_t sequences);

/// What is suspicious: lines about overlap, unknown tokens, padding.
std::vector<std::string> data_warnings(const DataReport& report);
/// … and about fewer than one pass over the data, or more than 100.
std::vector<std::string> epoch_warnings(double epochs);

/// One line for a terminal in colour, or with brackets: "the [ship→[MASK]] sailed". Nothing in it
/// is a control character but the colours.
std::string shown(const std::vector<ShownToken>& sample, bool colour);

}  // namespace nystrom
