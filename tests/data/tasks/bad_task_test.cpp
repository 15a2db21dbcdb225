// All errors in the files of a task, each with one exact line.
#include <gtest/gtest.h>

#include "core/check.h"
#include "data/tasks/task_dataset.h"
#include "tests/data/tasks/letter_tokenizer.h"
#include "tests/support/named.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

/// Changes one option of a task.
using Change = void (*)(TaskConfig&);
void unchanged(TaskConfig&) {}

struct BadFile : testing::Named {
  TaskKind kind;
  Change change;
  const char* file;
  std::string text;
  std::string message;  // DIR/ stands for the folder
};

void two_labels(TaskConfig& task) { task.labels = {"neg", "pos"}; }
void no_header(TaskConfig& task) {
  task.header = false;
  task.columns.text = "3";
  task.columns.label = "1";
}
void with_pair(TaskConfig& task) { task.columns.pair = "pair"; }
void two_choices(TaskConfig& task) { task.columns.choices = {"a", "b"}; }
void list_of_choices(TaskConfig& task) { task.columns.choices = {"endings"}; }
void named_choices(TaskConfig& task) {
  two_choices(task);
  task.labels = {"A", "B"};
}
void three_names(TaskConfig& task) {
  two_choices(task);
  task.labels = {"A", "B", "C"};
}
void cola(TaskConfig& task) {
  task.kind.reset();
  task.recipe = "cola";
}
void no_answer(TaskConfig& task) { task.no_answer = true; }

void several(TaskConfig& task) { task.multi_label = true; }
void separated(TaskConfig& task) { task.label_separator = "|"; }
void by_columns(TaskConfig& task) { task.columns.labels = {"a", "b"}; }
void several_of_two(TaskConfig& task) {
  several(task);
  two_labels(task);
}

constexpr auto classification = TaskKind::classification, regression = TaskKind::regression,
               tokens = TaskKind::tokens, questions = TaskKind::questions,
               choice = TaskKind::choice;

/// UTF-16, as some editors save text. Every second byte of ASCII text is then NUL.
std::string utf16(const std::string& ascii) {
  std::string text = "\xFF\xFE";
  for (const char c : ascii) text += {c, '\0'};
  return text;
}

/// A SQuAD file with one question, or with several separated by commas.
std::string squad(const std::string& question) {
  return R"({"data": [{"paragraphs": [{"context": "The año 1900 began.", "qas": [)" + question +
         "]}]}]}";
}

