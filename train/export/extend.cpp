#include "train/export/extend.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>

#include "core/base/file_io.h"
#include "core/base/interruption.h"
#include "core/base/new_folder.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "nn/attention_diagnostics.h"
#include "nn/layer_kinds.h"
#include "train/config/config_io.h"
#include "train/export/export.h"
#include "train/state/hf_config.h"
#include "train/state/run_state.h"
#include "train/state/transformers_class.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr const char* table_name = "nystromformer.embeddings.position_embeddings.weight";

ModelConfig extended_config(const ModelFolder& source, const ExtendOptions& options) {
  ModelConfig config = source.config;
  const std::string where = printable_path(source.path);
  const std::int64_t old = config.max_position_embeddings, trained = trained_positions(source),
                     landmarks = options.landmarks.value_or(config.attention.num_landmarks);
  require_input(!config.has_kind(AttentionKind::linformer),
                "{}: linformer's projections have weights for each of its {} positions, and none "
                "for more; pretrain a model with "
                "max_position_embeddings {} anew, or choose another attention.kind",
                where, old, options.length);
  require_input(config.positions != Positions::none,
                "{}: the model has no position table; it takes sequences of any length as it is",
                where);
  require_input(options.length >= trained,
                "--length {}: {} has {} {}positions already; choose a larger length",
                options.length, where, trained, trained < old ? "trained " : "");
  const bool has_landmarks = config.has_kind(AttentionKind::nystrom);
  require_input(!options.landmarks || has_landmarks,
                "--landmarks {}: the attention of {} is {}, without landmarks; leave it out",
                landmarks, where, describe_kinds(config));
  require_input(options.length > trained || landmarks != config.attention.num_landmarks,
                "--length {}: {} has that many positions{} already; choose a larger length",
                options.length, where,
                has_landmarks ? fmt::format(" and {} landmarks", landmarks) : "");
  require_input(!options.landmarks || landmarks <= options.length,
                "--landmarks {} exceeds --length {}; a sequence has no more landmarks than tokens",
                landmarks, options.length);
  const bool exact =
      config.exact_in_transformers() && (config.attention.semantics == Semantics::transformers ||
                                         config.has_only(AttentionKind::softmax));
  config.attention.num_landmarks = landmarks;
  config.max_position_embeddings = options.length;
  // A model that is exact in transformers stays exact.
  config.segment_means_seq_len = exact ? landmarks : options.length;
  require_none(fmt::format("{} with {} positions", where, options.length), problems(config));
  return config;
}

// ---- Conversion of a model with exact attention into a Nyström encoder --------------------------

constexpr std::int64_t default_taps = 33;

/// "0,10-11" as attention.layers.
LayerKinds exact_layers(const std::string& text) {
  LayerKinds layers;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    layers.emplace_back(text.substr(begin, end - begin), AttentionKind::softmax);
    begin = end + 1;
  }
  return layers;
}

void set_layers(ModelConfig& config, const ConvertOptions& options) {
  const ModelConfig exact = config;
  config.attention.kind = AttentionKind::nystrom;
  config.attention.semantics = Semantics::nystrom;
  config.attention.layers = exact_layers(options.keep_exact);
  // Layers with a window are O(n) as they are.
  config.attention.window_layers.clear();
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (!exact.has_window(layer)) continue;
    config.attention.window_layers.push_back(std::to_string(layer));
    if (config.kind_of(layer) == AttentionKind::nystrom)
      config.attention.layers.emplace_back(std::to_string(layer), AttentionKind::softmax);
  }
  require_none("--keep-exact " + printable(options.keep_exact, 40), layer_problems(config));
  for (const auto& [layers, kind] : exact_layers(options.keep_exact)) {
    const LayerRange range = *parse_layer_range(layers);
    bool converted = false;
    for (std::int64_t layer = range.first; layer <= range.last; ++layer)
      converted |= !exact.has_window(layer);
    require_input(converted,
                  "--keep-exact {}: layers with a window are not converted; leave it out", layers);
  }
  const bool adds_convolution = options.conv && !config.attention.conv_kernel_size;
  require_input(
      config.has_kind(AttentionKind::nystrom) || adds_convolution,
      "{}no layer that sees all tokens is left to convert{}",
      options.keep_exact.empty()
          ? ""
          : fmt::format("--keep-exact {}: ", printable(options.keep_exact, 40)),
      options.keep_exact.empty() ? ": each has a window, and takes long texts as it is"
      : config.attention.conv_kernel_size
          ? "; leave one out, or use nystrom extend"
          : "; leave one out, give --conv for a convolution alone, or use nystrom extend");
}

