// The emulator finds what a GPU would answer with wrong numbers or an error: missing waits, too
// much shared memory, too many threads, and products that cuBLASLt refuses.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include "core/cuda/launch.cuh"
#include "core/cuda/runtime.h"
#include "core/cuda/shared.cuh"
#include "core/kernels.h"
#include "core/tensor.h"
#include "tests/cuda/device.h"
#include "tests/support/errors.h"

namespace nystrom::testing {
namespace {

class EmulationTest : public GpuTest<> {
 protected:
  void TearDown() override {
    emulation::finish_all();
    emulation::set_missing(emulation::Missing::nothing);
    emulation::set_gpu(emulation::hopper);
    GpuTest::TearDown();
  }
};

/// The message of what the emulator throws.
template <class F>
std::string refusal_of(const F& f) {
  try {
    f();
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return {};
}

TEST_F(EmulationTest, CopiesAreSeenWhenTheyAreWaitedFor) {
  void *device = nullptr, *host = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 4), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&host, 4), cudaSuccess);
  const auto copy_back = [&] {
    return cudaMemcpyAsync(host, device, 4, cudaMemcpyDeviceToHost, cuda::stream());
  };
  const auto seen = [&] { return *static_cast<int*>(host); };
  *static_cast<int*>(host) = 1;
  ASSERT_EQ(cudaMemcpyAsync(device, host, 4, cudaMemcpyHostToDevice, cuda::stream()), cudaSuccess);
  ASSERT_EQ(copy_back(), cudaSuccess);
  *static_cast<int*>(host) = 2;  // before the copy has run
  cuda::synchronize(gpu.index);
  EXPECT_EQ(seen(), 2) << "the copy takes what stands there when it runs";
  ASSERT_EQ(copy_back(), cudaSuccess);
  *static_cast<int*>(host) = 3;
  EXPECT_EQ(seen(), 3) << "nobody has waited";
  cuda::synchronize(gpu.index);
  EXPECT_EQ(seen(), 2);
  EXPECT_EQ(cudaMemcpyAsync(host, device, 4, cudaMemcpyHostToDevice, cuda::stream()),
            cudaErrorInvalidValue)
      << "the wrong direction";
  ASSERT_EQ(cudaFree(device), cudaSuccess);
  ASSERT_EQ(cudaFreeHost(host), cudaSuccess);
}

/// More small copies than the pinned ring has places: each place is written again while its copy
/// may still be queued.
TEST_F(EmulationTest, ThePinnedRingWaitsForItsPlaces) {
  for (const bool waits : {true, false}) {
    emulation::set_missing(waits ? emulation::Missing::nothing : emulation::Missing::program_waits);
    std::vector<Tensor> copies;
    for (int i = 0; i < 40; ++i) copies.push_back(Tensor::full({3}, i, DType::f64).to(gpu));
    int right = 0;
    for (int i = 0; i < 40; ++i)
      right += copies[static_cast<std::size_t>(i)].to_doubles() == std::vector<double>(3, i);
    EXPECT_EQ(right == 40, waits) << "a missing wait must be found";
  }
}

void small_kernel(unsigned char* result) {
  emulation::require_launch_bounds(64);
  auto& fixed = emulation::shared_variable<unsigned char[40 << 10]>([] {});
  fixed[threadIdx.x] = 1;
  if (threadIdx.x == 0) *result = fixed[1 << 10];  // nobody has written it
}
void large_kernel(unsigned char*) {
  auto& fixed = emulation::shared_variable<unsigned char[40 << 10]>([] {});
  fixed[0] = cuda::dynamic_shared<unsigned char>()[0];
}