const BadFile bad_files[] = {
    // Tables
    {"missing_column", classification, unchanged, "a.tsv", "sentence\tlabel\nx\t1\n",
     "DIR/a.tsv:1: there is no column 'text'; columns: 'sentence', 'label'; name the column by "
     "task.columns.text"},
    {"mistyped_column", classification, with_pair, "a.tsv", "text\tpairs\tlabel\nx\ty\t1\n",
     "DIR/a.tsv:1: there is no column 'pair'; did you mean 'pairs'?; columns: 'text', 'pairs', "
     "'label'; name the column by task.columns.pair"},
    {"label_column_missing", classification, unchanged, "a.csv", "text,score\nx,1\n",
     "DIR/a.csv:1: there is no column 'label'; columns: 'text', 'score'; name the column by "
     "task.columns.label"},
    {"commas_in_tsv", classification, unchanged, "a.tsv", "text,label\nx,1\n",
     "DIR/a.tsv:1: there is no column 'text'; columns: 'text,label'; if commas separate them, set "
     "task.format to csv"},
    {"comma_in_one_of_two_columns", classification, unchanged, "a.tsv",
     "text,label\tother\nx,1\t2\n",
     "DIR/a.tsv:1: there is no column 'text'; columns: 'text,label', 'other'; name the column by "
     "task.columns.text"},
    {"tabs_in_csv", classification, unchanged, "a.csv", "text\tlabel\nx\t1\n",
     "DIR/a.csv:1: there is no column 'text'; columns: 'text\\x09label'; if tabs separate them, "
     "set task.format to tsv"},
    {"duplicate_column", classification, unchanged, "a.tsv", "text\tlabel\ttext\nx\t1\ty\n",
     "DIR/a.tsv:1: columns 1 and 3 are both called 'text'"},
    {"empty_file", classification, unchanged, "a.tsv", "",
     "DIR/a.tsv: the file is empty; expected a row with the names of its columns"},
    {"only_a_mark", classification, unchanged, "a.tsv", "\xEF\xBB\xBF",
     "DIR/a.tsv: the file is empty; expected a row with the names of its columns"},
    {"header_alone", classification, unchanged, "a.tsv", "text\tlabel\n",
     "DIR/a.tsv: there is no example in it"},
    {"empty_without_header", classification, no_header, "a.tsv", "",
     "DIR/a.tsv: there is no example in it"},
    {"too_few_cells", classification, unchanged, "a.tsv", "text\tlabel\nx\t1\ny\n",
     "DIR/a.tsv:3: the row has 1 column, expected as many as the header: 2"},
    {"too_many_cells", classification, unchanged, "a.csv", "text,label\nx, y,1\n",
     "DIR/a.csv:2: the row has 3 columns, expected as many as the header: 2"},
    {"too_few_columns", classification, no_header, "a.tsv", "1\t\tx\n0\ty\n",
     "DIR/a.tsv:2: the row has 2 columns, expected at least 3"},
    {"unclosed_quote", classification, unchanged, "a.csv", "text,label\n\"x,1\ny,0\n",
     "DIR/a.csv:2: the quote that opens in column 1 is not closed"},
    {"text_behind_quote", classification, unchanged, "a.csv", "text,label\n\"x\" y,1\n",
     "DIR/a.csv:2: column 1 has text after its closing quote; a quote inside a cell is written "
     "twice"},
    {"quote_inside", classification, unchanged, "a.csv", "text,label\n5\" disk,1\n",
     "DIR/a.csv:2: column 1 has a quote inside a cell that does not begin with one; put the whole "
     "cell in quotes and double those inside"},
    {"latin_1", classification, unchanged, "a.tsv", "text\tlabel\ncaf\xE9\t1\n",
     "DIR/a.tsv:2: column 1: byte 4 is not UTF-8 (\\xe9); if the file is Latin-1, convert it, as "
     "with iconv -f WINDOWS-1252 -t UTF-8"},
    {"utf_16", classification, unchanged, "a.tsv", "\xFF\xFEt\x01",
     "DIR/a.tsv:1: byte 1 is not UTF-8 (\\xff); the file is UTF-16: convert it, as with iconv -f "
     "UTF-16 -t UTF-8"},
    {"utf_16_without_mark", classification, unchanged, "a.tsv",
     utf16("text\tlabel\nx\t1\n").substr(2),
     "DIR/a.tsv:1: byte 2 is NUL; this is no text; the file is UTF-16: convert it, as with iconv "
     "-f UTF-16 -t UTF-8"},
    {"packed", classification, unchanged, "a.csv", "BZh91AY&SY\x93,\"x\"",
     "DIR/a.csv:1: byte 11 is not UTF-8 (\\x93); the file is bzip2 data: unpack it"},
    {"packed_by_excel", classification, unchanged, "a.xlsx", "PK\x03\x04x",
     "DIR/a.xlsx: the ending of its name does not tell its form; the file is zip data: unpack it, "
     "or save Excel's as .csv"},
    {"returns_alone", classification, unchanged, "a.tsv", "text\tlabel\rx\t1\ry\t2\r",
     "DIR/a.tsv: its lines end in CR alone; convert it, as with tr '\\r' '\\n' < old > new"},
    {"returns_alone_in_quotes", classification, unchanged, "a.csv",
     "\"text\",\"label\"\r\"x\",\"1\"\r",
     "DIR/a.csv: its lines end in CR alone; convert it, as with tr '\\r' '\\n' < old > new"},
    {"header_of_a_recipe_without", classification, cola, "a.tsv",
     "id\tlabel\tstar\tsentence\ngj04\t1\t\tThe cat sat.\n",
     "DIR/a.tsv:1: unknown label 'label'; labels are '0' and '1'; if this line names the columns, "
     "set task.header to true and their names in task.columns"},
    {"nul", classification, unchanged, "a.tsv", std::string("text\tlabel\nx\0y\t1\n", 17),
     "DIR/a.tsv:2: column 1: byte 2 is NUL; this is no text"},
    {"label_empty", classification, unchanged, "a.tsv", "text\tlabel\nx\t1\ny\t\n",
     "DIR/a.tsv:3: the label (column 'label') is empty; complete the row, or set task.bad_rows to "
     "skip"},
    {"unknown_label", classification, two_labels, "a.tsv", "text\tlabel\nx\tpso\n",
     "DIR/a.tsv:2: unknown label 'pso'; did you mean 'pos'?; labels are 'neg' and 'pos'"},
    {"one_label", classification, unchanged, "a.tsv", "text\tlabel\nx\t1\ny\t1\n",
     "DIR/a.tsv: all labels are '1'; there is nothing to learn: name the others in task.labels"},
    {"unknown_ending", classification, unchanged, "a.dat", "x",
     "DIR/a.dat: the ending of its name does not tell its form; set task.format"},
    // Several labels per text
    {"list_for_one_label", classification, unchanged, "a.jsonl",
     R"({"text": "x", "label": ["a", "b"]})",
     "DIR/a.jsonl:1: 'label' is a list, expected a text or a number; if a text has several labels, "
     "set task.multi_label: true"},
    {"one_label_for_a_list", classification, several, "a.jsonl", R"({"text": "x", "label": "a"})",
     "DIR/a.jsonl:1: 'label' is a text, expected a list"},
    {"no_list", classification, several, "a.jsonl", R"({"text": "x", "label": null})",
     "DIR/a.jsonl:1: 'label' is null"},
    {"list_of_lists", classification, several, "a.jsonl", R"({"text": "x", "label": [["a"]]})",
     "DIR/a.jsonl:1: 'label' holds a list, expected texts or numbers"},
    {"unknown_label_in_a_list", classification, several_of_two, "a.jsonl",
     R"({"text": "x", "label": ["neg", "pso"]})",
     "DIR/a.jsonl:1: unknown label 'pso'; did you mean 'pos'?; labels are 'neg' and 'pos'"},
    {"label_twice_in_a_list", classification, several, "a.jsonl",
     R"({"text": "x", "label": ["a", "b", "a"]})", "DIR/a.jsonl:1: has the label 'a' twice"},
    {"empty_label_in_a_list", classification, several, "a.jsonl",
     R"({"text": "x", "label": ["a", ""]})", "DIR/a.jsonl:1: one of its labels is empty"},
    {"list_of_indicators", classification, several, "a.jsonl",
     R"({"text": "x", "label": [0, 1, 0]})",
     "DIR/a.jsonl:1: the lists hold 0 and 1 for each label; a list names the labels of its text: "
     "give their names, or a column of 0 and 1 for each label (task.columns.labels)"},
    {"lists_of_two_indicators", classification, several, "a.jsonl",
     "{\"text\": \"x\", \"label\": [0.0, 1.0]}\n{\"text\": \"y\", \"label\": [1.0, 0.0]}",
     "DIR/a.jsonl: the lists hold 0 and 1 for each label; a list names the labels of its text: "
     "give their names, or a column of 0 and 1 for each label (task.columns.labels)"},
    {"no_labels_at_all", classification, several, "a.jsonl", R"({"text": "x", "label": []})",
     "DIR/a.jsonl: no text has a label; there is nothing to learn: name them in task.labels"},
    {"several_labels_in_a_cell", classification, several, "a.csv", "text,label\nx,a\n",
     "DIR/a.csv: a cell of it is one text; give what stands between labels (task.label_separator), "
     "or a column of 0 and 1 for each (task.columns.labels)"},
    {"label_twice_in_a_cell", classification, separated, "a.csv", "text,label\nx,a| b|a\n",
     "DIR/a.csv:2: has the label 'a' twice"},
    {"nothing_between_separators", classification, separated, "a.csv", "text,label\nx,a||b\n",
     "DIR/a.csv:2: one of its labels is empty"},
    {"list_in_a_cell", classification, separated, "a.csv", "text,label\nx,\"['a', 'b']\"\n",
     "DIR/a.csv:2: the label '['a', 'b']' is a list written as text; write JSON Lines, or the "
     "labels with '|' between them"},
    {"list_for_a_separator", classification, separated, "a.jsonl",
     R"({"text": "x", "label": ["a"]})",
     "DIR/a.jsonl:1: 'label' is a list, expected a text or a number"},
    {"neither_0_nor_1", classification, by_columns, "a.csv", "text,a,b\nx,1,2\n",
     "DIR/a.csv:2: column 'b' is '2', expected 0 or 1"},
    {"a_gap_for_0_or_1", classification, by_columns, "a.csv", "text,a,b\nx,,1\n",
     "DIR/a.csv:2: column 'a' is '', expected 0 or 1"},
    {"a_column_of_a_label_missing", classification, by_columns, "a.csv", "text,a\nx,1\n",
     "DIR/a.csv:1: there is no column 'b'; columns: 'text', 'a'; name the column by "
     "task.columns.labels"},
    // Numbers
    {"word_for_a_number", regression, unchanged, "a.tsv", "text\tlabel\nx\thigh\n",
     "DIR/a.tsv:2: the label 'high' is no finite number"},
    {"not_a_number", regression, unchanged, "a.tsv", "text\tlabel\nx\tnan\n",
     "DIR/a.tsv:2: the label 'nan' is no finite number"},
    {"infinite", regression, unchanged, "a.tsv", "text\tlabel\nx\t1e999\n",
     "DIR/a.tsv:2: the label '1e999' is no finite number"},
    {"decimal_comma", regression, unchanged, "a.tsv", "text\tlabel\nx\t2,5\n",
     "DIR/a.tsv:2: the label '2,5' is no finite number; write it without commas, with a decimal "
     "point"},
    {"beyond_f32", regression, unchanged, "a.tsv", "text\tlabel\nx\t1e18\ny\t-1.1e18\n",
     "DIR/a.tsv:3: the label '-1.1e18' is beyond 1e+18; divide the values"},
    {"header_for_a_number", regression, no_header, "a.tsv", "score\tid\ttext\n1\t7\tx\n",
     "DIR/a.tsv:1: the label 'score' is no finite number; if this line names the columns, set "
     "task.header to true and their names in task.columns"},
    // JSON Lines
    {"no_json", classification, unchanged, "a.jsonl",
     "{\"text\": \"x\", \"label\": 1}\n{\"text\": x}\n",
     "DIR/a.jsonl:2:10: syntax error while parsing value - invalid literal; last read: '\"text\": "
     "x'"},
    {"object_on_several_lines", classification, unchanged, "a.jsonl",
     "{\n  \"text\": \"x\",\n  \"label\": 1\n}\n",
     "DIR/a.jsonl:1:1: syntax error while parsing object key - unexpected end of input; expected "
     "string literal; each line must hold one whole JSON object"},
    {"utf_16_json", classification, unchanged, "a.jsonl",
     utf16("{\"text\": \"x\", \"label\": 1}\n"),
     "DIR/a.jsonl:1:4: a NUL byte; the file is UTF-16: convert it, as with iconv -f UTF-16 -t "
     "UTF-8"},
    {"no_object", classification, unchanged, "a.jsonl", "[1]\n",
     "DIR/a.jsonl:1: the line is a list, expected a JSON object; a file that is one JSON array "
     "ends in .json"},
    {"no_object_in_an_array", classification, unchanged, "a.json", "[true]\n",
     "DIR/a.json:1: the value is true or false, expected a JSON object"},
    {"missing_key", classification, unchanged, "a.jsonl", "{\"txt\": \"x\", \"label\": 1}\n",
     "DIR/a.jsonl:1: there is no key 'text'; did you mean 'txt'?; keys: 'label', 'txt'; name the "
     "column by task.columns.text"},
    {"null_value", classification, unchanged, "a.jsonl", "{\"text\": null, \"label\": 1}\n",
     "DIR/a.jsonl:1: 'text' is null"},
    {"list_for_text", classification, unchanged, "a.jsonl", "{\"text\": [1], \"label\": 1}\n",
     "DIR/a.jsonl:1: 'text' is a list, expected a text or a number"},
    {"key_twice", classification, unchanged, "a.jsonl",
     "{\"text\": \"x\", \"text\": \"y\", \"label\": 1}\n",
     "DIR/a.jsonl:1:20: key \"text\" appears twice"},
    // Words
    {"no_tag", tokens, unchanged, "a.conll", "The O\nship B_SHIP\n",
     "DIR/a.conll:2: 'B_SHIP' is no entity tag; expected O, or B-, I-, E-, S-, L-, U- or M- and a "
     "type, as B-NAME (for labels of another kind set task.metric to accuracy)"},
    {"ragged_words", tokens, unchanged, "a.conll", "The O\nship\n",
     "DIR/a.conll:2: the line has 1 column, those before it 2"},
    {"words_alone", tokens, unchanged, "a.conll", "The\nship\n",
     "DIR/a.conll:1: the line has no label after the word 'The'"},
    {"no_sentence", tokens, unchanged, "a.conll", "\n-DOCSTART- O\n\n",
     "DIR/a.conll: there is no example in it"},
    {"words_without_labels", tokens, unchanged, "a.jsonl",
     "{\"tokens\": [\"a\", \"b\"], \"tags\": [\"O\"]}",
     "DIR/a.jsonl:1: there are 2 words but 1 labels"},
    {"no_labels", tokens, unchanged, "a.jsonl", "{\"tokens\": [\"a\"], \"tags\": []}",
     "DIR/a.jsonl:1: there are 1 words but 0 labels"},
    {"text_for_words", tokens, unchanged, "a.jsonl", "{\"tokens\": \"a b\", \"tags\": [\"O\"]}",
     "DIR/a.jsonl:1: 'tokens' is a text, expected a list"},
    {"words_in_csv", tokens, unchanged, "a.csv", "a,O\n",
     "DIR/a.csv: csv does not hold a task of kind tokens"},
    {"latin_1_word", tokens, unchanged, "a.conll", "caf\xE9 O\n",
     "DIR/a.conll:1: byte 4 is not UTF-8 (\\xe9); if the file is Latin-1, convert it, as with "
     "iconv -f WINDOWS-1252 -t UTF-8"},
    // Questions
    {"offset_beside", questions, unchanged, "a.json",
     squad(R"({"id": "7", "question": "When?", "answers": [{"text": "1900", "answer_start": 9}]})"),
     "DIR/a.json: question '7': at answer_start 9 the context has '900 ', not the answer's text "
     "'1900', which is at 8"},
    {"answer_elsewhere", questions, unchanged, "a.json",
     squad(R"({"id": "7", "question": "When?", "answers": [{"text": "1901", "answer_start": 4}]})"),
     "DIR/a.json: question '7': at answer_start 4 the context has 'año ', not the answer's text "
     "'1901', which is nowhere in it"},
    {"offset_outside", questions, unchanged, "a.json",
     squad(
         R"({"id": "7", "question": "When?", "answers": [{"text": "1900", "answer_start": 19}]})"),
     "DIR/a.json: question '7': answer_start 19 lies outside the context of 19 characters"},
    {"offset_far_outside", questions, unchanged, "a.json",
     squad(
         R"({"id": "7", "question": "When?", "answers": [{"text": "1900", "answer_start": 25}]})"),
     "DIR/a.json: question '7': answer_start 25 lies outside the context of 19 characters"},
    {"offset_as_text", questions, unchanged, "a.json",
     squad(
         R"({"id": "7", "question": "When?", "answers": [{"text": "1900", "answer_start": "8"}]})"),
     "DIR/a.json: data[0].paragraphs[0].qas[0].answers[0].answer_start: got \"8\", expected a "
     "whole number"},
    {"offset_below", questions, unchanged, "a.json",
     squad(
         R"({"id": "7", "question": "When?", "answers": [{"text": "1900", "answer_start": -1}]})"),
     "DIR/a.json: question '7': answer_start -1 lies outside the context of 19 characters"},
    {"empty_answer", questions, unchanged, "a.json",
     squad(R"({"id": "7", "question": "When?", "answers": [{"text": "", "answer_start": 8}]})"),
     "DIR/a.json: question '7': the text of an answer is empty"},
    {"no_answers", questions, unchanged, "a.json", squad(R"({"id": "7", "question": "When?"})"),
     "DIR/a.json: data[0].paragraphs[0].qas[0]: 'answers' is missing"},
    {"unanswerable", questions, unchanged, "a.json",
     squad(R"({"id": "7", "question": "When?", "answers": [], "is_impossible": true})"),
     "DIR/a.json: question '7': it has no answer; set task.no_answer to true if contexts may have "
     "none, as in SQuAD 2.0"},
    {"blank_answer", questions, unchanged, "a.json",
     squad(R"({"id": "7", "question": "When?", "answers": [{"text": " ", "answer_start": 3}]})"),
     "DIR/a.json: question '7': the text of an answer is nothing but white space"},
    {"impossible_with_an_answer", questions, no_answer, "a.json",
     squad(
         R"({"id": "7", "question": "When?", "answers": [{"text": "1900", "answer_start": 8}],
               "is_impossible": true})"),
     "DIR/a.json: question '7': 'is_impossible' is true, but it has an answer; correct one of "
     "them"},
    {"possible_without_an_answer", questions, no_answer, "a.json",
     squad(R"({"id": "7", "question": "When?", "answers": [], "is_impossible": false})"),
     "DIR/a.json: question '7': 'is_impossible' is false, but it has no answer; correct one of "
     "them"},
    {"impossible_as_text", questions, no_answer, "a.json",
     squad(R"({"id": "7", "question": "When?", "answers": [], "is_impossible": "no"})"),
     "DIR/a.json: data[0].paragraphs[0].qas[0].is_impossible: got \"no\", expected true or false"},
    {"id_twice", questions, no_answer, "a.json",
     squad(
         R"({"id": "7", "question": "When?", "answers": []},
             {"id": "7", "question": "Who?", "answers": []})"),
     "DIR/a.json: question '7': an earlier question has the same id"},
    {"utf_16_document", questions, unchanged, "a.json", utf16("{\"data\": []}"),
     "DIR/a.json:1:4: a NUL byte; the file is UTF-16: convert it, as with iconv -f UTF-16 -t "
     "UTF-8"},
    {"empty_question", questions, unchanged, "a.json",
     squad(R"({"id": "7", "question": " ", "answers": []})"),
     "DIR/a.json: question '7': the question is empty"},
    {"no_id", questions, unchanged, "a.json", squad(R"({"question": "When?", "answers": []})"),
     "DIR/a.json: data[0].paragraphs[0].qas[0]: 'id' is missing"},
    {"no_context", questions, unchanged, "a.json", R"({"data": [{"paragraphs": [{"qas": []}]}]})",
     "DIR/a.json: data[0].paragraphs[0]: 'context' is missing"},
    {"no_paragraphs", questions, unchanged, "a.json", R"({"data": [[]]})",
     "DIR/a.json: data[0]: got a list, expected an object"},
    {"no_data", questions, unchanged, "a.json", "[]",
     "DIR/a.json: there is no key 'data' at the top; expected SQuAD's form: data, paragraphs, qas; "
     "for rows with the columns question, context and answers set task.format to json"},
    {"cut_json", questions, unchanged, "a.json", "{\"data\": [",
     "DIR/a.json:1:10: syntax error while parsing value - unexpected end of input; expected '[', "
     "'{', or a literal"},
    {"no_question", questions, unchanged, "a.json", R"({"data": []})",
     "DIR/a.json: there is no example in it"},
    {"questions_in_a_table", questions, unchanged, "a.tsv", "question\tcontext\nx\ty\n",
     "DIR/a.tsv: a cell of it is one text; questions with answers are read from JSON: SQuAD's own, "
     "or rows with its columns (.jsonl)"},
    {"answers_as_text", questions, unchanged, "a.jsonl",
     R"({"question": "When?", "context": "in 1906", "answers": "1906"})",
     "DIR/a.jsonl:1: 'answers' is a text, expected SQuAD's answers"},
    {"row_without_answers", questions, unchanged, "a.jsonl",
     R"({"question": "When?", "context": "in 1906"})",
     "DIR/a.jsonl:1: there is no key 'answers'; keys: 'context', 'question'; name the column by "
     "task.columns.label"},
    {"row_with_an_answer_elsewhere", questions, unchanged, "a.jsonl",
     R"({"question": "When?", "context": "in 1906", "answers": {"text": ["1906"], "answer_start": )"
     R"([2]}})",
     "DIR/a.jsonl:1: at answer_start 2 the context has ' 190', not the answer's text '1906', which "
     "is at 3"},
    {"fewer_places_than_answers", questions, unchanged, "a.jsonl",
     R"({"question": "When?", "context": "1906", "answers": {"text": ["1906"], "answer_start": )"
     R"([]}})",
     "DIR/a.jsonl:1: there are 1 texts but 0 of 'answer_start'"},
    {"unanswerable_row", questions, unchanged, "a.jsonl",
     R"({"question": "When?", "context": "1906", "answers": {"text": [], "answer_start": []}})",
     "DIR/a.jsonl:1: it has no answer; set task.no_answer to true if contexts may have none, as in "
     "SQuAD 2.0"},
    // Choices
    {"repeated_header", classification, unchanged, "a.csv", "text,label\nx,1\ntext,label\n",
     "DIR/a.csv:3: repeats the header; remove it"},
    {"choice_missing", choice, two_choices, "a.tsv", "text\ta\tlabel\nx\ty\t0\n",
     "DIR/a.tsv:1: there is no column 'b'; columns: 'text', 'a', 'label'; name the column by "
     "task.columns.choices"},
    {"choice_empty", choice, two_choices, "a.tsv", "text\ta\tb\tlabel\nx\ty\t\t0\n",
     "DIR/a.tsv:2: choice 1 is empty"},
    {"choice_beyond", choice, two_choices, "a.tsv", "text\ta\tb\tlabel\nx\ty\tz\t2\n",
     "DIR/a.tsv:2: label '2' names no choice; there are 2, numbered from 0 to 1; other names go "
     "into task.labels"},
    {"choice_unknown", choice, named_choices, "a.tsv", "text\ta\tb\tlabel\nx\ty\tz\tC\n",
     "DIR/a.tsv:2: label 'C' names no choice; choices: 'A', 'B'"},
    {"names_for_other_choices", choice, three_names, "a.tsv", "text\ta\tb\tlabel\nx\ty\tz\tA\n",
     "DIR/a.tsv:2: 2 to choose from, but task.labels names 3; give a label for each"},
    {"one_choice", choice, list_of_choices, "a.jsonl",
     R"({"text": "x", "endings": ["a"], "label": 0})",
     "DIR/a.jsonl:1: 1 to choose from, expected at least 2"},
    {"other_number_of_choices", choice, list_of_choices, "a.jsonl",
     "{\"text\": \"x\", \"endings\": [\"a\", \"b\"], \"label\": 0}\n{\"text\": \"x\", \"endings\": "
     "[\"a\", \"b\", \"c\"], \"label\": 0}\n",
     "DIR/a.jsonl:2: 3 to choose from, the first example has 2; all need as many"},
    {"names_of_other_choices", choice, list_of_choices, "a.jsonl",
     R"({"text": "x", "endings": {"text": ["a", "b"], "label": ["A"]}, "label": "A"})",
     "DIR/a.jsonl:1: 2 to choose from, but 1 names of them"},
    {"choices_of_one_name", choice, list_of_choices, "a.jsonl",
     R"({"text": "x", "endings": {"text": ["a", "b"], "label": ["A", "A"]}, "label": "A"})",
     "DIR/a.jsonl:1: label 'A' names two; choices: 'A', 'A'"},
    {"name_of_no_choice", choice, list_of_choices, "a.jsonl",
     R"({"text": "x", "endings": {"text": ["a", "b"], "label": ["A", "B"]}, "label": "1"})",
     "DIR/a.jsonl:1: label '1' names no choice; choices: 'A', 'B'"},
    {"choices_as_text", choice, list_of_choices, "a.jsonl",
     R"({"text": "x", "endings": "a", "label": 0})",
     "DIR/a.jsonl:1: 'endings' is a text, expected a list"},
};

