// Examples from every file format.
#include "data/tasks/examples.h"

#include <gtest/gtest.h>

#include "data/tasks/labels.h"
#include "tests/support/gzip.h"
#include "tests/support/says.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

using Words = std::vector<std::string>;

class Examples : public FolderTest {
 protected:
  std::vector<std::string> write(const std::string& name, const std::string& text) {
    write_bytes(folder_ / name, text);
    return {(folder_ / name).string()};
  }

  std::vector<Example> read(const TaskConfig& task, const std::vector<std::string>& files,
                            Labelled labelled = Labelled::required) {
    EXPECT_EQ(problems(task), Problems());
    std::vector<Example> examples;
    for_each_example(resolve_task(task), files, labelled, skipped_,
                     [&](Example&& example) { examples.push_back(std::move(example)); });
    return examples;
  }

  SkippedRows skipped_;
};

TaskConfig task_of(TaskKind kind) { return {.kind = kind}; }

Words texts_of(const std::vector<Example>& examples) {
  Words texts;
  for (const Example& example : examples) texts.push_back(example.text);
  return texts;
}

TEST_F(Examples, TsvHasNoQuotesAndDropsByteOrderMarkAndCarriageReturns) {
  const auto read_rows =
      read(task_of(TaskKind::classification),
           write("a.tsv", "\xEF\xBB\xBFlabel\ttext\r\nx\tsay \"hi\r\n\r\ny\t\r\n"));
  ASSERT_EQ(texts_of(read_rows), (Words{"say \"hi", ""}));
  EXPECT_EQ(read_rows[0].label, "x");
  EXPECT_TRUE(read_rows[0].labelled);
  EXPECT_EQ(read_rows[1].line, 4);
  EXPECT_EQ(read_rows[1].place(), (folder_ / "a.tsv").string() + ":4");
}

TEST_F(Examples, CsvQuotesCommasLineEndsAndQuotes) {
  const TaskConfig task{.kind = TaskKind::regression,
                        .columns = {.pair = "other, one", .id = "id"}};
  const auto rows = read(
      task,
      write("a.csv", "id,text,\"other, one\",label\n7,\"a, \"\"b\"\"\nc\",,-1.5e1\n8,\"\",d,+2"));
  ASSERT_EQ(texts_of(rows), (Words{"a, \"b\"\nc", ""}));
  EXPECT_EQ(rows[0].pair, "");
  EXPECT_EQ(rows[0].value, -15);
  EXPECT_EQ(rows[1].value, 2);
  EXPECT_EQ(rows[1].id, "8");
  EXPECT_EQ(rows[1].line, 4);
}

TEST_F(Examples, JsonLinesTakeTextsNumbersAndWords) {
  const auto rows = read(task_of(TaskKind::classification),
                         write("a.jsonl",
                               "{\"text\": \"caf\\u00e9\", \"label\": 3, \"more\": [1]}\n "
                               "\n{\"label\": true, \"text\": 1.5}\n"));
  ASSERT_EQ(texts_of(rows), (Words{"caf\xC3\xA9", "1.5"}));
  EXPECT_EQ(rows[0].label, "3");
  EXPECT_EQ(rows[1].label, "true");
  EXPECT_EQ(rows[1].line, 3);
}

