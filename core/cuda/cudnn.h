// cuDNN, which a program needs neither to be built nor to run.
#pragma once

#include <string>

namespace nystrom::cuda {

struct CudnnState {
  bool usable;
  std::string text;    ///< its version, or why own kernels take its place
  std::string advice;  ///< what to do about it, where there is something
};
/// Loads cuDNN at the first call.
CudnnState cudnn_state();

}  // namespace nystrom::cuda
