// cuBLASLt, which is loaded when the first GPU is chosen: programs start and compute on the CPU
// without it.
#pragma once

#include <cublasLt.h>

namespace nystrom::cuda {

/// The functions of cuBLASLt that this program calls.
struct CublasLt {
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtMatmulDescCreate) create_product;
  decltype(&cublasLtMatmulDescSetAttribute) set_product;
  decltype(&cublasLtMatmulDescDestroy) destroy_product;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) get_heuristic;
  decltype(&cublasLtMatmulAlgoCheck) check_algorithm;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) get_setting;
  decltype(&cublasLtMatmul) multiply;
};
/// The loaded library. The first call loads it. Throws an InputError that says what to install if
/// it cannot be loaded.
const CublasLt& cublaslt();

}  // namespace nystrom::cuda
