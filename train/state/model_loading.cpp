// Conversion between a model's weights and those of a model folder.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/checksum.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "nn/weight_loading.h"
#include "train/distributed/replicas.h"
#include "train/state/hf_config.h"
#include "train/state/model_folder.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view encoder_prefix = "nystromformer.";
constexpr std::string_view class_token_name = "nystromformer.embeddings.class_token.weight";
/// What training against a generator adds to a checkpoint.
constexpr std::string_view generator_prefix = "generator.";
/// What training of vectors adds to any encoder.
constexpr std::string_view vector_prefix = "embedding.";
constexpr const char* decoder_name = "cls.predictions.decoder.weight";
constexpr std::string_view bias_name = "cls.predictions.bias";
constexpr std::string_view decoder_bias_name = "cls.predictions.decoder.bias";

/// The one-tap kernels in a folder whose model has no convolution.
std::vector<std::string> absent_convolutions(const ModelConfig& config) {
  std::vector<std::string> names;
  if (config.attention.conv_kernel_size || config.norm != Norm::post)
    return names;  // transformers has no pre-LN layers
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i)
    names.push_back(
        fmt::format("{}encoder.layer.{}.attention.self.conv.weight", encoder_prefix, i));
  return names;
}

Shape absent_convolution_shape(const ModelConfig& config) {
  return {config.num_attention_heads, 1, 1, 1};
}

void require_zero(const std::string& name, const Tensor& kernel) {
  require_input(std::ranges::all_of(kernel.to_doubles(), [](double v) { return v == 0; }),
                "{} is not zero, but config.json says that there is no convolution; --set "
                "model.attention.conv_kernel_size=1 uses it",
                name);
}

constexpr const char* words_name = "nystromformer.embeddings.word_embeddings.weight";

/// The shapes of all parameters, by their names.
std::map<std::string, Shape> shapes_of(const ParameterStore& store) {
  std::map<std::string, Shape> shapes;
  for (const Parameter& parameter : store.parameters())
    shapes[parameter.name()] = parameter.shape();
  return shapes;
}

/// The weights that a model with `head` does not read, of those in a folder of BERT's family.
std::vector<std::string> unread_names(const ModelWeights& weights, const Architecture& architecture,
                                      Head head) {
  std::vector<std::string> names = weights.names();
  std::erase_if(names, [&](const std::string& name) {
    return architecture.parameter_name(name, head) || architecture.is_redundant(name);
  });
  return names;
}

/// Gives tensors the names that they have among `stored`: older files have other names for those of
/// LayerNorm, and files of a bare encoder no prefix.
std::function<std::string(std::string)> naming_of(const Architecture& architecture,
                                                  const std::vector<std::string>& stored) {
  const std::string prefix = std::string(architecture.base) + ".";
  const bool bare =
      std::ranges::none_of(stored, [&](const auto& name) { return name.starts_with(prefix); });
  const bool older = std::ranges::any_of(
      stored, [](const auto& name) { return name.ends_with(".LayerNorm.gamma"); });
  return [=](std::string name) {
    if (bare && name.starts_with(prefix)) name.erase(0, prefix.size());
    for (const auto& [ours, theirs] : {std::pair(".LayerNorm.weight", ".LayerNorm.gamma"),
                                       std::pair(".LayerNorm.bias", ".LayerNorm.beta")})
      if (older && name.ends_with(ours))
        name.replace(name.size() - std::strlen(ours), name.npos, theirs);
    return name;
  };
}

