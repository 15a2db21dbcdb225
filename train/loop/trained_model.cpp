#include "train/loop/trained_model.h"

#include <algorithm>
#include <cmath>

#include "train/distributed/replicas.h"
#include "train/optim/parameter_groups.h"
#include "train/state/model_folder.h"
#include "train/state/run_folder.h"
#include "train/state/safetensors.h"

namespace nystrom {

namespace fs = std::filesystem;

std::string changed_computation(const RunSpec& spec) {
  if (!spec.start) return "";
  const ModelConfig &before = spec.start->config, &now = spec.options.model;
  std::vector<std::string> keys = {"attention.", "num_attention_heads", "hidden_act",
                                   "norm",       "layer_norm_eps",      "position",
                                   "rope_theta", "local_rope_theta",    "mlp"};
  const auto add = [&](std::initializer_list<const char*> more) {
    if (!spec.options.start.fresh_head) keys.insert(keys.end(), more.begin(), more.end());
  };
  const bool of_tokens = now.head == Head::masked_lm || now.head == Head::replaced_tokens;
  if (before.head == now.head && of_tokens) add({"transform_act", "tie_word_embeddings"});
  if (before.head == now.head && !of_tokens) add({"pooling", "classifier_act", "transform_act"});
  const bool makes_vectors = spec.start->modules || before.embedding != EmbeddingConfig{} ||
                             (before.head == Head::none && settings_beside(spec.start->path));
  if (now.head == Head::none && makes_vectors)
    add({"embedding.pooling", "embedding.normalize", "embedding.dense",
         "embedding.projection_act"});
  RunConfig old, run;
  old.model = before;
  run.model = now;
  if (!before.has_kind(AttentionKind::nystrom) || !now.has_kind(AttentionKind::nystrom)) {
    // Options of landmarks change nothing where one of both has none.
    AttentionConfig& of_run = run.model.attention;
    of_run.num_landmarks = before.attention.num_landmarks;
    of_run.landmark_source = before.attention.landmark_source;
    of_run.inverse = before.attention.inverse;
    of_run.inverse_iterations = before.attention.inverse_iterations;
  }
  std::vector<std::string> changed = changed_options(old, run);
  std::erase_if(changed, [&](const std::string& option) {
    return std::ranges::none_of(
        keys, [&](const std::string& key) { return option.starts_with("model." + key); });
  });
  return changed.empty() ? ""
                         : fmt::format("its weights were trained with other options: {}",
                                       fmt::join(changed, ", "));
}

TrainedModel::TrainedModel(const RunSpec& spec, std::vector<int> micro_batch_ranks, Device device,
                           Communicator& communicator)
    : spec_(spec),
      communicator_(communicator),
      sharded_(communicator.is_connected() && spec.options.training.zero > 0),
      model_(spec.options.model) {
  const RunConfig& config = spec.options;
  if (communicator.is_connected() || config.training.deterministic)
    gradient_sum_.emplace(
        model_.parameters(), communicator, std::move(micro_batch_ranks),
        GradientSumOptions{.deterministic = config.training.deterministic,
                           .sharded = sharded_,
                           .rounded = config.training.reduction == Reduction::bf16,
                           .undivided = undivided_ranges(model_.parameters(), config.optimizer)});
  freeze_parameters(model_.parameters(), config.optimizer);
  const auto own_range = sharded_ ? std::optional(gradient_sum_->own_range()) : std::nullopt;
  model_.parameters().allocate(config.training.dtype, StoreMode::training, device, own_range);
  optimizer_.emplace(model_.parameters(), config.optimizer, own_range);
}

void TrainedModel::initialise(Log& log, std::optional<double> first_value) {
  const RunConfig& config = spec_.options;
  const auto seed = static_cast<std::uint64_t>(config.seed);
  ParameterStore& store = model_.parameters();
  const std::string output = "classifier.out_proj.bias";
  bool is_new = true;
  const auto place = config.tokenizer.path ? tokenizer_place(spec_) : std::nullopt;
  if (place && !(spec_.start && *place == spec_.start->path))
    for (const std::string& line : tokenizer_notices(*place)) log.say(line);
  for (const std::string& line : spec_.notices)
    line.starts_with(warning_mark) ? log.record(line) : log.say(line);
  if (spec_.start) {
    if (spec_.start->config.head == config.model.head && !config.start.fresh_head)
      for (const std::string& line : decoder_notices(spec_.start->with(config.model)))
        log.say(line);
    if (const std::string notice = semantics_notice(config.model); !notice.empty()) log.say(notice);
    const StartWeights weights =
        initialise_from(model_, *spec_.start, seed, config.start.fresh_head);
    log.say(weights.summary(spec_.start->path));
    if (const std::string changed = changed_computation(spec_); !changed.empty())
      log.say("note: " + changed);
    is_new = std::ranges::find(weights.fresh, output) != weights.fresh.end();
  } else {
    store.initialise(seed, config.model.initializer_range);
  }
  if (first_value && is_new && store.has(output)) {
    const Tensor value = Tensor::full({1}, *first_value, DType::f64);
    if (std::isfinite(value.cast(accumulate_dtype(config.training.dtype)).cast(DType::f64).item()))
      store.set(output, value);
  }
  start_average();
}

void TrainedModel::read(const fs::path& checkpoint, std::int64_t updates) {
  const auto weights = TensorFile::open(checkpoint / "model.safetensors");
  ParameterStore& store = model_.parameters();
  start_average();
  with_ema_weights([&] {  // model.safetensors holds the average
    for (const Parameter& parameter : store.parameters())
      store.set(parameter.name(), weights.read(parameter.name()));
    read_optimizer_files(checkpoint, store, optimizer_->range(), optimizer_slabs());
  });
  optimizer_->set_steps_taken(updates);
}

void TrainedModel::start_average() {
  const auto& ema = spec_.options.training.ema;
  if (!ema) return;
  average_.emplace(model_.parameters(), *ema, optimizer_->range(), [this] {
    if (gradient_sum_) gradient_sum_->share_parameters();
  });
}

void TrainedModel::update_average() {
  if (average_) average_->update(optimizer_->steps_taken());
}

void TrainedModel::with_ema_weights(const std::function<void()>& f) {
  if (average_)
    average_->with_average(f);
  else
    f();
}

/// The optimizer's state. While the model has its averaged weights, the average holds the trained
/// ones.
std::vector<NamedTensor> TrainedModel::optimizer_slabs() const {
  std::vector<NamedTensor> slabs = optimizer_->state();
  if (average_) slabs.push_back({"weight", average_->slab()});
  return slabs;
}

void TrainedModel::save(CheckpointFolder& checkpoints, std::int64_t step,
                        const std::vector<CheckpointFolder::File>& others) {
  const ParameterStore& store = model_.parameters();
  with_ema_weights([&] {
    const Tensor masters = gradient_sum_ ? gradient_sum_->masters_for_first() : store.masters();
    if (!communicator_.is_first() && !sharded_) return;
    const std::vector<NamedTensor> slabs = optimizer_slabs();
    std::vector<NamedTensor> tensors = tensors_of(store, optimizer_->range(), slabs);
    if (!communicator_.is_first()) return write_own_optimizer_files(tensors, communicator_);
    std::vector<CheckpointFolder::File> files =
        optimizer_files(std::move(tensors), sharded_, communicator_);
    const std::vector<NamedTensor> weights = weight_tensors(model_, masters);
    files.push_back({"model.safetensors", [&weights](const fs::path& path) {
                       return write_safetensors(path, weights);
                     }});
    files.insert(files.end(), others.begin(), others.end());
    constexpr std::int64_t small_files = std::int64_t{1} << 20;
    checkpoints.save(step, files, (1 + std::ssize(slabs)) * masters.bytes() + small_files);
    if (sharded_) communicator_.from_first("");  // ends write_own_optimizer_files
  });
}

void TrainedModel::require_same_in_all(const std::string& reason) {
  if (communicator_.size() == 1) return;
  std::vector<Tensor> slabs = {sharded_ ? model_.parameters().values()
                                        : model_.parameters().masters()};
  if (!sharded_)
    for (const NamedTensor& slab : optimizer_slabs()) slabs.push_back(slab.tensor);
  require_same_replicas(communicator_, fingerprint(slabs),
                        sharded_ ? "weights" : "weights or moments", reason);
}

}  // namespace nystrom