TEST_F(Examples, SeveralLabelsComeAsListsBetweenSeparatorsAndInColumns) {
  constexpr auto kind = TaskKind::classification;
  const TaskConfig lists{.kind = kind, .multi_label = true},
      separated{.kind = kind, .label_separator = "|"},
      columns{.kind = kind, .columns = {.labels = {"sea", "land"}}},
      numbers{.kind = kind,
              .header = false,
              .columns = {.text = "1", .labels = {"3", "2"}},
              .labels = {"sea", "land"}};
  const std::string rows = R"({"text": "x", "label": ["sea", "land"]}
{"text": "y", "label": []}
{"text": "z", "label": ["land"]})";
  const std::pair<TaskConfig, std::vector<std::string>> forms[] = {
      {lists, write("lists.jsonl", rows)},
      {separated, write("separated.csv", "text,label\nx,sea | land\ny,\nz,land\n")},
      {separated, write("separated.jsonl", R"({"text": "x", "label": "sea|land"}
{"text": "y", "label": " "}
{"text": "z", "label": "land"})")},
      {columns, write("columns.tsv", "land\tsea\ttext\n1\t1\tx\n0\t0.0\ty\n1.0\t0\tz\n")},
      {columns, write("columns.jsonl", R"({"text": "x", "sea": true, "land": 1}
{"text": "y", "sea": false, "land": 0}
{"text": "z", "sea": 0, "land": true})")},
      {columns, write("pandas.csv", "text,sea,land\nx,True,True\ny,False,False\nz,False,True\n")},
      {columns, write("excel.csv", "text,sea,land\nx,TRUE,TRUE\ny,FALSE,FALSE\nz,FALSE,TRUE\n")},
      {numbers, write("numbers.csv", "x,1,1\ny,0,0\nz,1,0\n")},
  };
  for (const auto& [task, files] : forms) {
    SCOPED_TRACE(files[0]);
    const auto examples = read(task, files);
    ASSERT_EQ(texts_of(examples), (Words{"x", "y", "z"}));
    EXPECT_EQ(examples[0].labels, (Words{"sea", "land"}));
    EXPECT_EQ(examples[1].labels, Words());
    EXPECT_TRUE(examples[1].labelled) << "a text without labels has a known set of them";
    EXPECT_EQ(examples[2].labels, (Words{"land"}));
    TaskConfig trained = task;
    trained.train = files;
    const Words sorted{"land", "sea"};
    EXPECT_EQ(task_labels(resolve_task(trained)).names(),
              task.columns.labels.empty() ? sorted : Words({"sea", "land"}));
    EXPECT_FALSE(read(task, files, Labelled::optional)[0].labelled);
  }
}

TEST_F(Examples, ColumnsByNumberWithoutAHeader) {
  TaskConfig task{.recipe = "cola"};
  const auto rows =
      read(task, write("a.tsv", "gj04\t1\t\tThe cat sat.\ngj04\t0\t*\tSat cat the.\textra\n"));
  EXPECT_EQ(texts_of(rows), (Words{"The cat sat.", "Sat cat the."}));
  EXPECT_EQ(rows[1].label, "0");
}

TEST_F(Examples, RecipesKnowTheColumnsOfGlue) {
  const auto first = [&](const char* recipe, const std::string& text) {
    TaskConfig task{.recipe = recipe};
    return read(task, write("a.tsv", text)).at(0);
  };
  EXPECT_EQ(first("sst2", "sentence\tlabel\nfine\t1\n").label, "1");
  const Example mrpc = first(
      "mrpc", "\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\t\"a\tb\r\n");
  EXPECT_EQ(mrpc.text, "\"a");
  EXPECT_EQ(mrpc.pair, "b");
  EXPECT_EQ(first("stsb", "index\tsentence1\tsentence2\tscore\n0\ta\tb\t3.8\n").value, 3.8);
  EXPECT_EQ(first("mnli",
                  "index\tsentence1\tsentence2\tlabel1\tgold_label\n0\ta\tb\tneutral\tentailment\n")
                .label,
            "entailment");
  EXPECT_EQ(first("qnli", "index\tquestion\tsentence\tlabel\n0\ta\tb\tentailment\n").pair, "b");
  EXPECT_EQ(first("rte", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tnot_entailment\n").label,
            "not_entailment");
  EXPECT_EQ(first("trec", "coarse\tfine\ttext\nNUM\tdist\tHow far?\n").label, "NUM");
}

TEST_F(Examples, QqpLeavesOutCutRowsAndCountsThem) {
  TaskConfig task{.recipe = "qqp"};
  const auto rows = read(
      task,
      write(
          "a.tsv",
          "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t1\t2\ta?\n2\t3\t4\tb?\tc?\t1\n"));
  EXPECT_EQ(texts_of(rows), (Words{"b?"}));
  EXPECT_EQ(skipped_.count, 1);
  EXPECT_EQ(skipped_.first, (folder_ / "a.tsv").string() +
                                ":2: the row has 4 columns, expected as many as the header: 6");
}

TEST_F(Examples, FoldersAreLabels) {
  write_bytes(folder_ / "train" / "pos" / "1_9.txt", "good\nfilm");
  write_bytes(folder_ / "train" / "pos" / "0_8.txt", "fine");
  write_bytes(folder_ / "train" / "neg" / "0_1.txt", "bad");
  write_bytes(folder_ / "train" / "unsup" / "0_0.txt", "?");
  write_bytes(folder_ / "train" / "urls.txt", "no example");
  const auto rows = read({.recipe = "imdb"}, {(folder_ / "train").string()});
  ASSERT_EQ(texts_of(rows), (Words{"bad", "fine", "good\nfilm"}));
  EXPECT_EQ(rows[0].label, "neg");
  EXPECT_EQ(rows[2].label, "pos");
}

TEST_F(Examples, FoldersAreAllLabelsWhereNoneAreNamed) {
  std::filesystem::create_directory(folder_ / ".hidden");
  write_bytes(folder_ / "readme.txt", "no example");
  write_bytes(folder_ / "a" / "1.txt", "first");
  write_bytes(folder_ / "b" / "1.txt", "second");
  write_bytes(folder_.path() / ".hidden" / "1.txt", "?");
  const TaskConfig task{.kind = TaskKind::classification, .format = TaskFormat::folders};
  EXPECT_EQ(texts_of(read(task, {folder_.path().string()})), (Words{"first", "second"}));
}

TEST_F(Examples, FoldersOfLabelsAreLookedThrough) {
  namespace fs = std::filesystem;
  fs::create_directories(folder_ / "c");
  write_bytes(folder_ / "a" / "1.txt", "first");
  write_bytes(folder_ / "b" / "1.txt", "second");
  const TaskConfig task{.kind = TaskKind::classification, .format = TaskFormat::folders};
  const std::string name = folder_.path().string();
  read(task, {name});
  EXPECT_EQ(skipped_.notes, Words{name + ": folders of labels without a file: 'c'"});
  write_bytes(folder_ / "p\xff" / "1.txt", "third");
  EXPECT_EQ(input_error([&] { read(task, {name}); }),
            name + "/p\\xff: the folder's name is a label and no UTF-8; rename it");
}

TEST_F(Examples, ConllSentencesEndAtEmptyLinesAndDocuments) {
  const std::string text =
      "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\n\n-DOCSTART- -X- O "
      "O\n\nPeter NNP I-NP I-PER\r\nBlackburn NNP I-NP "
      "I-PER";
  const auto sentences = read(task_of(TaskKind::tokens), write("a.conll", text));
  ASSERT_EQ(sentences.size(), 2);
  EXPECT_EQ(sentences[0].words, (Words{"EU", "rejects"}));
  EXPECT_EQ(sentences[0].labels, (Words{"I-ORG", "O"}));
  EXPECT_EQ(sentences[0].line, 3);
  EXPECT_EQ(sentences[1].words, (Words{"Peter", "Blackburn"}));
}

TEST_F(Examples, ABadSentenceEndsAtADocument) {
  TaskConfig task = task_of(TaskKind::tokens);
  task.bad_rows = BadRows::skip;
  const auto sentences =
      read(task, write("a.conll", "a B-X\nb bad\n-DOCSTART- O\nc B-X\n\nd bad\n\ne O\n"));
  ASSERT_EQ(sentences.size(), 2);
  EXPECT_EQ(sentences[0].words, Words{"c"});
  EXPECT_EQ(sentences[1].words, Words{"e"});
  EXPECT_EQ(skipped_.count, 2);
}

TEST_F(Examples, ABadFirstRowHidesNoColumns) {
  const TaskConfig task{.kind = TaskKind::embeddings,
                        .columns = {.pair = "pair", .label = "label"},
                        .bad_rows = BadRows::skip};
  for (const auto& [name, rows] : {std::pair("a.tsv", "text\tlabel\nbroken\nx\t1\ny\t1\n"),
                                   std::pair("a.jsonl",
                                             "broken\n{\"text\": \"x\", \"label\": 1}\n"
                                             "{\"text\": \"y\", \"label\": 1}\n")})
    EXPECT_EQ(texts_of(read(task, write(name, rows))), (Words{"x", "y"})) << name;
  EXPECT_EQ(skipped_.count, 2);
}

TEST_F(Examples, ConllColumnsMayBeNamed) {
  const TaskConfig task{.kind = TaskKind::tokens,
                        .columns = {.text = "2", .label = "1"},
                        .metric = TaskMetric::accuracy};
  const auto sentences = read(task, write("a.txt", "DT\tthe\nNN\tship\n"));
  EXPECT_EQ(sentences.at(0).words, (Words{"the", "ship"}));
  EXPECT_EQ(sentences.at(0).labels, (Words{"DT", "NN"}));
}

TEST_F(Examples, WordsInJsonLines) {
  const auto rows =
      read(task_of(TaskKind::tokens),
           write("a.jsonl", "{\"tokens\": [\"A\", \"b\"], \"tags\": [\"B-X\", \"O\"]}"));
  EXPECT_EQ(rows.at(0).words, (Words{"A", "b"}));
  EXPECT_EQ(rows.at(0).labels, (Words{"B-X", "O"}));
}

TEST_F(Examples, TheFormOfASquadFileIsCheckedBeforeAQuestionIsUsed) {
  const auto files = write("a.json", R"({"data": [{"paragraphs": [{"context": "the sea", "qas": [
      {"id": "1", "question": "What?", "answers": [{"text": "sea", "answer_start": 4}]}]}]},
      {"title": "x"}]})");
  std::size_t used = 0;
  EXPECT_EQ(input_error([&] {
              for_each_example(resolve_task(task_of(TaskKind::questions)), files,
                               Labelled::required, skipped_, [&](Example&&) { ++used; });
            }),
            files[0] + ": data[1]: 'paragraphs' is missing");
  EXPECT_EQ(used, 0U);
}

