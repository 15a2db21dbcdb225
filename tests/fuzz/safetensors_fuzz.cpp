// Arbitrary bytes as a safetensors file, and as the index of a sharded model: only InputError may come out, and what is accepted
// must lie inside the file and be readable.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "core/error.h"
#include "train/model_weights.h"

namespace {

/// A file in memory, at a path of its own.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    if (descriptor_ < 0 || write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::abort();
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

void read_all(std::string_view bytes) {
  const MemoryFile memory(bytes);
  const auto file = nystrom::SafetensorsFile::open(memory.path());
  for (const auto& tensor : file.tensors()) {
    if (file.read(tensor.name).numel() != tensor.shape.numel()) std::abort();
  }
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
    const auto header = nystrom::parse_safetensors_header(bytes.substr(8, static_cast<std::size_t>(length)), file_size - 8 - length);
    std::int64_t end = 0;
    for (const auto& tensor : header.tensors) {
      if (tensor.begin != end || tensor.bytes() != tensor.shape.numel() * nystrom::stored_size(tensor.type)) std::abort();
      end = tensor.end;
    }
    if (end != file_size - 8 - length) std::abort();
    read_all(bytes);
  } catch (const nystrom::InputError&) {
  }
  return 0;
}
