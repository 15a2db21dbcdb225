#include "core/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <set>

#include "core/base/checksum.h"
#include "core/base/json.h"
#include "core/base/json_sax.h"
#include "core/base/printable.h"
#include "core/check.h"

namespace nystrom {
namespace {

constexpr const char* metadata_key = "__metadata__";
constexpr int max_header_depth = 4;
// Limit for tensors and for metadata entries. A small hostile file cannot make the reader allocate
// much memory.
constexpr std::size_t max_header_entries = 200'000;

struct TypeEntry {
  StoredType type;
  const char* name;
  std::int64_t size;
  DType dtype;
};
constexpr TypeEntry types[] = {
    {StoredType::i64, "I64", 8, DType::i64},    {StoredType::f64, "F64", 8, DType::f64},
    {StoredType::f32, "F32", 4, DType::f32},    {StoredType::i32, "I32", 4, DType::i32},
    {StoredType::bf16, "BF16", 2, DType::bf16}, {StoredType::f16, "F16", 2, DType::f32},
    {StoredType::u8, "U8", 1, DType::u8},       {StoredType::boolean, "BOOL", 1, DType::u8},
};
constexpr std::string_view other_types[] = {"U64",     "C64",     "U32",     "U16",
                                            "I16",     "I8",      "F4",      "F6_E2M3",
                                            "F6_E3M2", "F8_E4M3", "F8_E5M2", "F8_E8M0"};

const TypeEntry& entry_of(StoredType type) {
  return *std::find_if(std::begin(types), std::end(types),
                       [&](const TypeEntry& entry) { return entry.type == type; });
}

StoredType parse_type(const std::string& tensor, const std::string& name) {
  for (const TypeEntry& entry : types)
    if (name == entry.name) return entry.type;
  const bool known =
      std::find(std::begin(other_types), std::end(other_types), name) != std::end(other_types);
  throw InputError(
      fmt::format("tensor {}: dtype {} is {}; read are F64, F32, BF16, F16, I64, I32, U8 and BOOL",
                  tensor, printable(name), known ? "not supported" : "unknown"));
}

/// The kind of `value` for error messages.
const char* value_name(const nlohmann::json& value) {
  if (value.is_string()) return "a string";
  if (value.is_number_unsigned()) return "a whole number";
  if (value.is_number_integer()) return "a negative number";
  return value.is_number_float() ? "a fraction" : value.type_name();
}

std::string quoted(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    throw Error(fmt::format("\"{}\" cannot stand in a safetensors header: it is not UTF-8",
                            printable(text)));
  }
}

/// Reads the tensors of the header and checks each one alone. check_layout checks them against each
/// other.
class HeaderReader final : public StrictSax {
 public:
  HeaderReader() : StrictSax("header", max_header_depth) {}
  SafetensorsHeader take() { return std::move(header_); }

 private:
  enum class Where { outside, root, metadata, tensor, shape, offsets };

  void on_key(std::string&& key) override {
    key_ = std::move(key);
    if (header_.tensors.size() > max_header_entries || header_.metadata.size() > max_header_entries)
      fail(fmt::format("the header has more than {} entries", max_header_entries));
    if (where_ == Where::root && key_ != metadata_key && !is_tensor_name(key_))
      fail(fmt::format("tensor name \"{}\" is not 1 to 256 of A-Z a-z 0-9 . _ -", printable(key_)));
    if (where_ == Where::tensor && key_ != "dtype" && key_ != "shape" && key_ != "data_offsets")
      fail(fmt::format("tensor {} has the unknown key \"{}\"", tensor_.name, printable(key_)));
  }

  void on_begin(bool is_array) override {
    if (where_ == Where::outside && !is_array) {
      where_ = Where::root;
    } else if (where_ == Where::root && !is_array) {
      where_ = key_ == metadata_key ? Where::metadata : Where::tensor;
      tensor_ = {};
      tensor_.name = key_;
      dtype_.clear();
      shape_.clear();
      offsets_.clear();
      seen_.clear();
    } else if (where_ == Where::tensor && is_array && key_ != "dtype") {
      where_ = key_ == "shape" ? Where::shape : Where::offsets;
      seen_.insert(key_);
    } else {
      fail_type(is_array ? "an array" : "an object");
    }
  }

