#include "train/state/sentence_modules.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/json_part.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tokenizers/tokenizer_folder.h"
#include "train/state/model_folder.h"
#include "train/state/run_folder.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* remedy =
    "; a copy of the folder without modules.json is the encoder alone, whose vectors are others";

constexpr const char* no_pooling =
    "there is no module Pooling, so the folder makes no vector of a text";

struct Module {
  std::string type;  // "Pooling"
  fs::path folder;
};

[[noreturn]] void refuse(const fs::path& file, const std::string& what) {
  throw InputError(fmt::format("{}: {}{}", printable_path(file), what, remedy));
}

/// The folder of a module inside `folder`; the empty path is `folder` itself.
fs::path inside(const fs::path& folder, const std::string& path, const fs::path& file) {
  const fs::path relative = fs::path(path).lexically_normal();
  const bool leaves = relative.is_absolute() || relative.begin()->string() == "..";
  require_input(path.empty() || !leaves, "{}: path \"{}\" leads out of the folder",
                printable_path(file), printable(path));
  return path.empty() || relative == "." ? folder : folder / relative;
}

std::vector<Module> read_modules(const fs::path& folder) {
  const fs::path file = folder / "modules.json";
  const json root = read_json_file(file);
  std::vector<Module> modules;
  for (const JsonPart& each : JsonPart(root, printable_path(file)).elements()) {
    const std::string type = each.text_or("type", "");
    if (!type.starts_with("sentence_transformers."))
      refuse(file, fmt::format("the module {} is Python code of its own, which nystrom lacks",
                               printable(type)));
    modules.push_back(
        {type.substr(type.rfind('.') + 1), inside(folder, each.text_or("path", ""), file)});
  }
  require_input(!modules.empty(), "{}: expected an array of modules", printable_path(file));
  return modules;
}

/// The file of a module's options; the first one may have no file.
json options_of(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file, ignored) ? read_json_file(file) : json::object();
}

/// A count from 1 on, or 0 where there is none.
std::int64_t count_in(const JsonPart& options, const char* key) {
  const auto found = options.find(key);
  return found ? found->integer(1, INT64_MAX) : 0;
}