class BadTaskFile : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadTaskFile, IsRefusedWithOneLine) {
  const BadFile& test = GetParam();
  const TemporaryFolder folder;
  write_bytes(folder / test.file, test.text);
  TaskConfig task{.kind = test.kind, .train = {(folder / test.file).string()}};
  test.change(task);
  ASSERT_EQ(problems(task), Problems());
  task = resolve_task(task);
  const LetterTokenizer tokenizer;
  const std::string message = input_error([&] {
    const TaskEncoder encoder(task, task_labels(task), tokenizer, 400);
    TaskDataset::read(encoder, task.train, Labelled::required, false);
  });
  EXPECT_EQ(folder.with_dir(message), test.message);
}

INSTANTIATE_TEST_SUITE_P(Files, BadTaskFile, ::testing::ValuesIn(bad_files), testing::case_name);

using BadTask = FolderTest;

TEST_F(BadTask, FolderWithoutLabels) {
  TaskConfig task{.recipe = "imdb", .train = {folder_.path().string()}};
  task = resolve_task(task);
  SkippedRows skipped;
  const auto read = [&] {
    for_each_example(task, task.train, Labelled::required, skipped, [](const Example&) {});
  };
  EXPECT_EQ(error_in_dir(read),
            "DIR: there is no folder 'neg' in it; expected one a label, such as pos and neg");
  task.labels.clear();
  EXPECT_EQ(error_in_dir(read),
            "DIR: there are no folders in it; expected one a label, such as pos and neg");
}