void set_convolution(ModelConfig& config, const ConvertOptions& options, const std::string& where) {
  // Beside windows there is no convolution by default.
  if (config.attention.window && !options.conv) return;
  const std::int64_t taps =
      options.conv.value_or(config.attention.conv_kernel_size.value_or(default_taps));
  require_input(taps % 2 == 1, "--conv {}: expected an odd number of taps", taps);
  require_input(config.attention.conv_kernel_size.value_or(taps) == taps,
                "--conv {}: {} has a convolution of {} taps, which is kept; leave --conv out", taps,
                where, config.attention.conv_kernel_size.value_or(taps));
  config.attention.conv_kernel_size = taps;
}

void set_positions(ModelConfig& config, const ConvertOptions& options, const ModelFolder& source) {
  const std::string where = printable_path(source.path);
  const std::int64_t old = config.max_position_embeddings, trained = trained_positions(source),
                     length = options.length.value_or(old);
  require_input(!options.length || config.positions != Positions::none,
                "--length {}: {} has no position table and takes any length; leave --length out",
                length, where);
  require_input(length >= trained,
                "--length {}: {} has {} {}positions already; choose at least as many", length,
                where, trained, trained < old ? "trained " : "");
  require_input(options.landmarks <= length || !config.longest_sequence(),
                "--landmarks {} exceeds the {} positions; a sequence has no more landmarks than "
                "tokens: lower it, or raise --length",
                options.landmarks, length);
  config.attention.num_landmarks = options.landmarks;
  config.max_position_embeddings = length;
  config.segment_means_seq_len = options.length ? length : trained_length(source);
}

ModelConfig converted_config(const ModelFolder& source, const ConvertOptions& options) {
  ModelConfig config = source.config;
  const std::string where = printable_path(source.path);
  require_input(has_exact_attention(config),
                "{}: its attention is {}, and nystrom convert turns exact attention (softmax); "
                "nystrom extend makes a model longer",
                where, describe_kinds(config));
  set_layers(config, options);
  set_convolution(config, options, where);
  set_positions(config, options, source);
  require_none(where + " as a Nyström encoder", problems(config));
  return config;
}

/// The model of `source` under another configuration, with its weights. The position table of a
/// given `length` has the trained rows, and more as `positions` says. Parameters that `source`
/// lacks are 0.
std::unique_ptr<Model> rebuilt_model(const ModelFolder& source, const ModelConfig& config,
                                     std::optional<std::int64_t> length, NewPositions positions) {
  const std::int64_t trained = trained_positions(source);
  const bool longer = config.has_position_table() && length.value_or(0) > trained;
  require_input(longer || positions == NewPositions::tile,
                "--positions interpolate: {}; leave it out",
                config.has_position_table()
                    ? "without a larger --length no position is new"
                    : fmt::format("{} has no position table to stretch (positions: {})",
                                  printable_path(source.path), enum_name(config.positions)));
  const auto old = load_model(source, DType::f32, StoreMode::inference);
  auto model = std::make_unique<Model>(config);
  model->parameters().allocate(DType::f32, StoreMode::inference);
  for (const Parameter& parameter : model->parameters().parameters())
    model->parameters().set(parameter.name(), Tensor::zeros(parameter.shape(), DType::f32));
  for (const Parameter& parameter : old->parameters().parameters()) {
    const std::string& name = parameter.name();
    const Tensor values = old->parameters().master(name);
    model->parameters().set(
        name, length && name == table_name
                  ? extended_positions(values.slice(0, 0, config.position_offset + trained),
                                       config.position_offset, *length, positions)
                  : values);
  }
  return model;
}

