#include "train/export/sentence_transformers.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/file_io.h"
#include "train/state/safetensors.h"

namespace nystrom {

using Json = nlohmann::ordered_json;

namespace {

/// The class of an activation without options in PyTorch; null if there is none.
const char* torch_class(Activation activation) {
  switch (activation) {
    case Activation::linear: return "torch.nn.modules.linear.Identity";
    case Activation::tanh: return "torch.nn.modules.activation.Tanh";
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
           "cannot name; use gelu, relu, tanh or linear";
  if (embedding.pooling != SentencePooling::landmarks) return "";
  return "model.embedding.pooling is landmarks, which sentence-transformers lacks; "
         "--sentence-transformers mean or cls exports another pooling";
}

void write_sentence_transformers(const std::filesystem::path& folder,
                                 const SentenceTransformersFiles& files) {
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
  const SentencePooling kind = files.embedding.pooling;
  write(pooling + "/config.json",
        {{"word_embedding_dimension", files.width},
         {"pooling_mode_cls_token", kind == SentencePooling::cls},
         {"pooling_mode_mean_tokens", kind == SentencePooling::mean},
         {"pooling_mode_max_tokens", kind == SentencePooling::max},
         {"pooling_mode_mean_sqrt_len_tokens", kind == SentencePooling::mean_sqrt_len_tokens},
         {"pooling_mode_weightedmean_tokens", kind == SentencePooling::weightedmean},
         {"pooling_mode_lasttoken", kind == SentencePooling::lasttoken}});
  const auto add_dense = [&](const std::string& name, Activation activation) {
    const std::string dense = add_module("Dense");
    std::filesystem::create_directory(folder / dense);
    const Tensor& weight = files.tensors.at("embedding." + name + ".weight");
    write(dense + "/config.json", {{"in_features", weight.dim(1)},
                                   {"out_features", weight.dim(0)},
                                   {"bias", true},
                                   {"activation_function", torch_class(activation)}});
    write_safetensors(folder / dense / "model.safetensors",
                      {{"linear.weight", weight},
                       {"linear.bias", files.tensors.at("embedding." + name + ".bias")}});
  };
  for (std::size_t i = 0; i < files.embedding.dense.size(); ++i)
    add_dense(fmt::format("dense.{}", i), files.embedding.dense[i].activation);
  if (files.embedding.projection) add_dense("projection", files.embedding.projection_act);
  if (files.embedding.normalize) add_module("Normalize");
  write("modules.json", modules);
  write("sentence_bert_config.json", {{"max_seq_length", files.longest}, {"do_lower_case", false}});
  Json prompts = Json::object();
  for (const auto& [name, prompt] : files.prompts) prompts[name] = prompt;
  const auto add_prompt = [&](const char* name, const std::string& prompt) {
    if (!prompt.empty() || prompts.contains(name)) prompts[name] = prompt;
  };
  add_prompt("query", files.embedding.query_prompt);
  add_prompt("document", files.embedding.document_prompt);
  write("config_sentence_transformers.json",
        {{"prompts", prompts},
         {"default_prompt_name", files.default_prompt ? Json(*files.default_prompt) : Json()},
         {"similarity_fn_name", "cosine"}});
}

}  // namespace nystrom
