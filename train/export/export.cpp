#include "train/export/export.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/file_io.h"
#include "core/base/interruption.h"
#include "core/base/new_folder.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "train/export/onnx_model.h"
#include "train/objectives/task_settings.h"
#include "train/objectives/text_embedder.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

/// Joins the tensors that are one tensor in a folder of `architecture`.
void join_projections(std::vector<NamedTensor>& weights, const Architecture& architecture) {
  std::map<std::string, Tensor> by_name;
  for (const NamedTensor& weight : weights) by_name[weight.name] = weight.tensor;
  std::set<std::string> joined;
  for (NamedTensor& weight : weights) {
    const std::vector<std::string> parts = architecture.parts_of(weight.name);
    if (parts.size() == 1) continue;
    std::vector<Var> tensors;
    for (const std::string& part : parts) tensors.emplace_back(by_name.at(part));
    joined.insert(parts.begin() + 1, parts.end());
    weight.tensor = concat(tensors, 0).value();
  }
  std::erase_if(weights, [&](const NamedTensor& weight) { return joined.contains(weight.name); });
}

/// Gives the tensors their names in a folder of `architecture`. Its sentence_transformers files
/// hold the layers of vectors.
void rename(std::vector<NamedTensor>& weights, const Architecture& architecture, Head head) {
  std::erase_if(weights,
                [](const NamedTensor& weight) { return weight.name.starts_with("embedding."); });
  const std::string decoder =
      architecture.tensor_name("cls.predictions.decoder.weight", Head::masked_lm);
  const std::string base = std::string(architecture.base) + ".";
  join_projections(weights, architecture);
  for (NamedTensor& weight : weights) {
    weight.name = weight.name == "cls.predictions.decoder.bias"
                      ? decoder.substr(0, decoder.rfind('.')) + ".bias"
                      : architecture.tensor_name(weight.name, head);
    if (head == Head::none && weight.name.starts_with(base)) weight.name.erase(0, base.size());
  }
  // Where the bias of the head is the decoder's own, its copy is not another tensor.
  std::set<std::string> names;
  std::erase_if(weights, [&](const NamedTensor& each) { return !names.insert(each.name).second; });
}

/// The weights of the exported model. Transformers' Nyströmformer alone needs zero kernels.
std::vector<NamedTensor> f32_weights(const Model& model, const ModelConfig& exported, bool classes,
                                     const Architecture* architecture) {
  std::vector<NamedTensor> weights = weight_tensors(model);
  std::erase_if(weights, [&](const NamedTensor& weight) {
    return (!exported.sentence_order && weight.name.starts_with(sentence_order_prefix)) ||
           ((classes || architecture) && !exported.attention.conv_kernel_size &&
            weight.name.ends_with("conv.weight"));
  });
  for (NamedTensor& weight : weights) weight.tensor = weight.tensor.cast(DType::f32);
  if (architecture) rename(weights, *architecture, exported.head);
  return weights;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (!entry.is_directory()) names.push_back(fs::relative(entry.path(), folder).string());
  std::sort(names.begin(), names.end());
  return names;
}

/// Throws an InputError for layers whose weights exact attention has no place for.
void require_plain_weights(const ModelConfig& config) {
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const AttentionKind kind = config.kind_of(layer);
    const bool gated = kind == AttentionKind::nystrom && config.has_window(layer);
    require_input(!gated && kind != AttentionKind::linformer && kind != AttentionKind::reformer,
                  "cannot be exported with exact attention: layer {} has {}, with weights of its "
                  "own; leave the option out",
                  layer, gated ? "a window beside its landmarks" : enum_name(kind));
  }
}

/// Whether the folder of an export as a Nyströmformer holds model_classes(): transformers' own
/// classes compute something else, at least for a batch with padding.
bool needs_model_classes(const ModelConfig& exported, ExportFormat format) {
  return format != ExportFormat::transformers &&
         (!computed_by_transformers(exported) || convolution_reads_padding(exported));
}

/// The reason why a folder of `architecture` cannot hold the exported model; empty if it can.
std::string obstacle_of(const Architecture& architecture, const ModelConfig& exported,
                        const ExportOptions& options) {
  if (!options.sentence_transformers && exported.embedding != EmbeddingConfig{})
    return "model.embedding is not the default, which only files of sentence-transformers state "
           "there; add --sentence-transformers";
  return architecture_obstacle(exported, architecture);
}