// ---- Comparison of a model and the Nyström encoder that it was converted into -------------------

constexpr std::int64_t study_batch = 16, studied_sequences = 8;

/// Adds the errors of one layer on one sequence, weighted by `share`.
void add_errors(const ModelConfig& parent, const AttentionInputs& in, const Tensor& exact,
                double share, LayerError& layer) {
  ModelConfig config = parent.without_window();  // of other layers
  config.attention.semantics = Semantics::nystrom;
  for (std::size_t i = 0; i < compared_landmarks.size(); ++i) {
    config.attention.num_landmarks = compared_landmarks[i];
    const std::vector<double> heads = relative_errors(NystromAttention(config)(in).value(), exact);
    layer.errors[i] += share * std::accumulate(heads.begin(), heads.end(), 0.0) /
                       static_cast<double>(heads.size());
  }
}

}  // namespace

std::int64_t trained_positions(const ModelFolder& source) {
  const std::int64_t all = source.config.max_position_embeddings;
  // Bags are read whole, whatever data.sequence_length is.
  if (!source.config.has_position_table() || source.config.embed_dim ||
      !fs::exists(source.path / "state.json") || !fs::exists(source.path / "config.yaml"))
    return all;
  const RunConfig run = read_resolved_config((source.path / "config.yaml").string());
  const RunState state = RunState::read(source.path / "state.json");
  if (run.start.from || state.step == 0) return all;
  std::int64_t longest = 0;
  for (const Stage& stage : stages_of(run))
    if (stage.begin < state.next_batch()) longest = std::max(longest, stage.length);
  return std::min(longest, all);
}

Tensor extended_positions(const Tensor& table, std::int64_t offset, std::int64_t length,
                          NewPositions positions) {
  const std::int64_t width = table.dim(1), old = table.dim(0) - offset;
  require(old >= 1 && length >= 1, "extended_positions: from {} to {} positions", old, length);
  const std::vector<double> from = table.to_doubles();
  const auto row = [&](std::int64_t position) { return from.data() + (offset + position) * width; };
  std::vector<float> to(from.begin(), from.begin() + offset * width);
  for (std::int64_t i = 0; i < length; ++i) {
    const double place = positions == NewPositions::tile || length == 1
                             ? static_cast<double>(i % old)
                             : static_cast<double>(i) * static_cast<double>(old - 1) /
                                   static_cast<double>(length - 1);
    const auto lower = static_cast<std::int64_t>(place), upper = std::min(lower + 1, old - 1);
    const double share = place - static_cast<double>(lower);
    for (std::int64_t j = 0; j < width; ++j)
      to.push_back(static_cast<float>((1 - share) * row(lower)[j] + share * row(upper)[j]));
  }
  return Tensor::from(to, {offset + length, width});
}

FolderFiles files_made_of(const ModelFolder& source, ModelConfig config,
                          std::shared_ptr<const Tokenizer> tokenizer, std::int64_t longest) {
  // A folder of Hugging Face may have the defaults of its class in their place.
  if (tokenizer) set_text_ends(config, tokenizer->special());
  FolderFiles files{{}, std::move(tokenizer), longest};
  files.texts["config.json"] = config_text_of(source, config);
  if (const std::string types = label_types_of(source); !types.empty())
    files.texts[label_types_file] = types;
  return files;
}

