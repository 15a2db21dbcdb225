#include "train/export/forward.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "core/base/suggest.h"
#include "core/check.h"
#include "data/tasks/feature_file.h"

namespace nystrom {
namespace {

std::string place(const Shape& shape, std::int64_t index) {
  std::string text;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    text = fmt::format("{}{}{}", index % shape[axis], text.empty() ? "" : ", ", text);
    index /= shape[axis];
  }
  return text;
}

/// Returns the elements of a tensor of integers. Double would lose integers beyond 2⁵³.
std::vector<std::int64_t> whole_numbers(const Tensor& tensor) {
  const Tensor flat = tensor.contiguous();
  const auto copied = [&](const auto* values) {
    return std::vector<std::int64_t>(values, values + flat.numel());
  };
  switch (flat.dtype()) {
    case DType::i64: return copied(flat.data<std::int64_t>());
    case DType::i32: return copied(flat.data<std::int32_t>());
    default: return copied(flat.data<std::uint8_t>());
  }
}

void require_not_empty(const char* name, const Shape& shape) {
  require_input(shape.numel() > 0,
                "{} are {}; expected at least one sequence of at least one position", name, shape);
}

/// The inputs of one call, selected by name and checked one by one.
class Inputs {
 public:
  explicit Inputs(const NamedTensors& tensors) : tensors_(tensors) {}

  bool has(const std::string& name) {
    known_.insert(name);
    return tensors_.contains(name);
  }

  const Tensor& any(const std::string& name) {
    require_input(has(name), "the input has no tensor {}{}", name, did_you_mean(name, names()));
    used_.insert(name);
    return tensors_.at(name);
  }

  /// Returns integers as i64. Throws an InputError for a value outside lowest … highest that is not
  /// `also`.
  Tensor integers(const std::string& name, const Shape& shape, std::int64_t lowest,
                  std::int64_t highest, std::optional<std::int64_t> also = {}) {
    const Tensor& tensor = any(name);
    require_input(!is_float(tensor.dtype()), "{} is {}; expected i64, i32 or u8", name,
                  tensor.dtype());
    require_input(tensor.shape() == shape, "{} is {}; expected {}", name, tensor.shape(), shape);
    std::vector<std::int64_t> values;
    for (const std::int64_t v : whole_numbers(tensor)) {
      // A message takes longer than a comparison.
      if ((v < lowest || v > highest) && v != also)
        throw InputError(fmt::format("{}[{}] is {}; expected {} … {}{}", name,
                                     place(shape, std::ssize(values)), v, lowest, highest,
                                     also ? fmt::format(" or {}", *also) : ""));
      values.push_back(v);
    }
    return Tensor::from(values, shape);
  }

  /// Throws an InputError for a number that is not finite or larger than `most`, unless `mask` says
  /// that its row, of the last axis, is padding.
  Tensor floats(const std::string& name, const Shape& shape, const Tensor& mask = {},
                double most = std::numeric_limits<double>::max()) {
    const Tensor& tensor = any(name);
    require_input(is_float(tensor.dtype()), "{} is {}; expected f32", name, tensor.dtype());
    require_input(tensor.shape() == shape, "{} is {}; expected {}", name, tensor.shape(), shape);
    const std::vector<double> values = tensor.to_doubles();
    for (std::int64_t i = 0; i < std::ssize(values); ++i) {
      const bool padding = mask.defined() && mask.data<std::uint8_t>()[i / shape[-1]] == 0;
      if (!(std::abs(values[i]) <= most) && !padding)
        throw InputError(fmt::format(
            "{}[{}] is {}; expected a finite number{}", name, place(shape, i), values[i],
            std::isfinite(values[i]) ? fmt::format(" up to {:g}", most) : ""));
    }
    return tensor;
  }

  /// Returns numbers of any type, which must be 0 or 1, as i64.
  Tensor decisions(const std::string& name, const Shape& shape) {
    if (!is_float(any(name).dtype())) return integers(name, shape, 0, 1);
    std::vector<std::int64_t> values;
    for (const double v : floats(name, shape).to_doubles()) {
      if (v != 0 && v != 1)
        throw InputError(fmt::format("{}[{}] is {}; expected 0 or 1", name,
                                     place(shape, std::ssize(values)), v));
      values.push_back(v == 1);
    }
    return Tensor::from(values, shape);
  }

  void require_all_used() const {
    const std::vector<std::string> known(known_.begin(), known_.end());
    for (const auto& [name, tensor] : tensors_)
      require_input(used_.contains(name),
                    "the model has no use for the input tensor {}{}; it takes {}", name,
                    did_you_mean(name, known), fmt::join(known, ", "));
  }

