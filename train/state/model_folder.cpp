#include "train/state/model_folder.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/file_io.h"
#include "core/base/json.h"
#include "core/base/long_list.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/task_scorer.h"
#include "data/tokenizers/tokenizer_folder.h"
#include "nn/layer_kinds.h"
#include "train/state/checkpoint.h"
#include "train/state/hf_config.h"
#include "train/state/other_models.h"
#include "train/state/run_folder.h"
#include "train/state/run_state.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr const char* pairs_settings = "config_sentence_transformers.json";

/// The first of the best elements of a sweep's summary, by the number under `key`.
const nlohmann::json& best_by(const char* key, const nlohmann::json& summary,
                              const nlohmann::json& elements) {
  return *std::ranges::max_element(elements, [&](const auto& a, const auto& b) {
    return better(number_or_nan(b.at(key)), number_or_nan(a.at(key)),
                  summary.at("metric") != "loss");
  });
}

/// The best run of the point with the best mean of the sweep whose summary.json `folder` holds, as
/// the sweep's table says; nothing if it is no sweep. Throws an InputError for a sweep without one.
std::optional<fs::path> best_run_of_sweep(const fs::path& folder) {
  if (!fs::exists(folder / "summary.json")) return std::nullopt;
  try {
    const nlohmann::json summary = read_json_file(folder / "summary.json");
    if (summary.at("points").empty()) return std::nullopt;
    const nlohmann::json& point = best_by("mean", summary, summary.at("points"));
    if (point.at("runs").empty()) return std::nullopt;
    const nlohmann::json& run = best_by("value", summary, point.at("runs"));
    const fs::path best =
        place_in_sweep(folder, !point.at("options").empty(), run.at("run_dir").get<std::string>());
    require_input(!best.filename().string().starts_with("fold-"),
                  "{}: holds a run for each fold, each tested on other data; name one of them, "
                  "such as {}",
                  printable_path(folder), printable_path(folder / best));
    require_input(
        !std::isnan(number_or_nan(point.at("mean"))),
        "{}: is a sweep without a best run, for {} is undefined in a run of every line of "
        "its table; name one of them, such as {}",
        printable_path(folder), printable(summary.at("metric").get<std::string>()),
        printable_path(folder / best));
    return best;
  } catch (const nlohmann::json::exception&) {
    throw InputError(printable_path(folder / "summary.json") +
                     ": is no summary of a sweep; give the folder of one of its runs");
  }
}

/// The best checkpoint of a run by its evaluations, else the newest intact one.
fs::path best_checkpoint(const fs::path& model, Log& log) {
  const fs::path checkpoints = model / "checkpoints";
  const std::string held = what_folder_holds(model);
  require_input(
      fs::is_directory(checkpoints), "{}: holds neither config.json nor checkpoints; {}",
      printable_path(model),
      held.empty() ? "expected a Hugging Face folder, a run directory or a checkpoint" : held);
  std::vector<std::string> passed_over;
  const auto newest = newest_checkpoint(checkpoints, passed_over);
  for (const std::string& line : passed_over) log.warn(line);
  require_input(newest.has_value(), "{}: the run has no whole checkpoint yet",
                printable_path(model));
  const fs::path folder = checkpoint_path(checkpoints, *newest);
  const auto best = fs::exists(folder / "state.json") ? RunState::read(folder / "state.json").best()
                                                      : std::nullopt;
  if (!best || *best == *newest) return folder;
  const fs::path best_folder = checkpoint_path(checkpoints, *best);
  const std::string problem = checkpoint_problem(best_folder);
  if (!problem.empty()) {
    log.warn(
        fmt::format("{}: passed over: {}; it is the best by its evaluations, taking the newest in "
                    "its place, step {}",
                    printable_path(best_folder), problem, *newest));
    return folder;
  }
  log.say(fmt::format("{}: taking step {}, the best by its evaluations; the newest is step {}",
                      printable_path(model), *best, *newest));
  return best_folder;
}