  void on_end() override {
    if (where_ == Where::shape || where_ == Where::offsets) {
      where_ = Where::tensor;
    } else if (where_ == Where::root) {
      where_ = Where::outside;
    } else {
      if (where_ == Where::tensor) finish_tensor();
      where_ = Where::root;
    }
  }

  void on_value(nlohmann::json&& value) override {
    if (where_ == Where::metadata && value.is_string()) {
      header_.metadata[key_] = value.get<std::string>();
    } else if (where_ == Where::tensor && key_ == "dtype" && value.is_string()) {
      dtype_ = value.get<std::string>();
      seen_.insert(key_);
    } else if ((where_ == Where::shape || where_ == Where::offsets) && value.is_number_unsigned()) {
      add_number(value.get<std::uint64_t>());
    } else if (where_ == Where::root && key_ == metadata_key && value.is_null()) {
      return;  // the library reads it as no metadata
    } else {
      fail_type(value_name(value));
    }
  }

  void add_number(std::uint64_t number) {
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      fail(fmt::format("tensor {}: {} is larger than any file", tensor_.name, number));
    std::vector<std::int64_t>& numbers = where_ == Where::shape ? shape_ : offsets_;
    const std::size_t limit = where_ == Where::shape ? max_rank : 2;
    if (numbers.size() == limit)
      fail(fmt::format("tensor {}: {} has more than {} numbers", tensor_.name, key_, limit));
    numbers.push_back(static_cast<std::int64_t>(number));
  }

  void finish_tensor() {
    for (const char* key : {"dtype", "shape", "data_offsets"})
      if (!seen_.contains(key)) fail(fmt::format("tensor {} has no {}", tensor_.name, key));
    if (offsets_.size() != 2)
      fail(fmt::format("tensor {}: data_offsets has {} numbers instead of 2", tensor_.name,
                       offsets_.size()));
    tensor_.type = parse_type(tensor_.name, dtype_);
    tensor_.shape = Shape(shape_);
    tensor_.begin = offsets_[0];
    tensor_.end = offsets_[1];
    header_.tensors.push_back(std::move(tensor_));
  }

  [[noreturn]] void fail_type(const char* got) const {
    const std::string place = where_ == Where::outside    ? "the header"
                              : where_ == Where::root     ? "\"" + key_ + "\""
                              : where_ == Where::metadata ? "metadata \"" + printable(key_) + "\""
                                                          : "tensor " + tensor_.name + ": " + key_;
    const char* expected =
        where_ == Where::outside || where_ == Where::root                           ? "an object"
        : where_ == Where::metadata || (where_ == Where::tensor && key_ == "dtype") ? "a string"
        : where_ == Where::tensor                                                   ? "an array"
                                  : "a whole number that is not negative";
    fail(fmt::format("{} must be {}, got {}", place, expected, got));
  }