/// The tensors of a folder of BERT's family, with the names of a model of this configuration.
WeightSource source_of(const ModelWeights& weights, const Architecture& architecture,
                       const ModelConfig& config) {
  /// A tensor of the file, or some of its rows.
  struct Place {
    std::string tensor;
    std::int64_t begin = 0, end = 0;
  };
  WeightSource source;
  std::map<std::string, Place> places;
  for (const std::string& stored : weights.names()) {
    const auto name = architecture.parameter_name(stored, config.head);
    if (!name || (*name == decoder_name && config.tie_word_embeddings)) continue;
    const auto [found, is_new] = places.try_emplace(*name, Place{stored});
    std::string& other = found->second.tensor;
    // The decoder's bias is a copy of the head's, or stands for it: transformers adds the
    // decoder's.
    const bool of_decoder = stored.ends_with(".decoder.bias");
    require_input(is_new || of_decoder || other.ends_with(".decoder.bias"),
                  "{} and {} are two names of one tensor; remove one of them", other, stored);
    if (of_decoder) other = stored;
    const Shape& shape = weights.stored(other).shape;
    if (!is_new) {
      std::ranges::find(source.entries, *name, &WeightSource::Entry::name)->shape = shape;
      continue;
    }
    require_input(*name != words_name || shape.rank() != 2 || shape[0] == config.vocab_size,
                  "vocab_size is {}, but {} has {} rows; correct vocab_size in config.json, or "
                  "bring the weights that belong to it",
                  config.vocab_size, stored, shape[0]);
    const std::vector<std::string> parts = architecture.parts_of(*name);
    if (parts.size() == 1) {
      source.entries.push_back({*name, shape});
      continue;
    }
    const std::int64_t rows = shape.rank() > 0 ? shape[0] / std::ssize(parts) : 0;
    require_input(shape.rank() > 0 && rows * std::ssize(parts) == shape[0],
                  "{} is {}; expected rows of queries, keys and values", stored, shape);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::int64_t first = static_cast<std::int64_t>(i) * rows;
      places[parts[i]] = {stored, first, first + rows};
      source.entries.push_back({parts[i], shape.without(0).with(0, rows)});
    }
  }
  source.read = [&weights, places, joint = NamedTensor()](const std::string& name) mutable {
    const auto& [tensor, begin, end] = places.at(name);
    if (begin == end) return weights.read(tensor);
    // Its parts follow each other, and it is read once.
    if (joint.name != tensor) joint = {tensor, weights.read(tensor)};
    return joint.tensor.slice(0, begin, end).contiguous();
  };
  source.name_in_file =
      [&architecture, head = config.head, named = naming_of(architecture, weights.names())](
          const std::string& name) { return named(architecture.tensor_name(name, head)); };
  return source;
}

/// Refuses names of a model within a wrapper, which no model here has.
void refuse_wrapped(const std::vector<std::string>& names, const fs::path& folder) {
  for (const char* prefix :
       {"module.", "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."})
    require_input(names.empty() ||
                      !std::ranges::all_of(
                          names, [&](const std::string& name) { return name.starts_with(prefix); }),
                  "{}: the names of all tensors begin with {}, which a wrapper has added; save the "
                  "model that it "
                  "holds",
                  printable_path(folder), prefix);
}

/// Whether a Nyströmformer's encoder lacks its prefix, as Hugging Face saves one without a head.
bool is_bare(const std::vector<std::string>& stored) {
  return std::ranges::none_of(stored,
                              [](const auto& name) { return name.starts_with(encoder_prefix); });
}

/// The name of a tensor that `is_bare` files have without the prefix, as they have the encoder's.
std::string with_prefix(const std::string& stored) {
  const bool of_encoder =
      std::ranges::any_of(std::array{"embeddings.", "encoder.", "final_norm."},
                          [&](const char* part) { return stored.starts_with(part); });
  return (of_encoder ? std::string(encoder_prefix) : "") + stored;
}

/// The tensors of model.safetensors, with the names of a model of this configuration.
WeightSource source_of_encoder(const ModelFolder& folder, const ModelConfig& config) {
  const ModelWeights& weights = folder.weights();
  refuse_wrapped(weights.names(), folder.path);
  if (folder.architecture)
    return with_context(printable_path(folder.path),
                        [&] { return source_of(weights, *folder.architecture, config); });
  const std::vector<std::string> names = weights.names();
  const bool bare = is_bare(names);
  const std::vector<std::string> absent = absent_convolutions(config);
  WeightSource source;
  const auto stored_name = [&weights, bare](const std::string& name) {
    // Of an untied decoder transformers adds the bias beside it.
    const std::string decoder_bias(decoder_bias_name);
    const bool beside = name == bias_name && weights.contains(decoder_bias);
    if (beside) return decoder_bias;
    return name.substr(bare && name.starts_with(encoder_prefix) ? encoder_prefix.size() : 0);
  };
  for (const std::string& stored : names) {
    std::string name = bare ? with_prefix(stored) : stored;
    if (name == decoder_bias_name) {  // it stands for the head's
      if (weights.contains(std::string(bias_name))) continue;
      name = bias_name;
    }
    const Shape& shape = weights.stored(stored_name(name)).shape;
    if (name == decoder_name && config.tie_word_embeddings) continue;
    if (name.starts_with(generator_prefix) && !config.generator) continue;
    if (shape == absent_convolution_shape(config) &&
        std::ranges::find(absent, name) != absent.end()) {
      with_context(printable_path(folder.path), [&] { require_zero(name, weights.read(stored)); });
    } else {
      source.entries.push_back({name, shape});
    }
  }
  source.read = [&weights, stored_name](const std::string& name) {
    return weights.read(stored_name(name));
  };
  return source;
}