TEST_F(BadTask, SkippedRowsAloneAreNoData) {
  write_bytes(folder_ / "a.tsv", "text\tlabel\nx\t7\ny\t8\n");
  TaskConfig task{
      .kind = TaskKind::classification, .labels = {"0", "1"}, .bad_rows = BadRows::skip};
  const LetterTokenizer tokenizer;
  const std::string file = (folder_ / "a.tsv").string();
  const TaskEncoder encoder(resolve_task(task), LabelSet(task.labels), tokenizer, 16);
  EXPECT_EQ(error_in_dir([&] { TaskDataset::read(encoder, {file}, Labelled::required, false); }),
            "DIR/a.tsv: none of its 2 examples can be read; the first: DIR/a.tsv:2: unknown label "
            "'7'; labels are '0' and '1'");
}

TEST_F(BadTask, SkippedRowsAloneHaveNoLabels) {
  write_bytes(folder_ / "a.tsv", "text\tlabel\nx\ny\n");
  TaskConfig task{.kind = TaskKind::classification, .bad_rows = BadRows::skip};
  const std::string file = (folder_ / "a.tsv").string();
  task.train = {file};
  EXPECT_EQ(error_in_dir([&] { task_labels(resolve_task(task)); }),
            "DIR/a.tsv: none of its 2 examples can be read; the first: DIR/a.tsv:2: the row has 1 "
            "column, expected as many as the header: 2");
}