void require_tokenizer(const ModelFolder& folder, const Tokenizer* tokenizer) {
  require_input(
      tokenizer != nullptr,
      "{}: has no tokenizer; bring its tokenizer.json, spiece.model, vocab.txt, or vocab.json "
      "with merges.txt",
      printable_path(folder.path));
}

/// One line about a folder of BERT's family; empty for all others.
std::string architecture_notice(const ModelFolder& folder) {
  if (folder.architecture == nullptr) return "";
  return fmt::format(
      "note: model_type {} is read as an encoder with attention.kind {}{}",
      folder.architecture->model_type, describe_kinds(folder.config),
      folder.config.has_only(AttentionKind::softmax) && !folder.config.attends_by_distance()
          ? ", which is exact; nystrom convert makes it Nyström"
          : "");
}

/// One line about Python code in a folder of BERT's family; empty for all others.
std::string code_notice(const ModelFolder& folder) {
  const bool has_code = folder.architecture != nullptr &&
                        !folder.config_json->value("auto_map", nlohmann::json()).empty();
  return has_code
             ? "note: config.json names Python code of its own (auto_map), which is never run; "
               "the results are those of transformers' own class"
             : "";
}

/// One line about dropout that transformers' training has, and a run's has not; empty if none.
std::string dropout_notice(const ModelFolder& folder) {
  if (folder.architecture == nullptr || !folder.architecture->key_of("hidden_dropout_prob").empty())
    return "";
  std::string keys;
  for (const auto& [key, value] : folder.config_json->items())
    if (key.ends_with("_dropout") && value.is_number() && value != 0)
      keys += fmt::format("{}{} {}", keys.empty() ? "" : ", ", printable(key), value.dump());
  return keys.empty() ? ""
                      : fmt::format(
                            "note: {} of config.json is not used; "
                            "model.hidden_dropout_prob is the dropout of a run",
                            keys);
}

/// One line about the modules of sentence-transformers; empty for all other folders.
std::string modules_notice(const ModelFolder& folder) {
  const auto& modules = folder.modules;
  if (!modules) return "";
  const EmbeddingConfig& embedding = folder.config.embedding;
  std::string unused;
  for (const auto& [name, prompt] : modules->prompts)
    if (!prompt.empty() && prompt != embedding.query_prompt && prompt != embedding.document_prompt)
      unused += (unused.empty() ? "; it uses none of the prompts " : ", ") + printable(name, 40);
  return fmt::format(
      "note: {} is a folder of sentence-transformers; vectors have the pooling {}, {} dense layers "
      "and {} normalisation{}{}",
      printable_path(modules->folder), enum_name(embedding.pooling),
      embedding.dense.size() + (embedding.projection ? 1 : 0), embedding.normalize ? "a" : "no",
      unused, classifier_remark(modules->folder));
}

/// One line about the prompts of a model of pairs; empty without any.
std::string prompts_notice(const ModelFolder& folder) {
  const nlohmann::json settings = cross_encoder_settings(folder.path);
  const nlohmann::json prompts = settings.value("prompts", nlohmann::json());
  std::vector<std::string> names;
  for (const auto& [name, prompt] : prompts.items())
    if (prompt.is_string() && prompt != "") names.push_back(printable(name, 40));
  if (names.empty()) return "";
  return fmt::format(
      "note: {}: nystrom puts none of its prompts before a pair, and an export has none: {}",
      printable_path(folder.path / pairs_settings), long_list(names));
}

/// The settings of calls that tokenizer.json has, if a value in it is "Left": to parse it takes
/// long, and many vocabularies have the piece.
nlohmann::json left_settings(const fs::path& file) {
  try {
    const std::string text = read_text_file(file, std::size_t{64} << 20);
    constexpr std::string_view left = "\"Left\"";
    for (std::size_t at = text.find(left); at != text.npos; at = text.find(left, at + 1))
      if (const std::size_t before = text.find_last_not_of(" \t\r\n", at - 1);  // of a value
          before != text.npos && text[before] == ':')
        return parse_json(text, printable_path(file));
  } catch (const InputError&) {  // absent, or opening the tokenizer refuses it
  }
  return nlohmann::json::object();
}

}  // namespace

