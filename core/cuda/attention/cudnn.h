// The state of cuDNN, which is optional both to build and to run programs.
#pragma once

#include <string>

namespace nystrom::cuda {

/// Whether cuDNN can be used.
struct CudnnState {
  bool usable;
  std::string text;    ///< its version, or the reason why own kernels replace it
  std::string advice;  ///< a remedy, or empty
};
/// The state of cuDNN. The first call loads it.
CudnnState cudnn_state();

}  // namespace nystrom::cuda
