// Arbitrary bytes as files of vectors in each form. Only InputError may be thrown, and accepted
// vectors must be finite matrices of one width.
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "core/base/error.h"
#include "tests/fuzz/input_files.h"
#include "train/objectives/vector_file.h"

namespace {

void read_all(const std::filesystem::path& path) {
  std::int64_t width = 0;
  nystrom::read_vectors(path, 7, [&](const nystrom::VectorBlock& block) {
    if (width != 0 && block.vectors.dim(1) != width) std::abort();
    width = block.vectors.dim(1);
    for (const double value : block.vectors.to_doubles())
      if (!std::isfinite(value)) std::abort();
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  static nystrom::testing::InputFolder folder{"v.npy", "v.safetensors", "v.jsonl"};
  folder.fill({reinterpret_cast<const char*>(data), size});
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    try {
      nystrom::holds_vectors(entry.path());
      read_all(entry.path());
    } catch (const nystrom::InputError&) {
    }
  }
  return 0;
}