std::vector<std::string> decoder_notices(const ModelFolder& folder) {
  std::vector<std::string> lines;
  if (folder.config.head != Head::masked_lm || !folder.has_weights()) return lines;
  if (!folder.config.tie_word_embeddings && folder.own_decoder)
    lines.push_back(
        "note: the decoder's weights are unlike the word embeddings, and are used as in "
        "transformers 5 (tie_word_embeddings: false)");
  if (has_unlike_biases(folder))
    lines.push_back(
        "note: the decoder's bias is unlike that of the head, and is added in its place as in "
        "transformers 5");
  return lines;
}

std::vector<std::string> tokenizer_notices(const fs::path& place) {
  const fs::path folder = fs::is_directory(place) ? place : place.parent_path(),
                 file = folder / "tokenizer_config.json", whole = folder / "tokenizer.json",
                 map = folder / "special_tokens_map.json";
  const auto read = [](const fs::path& json) {
    return fs::exists(json) ? read_json_file(json) : nlohmann::json::object();
  };
  const nlohmann::json settings = read(file), mapped = read(map), parts = left_settings(whole);
  if (!settings.is_object() || !mapped.is_object() || !parts.is_object())
    return {};  // opening the tokenizer refuses it
  std::vector<std::string> lines, names;
  for (const auto& [part, way] : {std::pair("truncation", "keeps the beginning of a text"),
                                  std::pair("padding", "pads behind a text")}) {
    const std::string key = fmt::format("{}_side", part);
    const nlohmann::json side = settings.value(key, nlohmann::json()),
                         own = parts.value(part, nlohmann::json());
    const bool is_own =
        side.is_null() && own.is_object() && own.value("direction", nlohmann::json()) == "Left";
    if (is_own || side == "left")
      lines.push_back(fmt::format("note: {} is left; nystrom {}, and so does an export",
                                  is_own
                                      ? fmt::format("{}: {}.direction", printable_path(whole), part)
                                      : fmt::format("{}: {}", printable_path(file), key),
                                  way));
  }
  for (const nlohmann::json* from : {&settings, &mapped})
    for (const char* key : {"additional_special_tokens", "extra_special_tokens"})
      for (const nlohmann::json& token : from->value(key, nlohmann::json::array())) {
        const nlohmann::json name = token.is_object() ? token.value("content", token) : token;
        if (name.is_string()) names.push_back(printable(name.get<std::string>(), 40));
      }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (!names.empty())
    lines.push_back(fmt::format(
        "note: {}: names of its special tokens in a text are characters like others: {}; tokens "
        "that texts hold are added with special_tokens=False",
        printable_path(folder), long_list(names)));
  return lines;
}

namespace {

/// One line about the tensors that the model does not read; empty if there are none.
std::string unread_notice(const ModelFolder& folder) {
  if (!folder.has_weights()) return "";
  const std::vector<std::string> names = unread_tensors(folder);
  if (names.empty()) return "";
  return fmt::format("note: tensors of {} that this model does not read: {}",
                     printable_path(folder.path), long_list(names));
}

}  // namespace

nlohmann::json cross_encoder_settings(const fs::path& folder) {
  nlohmann::json settings = nlohmann::json::object();
  const fs::path file = folder / pairs_settings;
  if (fs::exists(file)) settings = read_json_file(file);
  const bool ours =
      settings.is_object() && settings.value("model_type", nlohmann::json()) == "CrossEncoder";
  return ours ? settings : nlohmann::json::object();
}

std::string classifier_remark(const fs::path& folder) {
  return fs::exists(folder / "model_head.pkl")
             ? "; model_head.pkl, a classifier of SetFit, is not read"
             : "";
}

std::optional<fs::path> settings_beside(const fs::path& folder) {
  const fs::path file = folder / "config.yaml";
  if (!fs::exists(file)) return std::nullopt;
  if (fs::exists(folder / "state.json")) return file;
  try {
    read_resolved_config(file.string());
    return file;
  } catch (const InputError&) {  // another program's
    return std::nullopt;
  }
}