TEST_F(Examples, SquadCountsCharactersNotBytes) {
  const std::string text =
      R"({"version": "2.0", "data": [{"title": "t", "paragraphs": [
      {"context": "Łódź is großartig, Łódź!", "qas": [
      {"id": "1", "question": "What?",
       "answers": [{"text": "großartig", "answer_start": 8}, {"text": "Łódź", "answer_start": 19}]},
      {"id": "2", "question": "Who?", "is_impossible": true, "answers": [],
       "plausible_answers": [{"text": "x", "answer_start": 99}]}]}]}]})";
  TaskConfig task{.kind = TaskKind::questions, .no_answer = true};
  const auto questions = read(task, write("a.json", text));
  ASSERT_EQ(questions.size(), 2);
  ASSERT_EQ(questions[0].answers.size(), 2);
  EXPECT_EQ(questions[0].answers[0].begin, 11);
  EXPECT_EQ(questions[0].pair->substr(static_cast<std::size_t>(questions[0].answers[1].begin), 7),
            "Łódź");
  EXPECT_TRUE(questions[1].answers.empty());
  EXPECT_TRUE(questions[1].labelled);
}

TEST_F(Examples, QuestionsInRowsHaveSquadsColumns) {
  TaskConfig task{.kind = TaskKind::questions, .no_answer = true};
  const auto questions = read(
      task, write("a.jsonl",
                  R"({"id": "1", "question": "What?", )"
                  R"("context": "Łódź!", "answers": {"text": ["Łódź", "!"], "answer_start": [0, 4]}}
{"question": "Which?", "context": "Łódź!", "answers": [{"text": "!", "answer_start": 4}]}
{"question": "Who?", "context": "Łódź!", "answers": {"text": [], "answer_start": []}})"));
  ASSERT_EQ(questions.size(), 3);
  ASSERT_EQ(questions[0].answers.size(), 2);
  EXPECT_EQ(questions[0].answers[1].begin, 7);
  EXPECT_EQ(questions[1].answers.at(0).begin, 7);
  EXPECT_TRUE(questions[2].answers.empty());
  EXPECT_TRUE(questions[2].labelled);
  task.format = TaskFormat::json;
  EXPECT_EQ(read(task, write("a.json", R"({"question": ["Q?"], "context": ["ab"],
      "answers": [[{"text": "b", "answer_start": 1}]]})"))
                .at(0)
                .answers.at(0)
                .begin,
            1);
}

TEST_F(Examples, ChoicesInColumnsAndInLists) {
  const TaskConfig task{.kind = TaskKind::choice,
                        .columns = {.pair = "start", .choices = {"a", "b"}}};
  const auto rows =
      read(task, write("a.tsv", "text\tstart\ta\tb\tlabel\nOnce\tThe\tcat\tdog\t1\n"));
  EXPECT_EQ(rows.at(0).choices, (Words{"cat", "dog"}));
  EXPECT_EQ(rows.at(0).choice, 1);
  TaskConfig list{
      .kind = TaskKind::choice, .columns = {.choices = {"endings"}}, .labels = {"A", "B", "C"}};
  const auto lists =
      read(list, write("a.jsonl", R"({"text": "x", "endings": ["a", "b", "c"], "label": "C"})"));
  EXPECT_EQ(lists.at(0).choices.size(), 3);
  list.labels = {};
  const auto named = read(list, write("a.json", R"([{"text": "x", "label": "2",
      "endings": {"text": ["a", "b", "c"], "label": ["1", "2", "3"]}}])"));
  EXPECT_EQ(named.at(0).choices, (Words{"a", "b", "c"}));
  EXPECT_EQ(named.at(0).choice, 1) << "by its name, not by its number";
  const auto columns = read(list, write("b.json", R"({"text": ["x"], "label": ["B"],
      "endings": [{"label": ["A", "B"], "text": ["a", "b"]}]})"));
  EXPECT_EQ(columns.at(0).choice, 1);
  EXPECT_EQ(lists.at(0).choice, 2);
}