TEST_F(EmulationTest, SharedMemoryIsLimitedAndItsStartUnknown) {
  const Tensor byte = Tensor::full({1}, 0, DType::u8, gpu);
  auto* at = static_cast<unsigned char*>(const_cast<void*>(CView(byte).data));
  const auto run = [&](auto kernel, unsigned threads, std::size_t shared) {
    cuda::launch(kernel, dim3(1), dim3(threads), shared, at);
    cuda::synchronize(gpu.index);
  };
  run(small_kernel, 64, 0);
  EXPECT_EQ(byte.to_doubles(), std::vector<double>{255});
  EXPECT_EQ(refusal_of([&] { run(small_kernel, 96, 0); }),
            "emulation: a block of more threads than its kernel's launch bounds, 64");
  // The emulator learns a kernel's static memory when it runs; a GPU's runtime knows it before.
  EXPECT_EQ(refusal_of([&] { run(large_kernel, 32, 200 << 10); }),
            "emulation: a block uses 40960 bytes of static and 204800 of dynamic shared memory; it "
            "may use 232448");
}

void known_kernel(unsigned char*) {
  emulation::require_launch_bounds(64);
  emulation::shared_variable<unsigned char[40 << 10]>([] {})[0] = 1;
}

/// The product's own check, before the launch.
TEST_F(EmulationTest, TooLargeBlocksAreRefusedBeforeTheirLaunch) {
  const void* kernel = reinterpret_cast<const void*>(&known_kernel);
  emulation::resources_of(kernel) = {40 << 10, 0, 64};
  cuda::prepare_launch(kernel, 64, 8 << 10);
  EXPECT_EQ(emulation::resources_of(kernel).allowed_dynamic, 0u) << "48 KiB need no request";
  cuda::prepare_launch(kernel, 32, 100 << 10);
  EXPECT_EQ(emulation::resources_of(kernel).allowed_dynamic, std::size_t{100} << 10);
  EXPECT_EQ(message_of([&] { cuda::prepare_launch(kernel, 64, 188 << 10); }),
            "a kernel needs 233472 bytes of shared memory (40960 static and 192512 dynamic) in a "
            "block, and this GPU has 232448");
  EXPECT_EQ(message_of([&] { cuda::prepare_launch(kernel, 96, 0); }),
            "a kernel runs in blocks of 64 threads, and 96 were asked for");
}

/// A product of 16-bit matrices of 8 × 8 numbers, and what cuBLASLt says to changes.
struct Product {
  cudaDataType_t type = CUDA_R_16BF, result = CUDA_R_16BF, bias = CUDA_R_16BF;
  std::int64_t leading = 8, stride = 64;
  std::int32_t batch = 1;
  std::uint32_t promised = 16;
  std::size_t offset = 0, bias_offset = 0, workspace = 1 << 20, given = 1 << 20;
  std::uint64_t depth = 8;
  bool epilogue = false;

  static void set(cublasLtMatrixLayout_t layout, std::int32_t batch, std::int64_t stride) {
    cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, 4);
    cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                     8);
  }
  /// Whether there is an algorithm, and whether it accepts the memory.
  std::pair<bool, bool> ask() const {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
    cublasLtMatrixLayoutCreate(&a, type, 8, depth, 8);
    cublasLtMatrixLayoutCreate(&b, type, depth, 8, static_cast<std::int64_t>(depth));
    cublasLtMatrixLayoutCreate(&d, result, 8, 8, leading);
    const auto numbers = 8 * static_cast<std::int64_t>(depth);
    set(a, batch, numbers);
    set(b, batch, numbers);
    set(d, batch, stride);
    const Tensor memory = Tensor::zeros({1 << 14}, DType::f32, gpu);
    const char* start = static_cast<const char*>(CView(memory).data);
    if (epilogue) {
      const cublasLtEpilogue_t added = CUBLASLT_EPILOGUE_BIAS;
      const void* numbers_of_bias = start;
      cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &added, 4);
      cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias, 4);
      cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &numbers_of_bias,
                                     8);
    }
    cublasLtMatmulPreference_t preference = nullptr;
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &workspace, 8);
    for (const auto operand :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      cublasLtMatmulPreferenceSetAttribute(preference, operand, &promised, 4);
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    cublasLtMatmulAlgoGetHeuristic(nullptr, operation, a, b, d, d, preference, 1, &found, &count);
    cublasLtMatmulPreferenceDestroy(preference);
    bool accepted = false;
    if (count == 1) {
      const void* other = start + bias_offset;
      if (epilogue)
        cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &other, 8);
      const float one = 1, zero = 0;
      char* to = const_cast<char*>(start) + (1 << 15);
      const Tensor room = Tensor::zeros({1 << 20}, DType::u8, gpu);
      accepted = cublasLtMatmul(nullptr, operation, &one, start + offset, a, start, b, &zero, to, d,
                                to, d, &found.algo, const_cast<void*>(CView(room).data), given,
                                cuda::stream()) == CUBLAS_STATUS_SUCCESS;
      cuda::synchronize(gpu.index);
    }
    for (const auto layout : {a, b, d}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(operation);
    return {count == 1, accepted};
  }
};

