// Examples encoded as rows of tokens, with a tokenizer that makes each letter a token.
#include "data/tasks/encoder.h"

#include <gtest/gtest.h>

#include "data/tasks/task_dataset.h"
#include "tests/data/tasks/letter_tokenizer.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

using Places = std::vector<std::int64_t>;

class Encoder : public ::testing::Test {
 protected:
  std::vector<EncodedSample> encode(const TaskConfig& task, std::int64_t length,
                                    const Example& example) {
    const TaskEncoder encoder(resolve_task(task), LabelSet({"O", "B-X"}), tokenizer_, length);
    return encoder.encode(example, counts_);
  }
  std::vector<EncodedSample> encode(TaskKind kind, std::int64_t length, const Example& example) {
    return encode({.kind = kind, .stride = 2}, length, example);
  }

  /// The windows of a text of class B-X, which share two tokens.
  std::vector<EncodedSample> encode_in_windows(std::int64_t length, const std::string& text) {
    return encode({.kind = TaskKind::classification, .windows = TaskWindows::mean, .stride = 2},
                  length, {.text = text, .label = "B-X", .labelled = true});
  }

  std::string text_of(const EncodedSample& sample, std::size_t row = 0) const {
    return row_text(tokenizer_, sample.rows.at(row).ids);
  }

  LetterTokenizer tokenizer_;
  EncodingCounts counts_;
};

Example example_of(const std::string& text, std::optional<std::string> pair = {}) {
  return {.text = text, .pair = std::move(pair)};
}

TEST(StrideOf, IsAThirdOfAShortWindow) {
  TaskConfig task;
  EXPECT_EQ(stride_of(task, 512), 128);
  EXPECT_EQ(stride_of(task, 384), 128);
  EXPECT_EQ(stride_of(task, 64), 21);
  task.stride = 40;
  EXPECT_EQ(stride_of(task, 64), 40);
}

TEST_F(Encoder, TextsAreCutBehindAndCounted) {
  EXPECT_EQ(text_of(encode(TaskKind::classification, 8, example_of("abcdef"))[0]), "[abcdef]");
  EXPECT_EQ(counts_.truncated.count, 0);
  EXPECT_EQ(text_of(encode(TaskKind::classification, 8, example_of("abcdefghi"))[0]), "[abcdef]");
  EXPECT_EQ(counts_.truncated.count, 1);
  EXPECT_EQ(counts_.longest, 11);
  EXPECT_EQ(counts_.examples, 2);
}

TEST_F(Encoder, LongTextsBecomeWindows) {
  const auto windows = encode_in_windows(8, "abcdefghijklm");
  std::vector<std::string> texts;
  for (const EncodedSample& window : windows) {
    texts.push_back(text_of(window));
    EXPECT_EQ(window.label, 1);
    EXPECT_TRUE(window.labelled);
    EXPECT_EQ(window.example, 0);
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"[abcdef]", "[efghij]", "[ijklm]"}));
  EXPECT_EQ(counts_.truncated.count, 0);
  EXPECT_EQ(counts_.examples, 1);
  EXPECT_EQ(counts_.samples, 3);
  EXPECT_EQ(encode_in_windows(8, "abcdef").size(), 1u);
  EXPECT_EQ(text_of(encode_in_windows(8, "")[0]), "[]");
}

TEST_F(Encoder, PairsLoseTokensOfTheLongerFirst) {
  const auto pair = [&](const std::string& first, const std::string& second) {
    return text_of(encode(TaskKind::classification, 10, example_of(first, second))[0]);
  };
  EXPECT_EQ(pair("abc", "defg"), "[abc]defg]");
  EXPECT_EQ(pair("ab", "cdefgh"), "[ab]cdefg]");
  EXPECT_EQ(pair("abcdefg", "hi"), "[abcde]hi]");
  EXPECT_EQ(pair("abcdef", "ghijkl"), "[abc]ghij]");  // the second of two equals keeps more
  EXPECT_EQ(pair("abcdefg", "hijkl"), "[abcd]hij]");
  EXPECT_EQ(counts_.truncated.count, 4);
  EXPECT_EQ(encode(TaskKind::classification, 10, example_of("a", "b"))[0].rows[0].type_ids,
            (std::vector<std::int32_t>{0, 0, 0, 1, 1}));
}

/// Its template for two texts leaves the second out.
struct OneTextTokenizer : LetterTokenizer {
  using LetterTokenizer::wrap;
  WrappedIds wrap(std::span<const std::int32_t> first,
                  std::span<const std::int32_t> /*second*/) const override {
    return wrap(first);
  }
};

TEST_F(Encoder, PairsNeedATemplateOfTwoTexts) {
  const OneTextTokenizer tokenizer;
  for (const TaskKind kind : {TaskKind::classification, TaskKind::questions}) {
    TaskConfig task{.kind = kind, .stride = 2};
    const TaskEncoder encoder(resolve_task(task), LabelSet({"O"}), tokenizer, 20);
    if (kind == TaskKind::classification) {
      EXPECT_EQ(text_of(encoder.encode(example_of("abc"), counts_)[0]), "[abc]");
    }
    EXPECT_EQ(input_error([&] { encoder.encode(example_of("abc", "de"), counts_); }),
              "the tokenizer's template for two texts, post_processor.pair of its tokenizer.json, "
              "leaves the second out; expected both, A and B");
  }
}