TEST_F(Examples, PredictionsNeedNoLabels) {
  const auto table = read(task_of(TaskKind::classification),
                          write("a.tsv", "text\nfirst\nsecond\n"), Labelled::optional);
  EXPECT_EQ(texts_of(table), (Words{"first", "second"}));
  EXPECT_FALSE(table[0].labelled);
  const auto lines = read(task_of(TaskKind::tokens), write("a.txt", "Don't go, Ann-Marie (now).\n"),
                          Labelled::optional);
  EXPECT_EQ(lines.at(0).words, (Words{"Don't", "go", ",", "Ann-Marie", "(", "now", ")", "."}));
  EXPECT_EQ(lines.at(0).text, "Don't go, Ann-Marie (now).");
  const auto questions =
      read(task_of(TaskKind::questions), write("b.tsv", "question\tcontext\nWho?\tAnn.\n"),
           Labelled::optional);
  EXPECT_EQ(questions.at(0).pair, "Ann.");
  const auto words =
      read(task_of(TaskKind::tokens), write("c.conll", "one\ntwo\n"), Labelled::optional);
  EXPECT_EQ(words.at(0).words, (Words{"one", "two"}));
}

TEST_F(Examples, PredictionsDoNotReadLabels) {
  const auto numbers =
      read(task_of(TaskKind::regression), write("a.tsv", "text\tlabel\nfirst\t?\nsecond\t\n"),
           Labelled::optional);
  EXPECT_EQ(texts_of(numbers), (Words{"first", "second"}));
  EXPECT_FALSE(numbers[0].labelled || numbers[0].value);
  const auto words =
      read(task_of(TaskKind::tokens), write("c.conll", "one NN\ntwo ?\n"), Labelled::optional);
  EXPECT_EQ(words.at(0).words, (Words{"one", "two"}));
  EXPECT_TRUE(words[0].labels.empty());
  const std::string squad =
      R"({"data": [{"paragraphs": [{"context": "x", "qas": [{"id": "1", "question": "y",
                                                           "answers": 7}]}]}]})";
  EXPECT_FALSE(read(task_of(TaskKind::questions), write("a.json", squad), Labelled::optional)
                   .at(0)
                   .labelled);
}