  SafetensorsHeader header_;
  Where where_ = Where::outside;
  std::string key_;
  StoredTensor tensor_;  // the tensor being read; its fields follow
  std::string dtype_;
  std::vector<std::int64_t> shape_;
  std::vector<std::int64_t> offsets_;
  std::set<std::string> seen_;
};

/// Computes the size of the tensor in bytes and checks it for overflow. Zeros count as ones, so
/// that strides cannot overflow either.
void check_size(const StoredTensor& tensor) {
  std::int64_t product = stored_size(tensor.type);
  bool empty = false;
  bool overflow = false;
  for (const std::int64_t size : tensor.shape) {
    empty = empty || size == 0;
    overflow =
        overflow || __builtin_mul_overflow(product, std::max<std::int64_t>(size, 1), &product);
  }
  require_input(!overflow, "tensor {}: shape {} has more bytes than any file", tensor.name,
                tensor.shape);
  if (empty) product = 0;
  require_input(tensor.end >= tensor.begin, "tensor {}: data_offsets [{}, {}] run backwards",
                tensor.name, tensor.begin, tensor.end);
  require_input(tensor.bytes() == product,
                "tensor {}: {} {} needs {} bytes, but data_offsets [{}, {}] hold {}", tensor.name,
                stored_name(tensor.type), tensor.shape, product, tensor.begin, tensor.end,
                tensor.bytes());
}

/// The order of tensors in a written file.
bool written_before(const StoredTensor& a, const StoredTensor& b) {
  return a.type != b.type ? a.type < b.type : a.name < b.name;
}

void check_layout(std::vector<StoredTensor>& tensors, std::int64_t data_bytes) {
  for (const StoredTensor& tensor : tensors) check_size(tensor);
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    return a.end != b.end ? a.end < b.end : written_before(a, b);
  });
  std::int64_t position = 0;
  for (const StoredTensor& tensor : tensors) {
    require_input(
        tensor.begin >= position,
        "tensor {} starts at byte {} of the data, inside the tensor before, which ends at {}",
        tensor.name, tensor.begin, position);
    require_input(tensor.begin == position,
                  "bytes {} to {} of the data, before tensor {}, belong to no tensor", position,
                  tensor.begin, tensor.name);
    require_input(
        tensor.end <= data_bytes,
        "tensor {} ends at byte {} of the data, but the file has only {}: it is cut short",
        tensor.name, tensor.end, data_bytes);
    position = tensor.end;
  }
  require_input(position == data_bytes, "{} bytes after the last tensor belong to no tensor",
                data_bytes - position);
}

/// The JSON text of a header. Hugging Face's library writes the same text.
std::string header_text(const SafetensorsHeader& header,
                        const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    for (const auto& [key, value] : metadata) {
      text += text.size() == 1 ? "\"__metadata__\":{" : ",";
      text += quoted(key) + ":" + quoted(value);
    }
    text += "}";
  }
  for (const StoredTensor& tensor : header.tensors) {
    const std::vector<std::int64_t> sizes(tensor.shape.begin(), tensor.shape.end());
    text += fmt::format("{}\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        text.size() == 1 ? "" : ",", tensor.name, stored_name(tensor.type),
                        fmt::join(sizes, ","), tensor.begin, tensor.end);
  }
  return text + "}";
}

/// The checksum of the header's content without the checksums.
std::string header_checksum(const SafetensorsHeader& header) {
  const std::string text = header_text(header, header.metadata);
  Checksum checksum;
  checksum.update(text.data(), text.size());
  return checksum.hex();
}

