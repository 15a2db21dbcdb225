#include "train/objectives/corpus.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/check.h"

namespace nystrom {
namespace {

/// How to turn documents into readable ones; "" where the first one's place helps, or says how.
std::string advice(SkipReason reason, const std::string& first) {
  if (first.find("; the file is ") != first.npos) return "";
  if (reason == SkipReason::invalid_utf8)
    return "; convert them, for example from Latin-1: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW";
  return reason == SkipReason::nul_byte
             ? "; text in UTF-16 looks so: iconv -f UTF-16 -t UTF-8 OLD > NEW"
             : "";
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Skipped, count, bytes, first)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TextStatistics, files, bytes, documents, skipped, other_forms,
                                   first_other_form)

std::string statistics_json(const TextStatistics& statistics) {
  return nlohmann::json(statistics).dump();
}

TextStatistics text_statistics(const TokenDataset& dataset) {
  try {
    return nlohmann::json::parse(dataset.statistics()).get<TextStatistics>();
  } catch (const nlohmann::json::exception&) {
    dataset.refuse_statistics();
  }
}

void report_unreadable(const std::string& source, const TokenDataset& dataset, double limit,
                       Log& log) {
  const TextStatistics statistics = text_statistics(dataset);
  for (std::size_t i = 0; i < skip_reasons; ++i) {
    const auto reason = static_cast<SkipReason>(i);
    const Skipped& skipped = statistics[reason];
    if (skipped.count == 0 || reason == SkipReason::empty) continue;
    log.warn(fmt::format("{}: left out {} {} (first: {}){}", source, skipped.count,
                         describe(reason), skipped.first, advice(reason, skipped.first)));
  }
  if (statistics.other_forms > 0)
    log.warn(fmt::format("{}: {}{}", source, statistics.first_other_form,
                         statistics.other_forms > 1
                             ? fmt::format(" ({} more files like it)", statistics.other_forms - 1)
                             : ""));
  const double share = statistics.unreadable_share();
  require_input(share <= limit,
                "{}: {:.1f} % of its bytes cannot be read as text, data.max_unreadable allows "
                "{:g} %; do what the warning says, or set data.max_unreadable={:.2g}",
                source, 100 * share, 100 * limit, std::ceil(100 * share) / 100);
}

}  // namespace nystrom