/// The architecture of the folder that is written; null: a Nyströmformer.
const Architecture* architecture_of_export(const ModelFolder& source, const ModelConfig& exported,
                                           const ExportOptions& options) {
  if (const Architecture* named = find_architecture(enum_name(options.format))) {
    const std::string obstacle = obstacle_of(*named, exported, options);
    require_input(obstacle.empty(),
                  "{}: cannot be exported as {}: {}; leave out --format, and the folder holds a "
                  "class that computes it",
                  printable_path(source.path), named->model_type, obstacle);
    return named;
  }
  if (options.format != ExportFormat::automatic || exported.sentence_order) return nullptr;
  std::vector<const Architecture*> candidates = {source.architecture};
  // CamemBERT and XLM-RoBERTa compute the same as RoBERTa.
  for (const char* type : {"bert", "roberta", "distilbert", "electra", "modernbert"})
    candidates.push_back(find_architecture(type));
  const auto fitting = std::ranges::find_if(candidates, [&](const Architecture* each) {
    return each && obstacle_of(*each, exported, options).empty();
  });
  return fitting == candidates.end() ? nullptr : *fitting;
}

/// Remarks for the user on `card`.config, which was made of `source`.
std::vector<std::string> notes_of(const ModelFolder& source, const ModelCard& card) {
  std::vector<std::string> notes;
  if (!card.architecture && (!card.has_classes || computed_by_transformers(card.config)))
    notes = export_notes(card.config);
  if (source.config.sentence_order && !card.config.sentence_order)
    notes.push_back(
        "the sentence-order head (cls.seq_relationship) is left out: transformers' class has none");
  const auto task = task_of(source.config) ? kept_task(source) : nlohmann::ordered_json();
  if (task.contains("windows"))
    notes.push_back(fmt::format(
        "other programs read the beginning of a long text alone; nystrom predict reads all of it "
        "in windows (task.windows: {})",
        task["windows"].get<std::string>()));
  return notes;
}

/// `text`, a config.json, with what a folder made of `source` keeps of its task, and with what its
/// own config.json tells other programs alone: dropout that nystrom does not have, and the function
/// behind the result of a cross-encoder.
std::string with_kept(const std::string& text, const ModelFolder& source, Head head) {
  auto root = nlohmann::ordered_json::parse(text);
  constexpr const char *cross_encoder = "sentence_transformers",
                       *older_key = "sbert_ce_default_activation_function";
  if (root.contains("label2id"))
    require_input(root["label2id"].size() == source.config.labels.size(),
                  "{}: id2label: two outputs have one name, so that label2id cannot tell them "
                  "apart; give them different ones",
                  printable_path(source.path / "config.json"));
  nlohmann::json before = *source.config_json;
  const nlohmann::json pairs = cross_encoder_settings(source.path);
  if (pairs.contains("activation_fn") && !before.contains(cross_encoder) &&
      !before.contains(older_key))
    before[cross_encoder] = {{"activation_fn", pairs["activation_fn"]}};
  for (const char* key :
       {"classifier_dropout", "attention_probs_dropout_prob", cross_encoder, older_key})
    if (before.contains(key)) root[key] = before.at(key);
  if (root.value("model_type", "") == before.value("model_type", ""))
    for (const auto& [key, value] : before.items()) {
      const bool idle = key.ends_with("dropout") || key.ends_with("dropout_prob") ||
                        key == "initializer_cutoff_factor";
      if (idle && !root.contains(key)) root[key] = value;
    }
  if (!task_of(source.config) || head != source.config.head) return root.dump(2, ' ', true) + "\n";
  const nlohmann::ordered_json task = kept_task(source);
  if (!task.empty()) root[task_key] = task;
  if (task_of(source.config) == TaskKind::regression) {
    // Other programs take a single output for the logit of a probability, unless a folder says
    // that it is a value.
    if (task.empty() && !before.contains("problem_type")) root.erase("problem_type");
    if (!task.empty() && !before.contains(cross_encoder) && !before.contains(older_key))
      root[cross_encoder] = {{"activation_fn", "torch.nn.modules.linear.Identity"}};
  }
  return root.dump(2, ' ', true) + "\n";
}

