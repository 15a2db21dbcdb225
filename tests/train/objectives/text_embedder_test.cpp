// Vectors of texts: their values, and what they do not depend on.
#include "train/objectives/text_embedder.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/errors.h"
#include "tests/support/tiny_checkpoint.h"
#include "train/objectives/vector_file.h"

namespace nystrom::testing {
namespace {

const std::vector<std::string> texts = {"the sea was calm", "old ships", "",
                                        "men sang while the pale stars sailed home under the sea",
                                        "the sea was calm"};

class TextEmbedderTest : public ::testing::Test {
 protected:
  TextEmbedderTest() { options_.sequence_length = 24; }

  Tensor embed(const EmbeddingOptions& options, const std::vector<std::string>& of = texts) {
    TextEmbedder embedder(*tiny_.model, tiny_.tokenizer, options);
    return embedder(of);
  }

  /// The ids of a text with the special tokens.
  std::vector<std::int64_t> ids_of(const std::string& text) {
    const auto ids = tiny_.tokenizer.wrap(tiny_.tokenizer.encode(text)).ids;
    return {ids.begin(), ids.end()};
  }

  /// The hidden states of one row, [n][hidden].
  std::vector<std::vector<double>> hidden_of(const std::vector<std::int64_t>& ids) {
    ModelInput input;
    input.input_ids = Tensor::from(ids, {1, std::ssize(ids)});
    const Tensor hidden = (*tiny_.model)(input).last_hidden_state.value();
    const std::vector<double> values = hidden.contiguous().to_doubles();
    std::vector<std::vector<double>> rows;
    for (auto at = values.begin(); at != values.end(); at += hidden.dim(2))
      rows.emplace_back(at, at + hidden.dim(2));
    return rows;
  }

  static std::vector<double> mean_of(const std::vector<std::vector<double>>& rows) {
    std::vector<double> mean(rows[0].size(), 0);
    for (const auto& row : rows)
      for (std::size_t i = 0; i < row.size(); ++i) mean[i] += row[i] / std::ssize(rows);
    return mean;
  }

  static std::vector<double> row_of(const Tensor& vectors, std::int64_t row) {
    return vectors.slice(0, row, row + 1).contiguous().to_doubles();
  }

  static void expect_near(const std::vector<double>& got, const std::vector<double>& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << i;
  }

