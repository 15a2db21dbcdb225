#include "data/tokenizer_folder.h"

#include <algorithm>

#include "core/check.h"
#include "core/json.h"
#include "data/sentencepiece_tokenizer.h"
#include "data/tokenizers/json_part.h"
#include "data/tokenizers/tokenizer_files.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr const char* sentencepiece_names[] = {"spiece.model", "tokenizer.model", "sentencepiece.bpe.model"};
constexpr std::size_t max_settings_bytes = std::size_t{16} << 20;

/// Files beside the tokenizer's own that are part of it.
constexpr const char* settings_names[] = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"};

std::string read(const fs::path& file) { return read_text_file(file, max_tokenizer_bytes); }

bool is_sentencepiece(const fs::path& file) { return file.extension() == ".model"; }

/// The file of a folder that decides; empty when there is none.
fs::path deciding_file(const fs::path& folder) {
  const auto exists = [&](const char* name) { return fs::exists(folder / name); };
  if (exists("spiece.model") && exists("tokenizer.json")) {
    const std::string its_class = read_tokenizer_settings(folder).tokenizer_class;
    const bool alberts = its_class.empty() || its_class.starts_with("AlbertTokenizer");
    return folder / (alberts ? "spiece.model" : "tokenizer.json");
  }
  if (exists("tokenizer.json")) return folder / "tokenizer.json";
  for (const char* name : sentencepiece_names)
    if (exists(name)) return folder / name;
  if (exists("vocab.txt")) return folder / "vocab.txt";
  if (exists("vocab.json") && exists("merges.txt")) return folder / "vocab.json";
  return {};
}

/// The tokens of an added_tokens.json, {"token": id}, as those of a tokenizer.json.
void read_more_tokens(const fs::path& file, TokenizerParts& parts) {
  if (!fs::exists(file)) return;
  const auto json = read_json_file(file, max_settings_bytes);
  const JsonPart map(json, printable_path(file));
  if (!json.is_object()) map.fail("expected an object from tokens to ids");
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [token, id] : json.items()) list.push_back({{"content", token}, {"id", id}, {"normalized", false}});
  const auto tokens = read_added_tokens(JsonPart(list, printable_path(file)), parts.vocabulary);
  for (const AddedToken& token : tokens) {
    const bool known = std::any_of(parts.added.begin(), parts.added.end(), [&](const AddedToken& other) { return other.id == token.id; });
    if (!known) parts.added.push_back(token);
  }
  const auto gap = parts.vocabulary.first_gap();
  require_input(!gap, "{}: nothing has id {}; expected all ids from 0 to {}", printable_path(file), gap.value_or(0),
                parts.vocabulary.size() - 1);
}

TokenizerParts read_parts(const fs::path& file, const TokenizerSettings& settings, std::vector<std::string>& own_files) {
  const fs::path folder = file.parent_path();
  const std::string name = file.filename();
  if (name == "tokenizer.json") {
    own_files = {"tokenizer.json", "vocab.txt", "vocab.json", "merges.txt"};
    return parse_tokenizer_json(read(file), printable_path(file));
  }
  TokenizerParts parts;
  if (name == "vocab.txt") {
    own_files = {"vocab.txt"};
    parts = parse_bert_vocabulary(read(file), printable_path(file), settings);
  } else {
    const fs::path vocabulary = folder / "vocab.json", merges = folder / "merges.txt";
    own_files = {"vocab.json", "merges.txt"};
    parts = parse_gpt2_vocabulary(read(vocabulary), printable_path(vocabulary), read(merges), printable_path(merges), settings);
  }
  read_more_tokens(folder / "added_tokens.json", parts);
  return parts;
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const fs::path& place) {
  const bool is_folder = fs::is_directory(place);
  const fs::path file = is_folder ? deciding_file(place) : place;
  const std::string name = file.filename();
  require_input(
      !is_folder || !file.empty(),
      "{}: holds no tokenizer; expected tokenizer.json, spiece.model or another SentencePiece model, vocab.txt, or vocab.json with "
      "merges.txt",
      printable_path(place));
  if (is_sentencepiece(file)) return std::make_unique<SentencePieceTokenizer>(SentencePieceTokenizer::open_beside_config(file));
  require_input(fs::exists(file), "{}: no such file or folder", printable_path(place));
  require_input(name == "tokenizer.json" || name == "vocab.txt" || name == "vocab.json" || name == "merges.txt",
                "{}: is no file of a tokenizer by its name; expected a folder, or a tokenizer.json, vocab.txt, vocab.json or *.model",
                printable_path(place));
  const TokenizerSettings settings = read_tokenizer_settings(file.parent_path());
  std::vector<std::string> names;
  TokenizerParts parts = read_parts(file, settings, names);
  find_special_ids(parts, settings);
  parts.cleans_up_spaces = settings.clean_up_spaces;
  names.insert(names.end(), std::begin(settings_names), std::end(settings_names));
  for (const std::string& each : names)
    if (fs::exists(file.parent_path() / each)) parts.files.push_back({each, read(file.parent_path() / each)});
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

bool has_tokenizer(const fs::path& folder) { return !deciding_file(folder).empty(); }

}  // namespace nystrom