/// Names of a file, for a message.
std::string joined(const std::vector<std::string>& names) {
  return printable(fmt::format("{}", fmt::join(names, ", ")), 200);
}

/// The layers of vectors in a folder of sentence-transformers, in place of those in the weights.
void add_dense(WeightSource& source, const SentenceModules& modules) {
  std::erase_if(source.entries, [](const auto& e) { return e.name.starts_with(vector_prefix); });
  std::map<std::string, Tensor> tensors;
  for (std::size_t i = 0; i < modules.dense.size(); ++i) {
    const bool last = i + 1 == modules.dense.size();
    const std::string name =
        fmt::format("{}{}.", vector_prefix, last ? "projection" : fmt::format("dense.{}", i));
    const auto& [folder, inputs, bias] = modules.dense[i];
    const ModelWeights weights = ModelWeights::open(folder);
    std::vector<std::string> expected = {"linear.bias", "linear.weight"};
    if (!bias) expected.erase(expected.begin());
    const std::vector<std::string> names = weights.names();
    require_input(names == expected,
                  "{}: the weights are {}; expected {}, as its config.json has bias {}",
                  printable_path(folder), names.empty() ? "none" : joined(names),
                  fmt::join(expected, " and "), bias);
    const Tensor weight = weights.read("linear.weight");
    const Shape& shape = weight.shape();
    require_input(shape.rank() == 2 && (inputs == 0 || shape[1] == inputs),
                  "{}: linear.weight is {}; expected two dimensions, the second of which is "
                  "in_features of its config.json",
                  printable_path(folder), shape);
    // A layer without a bias is one with zeros.
    tensors[name + "bias"] =
        bias ? weights.read("linear.bias") : Tensor::zeros({shape[0]}, weight.dtype());
    tensors[name + "weight"] = weight;
  }
  for (const auto& [name, tensor] : tensors) source.entries.push_back({name, tensor.shape()});
  source.read = [tensors, rest = source.read](const std::string& name) {
    const auto found = tensors.find(name);
    return found != tensors.end() ? found->second : rest(name);
  };
}

/// The tensors of a folder, with the names of a model of this configuration.
WeightSource source_of(const ModelFolder& folder, const ModelConfig& config) {
  WeightSource source = source_of_encoder(folder, config);
  if (folder.modules) add_dense(source, *folder.modules);
  return source;
}

/// The own decoder of a folder where a model of this configuration has the word embeddings in its
/// place; empty for all others.
std::string replaced_decoder(const ModelFolder& folder, const ModelConfig& config,
                             const WeightSource& source) {
  if (config.head != Head::masked_lm || !config.tie_word_embeddings) return "";
  if (!folder.own_decoder && folder.config_json->value("tie_word_embeddings", true)) return "";
  const std::string name = source.name_in_file ? source.name_in_file(decoder_name) : decoder_name;
  return folder.weights().contains(name) ? name : "";
}