void write_model_folder(const FolderFiles& files, const Model& model, const fs::path& folder) {
  const fs::path place = require_empty_target(folder);
  const std::string beyond = model.parameters().not_finite();
  require_input(beyond.empty(), "tensor {} is not finite, and no command reads such weights",
                beyond);
  NewFolder written(place);
  for (const auto& [name, text] : files.texts) write_text_file(written.path() / name, text);
  write_safetensors(written.path() / "model.safetensors", weight_tensors(model));
  if (files.tokenizer)
    write_tokenizer(*files.tokenizer, written.path(), files.longest,
                    model.config().type_vocab_size > 0);
  check_interruption();
  written.commit();
}

void write_model_folder(const ModelFolder& source, const Model& model, std::int64_t longest,
                        const fs::path& folder, Log& log) {
  const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer_of(source);
  write_model_folder(files_made_of(source, model.config(), tokenizer, longest), model, folder);
  if (has_generator(source))
    log.say(
        fmt::format("note: the generator of {} is left out; a run that starts from {} has a "
                    "fresh one",
                    printable_path(source.path), printable_path(folder)));
  if (!tokenizer && !model.config().embed_dim)
    log.say(fmt::format("note: {} has no tokenizer, so neither has {}", printable_path(source.path),
                        printable_path(folder)));
}

std::unique_ptr<Model> extend_model(const ModelFolder& source, const ExtendOptions& options) {
  return rebuilt_model(source, extended_config(source, options), options.length, options.positions);
}

std::unique_ptr<Model> convert_model(const ModelFolder& source, const ConvertOptions& options) {
  return rebuilt_model(source, converted_config(source, options), options.length,
                       options.positions);
}

void require_kept(const std::vector<std::string>& overrides, const ModelConfig& before,
                  const ModelConfig& after) {
  RunConfig old, now;
  old.model = before;
  now.model = after;
  std::map<std::string, std::string> values;
  for (const auto& [option, value] : option_values(old)) values[option] = value;
  for (const std::string& given : overrides) {
    const std::set<std::string> named = options_in(std::span(&given, 1));
    for (const auto& [option, value] : option_values(now))
      require_input(!named.contains(option) || values[option] == value,
                    "--set {}: the command sets {} itself, to {}; use its own options",
                    printable(given, 80), option, printable(value, 40));
  }
}

std::optional<std::int64_t> LayerError::advised_landmarks(std::int64_t length) const {
  for (std::size_t i = 0; i < compared_landmarks.size(); ++i)
    if (compared_landmarks[i] < length && errors[i] <= advised_error) return compared_landmarks[i];
  return std::nullopt;
}

ConversionStudy study_conversion(
    const Model& parent, const Model& converted, const MaskedSamples& samples,
    const std::function<void(std::int64_t done, std::int64_t total)>& progress) {
  const std::int64_t size = samples.packing->size();
  const std::vector<Batch> sequences = longest_sequences(samples, studied_sequences);
  const std::int64_t total = 2 * size + std::ssize(sequences);
  Communicator alone;
  const auto evaluate = [&](const Model& model, std::int64_t before) {
    return evaluate_masked_lm(model, samples, study_batch, alone,
                              [&](std::int64_t done) { progress(before + done, total); });
  };
  ConversionStudy study;
  study.parent = evaluate(parent, 0);
  study.converted = evaluate(converted, size);
  study.sequences = std::ssize(sequences);
  study.layers.resize(static_cast<std::size_t>(parent.config().num_hidden_layers));
  for (std::int64_t done = 0; const Batch& sequence : sequences) {
    study.sequence_length = std::max(study.sequence_length, sequence.tokens);
    std::size_t layer = 0;
    RunContext run;
    run.observe_attention = [&](const AttentionInputs& in, const Var& exact) {
      check_interruption();
      add_errors(parent.config(), in, exact.value(), 1 / static_cast<double>(sequences.size()),
                 study.layers[layer++]);
    };
    parent.masked_lm_logits(sequence.input, {0}, run);
    progress(2 * size + ++done, total);
  }
  return study;
}

}  // namespace nystrom
