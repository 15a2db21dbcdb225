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

/// A window [… context… sep] whose context has a token at each of these places.
EncodedSample window_at(std::int64_t context_begin, std::vector<TextRange> places) {
  EncodedSample sample{.context_begin = context_begin, .places = std::move(places)};
  sample.rows.resize(1);
  sample.rows[0].ids.resize(static_cast<std::size_t>(context_begin) + sample.places.size() + 1);
  return sample;
}

/// A window [cls question sep context… sep] with the words of `context` from `first` up to, but not
/// including, `end`. Each word is a token.
EncodedSample window_of(std::int64_t first, std::int64_t end) {
  static const std::vector<TextRange> words{
      {0, 3}, {3, 8}, {10, 16}, {16, 21}};  // two of them include the space before the word
  return window_at(3, {words.begin() + first, words.begin() + end});
}

TaskConfig task_of(std::int64_t max_answer_length, bool whole_words = true) {
  return {.max_answer_length = max_answer_length, .whole_words = whole_words};
}

TaskConfig without_answers(double threshold = 0) {
  return {.no_answer = true, .no_answer_threshold = threshold};
}

/// The five best answers.
std::vector<PredictedAnswer> answers_of(std::span<const WindowScores> windows,
                                        const TaskConfig& task = {}) {
  return best_answers(context, windows, task, default_answers);
}

std::vector<std::string> texts_of(const std::vector<PredictedAnswer>& answers) {
  std::vector<std::string> texts;
  for (const PredictedAnswer& answer : answers) texts.push_back(answer.text);
  return texts;
}

/// Scores that are e^score = the given weights: probabilities are these by their sum.
Scores logs(Scores weights) {
  for (double& weight : weights) weight = std::log(weight);
  return weights;
}

TEST(Answers, AreCutFromTheContextWithoutWhiteSpace) {
  const EncodedSample window = window_of(0, 4);
  const Scores start{9, 9, 9, 0, 5, 1, 0, 9}, end{9, 9, 9, 0, 1, 4, 2, 9};
  const WindowScores scores{&window, start, end};
  const auto answers = answers_of(std::span(&scores, 1));
  EXPECT_EQ(answers[0].text, "ship  sailed");
  EXPECT_EQ(answers[0].place.begin, 4);
  EXPECT_EQ(answers[0].place.end, 16);
  EXPECT_EQ(answers[1].text, "ship  sailed home");
  // The softmax is over cls and the context, without the question: 9 0 5 1 0 and 9 0 1 4 2.
  const auto e = [](double x) { return std::exp(x); };
  EXPECT_NEAR(answers[0].score,
              e(5) / (e(9) + 2 + e(5) + e(1)) * e(4) / (e(9) + 1 + e(1) + e(4) + e(2)), 1e-12);
  EXPECT_EQ(answers.size(), 5);
  EXPECT_EQ(best_answers(context, std::span(&scores, 1), {}, 20).size(), 10)
      << "all spans of the four words";
}

TEST(Answers, EndNotBeforeTheyStartAndAreNotTooLong) {
  const EncodedSample window = window_of(0, 4);
  const Scores start{0, 0, 0, 1, 0, 8, 0, 0}, end{0, 0, 0, 0, 9, 0, 3, 0};
  const WindowScores scores{&window, start, end};
  EXPECT_EQ(answers_of(std::span(&scores, 1))[0].text, "sailed home");
  EXPECT_EQ(answers_of(std::span(&scores, 1), task_of(1))[0].text, "ship");
}

TEST(Answers, OfOverlappingWindowsAreAdded) {
  const EncodedSample windows[] = {window_of(0, 3), window_of(2, 4)};
  const Scores start{0, 0, 0, 0, 0, 4, 0}, end{0, 0, 0, 0, 0, 4, 0}, start2{0, 0, 0, 6, 0, 0},
      end2{0, 0, 0, 6, 5, 0};
  const WindowScores scores[] = {{&windows[0], start, end}, {&windows[1], start2, end2}};
  const auto answers = answers_of(scores);
  EXPECT_EQ(answers[0].text, "sailed");
  EXPECT_EQ(answers[1].text, "sailed home");
  const double first = std::exp(4.0) / (std::exp(4.0) + 3);
  const double second = std::exp(6.0) / (std::exp(6.0) + 2),
               second_end = std::exp(6.0) / (std::exp(6.0) + 1 + std::exp(5.0));
  EXPECT_NEAR(answers[0].score, first * first + second * second_end, 1e-12);
  for (std::size_t i = 1; i < answers.size(); ++i) EXPECT_NE(answers[i].text, "sailed");
}