 private:
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& [name, tensor] : tensors_) result.push_back(name);
    return result;
  }

  const NamedTensors& tensors_;
  std::set<std::string> known_, used_;  // requested names; requested names that exist
};

Tensor as_mask(const Tensor& ones_and_zeros) {
  const auto* numbers = ones_and_zeros.data<std::int64_t>();
  return Tensor::from(std::vector<std::uint8_t>(numbers, numbers + ones_and_zeros.numel()),
                      ones_and_zeros.shape());
}

/// Builds the model's input. The choices of multiple-choice samples and the two texts of towers
/// become rows.
ModelInput model_input(const ModelConfig& config, Inputs& inputs) {
  ModelInput result;
  Shape shape, rows;
  if (config.embed_dim) {
    const Tensor& features = inputs.any("features");
    require_input(features.rank() == 3, "features are {}; expected [b, n, {}]", features.shape(),
                  *config.embed_dim);
    require_not_empty("features", features.shape());
    rows = shape = features.shape().without(-1);
  } else {
    // Choices, or the texts of two towers, are rows of a sample: [b, rows, n].
    const bool several = config.head == Head::multiple_choice || config.has_towers();
    shape = inputs.any("input_ids").shape();
    require_input(shape.rank() == (several ? 3 : 2) && (!config.has_towers() || shape[1] == 2),
                  "input_ids are {}; expected {}", shape,
                  config.has_towers() ? "[b, 2, n]"
                  : several           ? "[b, choices, n]"
                                      : "[b, n]");
    require_not_empty("input_ids", shape);
    rows = several ? Shape{shape[0] * shape[1], shape[2]} : shape;
    result.input_ids = inputs.integers("input_ids", shape, 0, config.vocab_size - 1).reshape(rows);
    if (inputs.has("token_type_ids")) {
      require_input(config.type_vocab_size > 0,
                    "token_type_ids: the model has no token types; leave the tensor out");
      result.token_type_ids =
          inputs.integers("token_type_ids", shape, 0, config.type_vocab_size - 1).reshape(rows);
    }
  }
  if (inputs.has("attention_mask"))
    result.attention_mask = as_mask(inputs.integers("attention_mask", shape, 0, 1)).reshape(rows);
  if (config.embed_dim)
    result.features = inputs.floats("features", {shape[0], shape[1], *config.embed_dim},
                                    result.attention_mask, max_feature);
  return result;
}

/// Logits [b, n] whose softmax leaves padding out, as in training.
Var without_padding(const Var& logits, const Tensor& mask) {
  std::vector<double> penalties;
  for (const double valid : mask.to_doubles()) penalties.push_back(valid != 0 ? 0 : -1e9);
  const Tensor penalty = Tensor::from(penalties, logits.shape()).cast(logits.dtype());
  return logits + Var(penalty.to(logits.value().device()));
}

/// Positions [b] in rows of n; those at padding become n, which is beyond the row and ignored.
Tensor beyond_padding(Tensor positions, const Tensor& mask) {
  const std::int64_t length = mask.dim(1);
  for (std::int64_t i = 0; i < positions.numel(); ++i) {
    std::int64_t& position = positions.data<std::int64_t>()[i];
    const std::int64_t read = std::clamp<std::int64_t>(position, 0, length);
    if (read < length && mask.data<std::uint8_t>()[i * length + read] == 0) position = length;
  }
  return positions;
}

/// Labels of tokens; those at padding are ignored.
Tensor without_padding(Tensor labels, const Tensor& mask) {
  for (std::int64_t i = 0; mask.defined() && i < labels.numel(); ++i)
    if (mask.data<std::uint8_t>()[i] == 0) labels.data<std::int64_t>()[i] = ignore_index;
  return labels;
}

/// The number of labels that are not ignored; 1 if all are.
double count_targets(const Tensor& labels) {
  const auto* label = labels.data<std::int64_t>();
  return static_cast<double>(std::max<std::int64_t>(
      1, labels.numel() - std::count(label, label + labels.numel(), ignore_index)));
}