void write_model(const fs::path& folder, const ModelFolder& source, const Model& model,
                 const ModelCard& card, ExportFormat format) {
  const bool classes = card.has_classes;
  const NamedClasses named = classes                                ? NamedClasses::in_folder
                             : format == ExportFormat::transformers ? NamedClasses::of_transformers
                                                                    : NamedClasses::by_computation;
  const std::string text = card.architecture ? hf_config_text(card.config, *card.architecture)
                                             : hf_config_text(card.config, named);
  write_text_file(folder / "config.json", with_kept(text, source, card.config.head));
  write_safetensors(folder / "model.safetensors",
                    f32_weights(model, card.config, classes, card.architecture));
  for (const EmbeddedFile& file : model_classes())
    if (classes) write_text_file(folder / file.name, std::string(file.text));
}

/// The model that all files of an export are made of: with another pooling, where one is given.
ModelFolder resolved(ModelFolder source, const ExportOptions& options) {
  if (!options.sentence_transformers) return source;
  EmbeddingConfig& embedding = source.config.embedding;
  embedding.pooling = options.pooling.value_or(embedding.pooling);
  const std::string obstacle = vectors_obstacle(embedding);
  require_input(obstacle.empty(), "{}: {}", printable_path(source.path), obstacle);
  return source;
}

void write_onnx_files(const fs::path& folder, const Model& model, OnnxExport onnx) {
  if (onnx == OnnxExport::none) return;
  make_folders(folder);
  write_onnx(model, folder);
  if (onnx == OnnxExport::int8) write_onnx(model, folder, {.int8 = true});
}

}  // namespace

std::span<const EnumName<ExportFormat>> enum_names(ExportFormat) {
  static constexpr EnumName<ExportFormat> names[] = {{ExportFormat::automatic, "auto"},
                                                     {ExportFormat::nystrom, "nystrom"},
                                                     {ExportFormat::transformers, "transformers"},
                                                     {ExportFormat::bert, "bert"},
                                                     {ExportFormat::camembert, "camembert"},
                                                     {ExportFormat::distilbert, "distilbert"},
                                                     {ExportFormat::electra, "electra"},
                                                     {ExportFormat::modernbert, "modernbert"},
                                                     {ExportFormat::roberta, "roberta"},
                                                     {ExportFormat::xlm_roberta, "xlm-roberta"}};
  return names;
}

ModelConfig exported_config(const ModelConfig& config, const ExportOptions& options) {
  require_input(
      config.head != Head::masked_features,
      "cannot be exported: it says masked rows of features, and exports have no class for "
      "that; nystrom finetune with model.from trains a task on it");
  const bool pools = config.pooling == Pooling::token || config.pooling == Pooling::attention;
  require_input(
      !pools && !config.has_kind(AttentionKind::none),
      "cannot be exported: {}, for which exports have no classes; nystrom predict and the "
      "Python package use the model as it is",
      pools ? fmt::format("pooling is {}", enum_name(config.pooling))
            : std::string("attention.kind is none"));
  if (options.softmax) require_plain_weights(config);
  ModelConfig exported = options.softmax ? config.with_exact_attention() : config;
  if (options.format == ExportFormat::transformers) {
    const std::string obstacle = export_obstacle(exported);
    require_input(obstacle.empty(),
                  "cannot be exported for transformers' own class: {}; leave out --format "
                  "transformers, and the folder holds a class that computes it",
                  obstacle);
  }
  const bool theirs =
      options.format == ExportFormat::transformers || computed_by_transformers(exported);
  if (!needs_model_classes(exported, options.format)) exported.sentence_order = false;
  if (theirs && exported.has_only(AttentionKind::softmax))
    exported.segment_means_seq_len = exported.attention.num_landmarks;
  return exported;
}

std::vector<std::string> export_notes(const ModelConfig& exported) {
  const AttentionConfig& attention = exported.attention;
  const bool exact = exported.exact_in_transformers(),
             ours = attention.semantics == Semantics::nystrom;
  std::vector<std::string> notes;
  if (exact && ours && exported.has_kind(AttentionKind::nystrom))
    notes.push_back(
        fmt::format("segment_means_seq_len == num_landmarks == {0}: transformers computes exact "
                    "softmax attention, nystrom only for "
                    "texts of up to {0} tokens",
                    attention.num_landmarks));
  if (exact && convolution_reads_padding(exported))
    notes.push_back(
        "transformers' convolution sees padding: in a batch of unequal texts the shorter ones get "
        "other results than alone");
  if (exact) return notes;
  if (ours)
    notes.push_back(fmt::format(
        "transformers computes another Nyström attention than nystrom: {} padding, and the texts "
        "of a batch share a scaling factor",
        convolution_reads_padding(exported) ? "landmarks and convolution see" : "landmarks see"));
  if (attention.inverse != Inverse::iterative) {
    notes.push_back(
        fmt::format("transformers inverts by six iterations; this model's inverse is {}",
                    enum_name(attention.inverse)));
  } else if (attention.inverse_iterations != 6) {
    notes.push_back(fmt::format("transformers inverts by six iterations; this model has {}",
                                attention.inverse_iterations));
  }
  if (attention.landmark_source == LandmarkSource::keys)
    notes.push_back(
        "transformers takes landmarks from queries and from keys; this model takes both from the "
        "keys");
  return notes;
}

