// Questions from SQuAD's JSON, versions 1.1 and 2.0: data › paragraphs › qas › answers.
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "core/check.h"
#include "data/tasks/example_files.h"
#include "data/tasks/word_cut.h"
#include "data/text/line_reader.h"

namespace nystrom {
namespace {

using Json = nlohmann::json;

constexpr std::size_t max_squad_bytes = std::size_t{1} << 30;

/// The byte offsets of a text's characters, and its end.
std::vector<std::int64_t> character_starts(const std::string& text) {
  std::vector<std::int64_t> starts;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (!is_utf8_continuation(text[i])) starts.push_back(static_cast<std::int64_t>(i));
  starts.push_back(static_cast<std::int64_t>(text.size()));
  return starts;
}

const Json& member(const Json& object, const char* key, const std::string& place) {
  require_input(object.is_object(), "{} is {}, expected an object", place, json_kind(object));
  require_input(object.contains(key), "{}: there is no key '{}'", place, key);
  return object[key];
}
const Json& list(const Json& object, const char* key, const std::string& place) {
  const Json& value = member(object, key, place);
  require_input(value.is_array(), "{}: '{}' is {}, expected a list", place, key, json_kind(value));
  return value;
}
const std::string& as_text(const Json& value, const char* key, const std::string& place) {
  require_input(value.is_string(), "{}: '{}' is {}, expected a text", place, key, json_kind(value));
  return value.get_ref<const std::string&>();
}
const std::string& text(const Json& object, const char* key, const std::string& place) {
  return as_text(member(object, key, place), key, place);
}

/// The part of the context with as many characters as `text`.
std::string_view characters_at(std::string_view context, std::size_t begin, std::string_view text) {
  std::size_t end = begin;
  for (std::size_t i = 0; i < text.size() && end < context.size(); i += utf8_length(text[i]))
    end += utf8_length(context[end]);
  return context.substr(begin, end - begin);
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

/// The answer `answer_text` in the context, whose characters begin at `starts`.
Answer read_answer(const Json& answer_text, const Json& start, const std::string& context,
                   const std::vector<std::int64_t>& starts, const std::string& name) {
  Answer answer{as_text(answer_text, "text", name), 0};
  const auto characters = static_cast<std::int64_t>(starts.size()) - 1;
  require_input(start.is_number_integer(), "{}: 'answer_start' is {}, expected a whole number",
                name, json_kind(start));
  const auto character = start.get<std::int64_t>();
  require_input(!is_blank(answer.text), "{}: the text of an answer is {}", name,
                answer.text.empty() ? "empty" : "nothing but white space");
  require_input(character >= 0 && character < characters,
                "{}: answer_start {} lies outside the context of {} characters", name, character,
                characters);
  answer.begin = starts[static_cast<std::size_t>(character)];
  const auto begin = static_cast<std::size_t>(answer.begin);
  require_input(context.compare(begin, answer.text.size(), answer.text) == 0,
                "{}: at answer_start {} the context has '{}', not the answer's text '{}'{}", name,
                character, printable(characters_at(context, begin, answer.text), 40),
                printable(answer.text, 40), found_at(context, answer.text, starts));
  return answer;
}

class SquadExamples {
 public:
  SquadExamples(const TaskConfig& task, const std::filesystem::path& file, Labelled labelled)
      : task_(task),
        labelled_(labelled),
        file_(std::make_shared<std::string>(printable_path(file))) {
    const std::string text = read_whole(file, max_squad_bytes);
    try {
      document_ = parse_json(text, *file_);
    } catch (const InputError& error) {
      throw InputError(error.what() + encoding_remedy(text));
    }
    require_input(
        document_.is_object() && document_.contains("data"),
        "{}: there is no key 'data' at the top; expected SQuAD's form: data, paragraphs, qas; "
        "for rows with the columns question, context and answers set task.format to json",
        *file_);
    list_questions();
  }

  /// The next question; nothing after the last. Continues behind a BadRow.
  std::optional<Example> next() {
    if (next_ == questions_.size()) return std::nullopt;
    try {
      return read_question(questions_[next_++]);
    } catch (const InputError& error) {  // later questions can still be read
      throw BadRow(error.what());
    }
  }

 private:
  struct Question {
    const Json* json;
    std::string_view context;
    std::shared_ptr<const std::string> paragraph;  // "dev.json: data[0].paragraphs[3]"
    std::size_t number;
  };

  void list_questions() {
    const Json& articles = list(document_, "data", *file_);
    for (std::size_t a = 0; a < articles.size(); ++a) {
      const std::string article = fmt::format("{}: data[{}]", *file_, a);
      const Json& paragraphs = list(articles[a], "paragraphs", article);
      for (std::size_t p = 0; p < paragraphs.size(); ++p) {
        const auto place =
            std::make_shared<const std::string>(fmt::format("{}.paragraphs[{}]", article, p));
        const Json& questions = list(paragraphs[p], "qas", *place);
        const std::string_view context = text(paragraphs[p], "context", *place);
        for (std::size_t q = 0; q < questions.size(); ++q)
          questions_.push_back({&questions[q], context, place, q});
      }
    }
  }

  Example read_question(const Question& from) {
    const Json& question = *from.json;
    const std::string place = fmt::format("{}.qas[{}]", *from.paragraph, from.number);
    Example example;
    example.file = file_;
    const Json& id = member(question, "id", place);
    example.id = id.is_number_integer() ? id.dump() : text(question, "id", place);
    example.text = text(question, "question", place);
    example.pair = std::string(from.context);
    const std::string name = example.place();
    require_input(ids_.insert(example.id).second, "{}: an earlier question has the same id", name);
    check_text(example.text, name);
    check_text(*example.pair, name);
    require_input(!is_blank(example.text), "{}: the question is empty", name);
    require_input(!is_blank(*example.pair), "{}: the context is empty", name);
    if (labelled_ == Labelled::optional) return example;
    const std::optional<bool> impossible = is_impossible(question, name);
    const bool unanswered = impossible == true && !question.contains("answers");
    const Json answers = unanswered ? Json::array() : list(question, "answers", name);
    require_input(impossible != true || answers.empty(),
                  "{}: 'is_impossible' is true, but it has an answer; correct one of them", name);
    require_input(impossible != false || !answers.empty(),
                  "{}: 'is_impossible' is false, but it has no answer; correct one of them", name);
    read_answers(task_, answers, example);
    return example;
  }

  /// Nothing in SQuAD 1.1, which lacks this key.
  static std::optional<bool> is_impossible(const Json& question, const std::string& name) {
    if (!question.contains("is_impossible")) return std::nullopt;
    const Json& value = question["is_impossible"];
    require_input(value.is_boolean(), "{}: 'is_impossible' is {}, expected true or false", name,
                  json_kind(value));
    return value.get<bool>();
  }

  const TaskConfig& task_;
  Labelled labelled_;
  std::shared_ptr<const std::string> file_;
  Json document_;
  std::vector<Question> questions_;
  std::size_t next_ = 0;
  std::set<std::string> ids_;
};

}  // namespace

void read_answers(const TaskConfig& task, const Json& answers, Example& example) {
  const std::string name = example.place();
  const std::vector<std::int64_t> starts = character_starts(*example.pair);
  const auto add = [&](const Json& text, const Json& start) {
    example.answers.push_back(read_answer(text, start, *example.pair, starts, name));
  };
  if (answers.is_object()) {
    const Json &texts = list(answers, "text", name), &places = list(answers, "answer_start", name);
    require_input(texts.size() == places.size(), "{}: there are {} texts but {} of 'answer_start'",
                  name, texts.size(), places.size());
    for (std::size_t i = 0; i < texts.size(); ++i) add(texts[i], places[i]);
  } else {
    require_input(answers.is_array(), "{}: 'answers' is {}, expected SQuAD's answers", name,
                  json_kind(answers));
    for (const Json& each : answers)
      add(member(each, "text", name), member(each, "answer_start", name));
  }
  example.labelled = true;
  require_input(!example.answers.empty() || task.no_answer == true,
                "{}: it has no answer; set task.no_answer to true if contexts may have none, as in "
                "SQuAD 2.0",
                name);
}

void read_squad(const TaskConfig& task, const std::filesystem::path& file, Labelled labelled,
                ExampleSink& sink) {
  SquadExamples questions(task, file, labelled);
  sink.take_all([&] { return questions.next(); });
}

}  // namespace nystrom