/// Throws an InputError for a position table of another length and for a head with other labels.
void check_options(const ModelConfig& config, const ModelFolder& folder, bool same_head,
                   bool fresh_head) {
  const ModelConfig& from = folder.config;
  const std::string where = printable_path(folder.path);
  require_input(
      config.vocab_size == from.vocab_size || config.embed_dim || from.embed_dim,
      "model.vocab_size is {}, but {} has {} rows of word embeddings; leave the option out",
      config.vocab_size, where, from.vocab_size);
  require_input(config.max_position_embeddings == from.max_position_embeddings,
                "model.max_position_embeddings is {}, but {} has {}; nystrom extend makes a folder "
                "with a longer table",
                config.max_position_embeddings, where, from.max_position_embeddings);
  require_input(
      folder.architecture == nullptr || !config.attention.conv_kernel_size,
      "model.attention.conv_kernel_size is {0}, but {1} has no convolution; nystrom convert --conv "
      "{0} makes a folder with one",
      config.attention.conv_kernel_size.value_or(0), where);
  // A head of this kind that cannot be read would be replaced in silence.
  if (!fresh_head && !same_head && config.head != Head::none &&
      names_head(*folder.config_json, config.head))
    read_hf_keys(*folder.config_json, printable_path(folder.path / "config.json"));
  if (!same_head ||
      (config.head != Head::sequence_classification && config.head != Head::token_classification))
    return;
  require_input(from.multi_label == config.multi_label,
                "{}: its head gives a text {}, and task.multi_label is {}; change it, or start a "
                "new head with model.fresh_head: true",
                where, from.multi_label ? "any number of labels" : "one label or number",
                config.multi_label);
  const bool regression =
      from.labels.size() == 1 && !from.multi_label;  // its label is a name of the number
  const bool named_alike =
      from.labels == config.labels || stand_for(from.labels, config.labels) || regression;
  require_input(from.labels.size() == 1 || config.labels.size() != 1 || config.multi_label,
                "{}: its head tells {} labels, and the task has one number; start a new head with "
                "model.fresh_head: true",
                where, from.labels.size());
  require_input(
      from.labels.size() == config.labels.size() && named_alike,
      "{}: its head tells {} labels ({}), the task has {} ({}); name the same in task.labels, or "
      "start a new head with model.fresh_head: true",
      where, from.labels.size(), joined(from.labels), config.labels.size(), joined(config.labels));
}

/// The first layer of a head, which ModernBERT's classes share: of the masked-LM head, of others.
constexpr std::string_view transforms[] = {"cls.predictions.transform.", "transform."};

bool is_transform(std::string_view name) {
  return std::ranges::any_of(transforms, [&](auto prefix) { return name.starts_with(prefix); });
}

/// Gives the first layer of another head the names that it has in a model with `head`.
void rename_transform(WeightSource& source, Head head) {
  const auto& [of_masked_lm, of_others] = transforms;
  const bool masked_lm = head == Head::masked_lm;
  const std::string ours(masked_lm ? of_masked_lm : of_others),
      theirs(masked_lm ? of_others : of_masked_lm);
  for (auto& entry : source.entries)
    if (entry.name.starts_with(theirs)) entry.name = ours + entry.name.substr(theirs.size());
  source.read = [ours, theirs, read = source.read](const std::string& name) {
    return read(name.starts_with(ours) ? theirs + name.substr(ours.size()) : name);
  };
}

/// The tensors of a folder that a model of this configuration can start from, and the unused ones.
struct StartSource {
  WeightSource source;
  StartWeights names;
};

