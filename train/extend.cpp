#include "train/extend.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/json.h"

namespace nystrom {
namespace {

constexpr const char* table_name = "nystromformer.embeddings.position_embeddings.weight";
constexpr std::int64_t rows_in_front = 2;

ModelConfig extended_config(const ModelFolder& source, const ExtendOptions& options) {
  ModelConfig config = source.config;
  const std::string where = printable_path(source.path);
  const std::int64_t old = config.max_position_embeddings, landmarks = options.landmarks.value_or(config.attention.num_landmarks);
  require_input(config.positions == Positions::absolute, "{}: the model has no position table; it takes sequences of any length as it is",
                where);
  require_input(options.length >= old, "--length {}: {} has {} positions already; choose a larger length", options.length, where, old);
  require_input(options.length > old || landmarks != config.attention.num_landmarks,
                "--length {}: {} has that many positions and {} landmarks already; choose a larger length", options.length, where,
                landmarks);
  require_input(landmarks <= options.length, "--landmarks {} exceeds --length {}; a sequence has no more landmarks than tokens", landmarks,
                options.length);
  const bool exact = config.segment_means_seq_len == config.attention.num_landmarks;
  config.attention.num_landmarks = landmarks;
  config.max_position_embeddings = options.length;
  // Hugging Face's exact case stays one.
  config.segment_means_seq_len = exact && config.attention.semantics == Semantics::transformers ? landmarks : options.length;
  return config;
}

}  // namespace

std::span<const EnumName<NewPositions>> enum_names(NewPositions) {
  static constexpr EnumName<NewPositions> names[] = {{NewPositions::tile, "tile"}, {NewPositions::interpolate, "interpolate"}};
  return names;
}

Tensor extended_positions(const Tensor& table, std::int64_t length, NewPositions positions) {
  const std::int64_t width = table.dim(1), old = table.dim(0) - rows_in_front;
  require(old >= 1 && length >= 1, "extended_positions: from {} to {} positions", old, length);
  const std::vector<double> from = table.to_doubles();
  const auto row = [&](std::int64_t position) { return from.data() + (rows_in_front + position) * width; };
  std::vector<float> to(from.begin(), from.begin() + rows_in_front * width);
  for (std::int64_t i = 0; i < length; ++i) {
    const double place = positions == NewPositions::tile || length == 1
                             ? static_cast<double>(i % old)
                             : static_cast<double>(i) * static_cast<double>(old - 1) / static_cast<double>(length - 1);
    const auto lower = static_cast<std::int64_t>(place), upper = std::min(lower + 1, old - 1);
    const double share = place - static_cast<double>(lower);
    for (std::int64_t j = 0; j < width; ++j) to.push_back(static_cast<float>((1 - share) * row(lower)[j] + share * row(upper)[j]));
  }
  return Tensor::from(to, {rows_in_front + length, width});
}

std::unique_ptr<Model> extend_model(const ModelFolder& source, const ExtendOptions& options) {
  const ModelConfig config = extended_config(source, options);
  const auto old = load_model(source.path, source.config, DType::f32, StoreMode::inference);
  auto model = std::make_unique<Model>(config);
  model->parameters().allocate(DType::f32, StoreMode::inference);
  for (const Parameter& parameter : old->parameters().parameters()) {
    const std::string& name = parameter.name();
    const Tensor values = old->parameters().master(name);
    model->parameters().set(name, name == table_name ? extended_positions(values, options.length, options.positions) : values);
  }
  return model;
}

}  // namespace nystrom
