// Questions from SQuAD's JSON, versions 1.1 and 2.0: data › paragraphs › qas › answers.
#include <algorithm>
#include <optional>
#include <set>

#include "core/base/json_part.h"
#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "core/check.h"
#include "data/tasks/example_files.h"
#include "data/tasks/word_cut.h"
#include "data/text/line_reader.h"

namespace nystrom {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t max_squad_bytes = std::int64_t{1} << 30;

/// The byte offsets of a text's characters, and its end.
std::vector<std::int64_t> character_starts(const std::string& text) {
  std::vector<std::int64_t> starts;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (!is_utf8_continuation(text[i])) starts.push_back(static_cast<std::int64_t>(i));
  starts.push_back(static_cast<std::int64_t>(text.size()));
  return starts;
}

std::string found_at(const std::string& context, const std::string& text,
                     const std::vector<std::int64_t>& starts) {
  const std::size_t place = context.find(text);
  if (place == std::string::npos) return ", which is nowhere in it";
  const auto character =
      std::lower_bound(starts.begin(), starts.end(), static_cast<std::int64_t>(place)) -
      starts.begin();
  return fmt::format(", which is at {}", character);
}

/// The answer `text` at a character of the context, whose characters begin at `starts`.
Answer read_answer(std::string text, std::int64_t character, const std::string& context,
                   const std::vector<std::int64_t>& starts, const std::string& name) {
  const auto characters = static_cast<std::int64_t>(starts.size()) - 1;
  require_input(!is_blank(text), "{}: the text of an answer is {}", name,
                text.empty() ? "empty" : "nothing but white space");
  require_input(character >= 0 && character < characters,
                "{}: answer_start {} lies outside the context of {} characters", name, character,
                characters);
  const std::int64_t last =
      std::min(character + static_cast<std::int64_t>(count_characters(text)), characters);
  const auto begin = static_cast<std::size_t>(starts[static_cast<std::size_t>(character)]),
             end = static_cast<std::size_t>(starts[static_cast<std::size_t>(last)]);
  const std::string there = context.substr(begin, end - begin);
  require_input(
      there == text, "{}: at answer_start {} the context has '{}', not the answer's text '{}'{}",
      name, character, printable(there, 40), printable(text, 40), found_at(context, text, starts));
  return {std::move(text), static_cast<std::int64_t>(begin)};
}

Example read_question(const TaskConfig& task, const JsonPart& question, const std::string& context,
                      Labelled labelled, const std::shared_ptr<const std::string>& file) {
  Example example;
  example.file = file;
  const JsonPart id = question["id"];
  example.id = id.value().is_number_integer() ? id.value().dump() : id.text();
  example.named = task.columns.id.has_value();
  example.text = question["question"].text();
  example.pair = context;
  const std::string name = example.place();
  check_text(example.text, name);
  check_text(context, name);
  require_input(!is_blank(example.text), "{}: the question is empty", name);
  require_input(!is_blank(context), "{}: the context is empty", name);
  if (labelled == Labelled::optional) return example;
  std::optional<std::string> impossible;  // nothing in SQuAD 1.1, which lacks this key
  if (const auto part = question.find("is_impossible"))
    impossible = part->boolean() ? "true" : "false";
  const bool unanswered = impossible == "true" && !question.find("answers");
  static const Json none = Json::array();
  read_answers(task, unanswered ? JsonPart(none, name) : question["answers"], impossible, example);
  return example;
}

Json parse_document(const std::filesystem::path& file, const std::string& name) {
  const std::string text = read_whole(file, max_squad_bytes);
  try {
    return parse_json(text, name);
  } catch (const InputError& error) {
    throw InputError(error.what() + encoding_remedy(text));
  }
}

}  // namespace

void read_answers(const TaskConfig& task, const JsonPart& answers,
                  const std::optional<std::string>& impossible, Example& example) {
  const std::string name = example.place();
  const std::vector<std::int64_t> starts = character_starts(*example.pair);
  const auto add = [&](const JsonPart& text, const JsonPart& start) {
    example.answers.push_back(
        read_answer(text.text(), start.integer(INT64_MIN, INT64_MAX), *example.pair, starts, name));
  };
  if (answers.value().is_object()) {
    const auto texts = answers["text"].elements(), places = answers["answer_start"].elements();
    require_input(texts.size() == places.size(), "{}: there are {} texts but {} of 'answer_start'",
                  name, texts.size(), places.size());
    for (std::size_t i = 0; i < texts.size(); ++i) add(texts[i], places[i]);
  } else {
    require_input(answers.value().is_array(), "{}: 'answers' is {}, expected SQuAD's answers", name,
                  json_kind(answers.value()));
    for (const JsonPart& each : answers.elements()) add(each["text"], each["answer_start"]);
  }
  example.labelled = true;
  require_input(!impossible || *impossible == (example.answers.empty() ? "true" : "false"),
                "{}: 'is_impossible' is {}, but it has {} answer; correct one of them", name,
                printable(impossible.value_or("")), example.answers.empty() ? "no" : "an");
  require_input(!example.answers.empty() || task.no_answer == true,
                "{}: it has no answer; set task.no_answer to true if contexts may have none, as in "
                "SQuAD 2.0",
                name);
}

void read_squad(const TaskConfig& task, const std::filesystem::path& file, Labelled labelled,
                ExampleSink& sink) {
  const auto name = std::make_shared<const std::string>(printable_path(file));
  const Json document = parse_document(file, *name);
  require_input(
      document.is_object() && document.contains("data"),
      "{}: there is no key 'data' at the top; expected SQuAD's form: data, paragraphs, qas; "
      "for rows with the columns question, context and answers set task.format to json",
      *name);
  // The form of the whole file is checked before a question is used.
  std::vector<std::pair<std::string, std::vector<JsonPart>>> paragraphs;
  for (const JsonPart& article : JsonPart(document, *name)["data"].elements())
    for (const JsonPart& paragraph : article["paragraphs"].elements())
      paragraphs.emplace_back(paragraph["context"].text(), paragraph["qas"].elements());
  std::set<std::string> ids;
  for (const auto& paragraph : paragraphs) {
    for (const JsonPart& question : paragraph.second) {
      const auto read = [&] {
        try {
          Example example = read_question(task, question, paragraph.first, labelled, name);
          require_input(ids.insert(example.id).second, "{}: an earlier question has the same id",
                        example.place());
          return example;
        } catch (const InputError& error) {  // later questions can still be read
          throw BadRow(error.what());
        }
      };
      if (!sink.take(read)) return;
    }
  }
}

}  // namespace nystrom