fs::path find_model(const fs::path& model, Log& log) {
  if (!fs::exists(model)) {
    const std::string name = model.string();
    if (const auto cached = find_in_hub_cache(name)) return find_model(*cached, log);
    throw InputError(fmt::format(
        "{}: no such folder; expected a Hugging Face folder, a run directory or a checkpoint{}",
        printable_path(model),
        is_hub_name(name) ? "; a model of the hub is fetched by: hf download " + name : ""));
  }
  require_input(fs::is_directory(model),
                "{}: is no folder; expected a Hugging Face folder, a run directory or a checkpoint",
                printable_path(model));
  if (const auto encoder = encoder_in(model)) {
    // Without config.json it is a module that nystrom lacks, which this names.
    if (!fs::exists(*encoder / "config.json")) read_sentence_modules(model);
    return find_model(*encoder, log);
  }
  if (fs::exists(model / "config.json")) {
    const std::string problem = settings_problem(model);
    require_input(problem.empty(),
                  "{}: {}; it is damaged or was edited: remove {} to use it all the same",
                  printable_path(model), problem, checkpoint_manifest);
    return model;
  }
  if (fs::is_directory(model / "checkpoints")) return best_checkpoint(model, log);
  if (const auto run = best_run_of_sweep(model)) {
    log.say(fmt::format("{}: is a sweep; taking its best run {}", printable_path(model),
                        printable_path(*run)));
    return best_checkpoint(model / *run, log);
  }
  return best_checkpoint(model, log);
}

ModelFolder::ModelFolder(fs::path place, HeadUse use, const std::vector<std::string>& overrides)
    : path(std::move(place)), weights_(std::make_shared<std::optional<ModelWeights>>()) {
  // transformers would apply an adapter to the weights beside it, or to those of another model.
  if (std::error_code ignored; fs::exists(path / "adapter_config.json", ignored))
    throw InputError(fmt::format("{}: {}", printable_path(path), what_folder_holds(path)));
  const fs::path file = path / "config.json";
  config_json = std::make_shared<const nlohmann::json>(read_json_file(file));
  config = read_hf_keys(*config_json, printable_path(file), use);
  architecture = architecture_of(*config_json);
  modules = read_sentence_modules(path);
  if (modules)
    config.embedding = modules->embedding;
  else if (use != HeadUse::discarded && !names_class(*config_json) && holds_masked_lm_head(*this))
    config.head = Head::masked_lm;  // as AutoModelForMaskedLM reads it
  own_decoder =
      config.head == Head::masked_lm && config.tie_word_embeddings && has_own_decoder(*this);
  if (own_decoder) config.tie_word_embeddings = false;
  if (!overrides.empty())
    override_model(config, printable_path(file), overrides);
  else if (use != HeadUse::replaceable)
    require_none(printable_path(file), problems(config));
}

const ModelWeights& ModelFolder::weights() const {
  if (!*weights_) *weights_ = ModelWeights::open(path);
  return **weights_;
}

ModelFolder ModelFolder::with(ModelConfig other) const {
  ModelFolder copy = *this;
  copy.config = std::move(other);
  return copy;
}

std::unique_ptr<Tokenizer> open_tokenizer_of(const ModelFolder& folder) {
  if (!has_tokenizer(folder.path)) return nullptr;
  auto tokenizer = open_tokenizer(folder.path);
  require_input(
      tokenizer->vocab_size() <= folder.config.vocab_size,
      "{}: the tokenizer has {} pieces, the model only {} rows; they do not belong together",
      printable_path(folder.path), tokenizer->vocab_size(), folder.config.vocab_size);
  return tokenizer;
}

std::unique_ptr<Tokenizer> require_tokenizer_of(const ModelFolder& folder) {
  auto tokenizer = open_tokenizer_of(folder);
  require_tokenizer(folder, tokenizer.get());
  return tokenizer;
}

void require_masked_lm(const ModelFolder& folder, const Tokenizer* tokenizer) {
  const std::string where = printable_path(folder.path);
  require_input(folder.config.head == Head::masked_lm,
                "{}: is a {}; expected a masked language model, {}", where,
                enum_name(folder.config.head), enum_name(Head::masked_lm));
  require_tokenizer(folder, tokenizer);
  with_context(where, [&] { require_masked_lm_tokens(*tokenizer); });
}

