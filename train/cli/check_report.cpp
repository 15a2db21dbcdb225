#include "train/cli/check_report.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/check.h"

namespace nystrom {
namespace {

using Json = nlohmann::ordered_json;

// ---- Output as JSON -----------------------------------------------------------------------------

Json to_json(const DocumentStatistics& set) {
  Json left_out = Json::object();
  for (std::size_t i = 0; i < skip_reasons; ++i) {
    const Skipped& skipped = set.text.skipped[i];
    if (skipped.count > 0)
      left_out[describe(static_cast<SkipReason>(i))] = {{"count", skipped.count},
                                                        {"first", skipped.first}};
  }
  return {{"files", set.text.files},
          {"documents_read", set.text.documents},
          {"bytes_read", set.text.bytes},
          {"left_out", left_out},
          {"documents", set.documents},
          {"tokens", set.tokens},
          {"median_tokens_per_document", set.median},
          {"longest_document", set.longest},
          {"documents_cut", set.cut},
          {"remainders_dropped", set.dropped},
          {"unknown_tokens", set.unknown},
          {"sequences", set.sequences}};
}

Json to_json(const Fit& fit, std::int64_t micro_batch) {
  const auto optional = [](const auto& value) { return value ? Json(*value) : Json(); };
  Json json = {{"devices", fit.devices}};
  for (const auto& [part, bytes] : bytes_by_part(fit.plan, micro_batch)) json[part] = bytes;
  json["largest_micro_batch_size"] = optional(fit.largest);
  json["communication_seconds"] = fit.time ? Json(fit.time->communication) : Json();
  json["computation_seconds"] = fit.time ? optional(fit.time->computation) : Json();
  json["step_seconds"] = fit.time ? optional(fit.time->step) : Json();
  return json;
}

Json stages_json(const DataConfig& data) {
  Json stages = Json::array();
  for (const LengthStage& stage : length_stages(data))
    stages.push_back({{"steps_before", stage.begin}, {"sequence_length", stage.length}});
  return stages;
}

Json to_json(const CheckReport& report) {
  const TrainingConfig& training = report.config.training;
  const std::int64_t length = report.config.data.sequence_length;
  Json json = {
      {"ok", true},
      {"parameters", report.parameters},
      {"steps", training.steps || report.sequences
                    ? Json(total_steps(training, report.sequences.value_or(0)))
                    : Json()},
      {"batch_size", training.batch_size},
      {"sequence_length", length},
      {"max_tokens_per_step", training.batch_size * length},
      {"length_stages", stages_json(report.config.data)},
      {"sequences", report.sequences ? Json(*report.sequences) : Json()},
      {"epochs", report.sequences ? Json(epochs(report.config, *report.sequences)) : Json()},
      {"warnings", report.warnings}};
  if (report.fit) json["memory"] = to_json(*report.fit, training.micro_batch_size);
  if (!report.task.empty()) json["data"] = report.task;
  if (!report.data) return json;
  Json sources = Json::array(), samples = Json::array();
  for (const SourceStatistics& source : report.data->sources)
    sources.push_back({{"name", source.name},
                       {"documents", source.documents},
                       {"tokens", source.tokens},
                       {"sequences", source.sequences},
                       {"share", source.share},
                       {"passes", source.passes}});
  for (const auto& sample : report.data->samples) samples.push_back(shown(sample, false));
  json["data"] = {{"train", to_json(report.data->train)},
                  {"validation", to_json(report.data->validation)},
                  {"duplicates", report.data->duplicates},
                  {"overlap", report.data->overlap},
                  {"padding", report.data->padding},
                  {"samples", samples},
                  {"unit_tokens", report.data->unit_tokens},
                  {"units", report.data->units},
                  {"sources", sources}};
  return json;
}

// ---- Output as text -----------------------------------------------------------------------------

void print(const CorpusStatistics& statistics) {
  const DocumentStatistics &a = statistics.train, &b = statistics.validation;
  fmt::print("\n{:<40}{:>16}{:>16}\n", "", "training", "validation");
  const auto row = [](const std::string& name, auto x, auto y) {
    fmt::print("{:<40}{:>16}{:>16}\n", name, x, y);
  };
  row("files", a.text.files, b.text.files);
  row("documents read", a.text.documents, b.text.documents);
  row("bytes", a.text.bytes, b.text.bytes);
  for (std::size_t i = 0; i < skip_reasons; ++i) {
    const Skipped &x = a.text.skipped[i], &y = b.text.skipped[i];
    if (x.count + y.count > 0)
      row(fmt::format("left out: {}", describe(static_cast<SkipReason>(i))), x.count, y.count);
  }
  row("documents taken", a.documents, b.documents);
  row("tokens", a.tokens, b.tokens);
  row("tokens of a document: median", a.median, b.median);
  row("tokens of a document: longest", a.longest, b.longest);
  row("documents cut into several sequences", a.cut, b.cut);
  row("remainders dropped as too short", a.dropped, b.dropped);
  const auto share = [](const DocumentStatistics& set) {
    return fmt::format("{:.3f} %",
                       100 * static_cast<double>(set.unknown) / static_cast<double>(set.tokens));
  };
  row("unknown tokens", share(a), share(b));
  row("sequences", a.sequences, b.sequences);
  for (std::size_t i = 0; i < skip_reasons; ++i) {
    for (const DocumentStatistics* set : {&a, &b}) {
      const Skipped& skipped = set->text.skipped[i];
      if (skipped.count > 0)
        fmt::print("first left out as {}: {}\n", describe(static_cast<SkipReason>(i)),
                   skipped.first);
    }
  }
  if (!statistics.sources.empty())
    fmt::print("\n{:<24}{:>16}{:>16}{:>12}{:>10}{:>10}\n", "source", "documents", "tokens",
               "sequences", "share", "passes");
  for (const SourceStatistics& source : statistics.sources)
    fmt::print("{:<24}{:>16}{:>16}{:>12}{:>8.1f} %{:>10.2f}\n", source.name, source.documents,
               source.tokens, source.sequences, 100 * source.share, source.passes);
  fmt::print("\npadding: {:.1f} % of a batch\n", 100 * statistics.padding);
  if (statistics.unit_tokens > 0)
    fmt::print("whole words: {:.1f} tokens on average, at most {}; the first ones: {}\n",
               statistics.unit_tokens, max_word_tokens, fmt::join(statistics.units, " · "));
  fmt::print(
      "training documents that repeat another: {}; validation documents found in training: {}\n",
      statistics.duplicates, statistics.overlap);
  fmt::print(
      "(equal by a 128-bit hash of their tokens, of which 16 bytes a training document are "
      "held)\n");
  const bool colour = ::isatty(STDOUT_FILENO) == 1;
  const char* key = colour ? "\x1b[33mmasked\x1b[0m, \x1b[31mreplaced\x1b[0m, \x1b[32mkept\x1b[0m"
                           : "[word→[MASK]] masked, [word→other] replaced, [word→word] kept";
  fmt::print("\nas the model sees it; original→seen: {}\n", key);
  for (const auto& sample : statistics.samples) fmt::print("  {}\n", shown(sample, colour));
}

void print(const Fit& fit, const RunConfig& config) {
  if (!fit.elsewhere) {
    const auto needed = static_cast<double>(fit.plan.total(config.training.micro_batch_size));
    fmt::print("memory: {} of this machine's {}\n", memory_text(needed),
               memory_text(static_cast<double>(fit.memory.value_or(0))));
    return;
  }
  for (const std::string& line : describe(fit.plan, config, fit.devices)) fmt::print("{}\n", line);
  if (fit.largest)
    fmt::print("largest micro_batch_size in {}: {}\n",
               memory_text(static_cast<double>(*fit.memory)), *fit.largest);
  if (!fit.time) return;
  if (fit.devices > 1) fmt::print("communication of a step: {:.4g} s\n", fit.time->communication);
  if (!fit.time->step) return;
  fmt::print("computation of a step: {:.4g} s\n", *fit.time->computation);
  const auto tokens = static_cast<double>(config.training.batch_size * config.data.sequence_length);
  fmt::print("a step: {:.4g} s, {:.0f} tokens a second, all sequences at full length\n",
             *fit.time->step, tokens / *fit.time->step);
}

}  // namespace

std::string report_json(const CheckReport& report) { return to_json(report).dump(); }

void print(const CheckReport& report) {
  const TrainingConfig& training = report.config.training;
  const std::int64_t length = report.config.data.sequence_length;
  fmt::print("ok\nparameters: {}\n", report.parameters);
  const std::string extent = training.steps ? fmt::format("{} steps", *training.steps)
                                            : fmt::format("{} epochs", training.epochs.value_or(1));
  fmt::print("training: {} of {} sequences of at most {} tokens: at most {} tokens a step\n",
             extent, training.batch_size, length, training.batch_size * length);
  const std::vector<LengthStage> stages = length_stages(report.config.data);
  for (std::size_t i = 0; stages.size() > 1 && i < stages.size(); ++i) {
    const std::int64_t batch = training.batch_size * (length / stages[i].length);
    fmt::print("  from step {}: {} sequences of at most {} tokens\n", stages[i].begin + 1, batch,
               stages[i].length);
  }
  if (report.sequences) {
    fmt::print("data: {} sequences; the run goes over them {:.2f} times\n", *report.sequences,
               epochs(report.config, *report.sequences));
  } else {
    fmt::print("data: not read yet; --data reads and describes it\n");
  }
  if (report.fit) print(*report.fit, report.config);
  if (report.data) print(*report.data);
  for (const std::string& line : report.task) fmt::print("{}\n", line);
}

}  // namespace nystrom
