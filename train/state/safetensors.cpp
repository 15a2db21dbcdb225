#include "train/state/safetensors.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "core/base/checksum.h"
#include "core/base/printable.h"
#include "core/check.h"

namespace nystrom {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{1} << 20;

/// Copies the values of a tensor that is not contiguous from `stored`, in the order of indices.
void put_in_order(std::span<const std::byte> stored, const StoredTensor& tensor, Tensor& values) {
  const std::int64_t size = size_of(tensor.dtype);
  std::byte* const to = bytes_of(values).data();
  for (std::int64_t i = 0; i < tensor.shape.numel(); ++i) {
    std::int64_t rest = i, from = 0;
    for (int axis = tensor.shape.rank(); axis-- > 0; rest /= tensor.shape[axis])
      from += rest % tensor.shape[axis] * (*tensor.strides)[axis];
    std::memcpy(to + i * size, stored.data() + from * size, static_cast<std::size_t>(size));
  }
}

void check_names(const std::vector<NamedTensor>& sorted) {
  std::map<std::string, int> count;
  for (const NamedTensor& entry : sorted) {
    require(is_tensor_name(entry.name),
            "\"{}\" cannot be a tensor's name: 1 to 256 of A-Z a-z 0-9 . _ -",
            printable(entry.name));
    require(++count[entry.name] == 1, "tensor {} would be written twice", entry.name);
  }
}

}  // namespace

TensorFile TensorFile::open(const std::filesystem::path& path, TensorFormat format) {
  return TensorFile(InputFile::open(path), format);
}

TensorFile TensorFile::open_inside(const std::filesystem::path& folder, const std::string& name,
                                   TensorFormat format) {
  return TensorFile(InputFile::open_inside(folder, name), format);
}

TensorFile::TensorFile(InputFile file, TensorFormat format) : file_(std::move(file)) {
  with_context(printable_path(file_.path()), [&] {
    tensors_ = format == TensorFormat::state_dict ? read_state_dict(file_)
                                                  : read_safetensors_header(file_).tensors;
  });
  for (std::size_t i = 0; i < tensors_.size(); ++i) index_[tensors_[i].name] = i;
}

const StoredTensor& TensorFile::stored(const std::string& name) const {
  const auto found = index_.find(name);
  require_input(found != index_.end(), "{}: has no tensor {}", printable_path(path()),
                printable(name));
  return tensors_[found->second];
}

Tensor TensorFile::read(const std::string& name, NonFinite non_finite) const {
  const StoredTensor& tensor = stored(name);
  Tensor values = Tensor::empty(tensor.shape, tensor.dtype);
  std::vector<std::byte> stored(tensor.strides ? static_cast<std::size_t>(tensor.bytes()) : 0);
  const std::span<std::byte> bytes = tensor.strides ? std::span(stored) : bytes_of(values);
  Checksum checksum;
  uLong crc = 0;
  for (std::size_t at = 0; at < bytes.size(); at += chunk_bytes) {
    const auto chunk = bytes.subspan(at, std::min(chunk_bytes, bytes.size() - at));
    file_.read(chunk, tensor.begin + static_cast<std::int64_t>(at));
    if (!tensor.checksum.empty()) checksum.update(chunk.data(), chunk.size());
    if (tensor.crc) crc = crc32_z(crc, reinterpret_cast<const Bytef*>(chunk.data()), chunk.size());
  }
  if (tensor.strides) put_in_order(stored, tensor, values);
  require_input(tensor.checksum.empty() || tensor.checksum == checksum.hex(),
                "{}: tensor {} is damaged: its checksum is not that in {}", printable_path(path()),
                name, integrity_key);
  require_input(!tensor.crc || *tensor.crc == crc,
                "{}: tensor {} is damaged: its CRC-32 is not that of the archive",
                printable_path(path()), name);
  if (non_finite == NonFinite::refuse && is_float(tensor.dtype)) {
    const std::int64_t bad = first_non_finite(values);
    require_input(bad < 0, "{}: tensor {} is not finite at element {}", printable_path(path()),
                  name, bad);
  }
  return tensor.dtype == DType::f16 ? values.cast(DType::f32) : values;
}

std::string write_safetensors(const std::filesystem::path& path,
                              const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> sorted = tensors;
  std::sort(sorted.begin(), sorted.end(), [](const NamedTensor& a, const NamedTensor& b) {
    const DType type_a = a.tensor.dtype(), type_b = b.tensor.dtype();
    return type_a != type_b ? is_stored_before(type_a, type_b) : a.name < b.name;
  });
  check_names(sorted);
  SafetensorsHeader header;
  header.metadata["format"] = "pt";
  std::int64_t position = 0;
  for (NamedTensor& entry : sorted) {
    require(entry.tensor.defined(), "tensor {} is undefined", entry.name);
    entry.tensor = entry.tensor.to(cpu_device).contiguous();
    Checksum checksum;
    checksum.update(bytes_of(entry.tensor).data(), bytes_of(entry.tensor).size());
    StoredTensor& stored = header.tensors.emplace_back();
    stored = {entry.name,
              entry.tensor.dtype(),
              entry.tensor.shape(),
              position,
              position + entry.tensor.bytes(),
              checksum.hex(),
              {},
              {}};
    position = stored.end;
  }
  const std::string head = safetensors_header_bytes(header);
  OutputFile file(path);
  file.reserve(static_cast<std::int64_t>(head.size()) + position);
  file.write(head);
  for (const NamedTensor& entry : sorted) file.write(bytes_of(entry.tensor));
  const std::string checksum = file.checksum();
  file.commit();
  return checksum;
}

}  // namespace nystrom
