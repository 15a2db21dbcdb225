#include "train/export/sentence_transformers.h"

#include <nlohmann/json.hpp>

#include "core/base/file_io.h"

namespace nystrom {

using Json = nlohmann::ordered_json;

void write_sentence_transformers(const std::filesystem::path& folder, SentencePooling pooling,
                                 std::int64_t width, std::int64_t longest) {
  const auto write = [&](const char* name, const Json& json) {
    write_text_file(folder / name, json.dump(2) + "\n");
  };
  const auto module = [](int index, const char* path, const char* type) {
    return Json{{"idx", index},
                {"name", std::to_string(index)},
                {"path", path},
                {"type", std::string("sentence_transformers.models.") + type}};
  };
  std::filesystem::create_directory(folder / "1_Pooling");
  write("modules.json", {module(0, "", "Transformer"), module(1, "1_Pooling", "Pooling")});
  // These keys are older than pooling_mode, and every version reads them.
  write("1_Pooling/config.json", {{"word_embedding_dimension", width},
                                  {"pooling_mode_cls_token", pooling == SentencePooling::cls},
                                  {"pooling_mode_mean_tokens", pooling == SentencePooling::mean},
                                  {"pooling_mode_max_tokens", false},
                                  {"pooling_mode_mean_sqrt_len_tokens", false}});
  write("sentence_bert_config.json", {{"max_seq_length", longest}, {"do_lower_case", false}});
  write("config_sentence_transformers.json", {{"prompts", Json::object()},
                                              {"default_prompt_name", nullptr},
                                              {"similarity_fn_name", "cosine"}});
}

}  // namespace nystrom
