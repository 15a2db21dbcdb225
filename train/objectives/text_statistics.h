// The text that a data set came from: its statistics in the data set, and what was left out of it.
#pragma once

#include <string>

#include "core/base/log.h"
#include "data/shards/shards.h"
#include "data/text/text.h"

namespace nystrom {

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
