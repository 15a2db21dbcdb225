// Arbitrary bytes as a safetensors file, and as the index of a sharded model. Only InputError may
// be thrown, and accepted tensors must lie inside the file and be readable.
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "tests/fuzz/input_files.h"
#include "train/state/model_weights.h"

namespace {

/// Readable tensors must be readable again after writing.
void read_and_write(std::string_view bytes) {
  static const nystrom::testing::InputFolder folder{};
  const std::filesystem::path path = folder.path() / "written";
  const nystrom::testing::MemoryFile memory(bytes);
  const auto file = nystrom::TensorFile::open(memory.path());
  std::vector<nystrom::NamedTensor> tensors;
  for (const auto& tensor : file.tensors()) {
    tensors.push_back({tensor.name, file.read(tensor.name)});
    if (tensors.back().tensor.numel() != tensor.shape.numel()) std::abort();
  }
  nystrom::write_safetensors(path, tensors);
  const auto written = nystrom::TensorFile::open(path);
  for (const auto& [name, tensor] : tensors)
    if (written.read(name).shape() != tensor.shape()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    nystrom::parse_weight_map(bytes, "index");
  } catch (const nystrom::InputError&) {
  }
  try {
    const auto file_size = static_cast<std::int64_t>(size);
    const auto length = nystrom::safetensors_header_length(bytes.substr(0, 8), file_size);
    const auto header = nystrom::parse_safetensors_header(
        bytes.substr(8, static_cast<std::size_t>(length)), file_size - 8 - length);
    std::int64_t end = 0;
    for (const auto& tensor : header.tensors) {
      if (tensor.begin != end ||
          tensor.bytes() != tensor.shape.numel() * nystrom::size_of(tensor.dtype))
        std::abort();
      end = tensor.end;
    }
    if (end != file_size - 8 - length) std::abort();
    read_and_write(bytes);
  } catch (const nystrom::InputError&) {
  }
  return 0;
}
