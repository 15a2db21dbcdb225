// Replaces core/cuda/attention/attention_cudnn.cpp in builds without cuDNN.
#include "core/cuda/attention/attention_forms.h"
#include "core/cuda/runtime.h"

namespace nystrom::cuda {

CudnnState cudnn_state() {
  return {false, "not in this build: exact attention runs on own kernels",
          "install cuDNN 9.19 or newer and build again"};
}

bool attention_cudnn(CView, CView, CView, double, View, View) { return false; }
bool attention_cudnn_grad(CView, CView, CView, double, CView, CView, CView, View, View, View) {
  return false;
}

}  // namespace nystrom::cuda
