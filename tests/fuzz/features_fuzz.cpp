// Arbitrary bytes as a feature file: only InputError may come out, and what is accepted must be readable or refused.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "core/error.h"
#include "data/tasks/feature_file.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
  if (descriptor < 0 || write(descriptor, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    const nystrom::FeatureFile file("/proc/self/fd/" + std::to_string(descriptor));
    for (std::int64_t i = 0; i < std::min<std::int64_t>(file.samples(), 20); ++i) {
      if (file.length(i) * file.width() > (1 << 20)) break;
      std::vector<float> features(static_cast<std::size_t>(file.length(i) * file.width()));
      file.read(i, features);
    }
  } catch (const nystrom::InputError&) {
  }
  close(descriptor);
  return 0;
}
