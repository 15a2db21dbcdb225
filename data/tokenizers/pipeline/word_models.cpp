#include "data/tokenizers/pipeline/word_models.h"

#include <limits>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/json_part.h"

namespace nystrom {
namespace {

std::unique_ptr<WordModel> read_wordpiece(const JsonPart& part) {
  WordPieceOptions options;
  options.unknown = part.text_or("unk_token", options.unknown);
  options.prefix = part.text_or("continuing_subword_prefix", options.prefix);
  if (const auto most = part.find("max_input_chars_per_word"))
    options.max_characters = most->integer(1, std::numeric_limits<std::int32_t>::max());
  return wordpiece_model(Vocabulary::read(part["vocab"]), options);
}

/// Reads merges. Each is a list of two pieces, or a string with a space between them.
Merges read_merges(const JsonPart& part) {
  Merges merges;
  if (!part.value().is_array()) part.fail("expected a list");
  for (const nlohmann::json& each : part.value()) {
    if (each.is_array() && each.size() == 2 && each[0].is_string() && each[1].is_string()) {
      merges.emplace_back(each[0].get<std::string>(), each[1].get<std::string>());
      continue;
    }
    const std::string text = each.is_string() ? each.get<std::string>() : "";
    const std::size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos)
      part.fail(fmt::format(
          "merge {} is {}, expected two pieces", merges.size(),
          printable(each.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), 60)));
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return merges;
}

std::unique_ptr<WordModel> read_bpe(const JsonPart& part) {
  if (const auto dropout = part.find("dropout"); dropout && dropout->number() != 0)
    dropout->fail("dropout of merges is not supported");
  BpeOptions options;
  options.unknown = part.text_or("unk_token", "");
  options.continuing_prefix = part.text_or("continuing_subword_prefix", "");
  options.end_suffix = part.text_or("end_of_word_suffix", "");
  options.fuse_unknown = part.boolean_or("fuse_unk", false);
  options.byte_fallback = part.boolean_or("byte_fallback", false);
  options.ignore_merges = part.boolean_or("ignore_merges", false);
  return bpe_model(Vocabulary::read(part["vocab"]), read_merges(part["merges"]), options,
                   part.where());
}

std::unique_ptr<WordModel> read_unigram(const JsonPart& part) {
  const JsonPart list = part["vocab"];
  if (!list.value().is_array()) list.fail("expected a list of pieces with scores");
  if (list.value().empty()) list.fail("the vocabulary is empty");
  if (list.value().size() > max_pieces)
    list.fail(fmt::format("{} pieces, expected at most {}", list.value().size(), max_pieces));
  Vocabulary vocabulary;
  std::vector<double> scores;
  for (const nlohmann::json& each : list.value()) {
    const bool fits =
        each.is_array() && each.size() == 2 && each[0].is_string() && each[1].is_number();
    if (!fits)
      list.fail(fmt::format("element {} is no list of a piece and its score", scores.size()));
    const auto piece = each[0].get<std::string>();
    if (!vocabulary.add(piece, static_cast<std::int32_t>(scores.size())))
      list.fail(fmt::format("'{}' stands in it twice", printable(piece)));
    scores.push_back(each[1].get<double>());
  }
  std::optional<std::int32_t> unknown;
  if (const auto id = part.find("unk_id"))
    unknown = static_cast<std::int32_t>(id->integer(0, vocabulary.size() - 1));
  return unigram_model(std::move(vocabulary), std::move(scores), unknown,
                       part.boolean_or("byte_fallback", false));
}

}  // namespace

void refuse_unknown(const std::string& unknown) {
  throw InputError(
      fmt::format("the text holds what is no piece of the tokenizer, whose vocabulary lacks the "
                  "unknown token '{}'",
                  printable(unknown)));
}

std::unique_ptr<WordModel> read_word_model(const JsonPart& part) {
  // Older files do not name the type. It follows from their members.
  const bool has_merges = part.value().is_object() && part.value().contains("merges");
  const bool has_list = part.value().is_object() && part.value().contains("vocab") &&
                        part.value()["vocab"].is_array();
  const std::string type = part.text_or("type", has_merges ? "BPE"
                                                : has_list ? "Unigram"
                                                           : "WordPiece");
  if (type == "Unigram") return read_unigram(part);
  if (type == "WordPiece") return read_wordpiece(part);
  if (type == "BPE") return read_bpe(part);
  part.fail(
      fmt::format("models of type '{}' are not supported; known are BPE, Unigram and WordPiece",
                  printable(type)));
}

}  // namespace nystrom
