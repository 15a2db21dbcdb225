#include "core/cuda/products/cublaslt.h"

#include <dlfcn.h>

#include <string>

#include "core/check.h"

namespace nystrom::cuda {
namespace {

CublasLt load() {
  // Found as the dynamic linker finds libraries of this program.
  const std::string file = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const std::string reason = ::dlerror();
    throw InputError(fmt::format(
        "no GPU can be used: {}; install cuBLAS {}, for example by: pip install "
        "'nvidia-cublas=={}.*', or name its folder in LD_LIBRARY_PATH; or use --device cpu",
        reason, CUBLAS_VER_MAJOR, CUBLAS_VER_MAJOR));
  }
  CublasLt made{};
  const auto find = [&]<class F>(F& function, const char* name) {
    function = reinterpret_cast<F>(::dlsym(library, name));
    require(function != nullptr, "cuBLASLt lacks {}", name);
  };
  find(made.status_string, "cublasLtGetStatusString");
  find(made.create, "cublasLtCreate");
  find(made.create_product, "cublasLtMatmulDescCreate");
  find(made.set_product, "cublasLtMatmulDescSetAttribute");
  find(made.destroy_product, "cublasLtMatmulDescDestroy");
  find(made.create_layout, "cublasLtMatrixLayoutCreate");
  find(made.set_layout, "cublasLtMatrixLayoutSetAttribute");
  find(made.destroy_layout, "cublasLtMatrixLayoutDestroy");
  find(made.create_preference, "cublasLtMatmulPreferenceCreate");
  find(made.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  find(made.destroy_preference, "cublasLtMatmulPreferenceDestroy");
  find(made.get_heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(made.check_algorithm, "cublasLtMatmulAlgoCheck");
  find(made.get_setting, "cublasLtMatmulAlgoConfigGetAttribute");
  find(made.multiply, "cublasLtMatmul");
  return made;
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt instance = load();
  return instance;
}

}  // namespace nystrom::cuda