  TemporaryFolder folder_;
  TinyCheckpoint tiny_{folder_ / "model"};
  EmbeddingOptions options_;
};

TEST_F(TextEmbedderTest, MeanIsTheMeanOfTheHiddenStates) {
  options_.normalize = false;
  const Tensor vectors = embed(options_);
  for (std::size_t i = 0; i < texts.size(); ++i)
    expect_near(row_of(vectors, static_cast<std::int64_t>(i)),
                mean_of(hidden_of(ids_of(texts[i]))));
}

TEST_F(TextEmbedderTest, ClsIsTheFirstHiddenState) {
  options_.normalize = false;
  options_.pooling = SentencePooling::cls;
  const Tensor vectors = embed(options_);
  for (std::size_t i = 0; i < texts.size(); ++i)
    expect_near(row_of(vectors, static_cast<std::int64_t>(i)), hidden_of(ids_of(texts[i]))[0]);
}

TEST_F(TextEmbedderTest, NormalisedVectorsHaveLengthOne) {
  const Tensor vectors = embed(options_);
  for (std::int64_t i = 0; i < vectors.dim(0); ++i) {
    double squares = 0;
    for (const double value : row_of(vectors, i)) squares += value * value;
    EXPECT_NEAR(squares, 1, 1e-6) << i;
  }
}

TEST_F(TextEmbedderTest, DimensionsAreCutBeforeTheNormalisation) {
  options_.normalize = false;
  std::vector<double> expected = row_of(embed(options_), 0);
  options_.normalize = true;
  options_.dimensions = 3;
  expected.resize(3);
  const double length = std::hypot(expected[0], expected[1], expected[2]);
  for (double& value : expected) value /= length;
  expect_near(row_of(embed(options_), 0), expected);
}

TEST_F(TextEmbedderTest, ThePromptStandsBeforeTheText) {
  const Tensor expected = embed(options_, {"old men sang"});
  options_.prompt = "old ";
  EXPECT_EQ(embed(options_, {"men sang"}).to_doubles(), expected.to_doubles());
}

TEST_F(TextEmbedderTest, APromptWithTheNameOfASpecialTokenIsRefused) {
  options_.prompt = "[SEP] ";
  EXPECT_EQ(input_error([&] { embed(options_, {"men sang"}); }),
            "the prompt '[SEP] ' holds the name of a special token, which other programs take for "
            "the token and nystrom for text; choose another, or none: --set "
            "'model.embedding.query_prompt=\"\"', or document_prompt");
}

TEST_F(TextEmbedderTest, LongTextsAreMeansOverWindowsWeightedByTokens) {
  options_.normalize = false;
  options_.sequence_length = 10;
  const std::string& text = texts[3];
  const auto ids = tiny_.tokenizer.encode(text);
  ASSERT_GT(ids.size(), 8U);
  std::vector<std::vector<double>> hidden;
  for (std::size_t begin = 0; begin < ids.size(); begin += 8) {
    const auto part = std::span(ids).subspan(begin, std::min<std::size_t>(8, ids.size() - begin));
    const auto wrapped = tiny_.tokenizer.wrap(part).ids;
    for (auto& row : hidden_of({wrapped.begin(), wrapped.end()})) hidden.push_back(std::move(row));
  }
  TextEmbedder embedder(*tiny_.model, tiny_.tokenizer, options_);
  expect_near(row_of(embedder(texts), 3), mean_of(hidden));
  EXPECT_EQ(embedder.note(),
            "3 of 5 texts have more than 10 tokens: their vectors are means over windows; 1 of 5 "
            "texts are empty, or white space alone");
}

TEST_F(TextEmbedderTest, BatchesAndOrderDoNotChangeABit) {
  options_.sequence_length = 10;
  std::vector<std::string> many = tiny_lines(40, 5);
  options_.batch_size = 7;
  const std::vector<double> expected = embed(options_, many).to_doubles();
  for (const std::int64_t batch_size : {1, 40}) {
    options_.batch_size = batch_size;
    EXPECT_EQ(embed(options_, many).to_doubles(), expected) << batch_size;
  }
  std::vector<double> reversed;
  const Tensor backwards = embed(options_, {many.rbegin(), many.rend()});
  for (std::int64_t i = backwards.dim(0) - 1; i >= 0; --i)
    for (const double value : row_of(backwards, i)) reversed.push_back(value);
  EXPECT_EQ(reversed, expected);
}

TEST_F(TextEmbedderTest, ModelsThatSeePaddingGetNone) {
  ModelConfig config = tiny_masked_lm();
  config.attention.semantics = Semantics::transformers;
  config.segment_means_seq_len = config.attention.num_landmarks;
  const TinyCheckpoint exact(folder_ / "exact", config);
  TextEmbedder embedder(*exact.model, exact.tokenizer, options_);
  const Tensor together = embedder(texts);
  for (std::size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(row_of(together, static_cast<std::int64_t>(i)),
              embedder(std::span(texts).subspan(i, 1)).to_doubles());
}

TEST_F(TextEmbedderTest, WrongOptionsAreRefused) {
  options_.sequence_length = 25;
  EXPECT_EQ(message_of([&] { embed(options_); }),
            "data.sequence_length 25 is more than the 24 tokens that the model takes; --set "
            "data.sequence_length=24");
  EXPECT_EQ(message_of([&] {
              rounded_vectors(Tensor::from(std::vector<float>{70000}, {1, 1}), DType::f16);
            }),
            "a vector holds 70000, and f16 ends at 65504; use --dtype f32");
}

}  // namespace
}  // namespace nystrom::testing