/// The loss for the given labels; undefined without labels. `mask` is that of the model's input.
Var loss_of(const ModelConfig& config, const ModelOutput& out, Inputs& inputs, const Tensor& mask,
            std::int64_t rows) {
  if (config.head == Head::question_answering) {
    const bool start_given = inputs.has("start_positions"), end_given = inputs.has("end_positions");
    if (!start_given && !end_given) return {};
    constexpr std::int64_t anywhere = std::int64_t{1} << 40;
    const Tensor start = inputs.integers("start_positions", {rows}, -anywhere, anywhere);
    const Tensor end = inputs.integers("end_positions", {rows}, -anywhere, anywhere);
    // In transformers' semantics padding is read, in the loss too.
    if (!mask.defined() || config.attention.semantics == Semantics::transformers)
      return question_answering_loss(out.start_logits, out.end_logits, start, end);
    return question_answering_loss(without_padding(out.start_logits, mask),
                                   without_padding(out.end_logits, mask),
                                   beyond_padding(start, mask), beyond_padding(end, mask));
  }
  if (config.head == Head::none || config.head == Head::masked_features || !inputs.has("labels"))
    return {};
  const std::int64_t last =
      config.head == Head::masked_lm ? config.vocab_size - 1 : config.num_labels() - 1;
  switch (config.head) {
    case Head::masked_lm:
    case Head::token_classification: {
      const Tensor labels =
          inputs.integers("labels", out.logits.shape().without(-1), 0, last, ignore_index);
      // Padding without rows has no logits.
      return classification_loss(
          out.logits, config.attends_by_distance() ? without_padding(labels, mask) : labels);
    }
    case Head::replaced_tokens: {
      const Tensor labels =
          without_padding(inputs.integers("labels", out.logits.shape(), 0, 1, ignore_index), mask);
      const Shape decisions{labels.numel(), 1};
      return multi_label_loss(reshape(out.logits, decisions), labels.reshape(decisions),
                              count_targets(labels));
    }
    case Head::sequence_classification:
      if (config.multi_label)
        return multi_label_loss(out.logits,
                                inputs.decisions("labels", {rows, config.num_labels()}));
      if (config.num_labels() == 1)
        return mean_squared_error(reshape(out.logits, {rows}), inputs.floats("labels", {rows}));
      return classification_loss(out.logits,
                                 inputs.integers("labels", {rows}, 0, last, ignore_index));
    case Head::multiple_choice: {
      const std::int64_t samples = inputs.any("input_ids").dim(0), choices = rows / samples;
      return classification_loss(
          reshape(out.logits, {samples, choices}),
          inputs.integers("labels", {samples}, 0, choices - 1, ignore_index));
    }
    default: return {};
  }
}

std::vector<NamedTensor> outputs(const ModelConfig& config, const ModelOutput& out, const Var& loss,
                                 const NamedTensors& inputs, DType dtype) {
  std::vector<NamedTensor> result;
  const auto put = [&](const std::string& name, const Var& value) {
    if (value.defined())
      result.push_back({name, value.value().contiguous().cast(dtype).to(cpu_device)});
  };
  put("last_hidden_state", out.last_hidden_state);
  const Shape choices =
      config.head == Head::multiple_choice ? inputs.at("input_ids").shape().without(-1) : Shape{};
  put("logits", config.head == Head::multiple_choice ? reshape(out.logits, choices) : out.logits);
  put("start_logits", out.start_logits);
  put("end_logits", out.end_logits);
  put("output", out.output);
  put("loss", loss);
  return result;
}

}  // namespace

ModelInput model_input(const ModelConfig& config, const NamedTensors& tensors) {
  Inputs inputs(tensors);
  ModelInput result = model_input(config, inputs);
  inputs.require_all_used();
  return result;
}

std::vector<NamedTensor> run_forward(const Model& model, const NamedTensors& tensors,
                                     bool gradients) {
  const ModelConfig& config = model.config();
  Inputs inputs(tensors);
  const ModelInput input = model_input(config, inputs);
  const DType dtype = accumulate_dtype(model.parameters().dtype());
  Tape tape;
  ModelOutput out = model(input);
  const std::int64_t rows = (config.embed_dim ? input.features : input.input_ids).dim(0);
  if (config.has_class_token())  // a row before those of each sequence
    out.last_hidden_state =
        reshape(out.last_hidden_state, {rows, input.features.dim(1) + 1, config.hidden_size});
  Var loss =
      loss_of(config, out, inputs, input.attention_mask, config.has_towers() ? rows / 2 : rows);
  if (!loss.defined() && out.output.defined() && inputs.has("loss_weights")) {
    const Tensor weights = inputs.floats("loss_weights", out.output.shape());
    loss = sum(cast(out.output, dtype) * weights.cast(dtype).to(out.output.value().device()));
  }
  inputs.require_all_used();
  std::vector<NamedTensor> result = outputs(config, out, loss, tensors, dtype);
  if (!gradients) return result;
  require_input(loss.defined(), "gradients need a loss, and the input holds no labels");
  tape.backward(loss);
  for (const Parameter& parameter : model.parameters().parameters())
    result.push_back({"grad." + parameter.name(),
                      model.parameters().gradient(parameter.name()).cast(dtype).to(cpu_device)});
  return result;
}

}  // namespace nystrom
