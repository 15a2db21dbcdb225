#include "train/export/export.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/file_io.h"
#include "train/state/sentence_modules.h"

namespace nystrom {
namespace {

using Json = nlohmann::ordered_json;

/// The class of an activation without options in PyTorch; null if there is none.
const char* torch_class(Activation activation) {
  switch (activation) {
    case Activation::linear: return "torch.nn.modules.linear.Identity";
    case Activation::tanh: return "torch.nn.modules.activation.Tanh";
    case Activation::silu: return "torch.nn.modules.activation.SiLU";
    case Activation::relu: return "torch.nn.modules.activation.ReLU";
    case Activation::gelu: return "torch.nn.modules.activation.GELU";
    case Activation::gelu_new: break;
  }
  return nullptr;
}

}  // namespace

std::string vectors_obstacle(const EmbeddingConfig& embedding) {
  bool lacks = embedding.projection && torch_class(embedding.projection_act) == nullptr;
  for (const DenseLayer& layer : embedding.dense) lacks |= torch_class(layer.activation) == nullptr;
  if (lacks)
    return "a layer of model.embedding has the activation gelu_new, which sentence-transformers "
           "cannot name; use gelu, silu, relu, tanh or linear";
  if (embedding.pooling != SentencePooling::landmarks) return "";
  return "model.embedding.pooling is landmarks, which sentence-transformers lacks; "
         "--sentence-transformers mean or cls exports another pooling";
}

void write_sentence_transformers(const std::filesystem::path& folder, const ModelFolder& source,
                                 const Model& model, std::int64_t longest) {
  const EmbeddingConfig& embedding = model.config().embedding;
  const auto write = [&](const std::string& name, const Json& json) {
    write_text_file(folder / name, json.dump(2) + "\n");
  };
  Json modules = Json::array();
  /// Returns the module's folder.
  const auto add_module = [&](const char* type) {
    const std::string index = std::to_string(modules.size());
    const std::string path = modules.empty() ? "" : index + "_" + type;
    modules.push_back({{"idx", modules.size()},
                       {"name", index},
                       {"path", path},
                       {"type", std::string("sentence_transformers.models.") + type}});
    return path;
  };
  add_module("Transformer");
  const std::string pooling = add_module("Pooling");
  std::filesystem::create_directory(folder / pooling);
  // These keys are older than pooling_mode, and every version reads them.
  const SentencePooling kind = embedding.pooling;
  write(pooling + "/config.json",
        {{"word_embedding_dimension", model.config().hidden_size},
         {"pooling_mode_cls_token", kind == SentencePooling::cls},
         {"pooling_mode_mean_tokens", kind == SentencePooling::mean},
         {"pooling_mode_max_tokens", kind == SentencePooling::max},
         {"pooling_mode_mean_sqrt_len_tokens", kind == SentencePooling::mean_sqrt_len_tokens},
         {"pooling_mode_weightedmean_tokens", kind == SentencePooling::weightedmean},
         {"pooling_mode_lasttoken", kind == SentencePooling::lasttoken}});
  const auto add_dense = [&](const std::string& name, Activation activation) {
    const std::string dense = add_module("Dense");
    std::filesystem::create_directory(folder / dense);
    const auto tensor = [&](const char* part) {
      return model.parameters().master("embedding." + name + part).cast(DType::f32);
    };
    const Tensor weight = tensor(".weight");
    write(dense + "/config.json", {{"in_features", weight.dim(1)},
                                   {"out_features", weight.dim(0)},
                                   {"bias", true},
                                   {"activation_function", torch_class(activation)}});
    write_safetensors(folder / dense / "model.safetensors",
                      {{"linear.weight", weight}, {"linear.bias", tensor(".bias")}});
  };
  for (std::size_t i = 0; i < embedding.dense.size(); ++i)
    add_dense(fmt::format("dense.{}", i), embedding.dense[i].activation);
  if (embedding.projection) add_dense("projection", embedding.projection_act);
  if (embedding.normalize) add_module("Normalize");
  write("modules.json", modules);
  write("sentence_bert_config.json", {{"max_seq_length", longest}, {"do_lower_case", false}});
  Json prompts = Json::object();
  Json default_prompt;
  require_vectors(source);
  if (const auto& given = source.modules) {
    for (const auto& [name, prompt] : given->prompts) prompts[name] = prompt;
    if (given->default_prompt) default_prompt = *given->default_prompt;
  }
  const auto add_prompt = [&](const char* name, const std::string& prompt) {
    if (!prompt.empty() || prompts.contains(name)) prompts[name] = prompt;
  };
  add_prompt("query", embedding.query_prompt);
  add_prompt("document", embedding.document_prompt);
  write("config_sentence_transformers.json",
        {{"prompts", prompts},
         {"default_prompt_name", default_prompt},
         {"similarity_fn_name", enum_name(embedding.similarity)}});
}

}  // namespace nystrom
