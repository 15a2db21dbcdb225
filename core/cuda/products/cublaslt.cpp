// Defines the functions of cuBLASLt that matmul.cpp calls: each calls its namesake in the library.
// They are hidden, or cuDNN, which uses cuBLASLt too, would find them.
#include "core/cuda/products/cublaslt.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <string>

#include "core/check.h"

namespace nystrom::cuda {
namespace {

/// The handle of the library, found as the dynamic linker finds libraries of this program.
void* library() {
  static void* const instance = [] {
    const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
    void* loaded = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!loaded) {
      const std::string reason = ::dlerror();
      throw InputError(fmt::format(
          "no GPU can be used: {}; install cuBLAS {}, for example by: pip install "
          "'nvidia-cublas=={}.*', or name its folder in LD_LIBRARY_PATH; or use --device cpu",
          reason, CUBLAS_VER_MAJOR, CUBLAS_VER_MAJOR));
    }
    return loaded;
  }();
  return instance;
}

/// The library's function `name`.
void* find(const char* name) {
  void* const found = ::dlsym(library(), name);
  require(found != nullptr, "cuBLASLt lacks {}", name);
  return found;
}

/// Calls the library's namesake of `function`.
template <auto* function, class... Arguments>
auto call(const char* name, Arguments... arguments) {
  static const auto loaded = reinterpret_cast<decltype(function)>(find(name));
  return loaded(arguments...);
}

}  // namespace

void require_cublaslt() { library(); }

}  // namespace nystrom::cuda

using nystrom::cuda::call;

#pragma GCC visibility push(hidden)
extern "C" {

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return call<cublasLtGetStatusString>("cublasLtGetStatusString", status);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return call<cublasLtCreate>("cublasLtCreate", handle);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  return call<cublasLtMatmulDescCreate>("cublasLtMatmulDescCreate", operation, compute, scale);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t size) {
  return call<cublasLtMatmulDescSetAttribute>("cublasLtMatmulDescSetAttribute", operation,
                                              attribute, value, size);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  return call<cublasLtMatmulDescDestroy>("cublasLtMatmulDescDestroy", operation);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading) {
  return call<cublasLtMatrixLayoutCreate>("cublasLtMatrixLayoutCreate", layout, type, rows, columns,
                                          leading);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t size) {
  return call<cublasLtMatrixLayoutSetAttribute>("cublasLtMatrixLayoutSetAttribute", layout,
                                                attribute, value, size);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return call<cublasLtMatrixLayoutDestroy>("cublasLtMatrixLayoutDestroy", layout);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return call<cublasLtMatmulPreferenceCreate>("cublasLtMatmulPreferenceCreate", preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t size) {
  return call<cublasLtMatmulPreferenceSetAttribute>("cublasLtMatmulPreferenceSetAttribute",
                                                    preference, attribute, value, size);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return call<cublasLtMatmulPreferenceDestroy>("cublasLtMatmulPreferenceDestroy", preference);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a_layout,
    cublasLtMatrixLayout_t b_layout, cublasLtMatrixLayout_t c_layout,
    cublasLtMatrixLayout_t d_layout, cublasLtMatmulPreference_t preference, int wanted,
    cublasLtMatmulHeuristicResult_t* results, int* found) {
  return call<cublasLtMatmulAlgoGetHeuristic>("cublasLtMatmulAlgoGetHeuristic", handle, operation,
                                              a_layout, b_layout, c_layout, d_layout, preference,
                                              wanted, results, found);
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a_layout,
                                       cublasLtMatrixLayout_t b_layout,
                                       cublasLtMatrixLayout_t c_layout,
                                       cublasLtMatrixLayout_t d_layout,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  return call<cublasLtMatmulAlgoCheck>("cublasLtMatmulAlgoCheck", handle, operation, a_layout,
                                       b_layout, c_layout, d_layout, algorithm, result);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, std::size_t size,
                                                    std::size_t* written) {
  return call<cublasLtMatmulAlgoConfigGetAttribute>("cublasLtMatmulAlgoConfigGetAttribute",
                                                    algorithm, attribute, value, size, written);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  return call<cublasLtMatmul>("cublasLtMatmul", handle, operation, alpha, a, a_layout, b, b_layout,
                              beta, c, c_layout, d, d_layout, algorithm, workspace, workspace_bytes,
                              stream);
}

}  // extern "C"
#pragma GCC visibility pop