bool is_checksum(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// Reads the JSON text stored under integrity_key.
class ChecksumReader final : public StrictSax {
 public:
  explicit ChecksumReader(std::size_t max_entries)
      : StrictSax(integrity_key, 1), max_entries_(max_entries) {}
  std::map<std::string, std::string> take() { return std::move(checksums_); }

 private:
  void on_key(std::string&& key) override {
    if (checksums_.size() == max_entries_) fail("more checksums than tensors");
    key_ = std::move(key);
  }
  void on_end() override { inside_ = false; }
  void on_begin(bool is_array) override {
    if (is_array) fail("expected an object of checksums, got an array");
    inside_ = true;
  }
  void on_value(nlohmann::json&& value) override {
    if (!inside_) fail(fmt::format("expected an object of checksums, got {}", value.type_name()));
    if (!value.is_string() || !is_checksum(value.get_ref<const std::string&>()))
      fail(fmt::format("the checksum of {} is not 32 hexadecimal digits", printable(key_)));
    checksums_[key_] = value.get<std::string>();
  }

  std::size_t max_entries_;
  bool inside_ = false;
  std::string key_;
  std::map<std::string, std::string> checksums_;
};

/// Moves the checksums from the metadata to their tensors.
void take_checksums(SafetensorsHeader& header) {
  for (const auto& [key, value] : header.metadata) {
    // Without this check a key with one damaged byte would pass as a file without checksums.
    const bool damaged =
        key.find("nystrom") != std::string::npos || key.find("integrity") != std::string::npos;
    require_input(!damaged || key == integrity_key,
                  "metadata key \"{}\" is unknown; the only one with such a name is {}",
                  printable(key), integrity_key);
  }
  const auto found = header.metadata.find(integrity_key);
  if (found == header.metadata.end()) return;
  ChecksumReader reader(header.tensors.size() + 1);  // plus one for the header
  reader.parse(found->second);
  std::map<std::string, std::string> checksums = reader.take();
  header.metadata.erase(found);
  for (StoredTensor& tensor : header.tensors) {
    const auto node = checksums.extract(tensor.name);
    require_input(!node.empty(), "{} has no checksum of tensor {}", integrity_key, tensor.name);
    tensor.checksum = node.mapped();
  }
  if (const auto own = checksums.extract(metadata_key))
    require_input(own.mapped() == header_checksum(header),
                  "the header is damaged: its checksum is not that in {}", integrity_key);
  require_input(checksums.empty(), "{} has a checksum of {}, which is not in the file",
                integrity_key, checksums.empty() ? "" : printable(checksums.begin()->first));
}

}  // namespace

DType dtype_of_stored(StoredType type) { return entry_of(type).dtype; }
const char* stored_name(StoredType type) { return entry_of(type).name; }
std::int64_t stored_size(StoredType type) { return entry_of(type).size; }

StoredType stored_type_of(DType dtype) {
  if (dtype == DType::f16) return StoredType::f16;
  return std::find_if(std::begin(types), std::end(types),
                      [&](const TypeEntry& entry) {
                        return entry.dtype == dtype && entry.type != StoredType::f16;
                      })
      ->type;
}

bool is_tensor_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 256 && name != metadata_key &&
         std::all_of(name.begin(), name.end(), allowed);
}

std::int64_t safetensors_header_length(std::string_view first, std::int64_t file_size) {
  require_input(file_size >= safetensors_length_bytes && first.size() == safetensors_length_bytes,
                "not a safetensors file: {} bytes, shorter than the 8 of its header length",
                file_size);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < first.size(); ++i)
    length |= std::uint64_t{static_cast<unsigned char>(first[i])} << (8 * i);
  require_input(length <= static_cast<std::uint64_t>(max_safetensors_header),
                "not a safetensors file, or damaged: a header of {} bytes; at most {} are read",
                length, max_safetensors_header);
  const auto result = static_cast<std::int64_t>(length);
  require_input(result <= file_size - safetensors_length_bytes,
                "the header of {} bytes does not fit into the file of {}: it is cut short", result,
                file_size);
  return result;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, std::int64_t data_bytes) {
  require_input(text.starts_with('{'), "not a safetensors file: the header does not start with {{");
  const auto brace = text.find_last_not_of(' ');
  require_input(text[brace] == '}', "the header does not end with }} and spaces");
  HeaderReader reader;
  reader.parse(text);
  SafetensorsHeader header = reader.take();
  check_layout(header.tensors, data_bytes);
  take_checksums(header);
  return header;
}

std::string safetensors_header_bytes(const SafetensorsHeader& header) {
  nlohmann::json checksums = nlohmann::json::object();
  for (const StoredTensor& tensor : header.tensors) checksums[tensor.name] = tensor.checksum;
  checksums[metadata_key] = header_checksum(header);
  std::map<std::string, std::string> metadata = header.metadata;
  metadata[integrity_key] = checksums.dump();
  std::string text = header_text(header, metadata);
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes += static_cast<char>(std::uint64_t{text.size()} >> (8 * i) & 0xff);
  return bytes + text;
}

}  // namespace nystrom
