#include "train/weight_average.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/random.h"

namespace nystrom::testing {
namespace {

void declare(ParameterStore& store) {
  const Scope scope(store);
  scope.parameter("weight", {5, 7});
  scope.parameter("bias", {7});
}

class WeightAverageOf : public ::testing::TestWithParam<DType> {
 protected:
  /// The store's slabs and first values.
  void start(std::optional<SlabRange> masters = {}) {
    declare(store_);
    store_.allocate(GetParam(), StoreMode::training, cpu_device, masters);
    store_.initialise(1, 0.5);
  }
  ParameterStore store_;
};

TEST_P(WeightAverageOf, FollowsTheDefinition) {
  start();
  std::vector<double> expected = store_.master("weight").to_doubles();
  WeightAverage average(store_, 0.75);
  EXPECT_EQ(store_.part_of(average.slab(), "weight").to_doubles(), expected) << "it starts as the weights";
  for (std::uint64_t step = 1; step <= 5; ++step) {
    store_.set("weight", random_normal({5, 7}, step));
    const std::vector<double> now = store_.master("weight").to_doubles();
    for (std::size_t i = 0; i < now.size(); ++i) expected[i] = 0.75 * expected[i] + 0.25 * now[i];
    average.update();
  }
  const double tolerance = GetParam() == DType::f64 ? 1e-14 : 1e-6;
  EXPECT_LE(relative_difference(store_.part_of(average.slab(), "weight"), Tensor::from(expected, {5, 7})), tolerance);
}

TEST_P(WeightAverageOf, IsExchangedAndBack) {
  start();
  WeightAverage average(store_, 0.5);
  store_.initialise(2, 0.5);
  average.update();
  const std::vector<double> trained = store_.masters().to_doubles(), rounded = store_.values().to_doubles();
  const std::vector<double> mean = average.slab().to_doubles();
  ASSERT_NE(trained, mean);
  average.while_exchanged([&] {
    EXPECT_EQ(store_.masters().to_doubles(), mean);
    EXPECT_EQ(average.slab().to_doubles(), trained);
    EXPECT_EQ(store_.values().to_doubles(), store_.masters().cast(GetParam()).to_doubles()) << "what is computed with goes along";
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
  EXPECT_EQ(message_of([&] { average.while_exchanged([] { throw Error("stopped"); }); }), "stopped");
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
  average.while_exchanged([&] {
    EXPECT_EQ(shared, 1);
    const std::vector<double> now = store_.values().to_doubles();
    for (std::size_t i = 0; i < now.size(); ++i) EXPECT_EQ(now[i], i >= 16 && i < 40 ? before[i] : trained[i]) << i;
  });
  EXPECT_EQ(shared, 2);
  EXPECT_EQ(store_.values().to_doubles(), trained);
}

INSTANTIATE_TEST_SUITE_P(Types, WeightAverageOf, ::testing::Values(DType::f64, DType::f32, DType::bf16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(WeightAverage, RefusesADecayThatIsNone) {
  ParameterStore store;
  declare(store);
  store.allocate(DType::f32, StoreMode::training);
  EXPECT_EQ(message_of([&] { WeightAverage(store, 1); }), "WeightAverage: decay 1 is not at least 0 and below 1");
}

}  // namespace
}  // namespace nystrom::testing
