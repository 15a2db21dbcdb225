#include "data/tokenizers/tokenizer_folder.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/base/file_io.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/tokenizer_files.h"
#include "data/tokenizers/roberta_pieces.h"
#include "data/tokenizers/sentencepiece_tokenizer.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr const char* sentencepiece_names[] = {"spiece.model", "tokenizer.model",
                                               "sentencepiece.bpe.model"};

/// Files that belong to a tokenizer besides its vocabulary.
constexpr const char* settings_names[] = {"tokenizer_config.json", "special_tokens_map.json",
                                          "added_tokens.json"};

std::string read(const fs::path& file) { return read_text_file(file, max_tokenizer_bytes); }

bool is_sentencepiece(const fs::path& file) { return file.extension() == ".model"; }

/// Returns the file of a folder that decides its tokenizer, or an empty path when there is none.
fs::path deciding_file(const fs::path& folder) {
  const auto exists = [&](const char* name) { return fs::exists(folder / name); };
  if (exists("spiece.model") && exists("tokenizer.json")) {
    const TokenizerSettings settings = read_tokenizer_settings(folder);
    const std::string& its_class = settings.tokenizer_class;
    // keep_accents is an option of ALBERT's tokenizer, which our folders state.
    const bool alberts = its_class.empty() || its_class == "AlbertTokenizer" ||
                         (its_class == "PreTrainedTokenizer" && settings.keep_accents);
    return folder / (alberts ? "spiece.model" : "tokenizer.json");
  }
  if (exists("tokenizer.json")) return folder / "tokenizer.json";
  for (const char* name : sentencepiece_names)
    if (exists(name)) return folder / name;
  if (exists("vocab.txt")) return folder / "vocab.txt";
  if (exists("vocab.json") && exists("merges.txt")) return folder / "vocab.json";
  return {};
}

constexpr const char* roberta_model = "sentencepiece.bpe.model";

/// Whether the file is a SentencePiece model with RoBERTa's special tokens.
bool is_robertas(const fs::path& file) {
  return file.filename() == roberta_model &&
         has_roberta_pieces(scan_sentencepiece(read(file), printable_path(file)));
}

/// The class of a tokenizer whose own files do not name it: that of the model in config.json.
std::string class_of_model(const fs::path& folder) {
  if (!fs::exists(folder / "config.json")) return "";
  const nlohmann::json config = read_json_file(folder / "config.json");
  const bool typed = config.is_object() && config.contains("model_type");
  return typed && config["model_type"] == "camembert" ? "CamembertTokenizer" : "";
}

/// The parts of a sentencepiece.bpe.model, through the tokenizer.json that stands for it.
TokenizerParts read_roberta_parts(const fs::path& file, TokenizerSettings& settings) {
  if (settings.tokenizer_class.empty())
    settings.tokenizer_class = class_of_model(file.parent_path());
  const bool camembert = settings.tokenizer_class == "CamembertTokenizer";
  settings.tokenizer_class.clear();  // the class changes tokenizer.json files of others
  const std::string source = printable_path(file);
  const std::string json =
      roberta_tokenizer_json(scan_sentencepiece(read(file), source),
                             camembert ? PieceOrder::camembert : PieceOrder::xlm_roberta, source);
  TokenizerParts parts = parse_tokenizer_json(json, source, settings);
  parts.hugging_face_class = camembert ? "CamembertTokenizer" : "XLMRobertaTokenizer";
  parts.files.push_back({"tokenizer.json", json});
  return parts;
}

TokenizerParts read_parts(const fs::path& file, TokenizerSettings& settings,
                          std::vector<std::string>& own_files) {
  const fs::path folder = file.parent_path();
  const std::string name = file.filename();
  if (name == "tokenizer.json") {
    own_files = {"tokenizer.json", "vocab.txt", "vocab.json", "merges.txt"};
    return parse_tokenizer_json(read(file), printable_path(file), settings);
  }
  if (name == roberta_model) {
    own_files = {roberta_model};
    return read_roberta_parts(file, settings);
  }
  if (name == "vocab.txt") {
    own_files = {"vocab.txt"};
    return parse_bert_vocabulary(read(file), printable_path(file), settings);
  }
  const fs::path vocabulary = folder / "vocab.json", merges = folder / "merges.txt";
  own_files = {"vocab.json", "merges.txt"};
  return parse_gpt2_vocabulary(read(vocabulary), printable_path(vocabulary), read(merges),
                               printable_path(merges), settings);
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const fs::path& place) {
  const bool is_folder = fs::is_directory(place);
  const fs::path file = is_folder ? deciding_file(place) : place;
  const std::string name = file.filename();
  require_input(!is_folder || !file.empty(),
                "{}: holds no tokenizer; expected tokenizer.json, spiece.model or another "
                "SentencePiece model, vocab.txt, or vocab.json with "
                "merges.txt",
                printable_path(place));
  const bool robertas = fs::exists(file) && is_robertas(file);
  if (is_sentencepiece(file) && !robertas)
    return std::make_unique<SentencePieceTokenizer>(
        SentencePieceTokenizer::open_beside_config(file));
  require_input(fs::exists(file), "{}: no such file or folder", printable_path(place));
  require_input(name == "tokenizer.json" || name == "vocab.txt" || name == "vocab.json" ||
                    name == "merges.txt" || robertas,
                "{}: is no file of a tokenizer by its name; expected a folder, or a "
                "tokenizer.json, vocab.txt, vocab.json or *.model",
                printable_path(place));
  TokenizerSettings settings = read_tokenizer_settings(file.parent_path());
  std::vector<std::string> names;
  TokenizerParts parts = read_parts(file, settings, names);
  add_tokens_of(settings, parts, name == "tokenizer.json" || robertas);
  find_special_ids(parts, settings);
  parts.cleans_up_spaces = settings.clean_up_spaces;
  names.insert(names.end(), std::begin(settings_names), std::end(settings_names));
  for (const std::string& each : names)
    if (fs::exists(file.parent_path() / each))
      parts.files.push_back({each, read(file.parent_path() / each)});
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

bool has_tokenizer(const fs::path& folder) { return !deciding_file(folder).empty(); }

}  // namespace nystrom
