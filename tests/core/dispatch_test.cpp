#include "core/dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/allocator.h"
#include "core/check.h"
#include "core/cuda/runtime.h"
#include "core/kernels.h"
#include "tests/support/errors.h"
#include "tests/support/views.h"

namespace nystrom::testing {
namespace {

constexpr Device gpu{Device::Kind::cuda, 1};

View elsewhere(Tensor& x) {
  View view = x;
  view.device = gpu;
  return view;
}

TEST(Dispatch, ArgumentsMustLiveOnOneDevice) {
  Tensor x = Tensor::zeros({3}, DType::f32), y = Tensor::zeros({3}, DType::f32);
  EXPECT_EQ(message_of([&] { kernels::copy(x, elsewhere(y)); }),
            "copy: all arguments must live on one device; got cuda:1, expected cpu");
}

TEST(Dispatch, SpansLiveWhereTheRowsLive) {
  Tensor x = Tensor::zeros({3, 2}, DType::f32), means = Tensor::zeros({1, 1, 2}, DType::f32);
  Tensor bounds = int_tensor({0, 3}, {1, 2});
  EXPECT_EQ(message_of([&] {
              kernels::segment_means(x, Spans{elsewhere(bounds), 3}, means);
            }),
            "segment_means: all arguments must live on one device; got cuda:1, expected cpu");
}

TEST(Dispatch, AbsentArgumentsLiveAnywhere) {
  Tensor a = Tensor::full({1, 1}, 2, DType::f32), c = Tensor::zeros({1, 1}, DType::f32);
  CView absent;
  absent.device = gpu;
  kernels::matmul(a, a, absent, c, false, Precision::full);
  EXPECT_EQ(c.item(), 4);
}

TEST(Dispatch, WithoutCudaItSaysWhatToDo) {
  if (cuda::built_in()) GTEST_SKIP() << "a build with CUDA";
  Tensor x = Tensor::zeros({3}, DType::f32);
  EXPECT_EQ(message_of([&] { kernels::fill(elsewhere(x), 1); }),
            "fill: this build of nystrom has no CUDA support; use --device cpu, or build with: "
            "./dev build --cuda");
}

TEST(Dispatch, TheLevelCanOnlyBeLowered) {
  limit_cpu_level(best_cpu_level);
  const CpuLevel best = cpu_level();
  for (const CpuLevel level : cpu_levels) {
    const AtLevel at(level);
    EXPECT_EQ(cpu_level(), std::min(level, best));
  }
  EXPECT_EQ(cpu_level(), best);
}

TEST(Dispatch, TheObserverSeesBothEndsOfACall) {
  static std::vector<std::string> seen;
  const KernelObserver before = detail::kernel_observer;
  Tensor x = Tensor::empty({3}, DType::f32);
  set_kernel_observer([](const KernelCall& call, bool begin) {
    seen.push_back(fmt::format("{} of {} values {}", call.name, call.views.at(0).numel(),
                               begin ? "begins" : "ends"));
  });
  kernels::fill(x, 1);
  set_kernel_observer(before);
  EXPECT_EQ(seen, (std::vector<std::string>{"fill of 3 values begins", "fill of 3 values ends"}));
}

TEST(Dispatch, APlannedGpuHasShapesAndNoMemory) {
  constexpr Device planned{Device::Kind::planned, 0};
  const Shape shape{1 << 20, 1 << 20};  // 4 TiB
  const Tensor x = Tensor::full(shape, 1, DType::f32, planned), y = x.cast(DType::bf16);
  EXPECT_EQ(y.shape(), shape);
  EXPECT_NE(CView(x).data, CView(y).data);
  EXPECT_EQ(x.slice(0, 0, 1).reshape({1 << 20}).slice(0, 0, 1).to(cpu_device).item(), 0);
  EXPECT_EQ(Arena::of(planned).statistics().in_use_bytes, std::int64_t{6} << 40);
}

TEST(Dispatch, KernelsOfFloatsRefuseIntegers) {
  Tensor x = int_tensor({1, 2}, {2});
  EXPECT_EQ(message_of([&] { kernels::softmax(x, x); }), "expected a floating type, got i64");
}

}  // namespace
}  // namespace nystrom::testing
