#include "core/shape.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/errors.h"

namespace nystrom::testing {
namespace {

TEST(Shape, CountsAxesFromEitherEnd) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[-1], 5);
  EXPECT_EQ(shape.normalise(-3), 0);
}

TEST(Shape, CountsElements) {
  EXPECT_EQ((Shape{2, 3, 5}.numel()), 30);
  EXPECT_EQ((Shape{2, 0, 5}.numel()), 0);
  EXPECT_EQ(Shape{}.numel(), 1);
}

TEST(Shape, AddsAndRemovesAxes) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.without(1), (Shape{2, 5}));
  EXPECT_EQ(shape.without(-1), (Shape{2, 3}));
  EXPECT_EQ(shape.with(0, 7), (Shape{7, 2, 3, 5}));
  EXPECT_EQ(shape.with(1, 7), (Shape{2, 7, 3, 5}));
  EXPECT_EQ(shape.with(-1, 7), (Shape{2, 3, 5, 7}));
  EXPECT_EQ(shape.append(7), (Shape{2, 3, 5, 7}));
}

TEST(Shape, EqualityLooksAtRankAndSizes) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
}

TEST(Shape, PrintsItself) {
  EXPECT_EQ((Shape{2, 3}.to_string()), "[2, 3]");
  EXPECT_EQ(Shape{}.to_string(), "[]");
}

TEST(Shape, BroadcastFollowsNumpy) {
  struct Case {
    Shape a, b, expected;
  };
  const std::vector<Case> cases{
      {{2, 3}, {2, 3}, {2, 3}},       {{2, 3}, {3}, {2, 3}}, {{3}, {2, 3}, {2, 3}},
      {{2, 1}, {1, 3}, {2, 3}},       {{}, {2, 3}, {2, 3}},  {{1}, {0, 3}, {0, 3}},
      {{4, 1, 3}, {2, 1}, {4, 2, 3}},
  };
  for (const auto& [a, b, expected] : cases)
    EXPECT_EQ(broadcast(a, b), expected) << a.to_string() << " with " << b.to_string();
}

TEST(Shape, Errors) {
  const Shape shape{2, 3};
  EXPECT_EQ(message_of([&] { (void)shape[2]; }), "axis 2 does not exist in shape [2, 3]");
  EXPECT_EQ(message_of([&] { (void)shape.without(-3); }), "axis -3 does not exist in shape [2, 3]");
  EXPECT_EQ(message_of([] { Shape{2, -1}; }), "a shape needs sizes >= 0, got [2, -1]");
  EXPECT_EQ(message_of([] { Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; }),
            "a shape has at most 8 axes, got 9");
  EXPECT_EQ(message_of([] { (void)Shape{1, 1, 1, 1, 1, 1, 1, 1}.append(2); }),
            "a shape has at most 8 axes");
  EXPECT_EQ(message_of([] {
              (void)broadcast({2, 3}, {2, 4});
            }),
            "shapes [2, 3] and [2, 4] do not broadcast");
}

}  // namespace
}  // namespace nystrom::testing
