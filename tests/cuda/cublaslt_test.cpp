// cuBLASLt as core/cuda/products/cublaslt.cpp loads it. Descriptions of products need no GPU.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include "core/cuda/products/cublaslt.h"

namespace {

TEST(CublasLt, IsLoadedAndDescribesProductsWithoutAGpu) {
  nystrom::cuda::require_cublaslt();
  EXPECT_STREQ(cublasLtGetStatusString(CUBLAS_STATUS_NOT_SUPPORTED),
               "the function is not "
               "supported");
  cublasLtMatmulDesc_t operation = nullptr;
  ASSERT_EQ(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
            CUBLAS_STATUS_SUCCESS);
  const cublasOperation_t transposed = CUBLAS_OP_T;
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                           sizeof transposed),
            CUBLAS_STATUS_SUCCESS);
  // Too few bytes: the refusal shows that the size arrives.
  EXPECT_NE(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, 1),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatmulDescDestroy(operation), CUBLAS_STATUS_SUCCESS);

  cublasLtMatrixLayout_t layout = nullptr;
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, 64, 8, 64), CUBLAS_STATUS_SUCCESS);
  const std::int32_t batch = 4;
  EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                             sizeof batch),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatrixLayoutDestroy(layout), CUBLAS_STATUS_SUCCESS);

  cublasLtMatmulPreference_t preference = nullptr;
  ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
  const std::size_t bytes = 1 << 20;
  EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(
                preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatmulPreferenceDestroy(preference), CUBLAS_STATUS_SUCCESS);
}

}  // namespace