std::unique_ptr<Tokenizer> open_masked_lm_tokenizer(const ModelFolder& folder) {
  auto tokenizer = open_tokenizer_of(folder);
  require_masked_lm(folder, tokenizer.get());
  return tokenizer;
}

std::string semantics_notice(const ModelConfig& config) {
  const AttentionConfig& attention = config.attention;
  if (attention.semantics != Semantics::transformers || !config.has_kind(AttentionKind::nystrom))
    return "";
  if (config.exact_in_transformers())
    return fmt::format(
        "note: segment_means_seq_len == num_landmarks == {}, so transformers runs exact softmax "
        "attention, and so does this; --set model.attention.semantics=nystrom makes it Nyström",
        attention.num_landmarks);
  return fmt::format(
      "note: attention as transformers computes it (segments over padding, sequences of exactly {} "
      "positions); --set model.attention.semantics=nystrom chooses the padding-invariant one",
      config.segment_means_seq_len);
}

ModelFolder open_model(const fs::path& model, const std::vector<std::string>& overrides, Log& log,
                       HeadUse use) {
  ModelFolder folder(find_model(model, log), use, overrides);
  std::vector<std::string> lines = {prompts_notice(folder), code_notice(folder)};
  if (use == HeadUse::replaceable) {  // a run, which knows what it keeps
    lines.push_back(dropout_notice(folder));
  } else {
    lines.insert(lines.begin(), {semantics_notice(folder.config), architecture_notice(folder),
                                 modules_notice(folder)});
    std::ranges::move(decoder_notices(folder), std::back_inserter(lines));
  }
  // A command that discards the head knows that it is not read.
  if (use == HeadUse::kept) lines.push_back(unread_notice(folder));
  std::ranges::move(tokenizer_notices(folder.path), std::back_inserter(lines));
  for (const std::string& line : lines)
    if (!line.empty()) log.say(line);
  return folder;
}

fs::path find_tokenizer(const fs::path& path) {
  if (!fs::exists(path))
    if (const auto cached = find_in_hub_cache(path.string())) return find_tokenizer(*cached);
  const bool leads = encoder_in(path) || fs::is_directory(path / "checkpoints") ||
                     (fs::exists(path / "summary.json") && !has_tokenizer(path));
  Log quiet(true);
  return leads ? find_model(path, quiet) : path;
}

std::string label_types_of(const ModelFolder& source) {
  std::vector<fs::path> places = {source.path};
  for (const fs::path& own : places_of(source.path))
    if (const fs::path above = own.parent_path(); above.filename() == "checkpoints")
      places.push_back(above.parent_path());
  for (const fs::path& place : places)
    if (fs::is_regular_file(place / label_types_file))
      return read_text_file(place / label_types_file, max_config_bytes);
  return "";
}

std::int64_t trained_length(const ModelFolder& folder) {
  const ModelConfig& config = folder.config;
  std::int64_t longest = config.longest_sequence().value_or(config.segment_means_seq_len);
  if (folder.modules && folder.modules->max_seq_length && !config.fixed_length())
    return std::min(*folder.modules->max_seq_length, longest);
  const auto settings = settings_beside(folder.path);
  // BERT's family has no such option.
  if (!config.exact_in_transformers() && folder.architecture == nullptr) {
    longest = std::min(config.segment_means_seq_len, longest);
    if (config.fixed_length() || settings) return longest;
  }
  if (settings)
    return std::min(read_resolved_config(settings->string()).data.sequence_length, longest);
  const fs::path file = folder.path / "tokenizer_config.json";
  if (!fs::exists(file)) return longest;
  const auto tokenizer = read_json_file(file);
  const auto found = tokenizer.find("model_max_length");
  if (found == tokenizer.end() || !found->is_number()) return longest;
  const double length = found->get<double>();
  return length >= 1 && length < static_cast<double>(longest) ? static_cast<std::int64_t>(length)
                                                              : longest;
}

}  // namespace nystrom
