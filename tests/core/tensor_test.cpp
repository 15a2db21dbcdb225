#include "core/tensor.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "tests/support/errors.h"
#include "tests/support/views.h"

namespace nystrom::testing {
namespace {

using Values = std::vector<double>;

/// 0, 1, 2, … in the given shape.
Tensor counting(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), 0.0f);
  return Tensor::from(values, shape);
}

TEST(Tensor, FactoriesFill) {
  EXPECT_EQ(elements(Tensor::zeros({3}, DType::bf16)), (Values{0, 0, 0}));
  EXPECT_EQ(elements(Tensor::full({2}, -1.5, DType::f64)), (Values{-1.5, -1.5}));
  for (const DType dtype :
       {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8}) {
    EXPECT_EQ(elements(Tensor::full({3}, 7, dtype)), (Values{7, 7, 7})) << name_of(dtype);
    EXPECT_EQ(Tensor::empty({2, 3}, dtype).bytes(), 6 * size_of(dtype)) << name_of(dtype);
  }
}

TEST(Tensor, BorrowsMemoryThatItsOwnerFreesLater) {
  const auto owner = std::make_shared<std::array<float, 6>>();
  std::iota(owner->begin(), owner->end(), 0.0f);
  const std::shared_ptr<void> second(owner, owner->data() + 1);
  Tensor x = Tensor::borrow(second, {2, 2}, std::array<std::int64_t, 2>{1, 2}, DType::f32);
  EXPECT_EQ(elements(x.clone()), (Values{1, 3, 2, 4}));
  x.data<float>()[0] = 9;
  EXPECT_EQ((*owner)[1], 9);
  EXPECT_FALSE(x.transpose(0, 1).is_unique()) << "its owner reads it";
  const std::weak_ptr<void> alive = owner;
  x = {};
  EXPECT_EQ(alive.use_count(), 2);
}

TEST(Tensor, RefusesMemoryThatKernelsCannotRead) {
  const auto owner = std::make_shared<std::array<float, 4>>();
  const auto borrowed = [&](std::size_t bytes, std::int64_t stride) {
    return message_of([&] {
      const std::shared_ptr<void> data(owner, reinterpret_cast<char*>(owner->data()) + bytes);
      Tensor::borrow(data, {2}, std::array{stride}, DType::f32);
    });
  };
  EXPECT_EQ(borrowed(4, -1), "a tensor has no negative strides");
  EXPECT_EQ(borrowed(2, 1), "the elements of a tensor of f32 begin at a multiple of their size");
}

TEST(Tensor, CopiesShareTheirStorage) {
  Tensor a = counting({4});
  const Tensor b = a;
  a.data<float>()[2] = 9;
  EXPECT_EQ(elements(b), (Values{0, 1, 9, 3}));
  EXPECT_FALSE(a.is_unique());
}

TEST(Tensor, CloneHasStorageOfItsOwn) {
  Tensor a = counting({4});
  const Tensor b = a.clone();
  a.data<float>()[2] = 9;
  EXPECT_EQ(elements(b), (Values{0, 1, 2, 3}));
  EXPECT_TRUE(b.is_unique());
}

