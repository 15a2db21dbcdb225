// nystrom info: describe a model without allocating it, and the memory that a run needs.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "train/cli/commands.h"
#include "train/cli/text_arguments.h"
#include "train/loop/run_spec.h"
#include "train/plan/memory_plan.h"
#include "train/state/hf_config.h"
#include "train/state/model_folder.h"

namespace nystrom {
namespace {

using Json = nlohmann::ordered_json;

struct InfoOptions {
  CommonOptions common;
  std::string target;
};

/// The part of the model to which a parameter belongs: the prefix of its name down to the layer.
std::string part_of(const std::string& name) {
  constexpr std::string_view layers = "nystromformer.encoder.layer.";
  if (name.starts_with(layers)) return name.substr(0, name.find('.', layers.size()));
  if (name.starts_with("nystromformer.embeddings.")) return "nystromformer.embeddings";
  return name.substr(0, name.find('.', name.find('.') + 1));
}

/// The name and shape of the head's output: "logits [b, n, 30000]". b is the batch, n the length.
std::string output_of(const ModelConfig& config) {
  switch (config.head) {
    case Head::masked_lm: return fmt::format("logits [b, n, {}]", config.vocab_size);
    case Head::replaced_tokens: return "logits [b, n]";
    case Head::masked_features: return fmt::format("logits [b, n, {}]", *config.embed_dim);
    case Head::sequence_classification: return fmt::format("logits [b, {}]", config.num_labels());
    case Head::token_classification: return fmt::format("logits [b, n, {}]", config.num_labels());
    case Head::question_answering: return "start_logits and end_logits [b, n]";
    case Head::multiple_choice: return "logits [b, choices]";
    case Head::none: break;
  }
  return config.embed_dim
             ? fmt::format("output [b, {}], the last valid time step", config.hidden_size)
             : fmt::format("last_hidden_state [b, n, {}]", config.hidden_size);
}

/// A description of the model as JSON. The model is declared but not allocated.
Json describe(const ModelConfig& config) {
  const Model model(config);
  Json parameters = Json::array(), by_part = Json::object();
  for (const Parameter& parameter : model.parameters().parameters()) {
    const Shape& shape = parameter.shape();
    parameters.push_back({{"name", parameter.name()},
                          {"shape", std::vector<std::int64_t>(shape.begin(), shape.end())}});
    Json& size = by_part[part_of(parameter.name())];
    size = (size.is_null() ? 0 : size.get<std::int64_t>()) + shape.numel();
  }
  const std::int64_t count = model.parameters().count();
  return {{"head", enum_name(config.head)},
          {"output", output_of(config)},
          {"parameters", count},
          {"parameters_by_part", by_part},
          {"bytes_f32", 4 * count},
          {"options", Json::parse(hf_config_text(config))},
          {"tensors", parameters}};
}

void print(const Json& info) {
  fmt::print("{}\noutput: {}\nparameters: {} ({:.1f} MB in f32)\n", info["head"].get<std::string>(),
             info["output"].get<std::string>(), info["parameters"].get<std::int64_t>(),
             static_cast<double>(info["bytes_f32"].get<std::int64_t>()) / 1e6);
  fmt::print("\nparameters by part:\n");
  for (const auto& [part, count] : info["parameters_by_part"].items())
    fmt::print("  {:<40} {:>12}\n", part, count.get<std::int64_t>());
  fmt::print("\noptions:\n");
  for (const auto& [key, value] : info["options"].items())
    fmt::print("  {:<28} {}\n", key, shown(value.dump()));
  fmt::print("\ntensors:\n");
  for (const auto& tensor : info["tensors"])
    fmt::print("  {:<72} {}\n", tensor["name"].get<std::string>(), tensor["shape"].dump());
}

/// The run of a YAML file, with the teacher and the tokenizer that exist. The model has the
/// vocabulary of this tokenizer. One that is still to be trained, and those of tasks' files, leave
/// it as it is.
RunSpec read_known_run(const InfoOptions& options, Log& log) {
  RunSpec spec = read_run(config_file(options.target), options.common.overrides);
  const auto exists = [](const auto& name) { return name && std::filesystem::exists(*name); };
  if (spec.options.tokenizer.builtin || exists(spec.options.tokenizer.path))
    spec = with_named_tokenizer(std::move(spec));
  if (const auto& teacher = spec.options.distillation.teacher; exists(teacher))
    with_context("distillation.teacher", [&] { spec.teacher = open_model(*teacher, {}, log); });
  spec.options = with_labels(spec.options);
  return spec;
}

void run(const InfoOptions& options, Device, Log& log) {
  const std::filesystem::path target = options.target;
  const bool yaml = target.extension() == ".yaml" || target.extension() == ".yml";
  RunSpec spec;
  if (yaml) spec = read_known_run(options, log);
  const RunConfig& run = spec.options;
  Json info = describe(yaml ? run.model : open_model(target, options.common.overrides, log).config);
  std::optional<MemoryPlan> memory;
  if (yaml) {
    info["labels_unknown"] = lists_labels(run);
    memory = plan_memory(run, 1, spec.teacher_shape());
  }
  if (options.common.json) {
    if (memory) {
      for (const auto& [part, bytes] : bytes_by_part(*memory, run.training.micro_batch_size))
        info["memory"][part] = bytes;
    }
    fmt::print("{}\n", info.dump());
    return;
  }
  print(info);
  if (memory) fmt::print("\n{}\n", fmt::join(describe(*memory, run, 1), "\n"));
}

}  // namespace

Command add_info_command(CLI::App& app) {
  auto options = std::make_shared<InfoOptions>();
  auto* command = app.add_subcommand(
      "info", "Show a model's parameters by part, shapes, options and output, without building it");
  command->footer(
      "For a run's YAML file it also estimates the memory of training, by part, without running a "
      "step.\n\n"
      "Examples:\n  nystrom info models/base\n  nystrom info configs/base.yaml --set "
      "model.num_hidden_layers=6 --json");
  command
      ->add_option("MODEL_OR_CONFIG", options->target,
                   "Hugging Face folder, run directory or checkpoint, or the YAML file of a run")
      ->required();
  options->common.add_to(*command, {.device = false, .threads = false, .json = "one JSON object"});
  return alone(command, options, run);
}

}  // namespace nystrom