TEST_F(Examples, ReadersGoOnBehindABadRow) {
  const TaskConfig task = resolve_task(task_of(TaskKind::classification));
  const auto files = write("a.txt", "one\n\ncaf\xE9\nfour\n");
  std::vector<std::string> rows;  // the texts of examples, and the messages of bad rows
  read_examples(
      task, files, Labelled::optional,
      [&](const Example& example) { rows.push_back(example.text); },
      [&](const BadRow& error) { rows.emplace_back(error.what()); });
  EXPECT_EQ(rows,
            (Words{"one", files[0] + ":2: the line is empty; --document is for files of one text",
                   files[0] + ":3: byte 4 is not UTF-8 (\\xe9); if the file is Latin-1, convert "
                              "it, as with iconv -f WINDOWS-1252 -t UTF-8",
                   "four"}));
}

TEST_F(Examples, AreReadCompressedAndFromManyFiles) {
  write("b.tsv.gz", gzip("text\tlabel\npacked\tx\n"));
  write("a.tsv", "label\ttext\ny\tplain\n");
  EXPECT_EQ(texts_of(read(task_of(TaskKind::classification), {(folder_ / "*.tsv*").string()})),
            (Words{"plain", "packed"}));
}

TEST_F(Examples, LongFilesAreReadRowByRow) {
  std::string text = "text\tlabel\n";
  for (int i = 0; i < 20000; ++i)
    text += "row " + std::to_string(i) + "\t" + std::to_string(i % 3) + "\n";
  std::int64_t rows = 0;
  for (const Example& example : read(task_of(TaskKind::classification), write("a.tsv", text)))
    EXPECT_EQ(example.line, ++rows + 1);
  EXPECT_EQ(rows, 20000);
}

