#include "train/export/export.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/file_io.h"
#include "core/base/new_folder.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "train/export/model_card.h"
#include "train/formats/hf_config.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

std::vector<NamedTensor> f32_weights(const Model& model) {
  std::vector<NamedTensor> weights = weight_tensors(model);
  std::erase_if(weights, [](const NamedTensor& weight) {
    return weight.name.starts_with(sentence_order_prefix);
  });
  for (NamedTensor& weight : weights) weight.tensor = weight.tensor.cast(DType::f32);
  return weights;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

ModelConfig exported_config(const ModelConfig& config, bool softmax) {
  const std::string obstacle = export_obstacle(config, softmax);
  const bool softmax_helps = export_obstacle(config, true).empty();
  require_input(
      obstacle.empty(), "cannot be exported: {}{}", obstacle,
      softmax_helps ? "; --attention softmax exports the model with exact attention" : "");
  ModelConfig exported = config;
  exported.sentence_order = false;
  if (softmax) exported.attention.kind = AttentionKind::softmax;
  if (exported.attention.kind == AttentionKind::softmax)
    exported.segment_means_seq_len = exported.attention.num_landmarks;
  return exported;
}

std::vector<std::string> export_notes(const ModelConfig& exported) {
  const AttentionConfig& attention = exported.attention;
  const bool exact = is_exact_in_transformers(exported),
             ours = attention.semantics == Semantics::nystrom;
  const bool convolves = attention.conv_kernel_size.value_or(1) > 1;
  std::vector<std::string> notes;
  if (exact && ours && attention.kind == AttentionKind::nystrom) {
    notes.push_back(
        fmt::format("segment_means_seq_len == num_landmarks == {0}: transformers computes exact "
                    "softmax attention, nystrom only for "
                    "texts of up to {0} tokens",
                    attention.num_landmarks));
  }
  if (exact && ours && convolves) {
    notes.push_back(
        "transformers' convolution sees padding: in a batch of unequal texts the shorter ones get "
        "other results than alone");
  }
  if (exact) return notes;
  if (ours) {
    notes.push_back(
        fmt::format("transformers computes another Nyström attention than nystrom: {} padding, and "
                    "the texts of a batch share a scaling "
                    "factor",
                    convolves ? "landmarks and convolution see" : "landmarks see"));
  }
  if (attention.inverse != Inverse::iterative) {
    notes.push_back(
        fmt::format("transformers inverts by six iterations; this model's inverse is {}",
                    enum_name(attention.inverse)));
  } else if (attention.inverse_iterations != 6) {
    notes.push_back(fmt::format("transformers inverts by six iterations; this model has {}",
                                attention.inverse_iterations));
  }
  if (attention.landmark_source == LandmarkSource::keys) {
    notes.push_back(
        "transformers takes landmarks from queries and from keys; this model takes both from the "
        "keys");
  }
  return notes;
}

ExportResult export_model(const ModelFolder& source, const fs::path& folder,
                          const ExportOptions& options, Log& log) {
  ModelConfig config = with_context(
      printable_path(source.path), [&] { return exported_config(source.config, options.softmax); });
  const fs::path place = require_empty_target(folder);  // before the weights are read
  const auto loaded = load_model(source.path, source.config, DType::f32, StoreMode::inference);
  const Model& model = *loaded;
  const auto tokenizer = open_tokenizer_of(source);
  /// Folders of older versions have the defaults of transformers' class.
  if (tokenizer) set_text_ends(config, tokenizer->special());
  NewFolder written(place);
  write_text_file(written.path() / "config.json", hf_config_text(config, ModelType::transformers));
  write_safetensors(written.path() / "model.safetensors", f32_weights(model));
  ModelCard card;
  card.title = place.filename().string();
  card.config = config;
  card.parameters = Model(config).parameters().count();
  card.longest = trained_length(source);
  card.notes = export_notes(config);
  if (source.config.sentence_order)
    card.notes.push_back(
        "the sentence-order head (cls.seq_relationship) is left out: transformers' Nyströmformer "
        "has none");
  card.has_tokenizer = tokenizer != nullptr;
  if (tokenizer) {
    write_tokenizer(*tokenizer, written.path(), card.longest);
    if (tokenizer->special().mask != no_id)
      card.mask_token = tokenizer->piece(tokenizer->special().mask);
  } else {
    log.say(fmt::format("note: {} has no tokenizer, so neither has the export",
                        printable_path(source.path)));
  }
  for (const std::string& note : card.notes) log.say("note: " + note);
  if (options.verify)
    card.differences = check_export(written.path(), model, tokenizer.get(), card.longest);
  write_text_file(written.path() / "README.md", model_card(card));
  const std::vector<std::string> files = names_in(written.path());
  written.commit();
  return {card.parameters, files, card.differences};
}

}  // namespace nystrom
