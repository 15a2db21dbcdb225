// nystrom convert: write a model with exact attention, such as a BERT folder, as a Nyström encoder.
#include <nlohmann/json.hpp>

#include "core/base/new_folder.h"
#include "core/base/printable.h"
#include "core/base/stop_signals.h"
#include "core/check.h"
#include "nn/layer_kinds.h"
#include "train/cli/commands.h"
#include "train/export/extend.h"
#include "train/objectives/evaluation.h"
#include "train/objectives/task_settings.h"

namespace nystrom {
namespace {

struct ConvertCommand {
  CommonOptions common;
  std::string model, folder;
  std::vector<std::string> text;
  ConvertOptions convert;
};

/// Compares both models on the files of --text.
ConversionStudy measure(const ConvertCommand& options, const ModelFolder& source,
                        const Model& converted, const std::vector<std::string>& overrides,
                        Log& log) {
  TextSamples text(source, options.text, overrides);
  const auto parent = load_model(source, DType::f32, StoreMode::inference);
  text.tokenize(log);
  return study_conversion(*parent, converted, text.samples, progress_of("sequence", log));
}

/// Nothing where each number of landmarks is exact for the text.
std::optional<std::string> advice(const ConversionStudy& study, const LayerError& layer) {
  if (study.sequence_length <= compared_landmarks[0]) return std::nullopt;
  const auto landmarks = layer.advised_landmarks(study.sequence_length);
  return landmarks ? std::to_string(*landmarks) : enum_name(AttentionKind::softmax);
}

void print(const ConversionStudy& study, const ModelConfig& config) {
  fmt::print("\nmasked-LM loss of {} tokens\n{:<20}{:>8.4f}\n{:<20}{:>8.4f}\n", study.parent.tokens,
             "parent, exact", study.parent.loss, "converted", study.converted.loss);
  fmt::print("\nrelative error of the attention's output, {} sequences of up to {} tokens\n",
             study.sequences, study.sequence_length);
  std::string head = fmt::format("{:<8}{:<10}", "layer", "kind");
  for (const std::int64_t m : compared_landmarks) head += fmt::format("{:>8}", m);
  fmt::print("{}  {:>8}\n", head, "advice");
  for (std::size_t i = 0; i < study.layers.size(); ++i) {
    if (config.has_window(static_cast<std::int64_t>(i))) continue;  // was not converted
    std::string line =
        fmt::format("{:<8}{:<10}", i, enum_name(config.kind_of(static_cast<std::int64_t>(i))));
    for (const double error : study.layers[i].errors) line += fmt::format("{:>8.3f}", error);
    fmt::print("{}  {:>8}\n", line, advice(study, study.layers[i]).value_or("-"));
  }
  if (study.sequence_length > compared_landmarks[0])
    fmt::print(
        "advice: the fewest of these landmarks, below the longest sequence, with an error of at "
        "most {}, else exact attention (--keep-exact)\n",
        advised_error);
  else
    fmt::print("advice: none, as no sequence has more than {} tokens; give longer texts\n",
               compared_landmarks[0]);
}

/// A layer with a window, which is not converted, is null.
nlohmann::ordered_json json_of(const ConversionStudy& study, const ModelConfig& config) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < study.layers.size(); ++i) {
    const LayerError& layer = study.layers[i];
    if (config.has_window(static_cast<std::int64_t>(i))) {
      layers.push_back(nullptr);
      continue;
    }
    const auto advised = advice(study, layer);
    layers.push_back({{"errors", layer.errors},
                      {"advice", advised ? nlohmann::ordered_json(*advised) : nullptr}});
  }
  return {{"tokens", study.parent.tokens},
          {"parent_loss", study.parent.loss},
          {"converted_loss", study.converted.loss},
          {"sequences", study.sequences},
          {"sequence_length", study.sequence_length},
          {"landmarks", compared_landmarks},
          {"advised_error", advised_error},
          {"layers", layers}};
}

void run(const ConvertCommand& options, Device, Log& log) {
  const EndAtSignals stop("stopped; nothing was written");
  const SplitOverrides overrides(options.common.overrides, {"data", "masking", "seed"});
  overrides.require_text(options.text);
  const ModelFolder source = open_model(options.model, overrides.model, log);
  require_empty_target(options.folder);  // before the weights are read
  const auto model = convert_model(source, options.convert);
  const ModelConfig& config = model->config();
  require_kept(overrides.model, source.config, config);
  std::optional<ConversionStudy> study;
  if (!options.text.empty()) study = measure(options, source, *model, overrides.run, log);
  write_model_folder(source, *model, config.segment_means_seq_len, options.folder, log);
  const std::optional<std::int64_t> taps = config.attention.conv_kernel_size;
  if (options.common.json) {
    nlohmann::ordered_json result = {
        {"attention", describe_kinds(config)},
        {"landmarks", config.attention.num_landmarks},
        {"convolution", taps ? nlohmann::ordered_json(*taps) : nlohmann::ordered_json()},
        {"positions", config.max_position_embeddings},
        {"parameters", model->parameters().count()}};
    if (study) result["text"] = json_of(*study, config);
    fmt::print("{}\n", result.dump());
    return;
  }
  fmt::print(
      "{}: attention {}, {} landmarks, {}{} positions, {} parameters; train on with model.from "
      "before use\n",
      printable_path(options.folder), describe_kinds(config), config.attention.num_landmarks,
      taps ? fmt::format("convolution of {} taps, ", *taps) : "", config.max_position_embeddings,
      model->parameters().count());
  if (study) print(*study, config);
}

}  // namespace

Command add_convert_command(CLI::App& app) {
  auto options = std::make_shared<ConvertCommand>();
  auto* command = app.add_subcommand(
      "convert", "Write a model with exact attention, such as a BERT folder, as a Nyström encoder");
  command->footer(
      "All weights that the head reads are kept. The convolution starts at 0 and adds nothing "
      "until it is learned. Go on with model.from in the YAML\n"
      "file of a pretraining or fine-tuning run. With --text the masked-LM loss before and after "
      "is printed, and how many landmarks\n"
      "each layer needs; the text is cut and masked as nystrom evaluate does.\n\n"
      "Examples:\n"
      "  nystrom convert bert-base longer --landmarks 64 --length 4096 --text heldout.txt\n"
      "  nystrom convert bert-base longer --keep-exact 0,10-11");
  add_model_to(*command, options->model);
  command->add_option("DIR", options->folder, "folder to write; must be new or empty")->required();
  add_number(*command, "--landmarks", options->convert.landmarks, "landmarks per head", 1, 1 << 24);
  add_number(*command, "--conv", options->convert.conv,
             "taps of the convolution, odd; default: the model's own, else 33; none beside windows",
             1, 1 << 16);
  add_number(*command, "--length", options->convert.length,
             "positions of the new model; default: as many as before", 1, 1 << 24);
  add_choice(*command, "--positions", options->convert.positions,
             "tile: new positions repeat the trained ones; interpolate: these are stretched");
  command->add_option("--keep-exact", options->convert.keep_exact,
                      "layers that keep exact attention, from 0: 0,10-11");
  command->add_option("--text", options->text,
                      "text files to compare the model before and after on: paths and patterns");
  options->common.add_to(*command, {.device = false, .json = "one JSON object"});
  return alone(command, options, run);
}

}  // namespace nystrom
