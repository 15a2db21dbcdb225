// Arbitrary bytes as a feature file. Only InputError may be thrown, and the samples of an accepted
// file must be readable or rejected.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "core/base/error.h"
#include "data/tasks/feature_file.h"
#include "tests/fuzz/hdf5_flaws.h"
#include "tests/fuzz/input_files.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const nystrom::testing::MemoryFile memory({reinterpret_cast<const char*>(data), size});
  try {
    const nystrom::FeatureFile file(memory.path());
    for (const std::size_t count : {file.labels().size(), file.values().size()})
      if (count != 0 && static_cast<std::int64_t>(count) != file.samples()) std::abort();
    for (std::int64_t i = 0; i < std::min<std::int64_t>(file.samples(), 20); ++i) {
      if (file.length(i) * file.width() > (1 << 20)) break;
      std::vector<float> features(static_cast<std::size_t>(file.length(i) * file.width()));
      file.read(i, features);
    }
  } catch (const nystrom::InputError&) {
  }
  return 0;
}
