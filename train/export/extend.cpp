#include "train/export/extend.h"

#include <algorithm>
#include <cmath>

#include "core/base/file_io.h"
#include "core/base/new_folder.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "train/export/export.h"
#include "train/state/hf_config.h"

namespace nystrom {
namespace {

constexpr const char* table_name = "nystromformer.embeddings.position_embeddings.weight";

ModelConfig extended_config(const ModelFolder& source, const ExtendOptions& options) {
  ModelConfig config = source.config;
  const std::string where = printable_path(source.path);
  const std::int64_t old = config.max_position_embeddings,
                     landmarks = options.landmarks.value_or(config.attention.num_landmarks);
  require_input(!config.has_kind(AttentionKind::linformer),
                "{}: linformer's projections have weights for each of its {} positions, and none "
                "for more; pretrain a model with "
                "max_position_embeddings {} anew, or choose another attention.kind",
                where, old, options.length);
  require_input(config.positions != Positions::none,
                "{}: the model has no position table; it takes sequences of any length as it is",
                where);
  require_input(options.length >= old,
                "--length {}: {} has {} positions already; choose a larger length", options.length,
                where, old);
  require_input(
      options.length > old || landmarks != config.attention.num_landmarks,
      "--length {}: {} has that many positions and {} landmarks already; choose a larger length",
      options.length, where, landmarks);
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
  const std::vector<std::string> wrong = messages_of(problems(config));
  require_input(wrong.empty(), "{} with {} positions: {}", where, options.length,
                fmt::join(wrong, "; "));
  return config;
}

}  // namespace

std::span<const EnumName<NewPositions>> enum_names(NewPositions) {
  static constexpr EnumName<NewPositions> names[] = {{NewPositions::tile, "tile"},
                                                     {NewPositions::interpolate, "interpolate"}};
  return names;
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

std::unique_ptr<Model> rebuilt_model(const ModelFolder& source, const ModelConfig& config,
                                     NewPositions positions) {
  const auto old = load_model(source.path, source.config, DType::f32, StoreMode::inference);
  auto model = std::make_unique<Model>(config);
  model->parameters().allocate(DType::f32, StoreMode::inference);
  for (const Parameter& parameter : model->parameters().parameters())
    model->parameters().set(parameter.name(), Tensor::zeros(parameter.shape(), DType::f32));
  const bool longer = config.has_position_table() &&
                      config.max_position_embeddings > source.config.max_position_embeddings;
  for (const Parameter& parameter : old->parameters().parameters()) {
    const std::string& name = parameter.name();
    const Tensor values = old->parameters().master(name);
    model->parameters().set(name,
                            longer && name == table_name
                                ? extended_positions(values, config.position_offset,
                                                     config.max_position_embeddings, positions)
                                : values);
  }
  return model;
}

void write_model_folder(const ModelFolder& source, const Model& model, std::int64_t longest,
                        const std::filesystem::path& folder, Log& log) {
  const std::filesystem::path place = require_empty_target(folder);
  const auto tokenizer = open_tokenizer_of(source);
  ModelConfig config = model.config();
  // A folder of Hugging Face may have the defaults of its class in their place.
  if (tokenizer) set_text_ends(config, tokenizer->special());
  NewFolder written(place);
  write_text_file(written.path() / "config.json", config_text_of(source, config));
  write_safetensors(written.path() / "model.safetensors", weight_tensors(model));
  if (has_generator(source.path))
    log.say(
        fmt::format("note: the generator of {} is left out; a run that starts from {} has a "
                    "fresh one",
                    printable_path(source.path), printable_path(folder)));
  if (tokenizer) {
    write_tokenizer(*tokenizer, written.path(), longest);
  } else if (!config.embed_dim) {
    log.say(fmt::format("note: {} has no tokenizer, so neither has {}", printable_path(source.path),
                        printable_path(folder)));
  }
  written.commit();
}

std::unique_ptr<Model> extend_model(const ModelFolder& source, const ExtendOptions& options) {
  return rebuilt_model(source, extended_config(source, options), options.positions);
}

}  // namespace nystrom
