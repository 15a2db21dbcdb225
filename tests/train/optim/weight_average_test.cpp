#include "train/optim/weight_average.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/random.h"

namespace nystrom::testing {
namespace {

void declare_scalar(ParameterStore& store) {
  const Scope scope(store);
  scope.parameter("weight", {5, 7});
  scope.parameter("bias", {7});
}

class WeightAverageOf : public ::testing::TestWithParam<DType> {
 protected:
  /// Creates the store's slabs and initial values.
  void start(std::optional<SlabRange> masters = {}) {
    declare_scalar(store_);
    store_.allocate(GetParam(), StoreMode::training, cpu_device, masters);
    store_.initialise(1, 0.5);
  }
  ParameterStore store_;
};

TEST_P(WeightAverageOf, FollowsTheDefinition) {
  start();
  std::vector<double> expected = store_.master("weight").to_doubles();
  WeightAverage average(store_, 0.75);
  EXPECT_EQ(store_.part_of(average.slab(), "weight").to_doubles(), expected)
      << "it starts as the weights";
  /// A restored run continues to count: (1 + t) / (10 + t) is below 0.75 up to t = 26.
  for (const std::int64_t update : {1, 2, 3, 30, 31}) {
    store_.set("weight", random_normal({5, 7}, static_cast<std::uint64_t>(update)));
    const std::vector<double> now = store_.master("weight").to_doubles();
    const double decay =
        std::min(0.75, (1.0 + static_cast<double>(update)) / (10.0 + static_cast<double>(update)));
    for (std::size_t i = 0; i < now.size(); ++i)
      expected[i] = decay * expected[i] + (1 - decay) * now[i];
    average.update(update);
  }
  const double tolerance = GetParam() == DType::f64 ? 1e-14 : 1e-6;
  EXPECT_LE(
      relative_difference(store_.part_of(average.slab(), "weight"), Tensor::from(expected, {5, 7})),
      tolerance);
}

/// A run of 100 updates, with a decay that averages over 1,000.
TEST_P(WeightAverageOf, ForgetsTheFirstWeightsInAShortRun) {
  start();
  const double first = 1e3, later = 1;
  store_.set("weight", Tensor::full({5, 7}, first, DType::f64));
  WeightAverage average(store_, 0.999);
  store_.set("weight", Tensor::full({5, 7}, later, DType::f64));
  for (std::int64_t update = 1; update <= 100; ++update) average.update(update);
  for (const double value : store_.part_of(average.slab(), "weight").to_doubles())
    EXPECT_NEAR(value, later, 1e-5);
}

TEST_P(WeightAverageOf, IsExchangedAndBack) {
  start();
  WeightAverage average(store_, 0.5);
  store_.initialise(2, 0.5);
  average.update(1);
  const std::vector<double> trained = store_.masters().to_doubles(),
                            rounded = store_.values().to_doubles();
  const std::vector<double> mean = average.slab().to_doubles();
  ASSERT_NE(trained, mean);
  average.with_average([&] {
    EXPECT_EQ(store_.masters().to_doubles(), mean);
    EXPECT_EQ(average.slab().to_doubles(), trained);
    EXPECT_EQ(store_.values().to_doubles(), store_.masters().cast(GetParam()).to_doubles())
        << "what is computed with goes along";
  });
  EXPECT_EQ(store_.masters().to_doubles(), trained);
  EXPECT_EQ(store_.values().to_doubles(), rounded);
  EXPECT_EQ(average.slab().to_doubles(), mean);
}

TEST_P(WeightAverageOf, IsExchangedBackAfterAnError) {
  start();
  WeightAverage average(store_, 0.5);
  store_.initialise(2, 0.5);
  const std::vector<double> trained = store_.masters().to_doubles();
  EXPECT_EQ(message_of([&] { average.with_average([] { throw Error("stopped"); }); }), "stopped");
  EXPECT_EQ(store_.masters().to_doubles(), trained);
}

TEST_P(WeightAverageOf, OfARangeLeavesTheRestAlone) {
  const SlabRange range{16, 40};
  start(range);
  const std::vector<double> before = store_.values().to_doubles();
  int shared = 0;
  WeightAverage average(store_, 0, range, [&] { ++shared; });
  store_.initialise(2, 0.5);
  const std::vector<double> trained = store_.values().to_doubles();
  average.with_average([&] {
    EXPECT_EQ(shared, 1);
    const std::vector<double> now = store_.values().to_doubles();
    for (std::size_t i = 0; i < now.size(); ++i)
      EXPECT_EQ(now[i], i >= 16 && i < 40 ? before[i] : trained[i]) << i;
  });
  EXPECT_EQ(shared, 2);
  EXPECT_EQ(store_.values().to_doubles(), trained);
}

/// 1/3 is no sum of d/3 and (1 − d)/3 in floating point.
TEST_P(WeightAverageOf, KeepsTheBitsOfFrozenParameters) {
  declare_scalar(store_);
  store_.freeze("weight");
  store_.allocate(GetParam(), StoreMode::training);
  store_.initialise(1, 1.0 / 3);
  const std::vector<double> before = store_.part_of(store_.masters(), "weight").to_doubles();
  WeightAverage average(store_, 0.9);
  for (std::int64_t update = 1; update <= 20; ++update) average.update(update);
  EXPECT_EQ(store_.part_of(average.slab(), "weight").to_doubles(), before);
}

INSTANTIATE_TEST_SUITE_P(Types, WeightAverageOf,
                         ::testing::Values(DType::f64, DType::f32, DType::bf16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(WeightAverage, RefusesADecayThatIsNone) {
  ParameterStore store;
  declare_scalar(store);
  store.allocate(DType::f32, StoreMode::training);
  EXPECT_EQ(message_of([&] { WeightAverage(store, 1); }),
            "WeightAverage: decay 1 is not at least 0 and below 1");
  WeightAverage average(store, 0.5);
  EXPECT_EQ(message_of([&] { average.update(0); }), "WeightAverage: update 0 is not at least 1");
}

}  // namespace
}  // namespace nystrom::testing
