#include "train/state/safetensors.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/checksum.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "train/state/state_dict.h"

namespace nystrom {
namespace {

constexpr std::int64_t chunk_bytes = std::int64_t{1} << 20;

/// Copies the values of one chunk to `values`, from element `first` on. Returns the position of the
/// first one that is not finite, or -1.
std::int64_t place(const std::vector<std::byte>& chunk, StoredType type, Tensor& values,
                   std::int64_t first) {
  const std::int64_t size = stored_size(type),
                     count = static_cast<std::int64_t>(chunk.size()) / size;
  if (type == StoredType::f16) {
    for (std::int64_t i = 0; i < count; ++i) {
      f16 value;
      std::memcpy(&value, chunk.data() + i * size, sizeof value);
      values.data<float>()[first + i] = static_cast<float>(value);
    }
  } else {
    const View view = values;
    std::memcpy(static_cast<std::byte*>(view.data) + first * size, chunk.data(), chunk.size());
  }
  std::int64_t non_finite = -1;
  if (!is_float(values.dtype())) return non_finite;
  visit_float(values.dtype(), [&]<class T>(TypeTag<T>) {
    using Number = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const T* begin = values.data<T>() + first;
    const T* found = std::find_if_not(
        begin, begin + count, [](T value) { return std::isfinite(static_cast<Number>(value)); });
    if (found != begin + count) non_finite = first + (found - begin);
  });
  return non_finite;
}

/// The values of a tensor that is not contiguous, in the order of its indices.
std::vector<std::byte> in_order(const std::vector<std::byte>& stored, const StoredTensor& tensor) {
  const std::int64_t size = stored_size(tensor.type);
  std::vector<std::byte> values(static_cast<std::size_t>(tensor.shape.numel() * size));
  for (std::int64_t i = 0; i < tensor.shape.numel(); ++i) {
    std::int64_t rest = i, from = 0;
    for (int axis = tensor.shape.rank(); axis-- > 0; rest /= tensor.shape[axis])
      from += rest % tensor.shape[axis] * (*tensor.strides)[axis];
    std::memcpy(values.data() + i * size, stored.data() + from * size,
                static_cast<std::size_t>(size));
  }
  return values;
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
    if (format == TensorFormat::state_dict) {
      header_.tensors = read_state_dict(file_);
      return;
    }
    std::string first(
        std::min<std::size_t>(safetensors_length_bytes, static_cast<std::size_t>(file_.size())),
        '\0');
    file_.read(std::as_writable_bytes(std::span(first)), 0);
    const std::int64_t length = safetensors_header_length(first, file_.size());
    std::string text(static_cast<std::size_t>(length), '\0');
    file_.read(std::as_writable_bytes(std::span(text)), safetensors_length_bytes);
    data_begin_ = safetensors_length_bytes + length;
    header_ = parse_safetensors_header(text, file_.size() - data_begin_);
  });
  for (std::size_t i = 0; i < header_.tensors.size(); ++i) index_[header_.tensors[i].name] = i;
}

const StoredTensor& TensorFile::stored(const std::string& name) const {
  const auto found = index_.find(name);
  require_input(found != index_.end(), "{}: has no tensor {}", printable_path(path()),
                printable(name));
  return header_.tensors[found->second];
}

Tensor TensorFile::read(const std::string& name, NonFinite non_finite) const {
  const StoredTensor& tensor = stored(name);
  Tensor values = Tensor::empty(tensor.shape, dtype_of_stored(tensor.type));
  Checksum checksum;
  uLong crc = 0;
  std::int64_t bad = -1;
  std::vector<std::byte> chunk;
  // A tensor that is not contiguous needs all of its bytes at once.
  const std::int64_t step =
      tensor.strides ? std::max<std::int64_t>(1, tensor.bytes()) : chunk_bytes;
  for (std::int64_t at = 0; at < tensor.bytes(); at += step) {
    chunk.resize(static_cast<std::size_t>(std::min(step, tensor.bytes() - at)));
    file_.read(chunk, data_begin_ + tensor.begin + at);
    if (!tensor.checksum.empty()) checksum.update(chunk.data(), chunk.size());
    if (tensor.crc) crc = crc32_z(crc, reinterpret_cast<const Bytef*>(chunk.data()), chunk.size());
    if (tensor.strides) chunk = in_order(chunk, tensor);
    const std::int64_t position = place(chunk, tensor.type, values, at / stored_size(tensor.type));
    if (bad < 0) bad = position;
  }
  require_input(tensor.checksum.empty() || tensor.checksum == checksum.hex(),
                "{}: tensor {} is damaged: its checksum is not that in {}", printable_path(path()),
                name, integrity_key);
  require_input(!tensor.crc || *tensor.crc == crc,
                "{}: tensor {} is damaged: its CRC-32 is not that of the archive",
                printable_path(path()), name);
  require_input(bad < 0 || non_finite == NonFinite::allow,
                "{}: tensor {} is not finite at element {}", printable_path(path()), name, bad);
  return values;
}

namespace {

/// The bytes of a contiguous CPU tensor.
std::span<const std::byte> bytes_of(const Tensor& tensor) {
  const CView view = tensor;
  return {static_cast<const std::byte*>(view.data), static_cast<std::size_t>(tensor.bytes())};
}

void check_names(const std::vector<NamedTensor>& sorted,
                 const std::map<std::string, std::string>& metadata) {
  std::map<std::string, int> count;
  for (const NamedTensor& entry : sorted) {
    require(is_tensor_name(entry.name),
            "\"{}\" cannot be a tensor's name: 1 to 256 of A-Z a-z 0-9 . _ -",
            printable(entry.name));
    require(++count[entry.name] == 1, "tensor {} would be written twice", entry.name);
  }
  for (const auto& [key, value] : metadata)
    require(key.find("nystrom") == std::string::npos && key.find("integrity") == std::string::npos,
            "metadata key \"{}\" is reserved for checksums", printable(key));
}

}  // namespace

std::string write_safetensors(const std::filesystem::path& path,
                              const std::vector<NamedTensor>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::vector<NamedTensor> sorted = tensors;
  std::sort(sorted.begin(), sorted.end(), [](const NamedTensor& a, const NamedTensor& b) {
    const auto type_a = stored_type_of(a.tensor.dtype());
    const auto type_b = stored_type_of(b.tensor.dtype());
    return type_a != type_b ? type_a < type_b : a.name < b.name;
  });
  check_names(sorted, metadata);
  SafetensorsHeader header;
  header.metadata = metadata;
  header.metadata["format"] = "pt";
  std::int64_t position = 0;
  for (NamedTensor& entry : sorted) {
    require(entry.tensor.defined(), "tensor {} is undefined", entry.name);
    entry.tensor = entry.tensor.to(cpu_device).contiguous();
    Checksum checksum;
    checksum.update(bytes_of(entry.tensor).data(), bytes_of(entry.tensor).size());
    StoredTensor& stored = header.tensors.emplace_back();
    stored = {entry.name,
              stored_type_of(entry.tensor.dtype()),
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