std::string config_text_of(const ModelFolder& source, const ModelConfig& config) {
  return with_kept(hf_config_text(config), source, config.head);
}

ExportResult export_model(const ModelFolder& given, const fs::path& folder,
                          const ExportOptions& options, Log& log,
                          const std::function<void(const fs::path&)>& measure) {
  const ModelFolder source = resolved(given, options);
  const bool vectors = options.sentence_transformers;
  ModelConfig config = with_context(printable_path(source.path),
                                    [&] { return exported_config(source.config, options); });
  const Architecture* architecture = architecture_of_export(source, config, options);
  if (architecture) config.sentence_order = false;
  const std::string obstacle = options.onnx == OnnxExport::none ? "" : onnx_obstacle(config);
  require_input(obstacle.empty(), "{}: cannot be written as ONNX: {}", printable_path(source.path),
                obstacle);
  const fs::path place = require_empty_target(folder);  // before the weights are read
  ModelFolder as_exported = source;
  as_exported.config.attention = config.attention;
  auto loaded = load_model(as_exported, DType::f32, StoreMode::inference);
  const Model& model = *loaded;
  const auto tokenizer = open_tokenizer_of(source);
  // A folder of Hugging Face may have the defaults of its class in their place.
  if (tokenizer) set_text_ends(config, tokenizer->special());
  if (const std::string foreign = foreign_classes(source.path); !foreign.empty())
    log.say(
        fmt::format("note: {} of {} was edited, or is of another version; the export has this "
                    "version's",
                    foreign, printable_path(source.path)));
  require_input(tokenizer || !vectors,
                "{}: has no tokenizer, and --sentence-transformers makes vectors of texts",
                printable_path(source.path));
  if (vectors) require_plain_prompts(*tokenizer, config.embedding);
  ModelCard card;
  card.title = place.filename().string();
  card.config = config;
  card.architecture = architecture;
  card.has_classes = !architecture && needs_model_classes(config, options.format);
  require_input(!vectors || !takes_one_length(card),
                "{}: sentence-transformers pads a batch to its longest text, and transformers' own "
                "class takes rows of {} tokens alone; leave out --format transformers, or export "
                "with --set model.attention.semantics=nystrom",
                printable_path(source.path), config.segment_means_seq_len);
  NewFolder written(place);
  if (const std::string types = label_types_of(source); !types.empty())
    write_text_file(written.path() / label_types_file, types);
  write_model(written.path(), source, model, card, options.format);
  write_onnx_files(written.path() / "onnx", model, options.onnx);
  card.parameters = Model(config).parameters().count();
  card.longest = trained_length(source);
  card.has_onnx = options.onnx != OnnxExport::none;
  card.notes = notes_of(source, card);
  if (config.multi_label) card.threshold = kept_task(source).value("threshold", card.threshold);
  card.has_tokenizer = tokenizer != nullptr;
  if (tokenizer) {
    write_tokenizer(*tokenizer, written.path(), card.longest, config.type_vocab_size > 0);
    if (tokenizer->special().mask != no_id)
      card.mask_token = tokenizer->piece(tokenizer->special().mask);
  } else if (!config.embed_dim) {
    log.say(fmt::format("note: {} has no tokenizer, so neither has the export",
                        printable_path(source.path)));
  }
  if (vectors) {
    write_sentence_transformers(written.path(), source, model, card.longest);
    card.makes_vectors = true;
  }
  for (const std::string& note : card.notes) log.say("note: " + note);
  if (options.verify)
    card.differences = verify_export(written.path(), model, tokenizer.get(), card.longest);
  write_text_file(written.path() / "README.md", model_card(card));
  loaded.reset();  // measuring opens both models
  if (measure) measure(written.path());
  check_interruption();
  written.commit();
  return {card.parameters, names_in(place), card.differences};
}

}  // namespace nystrom
