// What heads read of a sequence, and how their losses are normalised.
#include "nn/heads.h"

#include <gtest/gtest.h>

#include "tests/support/models.h"

namespace nystrom::testing {
namespace {

std::vector<double> block_logits(const std::string& row, int filler) {
  ModelConfig config = tiny_config();
  make_sequence_block(config);
  config.head = Head::sequence_classification;
  config.labels = {"a", "b", "c"};
  const auto model = make_model(config, DType::f64);
  const Layout layout{{row}, {}, filler};
  return (*model)(input_of(config, layout)).logits.value().to_doubles();
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-10);
}

TEST(SequenceBlockHead, ReadsTheLastValidStep) {
  expect_near(block_logits("11100", 1), block_logits("111", 0));
  EXPECT_NE(block_logits("11100", 0), block_logits("11000", 0));
}

TEST(QuestionAnsweringLoss, IsDividedByItsNormaliser) {
  const Var start(random_normal({3, 5}, 1)), end(random_normal({3, 5}, 2));
  const Tensor from = Tensor::from(std::vector<std::int64_t>{0, 2, 4}, {3}), to = Tensor::from(std::vector<std::int64_t>{1, 3, 4}, {3});
  const double mean = question_answering_loss(start, end, from, to).value().item();
  EXPECT_NEAR(question_answering_loss(start, end, from, to, 12).value().item(), mean / 4, 1e-12);
}

}  // namespace
}  // namespace nystrom::testing