TEST_F(BadTask, ABadHeaderIsNoRowToSkip) {
  write_bytes(folder_ / "a.csv", "text,\"label\"s\nx,7\n");
  TaskConfig task{.kind = TaskKind::classification, .bad_rows = BadRows::skip};
  const std::string file = (folder_ / "a.csv").string();
  SkippedRows skipped;
  EXPECT_EQ(error_in_dir([&] {
              for_each_example(resolve_task(task), {file}, Labelled::required, skipped,
                               [](const Example&) {});
            }),
            "DIR/a.csv:1: column 2 has text after its closing quote; a quote inside a cell is "
            "written twice");
}

TEST_F(BadTask, ExamplesInMemoryAreNamedByTheirText) {
  TaskConfig task{.kind = TaskKind::classification};
  const LetterTokenizer tokenizer;
  const TaskEncoder encoder(resolve_task(task), LabelSet({"neg", "pos"}), tokenizer, 16);
  Example example{.text = "a film", .label = "good"};
  EXPECT_EQ(input_error([&] { TaskDataset::from(encoder, {example}, false); }),
            "the example 'a film': unknown label 'good'; labels are 'neg' and 'pos'");
}

TEST_F(BadTask, NoRoomForText) {
  const LetterTokenizer tokenizer;
  TaskConfig task{.kind = TaskKind::questions};
  task = resolve_task(task);
  EXPECT_EQ(input_error([&] { TaskEncoder(task, {}, tokenizer, 6); }),
            "data.sequence_length 6 leaves no room for two texts beside 3 special tokens; expected "
            "at least 7");
  task.stride = 128;
  EXPECT_EQ(input_error([&] { TaskEncoder(task, {}, tokenizer, 256); }),
            "task.stride 128 is too large for data.sequence_length 256: a window has 127 tokens of "
            "context beside a long question");
}

}  // namespace
}  // namespace nystrom