TEST_F(Encoder, WordsAreLabelledAtTheirFirstTokens) {
  Example example{.words = {"ab", "c", "def", "g", "h"}, .labels = {"B-X", "O", "O", "B-X", "O"}};
  const EncodedSample sample = encode(TaskKind::tokens, 9, example)[0];
  EXPECT_EQ(text_of(sample), "[abcdefg]");
  EXPECT_EQ(sample.word_starts, (Places{1, 3, 4, 7, cut_off}));
  EXPECT_EQ(sample.labels, (Places{1, 0, 0, 1, 0}));
}

TEST_F(Encoder, WordsWithoutATokenHaveNoPlace) {
  Example example{.words = {" ", "a"}};
  EXPECT_EQ(encode(TaskKind::tokens, 9, example)[0].word_starts, (Places{no_token, 1}));
}

TEST_F(Encoder, ChoicesAreRows) {
  const Example example{.text = "ab", .pair = "c", .choices = {"d", "efg"}, .choice = 1};
  const EncodedSample sample = encode(TaskKind::choice, 9, example)[0];
  EXPECT_EQ(text_of(sample, 0), "[ab]cd]");
  EXPECT_EQ(text_of(sample, 1), "[ab]cefg]");
  EXPECT_EQ(sample.label, 1);
  EXPECT_EQ(sample.length(), 9);
}

TEST_F(Encoder, LongContextsBecomeWindowsThatOverlap) {
  const Example example{
      .text = "q?", .pair = "ab cdefghij", .answers = {{"fg", 6}}, .labelled = true};
  const auto windows = encode(TaskKind::questions, 11, example);
  ASSERT_EQ(windows.size(), 2);
  EXPECT_EQ(text_of(windows[0]), "[q?]abcdef]");
  EXPECT_EQ(text_of(windows[1]), "[q?]efghij]");
  EXPECT_EQ(windows[0].start, 0);  // this window has only half of the answer
  EXPECT_EQ(windows[1].start, 5);
  EXPECT_EQ(windows[1].end, 6);
  EXPECT_EQ(windows[1].context_begin, 4);
  EXPECT_EQ(windows[0].places[1].begin, 0);  // of "b" in "ab"
  EXPECT_EQ(windows[0].places[1].end, 2);
  EXPECT_EQ(windows[1].places[2].begin, 5);  // of "g" in "efghij", the word's part in this window
  EXPECT_EQ(windows[1].places[2].end, 11);
  EXPECT_EQ(windows[1].example, 0);
  EXPECT_EQ(counts_.answers_cut, 0);
}

TEST_F(Encoder, PlacesAreThoseOfTokensWithoutWholeWords) {
  const auto windows = encode({.kind = TaskKind::questions, .stride = 2, .whole_words = false}, 11,
                              example_of("q?", "ab cdefghij"));
  EXPECT_EQ(windows[1].places[0].begin, 5);  // "e" in the whole context
  EXPECT_EQ(windows[1].places[0].end, 6);
}

TEST_F(Encoder, AnswersLongerThanAnyWindowAreCounted) {
  const Example example{.text = "q", .pair = "abcdefghij", .answers = {{"abcdefghi", 0}}};
  for (const EncodedSample& window : encode(TaskKind::questions, 11, example))
    EXPECT_EQ(window.start, 0);
  EXPECT_EQ(counts_.answers_cut, 1);
}

TEST_F(Encoder, LongQuestionsLeaveHalfOfTheRow) {
  const auto windows = encode(TaskKind::questions, 11, example_of("abcdefgh", "xyz"));
  EXPECT_EQ(text_of(windows[0]), "[abcd]xyz]");
  EXPECT_EQ(windows[0].full_length, 14);
  EXPECT_EQ(counts_.longest, 14);
  EXPECT_EQ(counts_.truncated.first, "the example 'abcdefgh'");
  EXPECT_EQ(counts_.truncated.count, 1);
}

TEST_F(Encoder, BlankTextsAreCountedAndTheFirstIsNamed) {
  encode(TaskKind::classification, 9, example_of("a", "b"));
  EXPECT_EQ(counts_.blank.count, 0);
  encode(TaskKind::classification, 9, example_of(" \t\u00a0\n"));
  encode(TaskKind::classification, 9, example_of("a", ""));
  encode(TaskKind::questions, 9, example_of("q", " "));
  EXPECT_EQ(counts_.blank.count, 3);
  EXPECT_EQ(counts_.blank.first, "the example ' \\x09\u00a0\\x0a'");
}

TEST_F(Encoder, ChoicesMayBeginWithNothing) {
  Example example{.text = "a", .pair = "", .choices = {"b", "c"}};
  encode(TaskKind::choice, 9, example);
  EXPECT_EQ(counts_.blank.count, 0);
  example.choices[1] = " ";
  encode(TaskKind::choice, 9, example);
  example.choices[1] = "c";
  example.text = "";
  encode(TaskKind::choice, 9, example);
  EXPECT_EQ(counts_.blank.count, 2);
}

TEST_F(Encoder, QuestionsWithoutAnswerPointToTheFirstToken) {
  const Example example{.text = "q", .pair = "abc", .labelled = true};
  const EncodedSample window = encode(TaskKind::questions, 11, example)[0];
  EXPECT_EQ(window.start, 0);
  EXPECT_EQ(window.end, 0);
  EXPECT_EQ(counts_.answers_cut, 0);
}

TEST_F(Encoder, EmptyContextsAreOneWindow) {
  EXPECT_EQ(text_of(encode(TaskKind::questions, 11, example_of("q", "")).at(0)), "[q]]");
}

}  // namespace
}  // namespace nystrom
