#include "data/tokenizers/tokenizer_folder.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/base/file_io.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/tokenizer_files.h"
#include "data/tokenizers/sentencepiece_json.h"
#include "data/tokenizers/sentencepiece_scan.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr const char* sentencepiece_names[] = {"spiece.model", "tokenizer.model",
                                               "sentencepiece.bpe.model"};

std::string read(const fs::path& file) { return read_text_file(file, std::size_t{64} << 20); }

bool is_sentencepiece(const fs::path& file) { return file.extension() == ".model"; }

/// Returns the file of a folder that decides its tokenizer, or an empty path when there is none.
fs::path deciding_file(const fs::path& folder) {
  const auto exists = [&](const char* name) { return fs::exists(folder / name); };
  if (exists("tokenizer.json")) return folder / "tokenizer.json";
  for (const char* name : sentencepiece_names)
    if (exists(name)) return folder / name;
  if (exists("vocab.txt")) return folder / "vocab.txt";
  if (exists("vocab.json") && exists("merges.txt")) return folder / "vocab.json";
  return {};
}

/// Throws an InputError unless the class is among `known`, for vocabularies of which each class
/// makes another tokenizer. Without a class it becomes `otherwise`.
void require_class(const std::string& source, std::initializer_list<const char*> known,
                   const char* otherwise, TokenizerSettings& settings) {
  if (settings.its_class == nullptr) {
    settings.its_class = find_tokenizer_class(otherwise);
    settings.token_types = settings.token_types.value_or(true);  // those of the template
  }
  require_input(std::ranges::find(known, settings.its_class->name) != known.end(),
                "{}: is read as that of {}, not of {}; save it as tokenizer.json once: "
                "AutoTokenizer.from_pretrained(…).save_pretrained(…)",
                source, fmt::join(known, ", "), settings.its_class->name);
}

std::string json_of_sentencepiece(const fs::path& file, const std::string& source,
                                  TokenizerSettings& settings) {
  const SentencePieceModel model = scan_sentencepiece(read(file), source);
  // Most models begin with these pieces, and only those of this name have other ids.
  if (file.filename() == "sentencepiece.bpe.model" && has_roberta_pieces(model)) {
    require_class(source, {"XLMRobertaTokenizer", "CamembertTokenizer", "PreTrainedTokenizer"},
                  "XLMRobertaTokenizer", settings);
    return roberta_tokenizer_json(model, settings.its_class->name == "CamembertTokenizer", source);
  }
  require_class(source, {"AlbertTokenizer", "PreTrainedTokenizer"}, "AlbertTokenizer", settings);
  return albert_tokenizer_json(
      model, {settings.lower_case.value_or(true), settings.keep_accents.value_or(false)}, source);
}

/// The tokenizer.json that stands for the file, by the settings. They get a class if they have none
/// and the kind of file decides it.
std::string json_of(const fs::path& file, TokenizerSettings& settings) {
  const std::string name = file.filename(), source = printable_path(file);
  if (name == "tokenizer.json") return read(file);
  if (is_sentencepiece(file)) return json_of_sentencepiece(file, source, settings);
  settings.made_of_vocabulary = true;
  if (name == "vocab.txt") {
    require_class(
        source,
        {"BertTokenizer", "ConvBertTokenizer", "DPRContextEncoderTokenizer",
         "DPRQuestionEncoderTokenizer", "DPRReaderTokenizer", "DistilBertTokenizer",
         "ElectraTokenizer", "LayoutLMTokenizer", "LxmertTokenizer", "MobileBertTokenizer",
         "PreTrainedTokenizer", "RealmTokenizer", "RetriBertTokenizer", "SqueezeBertTokenizer"},
        "BertTokenizer", settings);
    return bert_tokenizer_json(read(file), source, settings);
  }
  const fs::path vocabulary = file.parent_path() / "vocab.json",
                 merges = file.parent_path() / "merges.txt";
  const nlohmann::json json = parse_json(read(vocabulary), printable_path(vocabulary));
  const bool has_roberta_names = json.is_object() && json.contains("<s>") &&
                                 json.contains("</s>") && json.contains("<pad>") &&
                                 json.contains("<mask>");
  require_class(source,
                {"RobertaTokenizer", "BartTokenizer", "LEDTokenizer", "LongformerTokenizer",
                 "MvpTokenizer", "GPT2Tokenizer", "PreTrainedTokenizer"},
                has_roberta_names ? "RobertaTokenizer" : "GPT2Tokenizer", settings);
  return gpt2_tokenizer_json(json, printable_path(vocabulary), read(merges), printable_path(merges),
                             settings);
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
  require_input(fs::exists(file), "{}: no such file or folder", printable_path(place));
  require_input(name == "tokenizer.json" || name == "vocab.txt" || name == "vocab.json" ||
                    name == "merges.txt" || is_sentencepiece(file),
                "{}: is no file of a tokenizer by its name; expected a folder, or a "
                "tokenizer.json, vocab.txt, vocab.json or *.model",
                printable_path(place));
  TokenizerSettings settings = read_tokenizer_settings(file.parent_path());
  const std::string source = name == "vocab.json" ? file.parent_path() / "merges.txt" : file;
  const std::string json = json_of(file, settings);
  return tokenizer_of_json(json, printable_path(source), settings);
}

bool has_tokenizer(const fs::path& folder) { return !deciding_file(folder).empty(); }

}  // namespace nystrom
