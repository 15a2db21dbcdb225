// nystrom evaluate --minimal-pairs: pseudo-log-likelihoods compared with those of all logits, and
// what its files may be.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/program_test.h"
#include "tests/support/tiny_checkpoint.h"
#include "train/export/forward.h"
#include "train/objectives/minimal_pairs.h"

namespace nystrom::testing {
namespace {

using Ids = std::vector<std::int32_t>;

/// The sum of log-probabilities of the inner tokens, each masked in a row of its own.
double expected_score(const TinyCheckpoint& tiny, const Ids& ids) {
  double sum = 0;
  for (std::size_t place = 1; place + 1 < ids.size(); ++place) {
    std::vector<std::int64_t> row(ids.begin(), ids.end());
    row[place] = tiny.tokenizer.special().mask;
    const Tensor input = Tensor::from(row, {1, std::ssize(row)});
    for (const NamedTensor& output : run_forward(*tiny.model, {{"input_ids", input}}, false)) {
      if (output.name != "logits") continue;
      const auto logits = output.tensor.to_doubles();
      const auto classes = static_cast<std::size_t>(output.tensor.dim(2));
      double total = 0;
      for (std::size_t c = 0; c < classes; ++c) total += std::exp(logits[place * classes + c]);
      sum += logits[place * classes + static_cast<std::size_t>(ids[place])] - std::log(total);
    }
  }
  return sum;
}

class MinimalPairs : public ProgramTest {
 protected:
  PairCounts count(const std::vector<MinimalPair>& pairs, std::int64_t batch_size) const {
    const EncodedPairs encoded = encode_pairs(tiny_.tokenizer, pairs, std::nullopt);
    return count_pairs(*tiny_.model, tiny_.tokenizer, encoded.sentences, batch_size);
  }

  const std::string evaluate_ = "evaluate model --quiet --minimal-pairs ";
  const TinyCheckpoint tiny_{folder_ / "model"};
};

TEST_F(MinimalPairs, ASentenceScoresTheSumOfItsTokens) {
  std::vector<Ids> ids;
  for (const char* text : {"the sea was old", "the sea", "was the old sea and the old sea", ""})
    ids.push_back(tiny_.tokenizer.wrap(tiny_.tokenizer.encode(text)).ids);
  const auto scores = pseudo_log_likelihoods(*tiny_.model, tiny_.tokenizer, ids, 3);
  for (std::size_t i = 0; i < ids.size(); ++i)
    EXPECT_NEAR(scores[i], expected_score(tiny_, ids[i]), 1e-5) << i;
}

TEST_F(MinimalPairs, ATieDoesNotCount) {
  const PairCounts counts = count({{"the sea", "the sea"}}, 4);
  EXPECT_EQ(counts.preferred, 0);
  EXPECT_EQ(counts.ties, 1);
}

TEST_F(MinimalPairs, EachPairIsRightInOneOrder) {
  std::vector<MinimalPair> pairs, swapped;
  for (int i = 0; i < 70; ++i) {  // more than are computed at once
    pairs.push_back({"the sea was old", i % 2 == 0 ? "sea the was old" : "old"});
    swapped.push_back({pairs.back().bad, pairs.back().good});
  }
  EXPECT_EQ(count(pairs, 16).preferred + count(swapped, 16).preferred, 70);
  EXPECT_EQ(count(pairs, 16).ties, 0);
}

TEST_F(MinimalPairs, FilesAreMeasuredOneByOne) {
  write_bytes(folder_ / "a.jsonl",
              R"({"sentence_good": "the sea", "sentence_bad": "the sea", "UID": "a"})"
              "\n"
              R"({"sentence_good": "old sea", "sentence_bad": "old sea"})");
  write_bytes(folder_ / "b.jsonl", R"({"sentence_good": "old", "sentence_bad": "old"})");
  const auto json = nlohmann::json::parse(run(evaluate_ + "'a*.jsonl' b.jsonl --json").out);
  EXPECT_EQ(json.at("pairs"), 3);
  EXPECT_EQ(json.at("accuracy"), 0);
  EXPECT_EQ(json.at("files").at(0).at("file"), "a.jsonl");
  EXPECT_EQ(json.at("files").at(0).at("pairs"), 2);
  EXPECT_EQ(json.at("files").at(0).at("ties"), 2);
  EXPECT_EQ(json.at("ties"), 3);
}

TEST_F(MinimalPairs, FilesOfOneNameAreToldApart) {
  for (const char* file : {"a/x.jsonl", "b/x.jsonl", "y.jsonl"})
    write_bytes(folder_ / file, R"({"sentence_good": "old sea", "sentence_bad": "sea"})");
  run(evaluate_ + "a/x.jsonl b/x.jsonl y.jsonl");
  for (const char* name : {"\na/x.jsonl ", "\nb/x.jsonl ", "\ny.jsonl "})
    expect_says(last_.out, name);
}

TEST_F(MinimalPairs, KeysMayHaveOtherNames) {
  write_bytes(folder_ / "pairs.tsv", "right\twrong\nthe sea\told old old\n");
  run(evaluate_ + "pairs.tsv --good right --bad wrong");
  expect_says(refusal(evaluate_ + "pairs.tsv"), "there is no column 'sentence_good'");
  expect_says(refusal(evaluate_ + "pairs.tsv --good right --bad right"),
              "--good and --bad are both 'right'");
}

TEST_F(MinimalPairs, BadRowsAreNamed) {
  const auto error = [&](const std::string& content) {
    write_bytes(folder_ / "pairs.jsonl", content);
    return refusal(evaluate_ + "pairs.jsonl");
  };
  EXPECT_EQ(error(R"({"sentence_good": "the sea", "sentence_bad": ""})"),
            "nystrom: pairs.jsonl:1: has no sentence_bad; a pair has two sentences\n");
  EXPECT_EQ(error(""), "nystrom: pairs.jsonl: has no pairs\n");
  std::string sentence;
  for (int i = 0; i < 500; ++i) sentence += "sea ";
  const std::string row = R"({"sentence_good": "the sea", "sentence_bad": "old"})"
                          "\n";
  expect_says(error(row + R"({"sentence_good": "the sea", "sentence_bad": ")" + sentence + R"("})"),
              "nystrom: pairs.jsonl:2: a sentence has ", "the model takes at most");
}

}  // namespace
}  // namespace nystrom::testing