TEST_F(Examples, LabelsAreCollectedSortedAsNumbersOrByBytes) {
  TaskConfig task = task_of(TaskKind::classification);
  task.train = write("a.tsv", "text\tlabel\na\t10\nb\t9\nc\t-1\nd\t9\n");
  EXPECT_EQ(task_labels(resolve_task(task)).names(), (Words{"-1", "9", "10"}));
  task.train = write("b.tsv", "text\tlabel\na\tb\nb\t10\nc\tB\n");
  EXPECT_EQ(task_labels(resolve_task(task)).names(), (Words{"10", "B", "b"}));
  task.labels = {"z", "y"};
  EXPECT_EQ(task_labels(resolve_task(task)).names(), (Words{"z", "y"}));
  TaskConfig words = task_of(TaskKind::tokens);
  words.train = write("a.conll", "a O\nb B-X\n\nc I-X\n");
  EXPECT_EQ(task_labels(resolve_task(words)).names(), (Words{"B-X", "I-X", "O"}));
}

// ---- Forms from elsewhere ---------------------------------------------------------------------

TEST_F(Examples, PandasQuotesInTsvAreNoPartOfTheText) {
  const auto rows = read(task_of(TaskKind::classification),
                         write("a.tsv", "text\tlabel\n\"say \"\"hi\"\"\nnow\"\tx\nno\ty\n"));
  EXPECT_EQ(texts_of(rows), (Words{"say \"hi\"\nnow", "no"}));
}

TEST_F(Examples, JsonArraysAreTables) {
  const auto rows =
      read(task_of(TaskKind::classification),
           write("a.json", R"([{"text": "a", "label": 0}, {"label": 1, "text": "b"}])"));
  EXPECT_EQ(texts_of(rows), (Words{"a", "b"}));
}

TEST_F(Examples, CommentsOfConllFilesAreNoWords) {
  const auto files = write("a.conll",
                           "# id 12 domain=en\nAnn _ _ B-PER\nsang _ _ O\n\n# id 13 domain=en\n"
                           "# _ _ O\n4 _ _ O\n");
  const auto sentences = read(task_of(TaskKind::tokens), files);
  ASSERT_EQ(sentences.size(), 2);
  EXPECT_EQ(sentences[0].words, (Words{"Ann", "sang"}));
  EXPECT_EQ(sentences[1].words, (Words{"#", "4"}));
}

