// Arbitrary bytes as a state dict of PyTorch, and as a pickle. Only InputError may be thrown, and
// accepted tensors must lie inside the file and be readable.
#include <cstdlib>
#include <string_view>

#include "core/base/error.h"
#include "tests/fuzz/input_files.h"
#include "train/state/pickle.h"
#include "train/state/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    if (nystrom::parse_pickle(bytes).length > size) std::abort();
  } catch (const nystrom::InputError&) {
  }
  try {
    const nystrom::testing::MemoryFile memory(bytes);
    const auto file = nystrom::TensorFile::open(memory.path(), nystrom::TensorFormat::state_dict);
    for (const auto& tensor : file.tensors()) {
      if (tensor.begin < 0 || tensor.end > static_cast<std::int64_t>(size)) std::abort();
      try {
        if (file.read(tensor.name).numel() != tensor.shape.numel()) std::abort();
      } catch (const nystrom::InputError&) {  // of a damaged tensor
      }
    }
  } catch (const nystrom::InputError&) {
  }
  return 0;
}
