#include "core/device.h"

#include <string_view>

#include "core/base/require.h"
#include "core/base/words.h"
#include "core/cuda/runtime.h"

namespace nystrom {

Device device_called(const std::string& name, int default_gpu) {
  if (name == "cpu") return cpu_device;
  require_input(name == "cuda" || name.starts_with("cuda:"),
                "unknown device; expected cpu, cuda or cuda:N");
  require_input(cuda::built_in(), "this build of nystrom has no CUDA support; use --device cpu");
  Device gpu{Device::Kind::cuda, default_gpu};
  if (name != "cuda") {
    gpu.index = number_of<int>(std::string_view(name).substr(5)).value_or(-1);
    require_input(gpu.index >= 0, "no number of a GPU; expected cuda:0, cuda:1, …");
  }
  cuda::require_device(gpu.index);
  return gpu;
}

}  // namespace nystrom