TEST_F(Examples, ConllUHasCommentsContractionsAndEmptyNodes) {
  TaskConfig task{.kind = TaskKind::tokens, .metric = TaskMetric::accuracy};
  const auto row = [](const char* id, const char* form, const char* pos) {
    return std::string(id) + '\t' + form + "\t_\t" + pos + "\t_\t_\t_\t_\t_\t_\n";
  };
  const auto files =
      write("a.conllu", "# sent_id = 1\n# text = Vámonos al mar\n" + row("1-2", "Vámonos", "_") +
                            row("1", "Vamos", "VERB") + row("2", "nos", "PRON") +
                            row("2.1", "x", "X") + row("3", "thành phố", "NOUN"));
  expect_says(input_error([&] { read(task, files); }), "set task.columns.text: 2");
  task.columns.text = "2";
  task.columns.label = "4";
  const auto sentences = read(task, files);
  ASSERT_EQ(sentences.size(), 1);
  EXPECT_EQ(sentences[0].words, (Words{"Vamos", "nos", "thành phố"}));
  EXPECT_EQ(sentences[0].labels, (Words{"VERB", "PRON", "NOUN"}));
}

TEST_F(Examples, AColumnThatNumbersTheWordsIsRefused) {
  expect_says(input_error([&] {
                read(task_of(TaskKind::tokens), write("a.tsv", "1\tAnn\tO\n2\tsang\tO\n3\t.\tO\n"));
              }),
              "a.tsv:1: the first column numbers the words; set task.columns.text: 2");
}

TEST_F(Examples, NumbersOfTagsHaveNames) {
  const std::string row = R"({"tokens": ["Ann", "sang"], "ner_tags": [1, 0]})";
  TaskConfig task{.kind = TaskKind::tokens, .columns = {.label = "ner_tags"}};
  const auto files = write("a.jsonl", row);
  expect_says(input_error([&] { read(task, files); }),
              "the label '1' is a number; name the labels in the order of their numbers");
  write(
      "dataset_info.json",
      R"({"features": {"ner_tags": {"feature": {"names": ["O", "B-PER"], "_type": "ClassLabel"}}}})");
  EXPECT_EQ(read(task, files)[0].labels, (Words{"B-PER", "O"}));
  task.labels = {"B-LOC", "O"};
  EXPECT_EQ(read(task, files)[0].labels, (Words{"O", "B-LOC"}));
  const auto problem = [&](const std::string& numbers) {
    const auto other =
        write("b.jsonl", R"({"tokens": ["Ann", "sang"], "ner_tags": )" + numbers + "}");
    return input_error([&] { read(task, other); });
  };
  expect_says(problem("[0, 2]"), "b.jsonl:1: the label 2 has no name; task.labels names 0 … 1");
  expect_says(problem("[0, -100]"), "b.jsonl:1: the label -100, of words that count for nothing");
  task.labels = {"B-PER", "O"};
  EXPECT_EQ(read(task, files)[0].labels, (Words{"B-PER", "O"})) << "the data's order";
}

TEST_F(Examples, QuestionsMayHaveNumbersAsIds) {
  const auto questions =
      read(task_of(TaskKind::questions),
           write("a.json", R"({"data": [{"paragraphs": [{"context": "In 1900", "qas": [
        {"id": 7, "question": "When?", "answers": [{"text": "1900", "answer_start": 3}]}]}]}]})"));
  EXPECT_EQ(questions[0].id, "7");
}

TEST_F(Examples, ALabelThatPairsDoNotUseIsNoted) {
  const TaskConfig task{.kind = TaskKind::embeddings, .columns = {.pair = "other"}};
  read(task, write("a.jsonl", "{\"text\": \"a\", \"other\": \"b\", \"label\": 0}\n"),
       Labelled::optional);
  ASSERT_EQ(skipped_.notes.size(), 1);
  expect_says(skipped_.notes[0], "set task.columns.label=label");
}

TEST_F(Examples, LinesThatLookLikeJsonAreNoted) {
  read(task_of(TaskKind::classification), write("a.txt", "{\"text\": \"a\"}\n"),
       Labelled::optional);
  ASSERT_EQ(skipped_.notes.size(), 1);
  expect_says(skipped_.notes[0], "looks like JSON Lines");
}

TEST_F(Examples, FoldersOfLabelsAreReadWhole) {
  for (const char* name : {"set/pos/a/1.txt", "set/pos/2.txt", "set/neg/3.txt", "set/neg/.hidden"})
    write_bytes(folder_ / name, "x");
  TaskConfig task = task_of(TaskKind::classification);
  EXPECT_EQ(read(task, {(folder_ / "set").string()}).size(), 3);
}

}  // namespace
}  // namespace nystrom