SentencePooling read_pooling(const fs::path& file) {
  // The names of older files, in sentence-transformers' order.
  constexpr std::pair<const char*, const char*> older[] = {
      {"pooling_mode_cls_token", "cls"},
      {"pooling_mode_max_tokens", "max"},
      {"pooling_mode_mean_tokens", "mean"},
      {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
      {"pooling_mode_weightedmean_tokens", "weightedmean"},
      {"pooling_mode_lasttoken", "lasttoken"}};
  const json root = read_json_file(file);
  const JsonPart options(root, printable_path(file));
  if (!options.boolean_or("include_prompt", true))
    refuse(file, "include_prompt is false, and nystrom's vectors include the prompt");
  std::vector<std::string> modes;
  if (root.contains("pooling_mode")) {
    const JsonPart mode = options["pooling_mode"];
    for (const JsonPart& each : mode.value().is_array() ? mode.elements() : std::vector{mode})
      modes.push_back(each.text());
  } else {
    for (const auto& [key, name] : older)
      if (options.boolean_or(key, false)) modes.emplace_back(name);
    if (modes.empty()) modes.emplace_back("mean");  // as in sentence-transformers
  }
  if (modes.size() != 1)
    refuse(file, fmt::format("the poolings {} are put side by side, and nystrom has one",
                             fmt::join(modes, ", ")));
  for (const auto& each : enum_names(SentencePooling{}))
    if (modes[0] == each.name && each.value != SentencePooling::landmarks) return each.value;
  refuse(file, fmt::format("pooling_mode is {}, which nystrom lacks", printable(modes[0], 40)));
}

Activation read_activation(const JsonPart& options, const fs::path& file) {
  constexpr const char* key = "activation_function";
  if (options.value().contains(key) && !options.find(key)) return Activation::linear;
  const std::string name = options.text_or(key, "torch.nn.modules.activation.Tanh");
  constexpr std::pair<std::string_view, Activation> known[] = {{"Identity", Activation::linear},
                                                               {"Tanh", Activation::tanh},
                                                               {"ReLU", Activation::relu},
                                                               {"SiLU", Activation::silu},
                                                               {"GELU", Activation::gelu}};
  for (const auto& [word, activation] : known)
    if (name.starts_with("torch.nn.") && name.substr(name.rfind('.') + 1) == word)
      return activation;
  refuse(file,
         fmt::format("activation_function is {}; nystrom has Identity, Tanh, ReLU, SiLU and GELU",
                     printable(name, 80)));
}

void add_dense(SentenceModules& result, const fs::path& folder) {
  const fs::path file = folder / "config.json";
  const json root = read_json_file(file);
  const JsonPart options(root, printable_path(file));
  if (options.boolean_or("use_residual", false))
    refuse(file, "use_residual is true, and nystrom's layers add no residual");
  for (const char* key : {"module_input_name", "module_output_name"})
    if (const std::string name = options.text_or(key, "sentence_embedding");
        name != "sentence_embedding")
      refuse(file, fmt::format("{} is {}; nystrom reads and makes sentence_embedding", key,
                               printable(name, 40)));
  const std::int64_t width = options["out_features"].integer(1, INT64_MAX);
  result.embedding.dense.push_back({width, read_activation(options, file)});
  result.dense.push_back({folder, count_in(options, "in_features"),
                          options.boolean_or("bias", !root.contains("bias"))});
}

/// Whether an option of the encoder changes nothing that nystrom computes.
bool is_neutral(const std::string& key, const json& value) {
  static const json neutral = {{"transformer_task", "feature-extraction"},
                               {"module_output_name", "token_embeddings"}};
  static const json modality = {{"method", "forward"}, {"method_output_name", "last_hidden_state"}};
  if (value.is_null() || (value.is_structured() && value.empty())) return true;
  if (key == "max_seq_length" || key == "do_lower_case" || key == "unpad_inputs") return true;
  if (key == "modality_config")
    return value.is_object() && value.value("text", modality) == modality;
  if (key == "model_args" || key == "model_kwargs")
    return std::ranges::all_of(value.items(), [](const auto& each) {
      return each.key() == "attn_implementation" || each.key().ends_with("dtype");
    });
  return neutral.contains(key) && neutral[key] == value;
}

/// Whether texts in capitals get the tokens of small letters: of Latin ones, or of those that the
/// vocabulary has.
bool lowers_case(const Tokenizer& tokenizer) {
  constexpr std::pair<const char*, const char*> probes[] = {
      {"ABC", "abc"}, {"АБВ", "абв"}, {"ΑΒΓ", "αβγ"}, {"ԱԲԳ", "աբգ"}};
  return std::ranges::any_of(probes, [&](const auto& probe) {
    const std::vector<std::int32_t> small = tokenizer.encode(probe.second);
    return std::ranges::find(small, tokenizer.special().unk) == small.end() &&
           tokenizer.encode(probe.first) == small;
  });
}

/// sentence_bert_config.json of the encoder, under any of the names that it has had.
void read_encoder_options(SentenceModules& result) {
  for (const char* name : {"bert", "roberta", "distilbert", "camembert", "xlm-roberta"}) {
    const fs::path file = result.encoder / fmt::format("sentence_{}_config.json", name);
    const json root = options_of(file);
    if (root == json::object()) continue;
    const JsonPart options(root, printable_path(file));
    for (const auto& [key, part] : options.members())
      if (!is_neutral(key, part.value()))
        refuse(file, fmt::format("{} is {}, which nystrom does not read", printable(key, 40),
                                 printable(part.value().dump(), 80)));
    if (const std::int64_t length = count_in(options, "max_seq_length"); length > 0)
      result.max_seq_length = length;
    if (!options.boolean_or("do_lower_case", false)) return;
    if (!lowers_case(*open_tokenizer(result.encoder)))
      refuse(file, "do_lower_case is true, and the tokenizer keeps case");
    return;
  }
}

void read_prompts(SentenceModules& result) {
  const fs::path file = result.folder / "config_sentence_transformers.json";
  const json root = options_of(file);
  const JsonPart options(root, printable_path(file));
  if (const auto prompts = options.find("prompts"))
    for (const auto& [name, prompt] : prompts->members())
      if (!prompt.value().is_null()) result.prompts.emplace_back(name, prompt.text());
  const std::string similarity = options.text_or("similarity_fn_name", "cosine");
  const auto named = value_named<Similarity>(similarity);
  if (!named)
    refuse(file,
           fmt::format("similarity_fn_name is {}, which nystrom lacks", printable(similarity, 40)));
  result.embedding.similarity = *named;
  if (const std::int64_t width = count_in(options, "truncate_dim"); width > 0)
    throw InputError(fmt::format(
        "{}: truncate_dim is {}, which nystrom does not read; remove it, and ask for so "
        "many numbers: nystrom embed --dimensions {}",
        printable_path(file), width, width));
  const std::string name = options.text_or("default_prompt_name", "");
  if (!name.empty()) result.default_prompt = name;
  // The names that encode_query and encode_document read; both are empty prompts where absent.
  for (const auto& [key, prompt] : result.prompts) {
    if (key == "query") result.embedding.query_prompt = prompt;
    if (key == "document") result.embedding.document_prompt = prompt;
  }
}

bool has_modules(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "modules.json", ignored);
}