TEST(Answers, OfWholeWordsAreAdded) {
  // "I don't" as [cls] [question] [sep] I do ##n ' t [sep]
  const EncodedSample window = window_at(3, {{0, 1}, {2, 5}, {2, 5}, {5, 6}, {6, 7}});
  const Scores start = logs({1, 1, 1, 1, 4, 2, 1, 1, 1}), end = logs({1, 1, 1, 1, 2, 4, 1, 1, 1});
  const WindowScores scores{&window, start, end};
  const auto answers = best_answers("I don't", std::span(&scores, 1), {}, 20);
  EXPECT_EQ(answers[0].text, "don");
  EXPECT_EQ(answers[0].place.begin, 2);
  EXPECT_EQ(answers[0].place.end, 5);
  EXPECT_NEAR(answers[0].score, (4 * 2 + 4 * 4 + 2 * 4) / 100.0, 1e-12);
  EXPECT_EQ(answers[1].text, "I don");
  EXPECT_NEAR(answers[1].score, (2 + 4) / 100.0, 1e-12);
  EXPECT_EQ(answers[2].text, "don'");
  EXPECT_EQ(answers[2].place.end, 6);
}

/// Of 12 and 20 pairs, as transformers' pipeline; without whole words of 1 and 5.
TEST(Answers, TakeMorePairsThanAreWanted) {
  const EncodedSample window = window_at(1, std::vector<TextRange>(30, {0, 1}));
  const Scores flat(32, 0);
  const WindowScores scores{&window, flat, flat};
  const double pair = 1.0 / (31 * 31);
  const auto score_of = [&](std::int64_t best, bool whole_words) {
    return best_answers("I", std::span(&scores, 1), task_of(1, whole_words), best)[0].score / pair;
  };
  EXPECT_NEAR(score_of(1, true), 12, 1e-9);
  EXPECT_NEAR(score_of(5, true), 20, 1e-9);
  EXPECT_NEAR(score_of(1, false), 1, 1e-9);
  EXPECT_NEAR(score_of(5, false), 5, 1e-9);
}

TEST(Answers, OfEqualTextsAreOneWhateverTheirCase) {
  const std::string text = "Sea and SEA";
  const EncodedSample window = window_at(1, {{0, 3}, {4, 7}, {8, 11}});
  const Scores both = logs({1, 3, 1, 4, 1});
  const WindowScores scores{&window, both, both};
  const auto answers = best_answers(text, std::span(&scores, 1), task_of(1), 5);
  EXPECT_EQ(answers[0].text, "SEA") << "the more probable one";
  EXPECT_NEAR(answers[0].score, (9 + 16) / 81.0, 1e-12);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[1].text, "and");
}

TEST(Answers, MayBeThatThereIsNone) {
  const EncodedSample windows[] = {window_of(0, 2), window_of(2, 4)};
  const Scores both = logs({3, 1, 1, 4, 1, 1}), both2 = logs({9, 1, 1, 1, 1, 1});
  const WindowScores scores[] = {{&windows[0], both, both}, {&windows[1], both2, both2}};
  EXPECT_EQ(answers_of(scores)[0].text, "The");
  const auto none = answers_of(scores, without_answers());
  EXPECT_EQ(texts_of(none), (std::vector<std::string>{"The", "", "The ship", "ship", "sailed"}));
  EXPECT_NEAR(none[1].score, 9 / 64.0, 1e-12) << "the minimum over the windows";
  const double difference = std::log(16.0 / 9);
  EXPECT_EQ(answers_of(scores, without_answers(-difference + 1e-9))[0].text, "The");
  EXPECT_EQ(answers_of(scores, without_answers(-difference - 1e-9))[0].text, "");
  EXPECT_EQ(answers_of(scores, without_answers(1e300))[4].text, "sailed home");
}

TEST(Answers, OfScoresThatAreNotNumbersAreNone) {
  const EncodedSample window = window_of(0, 4);
  const Scores broken(8, NAN);
  const WindowScores scores{&window, broken, broken};
  EXPECT_EQ(texts_of(answers_of(std::span(&scores, 1), without_answers())),
            std::vector<std::string>{""});
}

TEST(Entities, OfTextWithoutSpacesHaveNone) {
  const LabelSet labels({"O", "B-LOC", "I-LOC"});
  const std::vector<WordLabel> predicted{{1, 1}, {2, 1}, {2, 1}};
  const std::vector<std::string> words = {"東", "京", "Bay"};
  EXPECT_EQ(find_entities(words, predicted, labels)[0].text, "東京 Bay");
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
  EncodedSample sample{.word_starts = {1, -1, 2}};
  const Scores scores{9, 0, 0, std::log(3.0), 5, 5};  // three positions with two labels
  const auto labels = word_labels(sample, scores, 2);
  EXPECT_EQ(labels[0].label, 1);
  EXPECT_NEAR(labels[0].probability, 0.75, 1e-12);
  EXPECT_EQ(labels[1].label, -1);
  EXPECT_EQ(labels[2].label, 0);
}

}  // namespace
}  // namespace nystrom
