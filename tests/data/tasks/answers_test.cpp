// Answers from the scores of windows, and entities from the scores of words.
#include "data/tasks/answers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "data/tasks/entities.h"
#include "data/tasks/word_cut.h"

namespace nystrom {
namespace {

using Scores = std::vector<double>;
constexpr const char* context = "The ship  sailed home";

/// A window [cls question sep context… sep] with the words of `context` from `first` up to, but not
/// including, `end`. Each word is a token.
EncodedSample window_of(std::int64_t first, std::int64_t end) {
  static const std::vector<TextRange> words{
      {0, 3}, {3, 8}, {10, 16}, {16, 21}};  // two of them include the space before the word
  EncodedSample sample;
  sample.context_begin = 3;
  sample.offsets.assign(words.begin() + first, words.begin() + end);
  sample.rows.resize(1);
  sample.rows[0].ids.resize(static_cast<std::size_t>(3 + end - first + 1));
  return sample;
}

std::vector<std::string> texts_of(const std::vector<PredictedAnswer>& answers) {
  std::vector<std::string> texts;
  for (const PredictedAnswer& answer : answers) texts.push_back(answer.text);
  return texts;
}

TEST(Answers, AreCutFromTheContextWithoutWhiteSpace) {
  const EncodedSample window = window_of(0, 4);
  const Scores start{9, 9, 9, 0, 5, 1, 0, 9}, end{9, 9, 9, 0, 1, 4, 2, 9};
  const WindowScores scores{&window, start, end};
  const auto answers = best_answers(context, std::span(&scores, 1), {});
  EXPECT_EQ(answers[0].text, "ship  sailed");
  EXPECT_EQ(answers[0].place.begin, 4);
  EXPECT_EQ(answers[0].place.end, 16);
  EXPECT_EQ(answers[0].score, 9);
  EXPECT_EQ(answers[1].text, "ship  sailed home");
  EXPECT_EQ(answers.size(), 10);  // all spans of the four words
  // The softmax is over cls and the context, without the question: 9 0 5 1 0 and 9 0 1 4 2.
  const auto e = [](double x) { return std::exp(x); };
  EXPECT_NEAR(answers[0].probability,
              e(5) / (e(9) + 2 + e(5) + e(1)) * e(4) / (e(9) + 1 + e(1) + e(4) + e(2)), 1e-12);
}

TEST(Answers, EndNotBeforeTheyStartAndAreNotTooLong) {
  const EncodedSample window = window_of(0, 4);
  const Scores start{0, 0, 0, 1, 0, 8, 0, 0}, end{0, 0, 0, 0, 9, 0, 3, 0};
  const WindowScores scores{&window, start, end};
  EXPECT_EQ(best_answers(context, std::span(&scores, 1), {})[0].text, "sailed home");
  EXPECT_EQ(texts_of(best_answers(context, std::span(&scores, 1), {.best = 1})),
            std::vector<std::string>{""});  // neither of the two best fits
  EXPECT_EQ(best_answers(context, std::span(&scores, 1), {.max_answer_length = 1})[0].text, "ship");
}

TEST(Answers, OfOverlappingWindowsCountOnce) {
  const EncodedSample windows[] = {window_of(0, 3), window_of(2, 4)};
  const Scores start{0, 0, 0, 0, 0, 4, 0}, end{0, 0, 0, 0, 0, 4, 0}, start2{0, 0, 0, 6, 0, 0},
      end2{0, 0, 0, 6, 5, 0};
  const WindowScores scores[] = {{&windows[0], start, end}, {&windows[1], start2, end2}};
  const auto answers = best_answers(context, scores, {});
  EXPECT_EQ(answers[0].text, "sailed");
  EXPECT_EQ(answers[0].score, 12);
  EXPECT_EQ(answers[1].text, "sailed home");
  const double first = std::exp(4.0) / (std::exp(4.0) + 3);
  const double second = std::exp(6.0) / (std::exp(6.0) + 2),
               second_end = std::exp(6.0) / (std::exp(6.0) + 1 + std::exp(5.0));
  EXPECT_NEAR(answers[0].probability, first * first + second * second_end, 1e-12);
  for (std::size_t i = 1; i < answers.size(); ++i) EXPECT_NE(answers[i].text, "sailed");
}

TEST(Answers, MayBeThatThereIsNone) {
  const EncodedSample windows[] = {window_of(0, 2), window_of(2, 4)};
  const Scores start{4, 0, 0, 3, 0, 0}, end{4, 0, 0, 3, 0, 0}, start2{6, 0, 0, 1, 0, 0},
      end2{6, 0, 0, 1, 0, 0};
  const WindowScores scores[] = {{&windows[0], start, end}, {&windows[1], start2, end2}};
  EXPECT_EQ(best_answers(context, scores, {})[0].text, "The");
  const auto none = best_answers(context, scores, {.no_answer = true});
  EXPECT_EQ(none[0].text, "");
  EXPECT_EQ(none[0].score, 8);  // the minimum over the windows
  EXPECT_EQ(none[1].text, "The");
  EXPECT_EQ(
      texts_of(best_answers(context, scores, {.no_answer = true, .no_answer_threshold = 2}))[0],
      "The");
  EXPECT_EQ(
      texts_of(best_answers(context, scores, {.no_answer = true, .no_answer_threshold = 1.9}))[0],
      "");
}

TEST(Answers, OfScoresThatAreNotNumbersAreNone) {
  const EncodedSample window = window_of(0, 4);
  const Scores broken(8, NAN);
  const WindowScores scores{&window, broken, broken};
  EXPECT_EQ(texts_of(best_answers(context, std::span(&scores, 1), {.no_answer = true})),
            std::vector<std::string>{""});
}

TEST(Entities, AreFoundInRunningText) {
  const std::string text = "Dr. Ann Lee, of Łódź-West.";
  const auto places = split_words(text, WordCut::words);
  std::vector<std::string> words;
  for (const TextRange& place : places)
    words.push_back(text.substr(static_cast<std::size_t>(place.begin),
                                static_cast<std::size_t>(place.end - place.begin)));
  ASSERT_EQ(words,
            (std::vector<std::string>{"Dr", ".", "Ann", "Lee", ",", "of", "Łódź-West", "."}));
  const LabelSet labels({"O", "B-PER", "I-PER", "B-LOC"});
  const std::vector<WordLabel> predicted{{0, 1}, {0, 1},  {1, 0.5}, {2, 0.7},
                                         {0, 1}, {-1, 0}, {3, 0.9}, {0, 1}};
  const auto entities = find_entities(words, predicted, labels, text, places);
  ASSERT_EQ(entities.size(), 2);
  EXPECT_EQ(entities[0].text, "Ann Lee");
  EXPECT_EQ(entities[0].type, "PER");
  EXPECT_EQ(entities[0].place.begin, 4);
  EXPECT_NEAR(entities[0].score, 0.6, 1e-12);
  EXPECT_EQ(entities[1].text, "Łódź-West");
  EXPECT_EQ(find_entities(words, predicted, labels)[0].text, "Ann Lee");
}

TEST(Entities, WordsAreLabelledByTheirFirstToken) {
  EncodedSample sample;
  sample.word_starts = {1, -1, 2};
  const Scores scores{9, 0, 0, std::log(3.0), 5, 5};  // three positions with two labels
  const auto labels = word_labels(sample, scores, 2);
  EXPECT_EQ(labels[0].label, 1);
  EXPECT_NEAR(labels[0].probability, 0.75, 1e-12);
  EXPECT_EQ(labels[1].label, -1);
  EXPECT_EQ(labels[2].label, 0);
}

}  // namespace
}  // namespace nystrom
