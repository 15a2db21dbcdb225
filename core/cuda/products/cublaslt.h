// cuBLASLt, which is loaded when the first GPU is chosen: programs start and compute on the CPU
// without it.
#pragma once

namespace nystrom::cuda {

/// Loads cuBLASLt. Throws an InputError that says what to install if it cannot be loaded.
void require_cublaslt();

}  // namespace nystrom::cuda