StartSource start_source(const ParameterStore& store, const ModelConfig& config,
                         const ModelFolder& folder, bool fresh_head) {
  const bool same_head = folder.config.head == config.head && !fresh_head;
  check_options(config, folder, same_head, fresh_head);
  const Architecture* architecture = folder.architecture;
  ModelConfig stored = config;
  if (architecture == nullptr) stored.head = folder.config.head;
  StartSource result{source_of(folder, stored), {}};
  const auto in_file = [&](const std::string& name) {
    return architecture != nullptr ? result.source.name_in_file(name) : name;
  };
  // The masked-LM head alone is as wide as the embeddings. Of a head that was not read, the
  // activation is unknown.
  const Head from = folder.config.head;
  const bool crosses = (config.head == Head::masked_lm) != (from == Head::masked_lm);
  const bool shares_transform = !same_head && !fresh_head && config.head_transform &&
                                folder.config.head_transform && config.head != Head::none &&
                                config.head != Head::replaced_tokens && from != Head::none &&
                                (!crosses || config.embedding_width() == config.hidden_size);
  if (shares_transform && crosses && architecture == nullptr)
    rename_transform(result.source, config.head);
  const bool other_order = folder.config.sentence_order != config.sentence_order;
  const auto of_head = [&](std::string_view name) {
    if (name.starts_with(generator_prefix)) return fresh_head;
    // The layers behind a vector are of the encoder, or the head of a model that only has vectors.
    if (name.starts_with(vector_prefix)) return fresh_head && config.head == Head::none;
    if (shares_transform && is_transform(name)) return false;
    if (!same_head) return !name.starts_with(encoder_prefix);
    return other_order && name.starts_with(sentence_order_prefix);
  };
  const std::map<std::string, Shape> known = shapes_of(store);
  const auto unused = [&](const WeightSource::Entry& entry) {
    const bool of_other_pooling = !same_head && entry.name == class_token_name;
    const bool of_other_vectors = !same_head && entry.name.starts_with(vector_prefix);
    if (!known.contains(entry.name) &&
        (is_outside_encoder(entry.name) || of_other_pooling || of_other_vectors))
      return true;
    if (of_other_vectors && known.at(entry.name) != entry.shape) return true;
    // A pooler of BERT's family belongs to its encoder. Two towers are too wide for it.
    const bool pooler = architecture != nullptr && architecture->is_of_encoder(in_file(entry.name));
    return of_head(entry.name) && (!pooler || config.has_towers());
  };
  for (const auto& entry : result.source.entries) {
    const bool of_generator = entry.name.starts_with(generator_prefix) && !unused(entry);
    require_input(!of_generator || known.at(entry.name) == entry.shape,
                  "the generator of {} has other sizes; leave pretraining.generator as it was, or "
                  "set model.fresh_head: true",
                  printable_path(folder.path));
    if (unused(entry)) result.names.unused.push_back(in_file(entry.name));
  }
  std::erase_if(result.source.entries, unused);
  if (auto decoder = replaced_decoder(folder, config, result.source); !decoder.empty())
    result.names.unused.push_back(std::move(decoder));
  if (architecture != nullptr)
    for (const std::string& name : unread_names(folder.weights(), *architecture, config.head))
      result.names.unused.push_back(name);
  if (!config.generator && has_generator(folder)) result.names.unused.emplace_back("generator");
  for (const Parameter& parameter : store.parameters()) {
    const std::string& name = parameter.name();
    const bool given =
        std::ranges::any_of(result.source.entries, [&](const auto& e) { return e.name == name; });
    const bool added = name.starts_with(vector_prefix) || name.starts_with(generator_prefix) ||
                       (!same_head && (name == class_token_name || is_transform(name)));
    if ((of_head(name) || added) && !given) result.names.fresh.push_back(name);
  }
  result.names.loaded = store.parameters().size() - result.names.fresh.size();
  const bool named_outputs =
      config.head == Head::sequence_classification || config.head == Head::token_classification;
  if (same_head && named_outputs && config.labels.size() > 1 &&
      config.labels != folder.config.labels)
    result.names.outputs =
        fmt::format("its outputs {} are {} here; task.labels gives another order",
                    joined(folder.config.labels), joined(config.labels));
  return result;
}

}  // namespace

std::unique_ptr<Model> load_model(const ModelFolder& folder, DType dtype, StoreMode mode,
                                  Device device) {
  auto model = std::make_unique<Model>(folder.config);
  const WeightSource source = source_of(folder, folder.config);
  with_context(printable_path(folder.path), [&] { check_weights(model->parameters(), source); });
  model->parameters().allocate(dtype, mode, device);
  with_context(printable_path(folder.path), [&] { load_weights(model->parameters(), source); });
  return model;
}

std::string model_hash(const Model& model) {
  return text_checksum(fmt::format("{} {}", hf_config_text(model.config()),
                                   fingerprint({{model.parameters().values()}})));
}

bool holds_masked_lm_head(const ModelFolder& folder) {
  ModelConfig config = folder.config;
  config.head = Head::masked_lm;
  if (!problems(config).empty() || !folder.has_weights()) return false;
  const Model model(config);
  const WeightSource source = source_of(folder, config);
  return std::ranges::all_of(model.parameters().parameters(), [&](const Parameter& parameter) {
    return parameter.name().starts_with(encoder_prefix) ||
           std::ranges::any_of(source.entries,
                               [&](const auto& entry) { return entry.name == parameter.name(); });
  });
}

bool has_own_decoder(const ModelFolder& folder) {
  const Architecture* architecture = folder.architecture;
  if (!folder.has_weights()) return false;
  const ModelWeights& weights = folder.weights();
  std::string words, decoder;
  const bool bare = is_bare(weights.names());
  for (const std::string& stored : weights.names()) {
    const std::string name =
        architecture == nullptr
            ? (bare ? with_prefix(stored) : stored)
            : architecture->parameter_name(stored, Head::masked_lm).value_or("");
    if (name == words_name) words = stored;
    if (name == decoder_name) decoder = stored;
  }
  if (words.empty() || decoder.empty()) return false;
  const StoredTensor &a = weights.stored(words), &b = weights.stored(decoder);
  if (a.shape != b.shape) return true;
  const auto values = [&](const std::string& name) {
    return weights.read(name).cast(DType::f32).contiguous();
  };
  const Tensor left = values(words), right = values(decoder);
  return std::memcmp(left.data<float>(), right.data<float>(),
                     static_cast<std::size_t>(left.bytes())) != 0;
}