SentenceModules read_from(const fs::path& folder, const std::vector<Module>& modules) {
  const fs::path file = folder / "modules.json";
  SentenceModules result;
  result.folder = folder;
  result.encoder = modules[0].folder;
  result.embedding.normalize = false;
  if (modules[0].type != "Transformer")
    refuse(file, fmt::format("the first module is {}, and nystrom reads a Transformer",
                             printable(modules[0].type, 40)));
  // Transformer, Pooling, any number of Dense, and Normalize at the end.
  int stage = 0;
  for (std::size_t i = 1; i < modules.size(); ++i) {
    const auto& [type, path] = modules[i];
    const int place = type == "Pooling" ? 1 : type == "Dense" ? 2 : type == "Normalize" ? 3 : 0;
    if (place == 0)
      refuse(file, fmt::format("the module {} has no counterpart in nystrom, which reads "
                               "Transformer, Pooling, Dense and Normalize",
                               printable(type, 40)));
    if (place < stage || (place == stage && place != 2) || (stage == 0 && place != 1))
      refuse(file, fmt::format("the module {} is at place {}; nystrom has Pooling, then Dense, "
                               "then Normalize",
                               type, i));
    stage = place;
    if (place == 1) result.embedding.pooling = read_pooling(path / "config.json");
    if (place == 2) add_dense(result, path);
    if (place == 3) result.embedding.normalize = true;
  }
  if (stage == 0) refuse(file, no_pooling);
  if (!result.dense.empty()) {
    result.embedding.projection = result.embedding.dense.back().width;
    result.embedding.projection_act = result.embedding.dense.back().activation;
    result.embedding.dense.pop_back();
  }
  read_encoder_options(result);
  read_prompts(result);
  return result;
}

}  // namespace

std::optional<SentenceModules> read_sentence_modules(const fs::path& folder) {
  if (has_modules(folder)) {
    const std::vector<Module> modules = read_modules(folder);
    if (modules.size() == 1 && modules[0].type == "Transformer") return std::nullopt;
    // Models of pairs (sentence-transformers' CrossEncoder) may have a head of modules.
    if (!cross_encoder_settings(folder).empty())
      refuse(
          folder / "modules.json",
          fmt::format("the module {} scores pairs of texts; nystrom reads a head for that in the "
                      "Transformer alone, as a class ForSequenceClassification",
                      printable(modules.back().type, 40)));
    return read_from(folder, modules);
  }
  for (const fs::path& own : places_of(folder)) {
    const auto encoder = encoder_in(own.parent_path());
    std::error_code absent;
    if (encoder && fs::equivalent(*encoder, own, absent))
      return read_from(own.parent_path(), read_modules(own.parent_path()));
  }
  return std::nullopt;
}

std::optional<fs::path> encoder_in(const fs::path& folder) {
  if (!has_modules(folder)) return std::nullopt;
  const fs::path file = folder / "modules.json";
  const json root = read_json_file(file);
  if (!root.is_array() || root.empty() || !root[0].is_object()) return std::nullopt;
  const std::string path = JsonPart(root[0], printable_path(file)).text_or("path", "");
  if (inside(folder, path, file) == folder) return std::nullopt;
  fs::path name = fs::path(path).lexically_normal();
  if (!name.has_filename()) name = name.parent_path();  // "0_Transformer/"
  require_input(!name.has_parent_path(),
                "{}: path \"{}\" of the first module is no folder beside the file",
                printable_path(file), printable(path));
  return folder / name;
}

void require_vectors(const ModelFolder& folder) {
  if (!folder.modules && has_modules(folder.path)) refuse(folder.path / "modules.json", no_pooling);
}

}  // namespace nystrom
