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

/// Calls f(TypeTag<T>{}) with the C++ type of floating values in the file.
template <class F>
void visit_stored_float(StoredType type, F&& f) {
  if (type == StoredType::f16) return f(TypeTag<f16>{});
  visit_float(dtype_of_stored(type), f);
}

template <class T>
double widen(T value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return static_cast<float>(value);
  }
}

template <class T>
T narrow(double value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return static_cast<T>(static_cast<float>(value));
  }
}

/// Converts `count` values at `source`. Returns the position of the first non-finite result, or -1.
template <class From, class To>
std::int64_t convert(const std::byte* source, To* destination, std::int64_t count) {
  std::int64_t non_finite = -1;
  for (std::int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, source + i * static_cast<std::int64_t>(sizeof(From)), sizeof(From));
    destination[i] = narrow<To>(widen(value));
    if (non_finite < 0 && !std::isfinite(widen(destination[i]))) non_finite = i;
  }
  return non_finite;
}

/// Copies the values of one chunk to `destination`, starting at element `first`. Returns the
/// position of the first non-finite value, or -1.
std::int64_t place(const std::vector<std::byte>& chunk, StoredType type, Tensor& destination,
                   std::int64_t first) {
  const std::int64_t count = static_cast<std::int64_t>(chunk.size()) / stored_size(type);
  if (!is_float(destination.dtype())) {
    const auto copy = [&]<class T>(TypeTag<T>) {
      std::memcpy(destination.data<T>() + first, chunk.data(), chunk.size());
    };
    switch (destination.dtype()) {
      case DType::i64: copy(TypeTag<std::int64_t>{}); break;
      case DType::i32: copy(TypeTag<std::int32_t>{}); break;
      default: copy(TypeTag<std::uint8_t>{}); break;
    }
    return -1;
  }
  std::int64_t non_finite = -1;
  visit_stored_float(type, [&](auto from) {
    visit_float(destination.dtype(), [&](auto to) {
      using To = typename decltype(to)::type;
      non_finite = convert<typename decltype(from)::type>(chunk.data(),
                                                          destination.data<To>() + first, count);
    });
  });
  return non_finite < 0 ? -1 : first + non_finite;
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
  Tensor result = Tensor::empty(tensor.shape, dtype_of_stored(tensor.type));
  read_into(name, result, non_finite);
  return result;
}

void TensorFile::read_into(const std::string& name, Tensor& destination,
                           NonFinite non_finite) const {
  const StoredTensor& tensor = stored(name);
  require(destination.device().is_cpu() && destination.is_contiguous(),
          "read_into needs a contiguous tensor on the CPU");
  require_input(destination.shape() == tensor.shape, "{}: tensor {} has shape {}, expected {}",
                printable_path(path()), name, tensor.shape, destination.shape());
  const DType stored_dtype = dtype_of_stored(tensor.type);
  require_input(destination.dtype() == stored_dtype ||
                    (is_float(destination.dtype()) && is_float(stored_dtype)),
                "{}: tensor {} has type {}, expected {}", printable_path(path()), name,
                stored_name(tensor.type), destination.dtype());
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
    const std::int64_t position =
        place(chunk, tensor.type, destination, at / stored_size(tensor.type));
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