TEST_F(EmulationTest, RefusesWhatCublasLtRefuses) {
  const std::pair fine(true, true), no_algorithm(false, false), wrong_memory(true, false);
  EXPECT_EQ(Product{}.ask(), fine);
  EXPECT_EQ(Product{.result = CUDA_R_32F}.ask(), fine);
  EXPECT_EQ(Product{.result = CUDA_R_16F}.ask(), no_algorithm) << "types";
  EXPECT_EQ(Product{.epilogue = true}.ask(), fine);
  EXPECT_EQ((Product{.bias = CUDA_R_32F, .epilogue = true}.ask()), no_algorithm)
      << "a bias of another type than the result";
  EXPECT_EQ(Product{.leading = 7}.ask(), no_algorithm) << "columns that overlap";
  EXPECT_EQ((Product{.stride = 63, .batch = 2}.ask()), no_algorithm) << "results that overlap";
  EXPECT_EQ(Product{.promised = 1}.ask(), no_algorithm) << "half a number";
  EXPECT_EQ(Product{.offset = 2}.ask(), wrong_memory) << "less aligned than promised";
  EXPECT_EQ((Product{.promised = 2, .offset = 2}.ask()), fine);
  EXPECT_EQ((Product{.bias_offset = 2, .epilogue = true}.ask()), wrong_memory)
      << "a bias that is less aligned than that of the choice";
  EXPECT_EQ((Product{.given = 0, .depth = 64}.ask()), wrong_memory) << "no workspace";
  EXPECT_EQ((Product{.workspace = 0, .given = 0, .depth = 64}.ask()), fine);
  emulation::set_gpu(emulation::turing);
  EXPECT_EQ(Product{}.ask(), no_algorithm) << "bf16 on Turing";
}

TEST_F(EmulationTest, ProductsThatMissTheTensorCoresAreCounted) {
  const Tensor a = Tensor::full({3, 11}, 1, DType::bf16, gpu),
               b = Tensor::full({11, 5}, 2, DType::bf16, gpu);
  Tensor c = Tensor::empty({3, 5}, DType::bf16, gpu);
  const std::int64_t before = cuda::slow_products().count;
  emulation::set_gpu(emulation::turing);  // its tensor cores lack bf16
  for (int i = 0; i < 2; ++i) kernels::matmul(a, b, CView{}, c, false, Precision::full);
  EXPECT_EQ(c.to_doubles(), std::vector<double>(15, 22));
  EXPECT_EQ(cuda::slow_products().count, before + 2);
  if (before == 0) {
    EXPECT_EQ(
        cuda::slow_products().text(),
        "2 products of 16-bit numbers ran without the tensor cores: cuBLASLt has no algorithm "
        "for them, the first being bf16 [3, 11] x bf16 [11, 5]");
  }
}

}  // namespace
}  // namespace nystrom::testing
