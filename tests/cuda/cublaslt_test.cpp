// cuBLASLt as core/cuda/products/cublaslt.cpp loads it. Descriptions of products need no GPU.
#include <gtest/gtest.h>

#include "core/cuda/products/cublaslt.h"

namespace {

TEST(CublasLt, IsLoadedAndDescribesProductsWithoutAGpu) {
  const nystrom::cuda::CublasLt& library = nystrom::cuda::cublaslt();
  EXPECT_STREQ(library.status_string(CUBLAS_STATUS_NOT_SUPPORTED),
               "the function is not "
               "supported");
  cublasLtMatmulDesc_t operation = nullptr;
  ASSERT_EQ(library.create_product(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
            CUBLAS_STATUS_SUCCESS);
  const cublasOperation_t transposed = CUBLAS_OP_T;
  EXPECT_EQ(
      library.set_product(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
      CUBLAS_STATUS_SUCCESS);
  // Too few bytes: the refusal shows that the size arrives.
  EXPECT_NE(library.set_product(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, 1),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(library.destroy_product(operation), CUBLAS_STATUS_SUCCESS);

  cublasLtMatrixLayout_t layout = nullptr;
  ASSERT_EQ(library.create_layout(&layout, CUDA_R_16BF, 64, 8, 64), CUBLAS_STATUS_SUCCESS);
  const std::int32_t batch = 4;
  EXPECT_EQ(library.set_layout(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(library.destroy_layout(layout), CUBLAS_STATUS_SUCCESS);

  cublasLtMatmulPreference_t preference = nullptr;
  ASSERT_EQ(library.create_preference(&preference), CUBLAS_STATUS_SUCCESS);
  const std::size_t bytes = 1 << 20;
  EXPECT_EQ(library.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                   sizeof bytes),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(library.destroy_preference(preference), CUBLAS_STATUS_SUCCESS);
}

}  // namespace
