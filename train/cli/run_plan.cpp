#include "train/cli/run_plan.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/check.h"

namespace nystrom {
namespace {

using Json = nlohmann::ordered_json;

// ---- Output as JSON -----------------------------------------------------------------------------

Json to_json(const DocumentReport& set) {
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

Json to_json(const RunPlan& plan) {
  const TrainingConfig& training = plan.config.training;
  const std::int64_t length = plan.config.data.sequence_length;
  Json json = {{"ok", true},
               {"parameters", plan.parameters},
               {"steps", training.steps || plan.sequences
                             ? Json(total_steps(training, plan.sequences.value_or(0)))
                             : Json()},
               {"batch_size", training.batch_size},
               {"sequence_length", length},
               {"max_tokens_per_step", training.batch_size * length},
               {"length_stages", stages_json(plan.config.data)},
               {"sequences", plan.sequences ? Json(*plan.sequences) : Json()},
               {"epochs", plan.sequences ? Json(epochs(plan.config, *plan.sequences)) : Json()},
               {"warnings", plan.warnings}};
  if (plan.fit) json["memory"] = to_json(*plan.fit, training.micro_batch_size);
  if (!plan.task.empty()) json["data"] = plan.task;
  if (!plan.data) return json;
  Json samples = Json::array();
  for (const auto& sample : plan.data->samples) samples.push_back(shown(sample, false));
  json["data"] = {
      {"train", to_json(plan.data->train)},    {"validation", to_json(plan.data->validation)},
      {"duplicates", plan.data->duplicates},   {"overlap", plan.data->overlap},
      {"padding", plan.data->padding},         {"samples", samples},
      {"unit_tokens", plan.data->unit_tokens}, {"units", plan.data->units}};
  return json;
}

// ---- Output as text -----------------------------------------------------------------------------

void print(const DataReport& report) {
  const DocumentReport &a = report.train, &b = report.validation;
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
  const auto share = [](const DocumentReport& set) {
    return fmt::format("{:.3f} %",
                       100 * static_cast<double>(set.unknown) / static_cast<double>(set.tokens));
  };
  row("unknown tokens", share(a), share(b));
  row("sequences", a.sequences, b.sequences);
  for (std::size_t i = 0; i < skip_reasons; ++i) {
    for (const DocumentReport* set : {&a, &b}) {
      const Skipped& skipped = set->text.skipped[i];
      if (skipped.count > 0)
        fmt::print("first left out as {}: {}\n", describe(static_cast<SkipReason>(i)),
                   skipped.first);
    }
  }
  fmt::print("\npadding: {:.1f} % of a batch\n", 100 * report.padding);
  if (report.unit_tokens > 0)
    fmt::print("whole words: {:.1f} tokens on average, at most {}; the first ones: {}\n",
               report.unit_tokens, max_word_tokens, fmt::join(report.units, " · "));
  fmt::print(
      "training documents that repeat another: {}; validation documents found in training: {}\n",
      report.duplicates, report.overlap);
  fmt::print(
      "(equal by a 128-bit hash of their tokens, of which 16 bytes a training document are "
      "held)\n");
  const bool colour = ::isatty(STDOUT_FILENO) == 1;
  const char* key = colour ? "\x1b[33mmasked\x1b[0m, \x1b[31mreplaced\x1b[0m, \x1b[32mkept\x1b[0m"
                           : "[word→[MASK]] masked, [word→other] replaced, [word→word] kept";
  fmt::print("\nas the model sees it; original→seen: {}\n", key);
  for (const auto& sample : report.samples) fmt::print("  {}\n", shown(sample, colour));
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

std::string plan_json(const RunPlan& plan) { return to_json(plan).dump(); }

void print(const RunPlan& plan) {
  const TrainingConfig& training = plan.config.training;
  const std::int64_t length = plan.config.data.sequence_length;
  fmt::print("ok\nparameters: {}\n", plan.parameters);
  const std::string extent = training.steps ? fmt::format("{} steps", *training.steps)
                                            : fmt::format("{} epochs", training.epochs.value_or(1));
  fmt::print("training: {} of {} sequences of at most {} tokens: at most {} tokens a step\n",
             extent, training.batch_size, length, training.batch_size * length);
  const std::vector<LengthStage> stages = length_stages(plan.config.data);
  for (std::size_t i = 0; stages.size() > 1 && i < stages.size(); ++i) {
    const std::int64_t batch = training.batch_size * (length / stages[i].length);
    fmt::print("  from step {}: {} sequences of at most {} tokens\n", stages[i].begin + 1, batch,
               stages[i].length);
  }
  if (plan.sequences) {
    fmt::print("data: {} sequences; the run goes over them {:.2f} times\n", *plan.sequences,
               epochs(plan.config, *plan.sequences));
  } else {
    fmt::print("data: not read yet; --data reads and describes it\n");
  }
  if (plan.fit) print(*plan.fit, plan.config);
  if (plan.data) print(*plan.data);
  for (const std::string& line : plan.task) fmt::print("{}\n", line);
}

}  // namespace nystrom
