// The text that a data set came from: its statistics in the data set, and what was left out of it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "data/shards/shards.h"
#include "data/text/text.h"
#include "data/tokenizers/tokenizer.h"
#include "train/config/config.h"

namespace nystrom {

/// Statistics as the JSON that a data set keeps (TokenDataset::statistics).
std::string statistics_json(const TextStatistics& statistics);

/// The statistics of a data set's text, whether or not all its documents were taken. Throws an
/// InputError when the data set does not tell.
TextStatistics text_statistics(const TokenDataset& dataset);

/// Warns of documents that were left out because they cannot be read as text, and says how to
/// convert them. `source` names the option that the text came from ("data.train"). Throws an
/// InputError when their share of the bytes is above `limit` (data.max_unreadable).
void report_unreadable(const std::string& source, const TextStatistics& statistics, double limit,
                       Log& log);

/// Tokenizes the files of --text, as data.documents says, into a data set at `folder`, and warns of
/// what cannot be read as text (report_unreadable).
std::shared_ptr<const TokenDataset> tokenize_text_option(
    const std::vector<std::filesystem::path>& files, const RunConfig& config,
    const Tokenizer& tokenizer, const std::filesystem::path& folder, Log& log);

}  // namespace nystrom