TEST(Tensor, TransposeIsAView) {
  const Tensor a = counting({2, 3}), t = a.transpose(0, -1);
  EXPECT_EQ(t.shape(), (Shape{3, 2}));
  EXPECT_EQ(elements(t), (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_FALSE(t.is_contiguous());
  EXPECT_EQ(static_cast<CView>(t).data, static_cast<CView>(a).data);
}

TEST(Tensor, SliceIsAView) {
  const Tensor a = counting({3, 4}), s = a.slice(1, 1, 3);
  EXPECT_EQ(elements(s), (Values{1, 2, 5, 6, 9, 10}));
  EXPECT_FALSE(s.is_contiguous());
  EXPECT_TRUE(a.slice(0, 1, 3).is_contiguous());
  EXPECT_EQ(elements(a.slice(0, 1, 3).slice(-1, 3, 4)), (Values{7, 11}));
  EXPECT_EQ(a.slice(0, 3, 3).numel(), 0);
}

TEST(Tensor, ExpandRepeatsWithoutCopying) {
  const Tensor a = counting({3, 1}), e = a.expand({2, 3, 2});
  EXPECT_EQ(elements(e), (Values{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(e.stride(0), 0);
  EXPECT_EQ(e.stride(2), 0);
}

TEST(Tensor, ReshapeKeepsTheOrder) {
  EXPECT_EQ(elements(counting({2, 3}).reshape({3, 2}).transpose(0, 1)), (Values{0, 2, 4, 1, 3, 5}));
}

TEST(Tensor, SizesOfOneDoNotBreakContiguity) {
  EXPECT_TRUE(counting({4, 3}).slice(0, 1, 2).transpose(0, 1).is_contiguous());
  EXPECT_TRUE(counting({4, 3}).slice(1, 1, 1).is_contiguous());
}

TEST(Tensor, ContiguousCopiesOnlyWhatIsStrided) {
  const Tensor a = counting({2, 3}), t = a.transpose(0, 1);
  EXPECT_EQ(static_cast<CView>(a.contiguous()).data, static_cast<CView>(a).data);
  EXPECT_TRUE(t.contiguous().is_contiguous());
  EXPECT_EQ(elements(t.contiguous()), elements(t));
}

TEST(Tensor, ToDoublesReadsEveryTypeAndStride) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Tensor x = scattered({3, 4, 5}, dtype, 1);
    EXPECT_EQ(x.to_doubles(), elements(x)) << name_of(dtype);
  }
  EXPECT_EQ(int_tensor({3, -5}, {2}).to_doubles(), (Values{3, -5}));
  EXPECT_EQ(mask_tensor({0, 255}, {2}).to_doubles(), (Values{0, 255}));
}

TEST(Tensor, CastRoundsBf16ToNearestEven) {
  const float ulp = 1.0f / 128;  // spacing of bf16 between 1 and 2
  const Tensor x = Tensor::from(std::vector<float>{1 + ulp / 2, 1 + 3 * ulp / 2, 1 + 0.51f * ulp,
                                                   1 + 0.49f * ulp, -1 - ulp / 2, 3.4e38f},
                                {6});
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(elements(x.cast(DType::bf16)), (Values{1, 1 + 2 * ulp, 1 + ulp, 1, -1, infinity}));
}

TEST(Tensor, CastKeepsInfinityAndNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  // A NaN whose payload is only in the lower half would become infinity by truncation.
  const Tensor x = Tensor::from(
      std::vector<float>{infinity, -infinity, std::bit_cast<float>(0x7f800001u), -0.0f}, {4});
  const Values y = elements(x.cast(DType::bf16).cast(DType::f64));
  EXPECT_EQ(y[0], infinity);
  EXPECT_EQ(y[1], -infinity);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_TRUE(y[3] == 0 && std::signbit(y[3]));
}

TEST(Tensor, CastToItsOwnTypeIsTheTensorItself) {
  const Tensor x = counting({3});
  EXPECT_EQ(static_cast<CView>(x.cast(DType::f32)).data, static_cast<CView>(x).data);
}

TEST(Tensor, Errors) {
  Tensor x = counting({2, 3});
  EXPECT_EQ(message_of([&] { (void)x.transpose(0, 1).reshape({6}); }),
            "reshape needs a contiguous tensor, got a strided one of shape [3, 2]");
  EXPECT_EQ(message_of([&] { (void)x.reshape({7}); }), "cannot reshape [2, 3] to [7]");
  EXPECT_EQ(message_of([&] { (void)x.transpose(0, 2); }), "axis 2 does not exist in shape [2, 3]");
  EXPECT_EQ(message_of([&] { (void)x.slice(1, 2, 4); }),
            "slice 2…4 of axis 1 lies outside shape [2, 3]");
  EXPECT_EQ(message_of([&] { (void)x.slice(1, 2, 1); }),
            "slice 2…1 of axis 1 lies outside shape [2, 3]");
  EXPECT_EQ(message_of([&] { (void)x.slice(0, -1, 1); }),
            "slice -1…1 of axis 0 lies outside shape [2, 3]");
  EXPECT_EQ(message_of([&] {
              (void)x.expand({4, 3});
            }),
            "shapes [2, 3] and [4, 3] do not broadcast");
  EXPECT_EQ(message_of([&] { (void)x.expand({3}); }), "cannot expand [2, 3] to [3]");
  EXPECT_EQ(message_of([&] { (void)x.cast(DType::i64); }),
            "cast: only floating types convert; got f32 to i64");
  EXPECT_EQ(message_of([] { (void)int_tensor({1}, {1}).cast(DType::f32); }),
            "cast: only floating types convert; got i64 to f32");
  EXPECT_EQ(message_of([&] { (void)x.item(); }), "item() needs one element, got shape [2, 3]");
  EXPECT_EQ(message_of([&] { (void)x.data<double>(); }),
            "tensor data requested as f64, but its type is f32");
  EXPECT_EQ(message_of([] { (void)Tensor().data<float>(); }), "an undefined tensor has no data");
  EXPECT_EQ(message_of([] {
              (void)Tensor::from(std::vector<float>{1, 2}, {3});
            }),
            "2 values do not fill shape [3]");
  EXPECT_EQ(message_of([&] {
              (void)x.to({Device::Kind::cuda, 0});
            }),
            "this build of nystrom has no CUDA support; use --device cpu, or build with: ./dev "
            "build --cuda");
}

}  // namespace
}  // namespace nystrom::testing
