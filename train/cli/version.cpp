#include "train/cli/help.h"

#include <commit.h>  // made by commit.cmake

#include "core/check.h"
#include "core/cuda/runtime.h"
#include "core/dispatch.h"
#include "train/plan/doctor.h"

namespace nystrom {
namespace {

std::string cuda_text() {
  if (!cuda::built_in()) return "not in this build";
  try {
    cuda::require_device(0);
  } catch (const InputError& error) {
    return std::string(NYSTROM_CUDA_VERSION "; ") + error.what();
  }
  return fmt::format(NYSTROM_CUDA_VERSION "; {}", fmt::join(gpu_names(), ", "));
}

}  // namespace

std::string version_text() {
  return fmt::format("nystrom {}\ncommit   {}\nvectors  {}\nCUDA     {}", NYSTROM_VERSION,
                     NYSTROM_COMMIT, name_of(cpu_level()), cuda_text());
}

}  // namespace nystrom