bool has_generator(const ModelFolder& folder) {
  return std::ranges::any_of(folder.weights().names(), [](const std::string& name) {
    return name.starts_with(generator_prefix);
  });
}

std::vector<std::string> unread_tensors(const ModelFolder& folder) {
  std::vector<std::string> names;
  if (folder.architecture)
    names = unread_names(folder.weights(), *folder.architecture, folder.config.head);
  const Model model(folder.config);
  const std::map<std::string, Shape> known = shapes_of(model.parameters());
  const WeightSource source = source_of(folder, folder.config);
  for (const auto& [name, shape] : source.entries)
    if (!known.contains(name) && is_outside_encoder(name))
      names.push_back(source.name_in_file ? source.name_in_file(name) : name);
  if (auto decoder = replaced_decoder(folder, folder.config, source); !decoder.empty())
    names.push_back(std::move(decoder));
  std::ranges::sort(names);
  return names;
}

bool has_unlike_biases(const ModelFolder& folder) {
  const Architecture* architecture = folder.architecture;
  const ModelWeights& weights = folder.weights();
  std::string bias, of_decoder;
  for (const std::string& name : weights.names()) {
    const auto parameter =
        architecture ? architecture->parameter_name(name, folder.config.head) : std::optional(name);
    if (parameter == bias_name || parameter == decoder_bias_name)
      (name.ends_with(".decoder.bias") ? of_decoder : bias) = name;
  }
  return !bias.empty() && !of_decoder.empty() &&
         weights.read(bias).to_doubles() != weights.read(of_decoder).to_doubles();
}

std::string StartWeights::summary(const fs::path& folder) const {
  std::string text = fmt::format("starting from {} tensors of {}", loaded, printable_path(folder));
  // All tensors of a new generator are fresh.
  std::vector<std::string> named;
  for (const std::string& name : fresh)
    if (!name.starts_with(generator_prefix)) named.push_back(name);
  if (named.size() < fresh.size()) named.emplace_back("generator");
  if (!fresh.empty()) text += fmt::format("; fresh: {}", fmt::join(named, ", "));
  if (!unused.empty()) text += fmt::format("; unused: {}", fmt::join(unused, ", "));
  if (!outputs.empty()) text += "; " + outputs;
  return text;
}

void check_start(const ModelConfig& config, const ModelFolder& folder, bool fresh_head) {
  const Model model(config);
  const StartSource start = start_source(model.parameters(), config, folder, fresh_head);
  with_context(printable_path(folder.path),
               [&] { check_weights(model.parameters(), start.source, start.names.fresh); });
}

StartWeights initialise_from(Model& model, const ModelFolder& folder, std::uint64_t seed,
                             bool fresh_head) {
  ParameterStore& store = model.parameters();
  StartSource start = start_source(store, model.config(), folder, fresh_head);
  with_context(printable_path(folder.path),
               [&] { load_weights(store, start.source, start.names.fresh); });
  store.initialise(seed, model.config().initializer_range, start.names.fresh);
  return std::move(start.names);
}

std::vector<NamedTensor> weight_tensors(const Model& model, const Tensor& masters) {
  const ParameterStore& store = model.parameters();
  const auto value_of = [&](std::string_view name) {
    return (masters.defined() ? store.part_of(masters, name) : store.master(name)).to(cpu_device);
  };
  std::vector<NamedTensor> result;
  for (const Parameter& parameter : store.parameters())
    result.push_back({parameter.name(), value_of(parameter.name())});
  // Without the tie transformers reads the bias beside the decoder's weight.
  if (model.config().head == Head::masked_lm && !model.config().tie_word_embeddings)
    result.push_back({std::string(decoder_bias_name), value_of("cls.predictions.bias")});
  const DType type = result.front().tensor.dtype();
  for (const std::string& name : absent_convolutions(model.config()))
    result.push_back({name, Tensor::zeros(absent_convolution_shape(model.config()), type)});
  return result;
}

}  // namespace nystrom
