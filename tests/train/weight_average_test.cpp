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

class WeightAverageOf : public ::testing::TestWithParam<DType> {};

TEST_P(WeightAverageOf, FollowsTheDefinition) {
  ParameterStore store;
  declare(store);
  store.allocate(GetParam(), StoreMode::training);
  store.initialise(1, 0.5);
  std::vector<double> expected = store.master("weight").to_doubles();
  WeightAverage average(store, 0.75);
  EXPECT_EQ(store.part_of(average.slab(), "weight").to_doubles(), expected) << "it starts as the weights";
  for (std::uint64_t step = 1; step <= 5; ++step) {
    store.set("weight", random_normal({5, 7}, step));
    const std::vector<double> now = store.master("weight").to_doubles();
    for (std::size_t i = 0; i < now.size(); ++i) expected[i] = 0.75 * expected[i] + 0.25 * now[i];
    average.update();
  }
  const double tolerance = GetParam() == DType::f64 ? 1e-14 : 1e-6;
  EXPECT_LE(relative_difference(store.part_of(average.slab(), "weight"), Tensor::from(expected, {5, 7})), tolerance);
}

TEST_P(WeightAverageOf, IsExchangedAndBack) {
  ParameterStore store;
  declare(store);
  store.allocate(GetParam(), StoreMode::training);
  store.initialise(1, 0.5);
  WeightAverage average(store, 0.5);
  store.initialise(2, 0.5);
  average.update();
  const std::vector<double> trained = store.masters().to_doubles(), rounded = store.values().to_doubles();
  const std::vector<double> mean = average.slab().to_doubles();
  ASSERT_NE(trained, mean);
  average.while_exchanged([&] {
    EXPECT_EQ(store.masters().to_doubles(), mean);
    EXPECT_EQ(average.slab().to_doubles(), trained);
    EXPECT_EQ(store.values().to_doubles(), store.masters().cast(GetParam()).to_doubles()) << "what is computed with goes along";
  });
  EXPECT_EQ(store.masters().to_doubles(), trained);
  EXPECT_EQ(store.values().to_doubles(), rounded);
  EXPECT_EQ(average.slab().to_doubles(), mean);
}

TEST_P(WeightAverageOf, IsExchangedBackAfterAnError) {
  ParameterStore store;
  declare(store);
  store.allocate(GetParam(), StoreMode::training);
  store.initialise(1, 0.5);
  WeightAverage average(store, 0.5);
  store.initialise(2, 0.5);
  const std::vector<double> trained = store.masters().to_doubles();
  EXPECT_EQ(message_of([&] { average.while_exchanged([] { throw Error("stopped"); }); }), "stopped");
  EXPECT_EQ(store.masters().to_doubles(), trained);
}

TEST_P(WeightAverageOf, OfARangeLeavesTheRestAlone) {
  ParameterStore store;
  declare(store);
  const SlabRange range{16, 40};
  store.allocate(GetParam(), StoreMode::training, cpu_device, range);
  store.initialise(1, 0.5);
  const std::vector<double> before = store.values().to_doubles();
  int shared = 0;
  WeightAverage average(store, 0, range, [&] { ++shared; });
  store.initialise(2, 0.5);
  const std::vector<double> trained = store.values().to_doubles();
  average.while_exchanged([&] {
    EXPECT_EQ(shared, 1);
    const std::vector<double> now = store.values().to_doubles();
    for (std::size_t i = 0; i < now.size(); ++i) EXPECT_EQ(now[i], i >= 16 && i < 40 ? before[i] : trained[i]) << i;
  });
  EXPECT_EQ(shared, 2);
  EXPECT_EQ(store.values().to_doubles(), trained);
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
