#include "train/export/sentence_transformers.h"

#include <nlohmann/json.hpp>

#include "core/base/file_io.h"
#include "train/formats/safetensors.h"

namespace nystrom {

using Json = nlohmann::ordered_json;

std::string vectors_obstacle(const EmbeddingConfig& embedding) {
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
  write(pooling + "/config.json", {{"word_embedding_dimension", files.width},
                                   {"pooling_mode_cls_token", kind == SentencePooling::cls},
                                   {"pooling_mode_mean_tokens", kind == SentencePooling::mean},
                                   {"pooling_mode_max_tokens", false},
                                   {"pooling_mode_mean_sqrt_len_tokens", false}});
  if (files.weight.defined()) {
    const std::string dense = add_module("Dense");
    std::filesystem::create_directory(folder / dense);
    write(dense + "/config.json", {{"in_features", files.width},
                                   {"out_features", files.weight.dim(0)},
                                   {"bias", true},
                                   {"activation_function", "torch.nn.modules.linear.Identity"}});
    write_safetensors(folder / dense / "model.safetensors",
                      {{"linear.weight", files.weight}, {"linear.bias", files.bias}});
  }
  if (files.embedding.normalize) add_module("Normalize");
  write("modules.json", modules);
  write("sentence_bert_config.json", {{"max_seq_length", files.longest}, {"do_lower_case", false}});
  Json prompts = Json::object();
  const auto add_prompt = [&](const char* name, const std::string& prompt) {
    if (!prompt.empty()) prompts[name] = prompt;
  };
  add_prompt("query", files.embedding.query_prompt);
  add_prompt("document", files.embedding.document_prompt);
  write("config_sentence_transformers.json",
        {{"prompts", prompts}, {"default_prompt_name", nullptr}, {"similarity_fn_name", "cosine"}});
}

}  // namespace nystrom
