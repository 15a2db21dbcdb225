#include "core/safetensors_header.h"

#include <algorithm>
#include <limits>

#include "core/base/checksum.h"
#include "core/base/json.h"
#include "core/base/json_part.h"
#include "core/base/printable.h"
#include "core/base/protobuf.h"
#include "core/check.h"

namespace nystrom {
namespace {

constexpr const char* metadata_key = "__metadata__";
// Limits for tensors and metadata entries, and for all values: a small hostile file cannot make the
// reader allocate much memory.
constexpr std::size_t max_header_entries = 200'000, max_header_values = 10 * max_header_entries;

struct StoredType {
  const char* name;
  DType dtype;
};
/// The types in the order of the layout.
constexpr StoredType types[] = {
    {"I64", DType::i64},   {"F64", DType::f64}, {"F32", DType::f32}, {"I32", DType::i32},
    {"BF16", DType::bf16}, {"F16", DType::f16}, {"U8", DType::u8},   {"BOOL", DType::u8},
};
constexpr std::string_view other_types[] = {"U64",     "C64",     "U32",     "U16",
                                            "I16",     "I8",      "F4",      "F6_E2M3",
                                            "F6_E3M2", "F8_E4M3", "F8_E5M2", "F8_E8M0"};

const StoredType& type_of(DType dtype) {
  return *std::ranges::find(types, dtype, &StoredType::dtype);
}

DType parse_type(const JsonPart& part) {
  const std::string name = part.text();
  for (const StoredType& type : types)
    if (name == type.name) return type.dtype;
  const bool known = std::ranges::find(other_types, name) != std::end(other_types);
  part.fail(fmt::format("{} is {}; read are F64, F32, BF16, F16, I64, I32, U8 and BOOL",
                        printable(name), known ? "not supported" : "unknown"));
}

std::string quoted(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    throw Error(fmt::format("\"{}\" cannot stand in a safetensors header: it is not UTF-8",
                            printable(text)));
  }
}

/// The entry `part` of a tensor, checked alone. check_layout checks tensors against each other.
StoredTensor tensor_in(const std::string& name, const JsonPart& part) {
  require_input(is_tensor_name(name), "tensor name \"{}\" is not 1 to 256 of A-Z a-z 0-9 . _ -",
                printable(name));
  part.refuse_others({"dtype", "shape", "data_offsets"});
  const auto numbers = [&](const char* key, std::size_t least, std::size_t most) {
    const JsonPart list = part[key];
    const std::size_t count = list.value().size();
    if (list.value().is_array() && (count < least || count > most))
      list.fail(
          fmt::format("got {} numbers, expected {}{}", count, least == most ? "" : "up to ", most));
    std::vector<std::int64_t> result;
    for (const JsonPart& each : list.elements())
      result.push_back(each.integer(0, std::numeric_limits<std::int64_t>::max()));
    return result;
  };
  const std::vector<std::int64_t> offsets = numbers("data_offsets", 2, 2);
  return {.name = name,
          .dtype = parse_type(part["dtype"]),
          .shape = Shape(numbers("shape", 0, max_rank)),
          .begin = offsets[0],
          .end = offsets[1],
          .checksum = {}};
}

/// Computes the size of the tensor in bytes and checks it for overflow. Zeros count as ones, so
/// that strides cannot overflow either.
void check_size(const StoredTensor& tensor) {
  std::int64_t product = size_of(tensor.dtype);
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
                stored_name(tensor.dtype), tensor.shape, product, tensor.begin, tensor.end,
                tensor.bytes());
}

/// The order of tensors in a written file.
bool written_before(const StoredTensor& a, const StoredTensor& b) {
  return a.dtype != b.dtype ? is_stored_before(a.dtype, b.dtype) : a.name < b.name;
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
    text += fmt::format("{}\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        text.size() == 1 ? "" : ",", tensor.name, stored_name(tensor.dtype),
                        fmt::join(tensor.shape.begin(), tensor.shape.end(), ","), tensor.begin,
                        tensor.end);
  }
  return text + "}";
}

/// The checksum of the header's content without the checksums.
std::string header_checksum(const SafetensorsHeader& header) {
  return text_checksum(header_text(header, header.metadata));
}

bool is_checksum(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// The checksums in the JSON text under integrity_key.
std::map<std::string, std::string> checksums_in(const std::string& text) {
  const JsonTree tree(parse_json(text, integrity_key, nullptr, max_header_values));
  std::map<std::string, std::string> checksums;
  for (const auto& [name, part] : JsonPart(tree.root, integrity_key).members()) {
    if (!is_checksum(part.text())) part.fail("expected 32 hexadecimal digits");
    checksums[name] = part.text();
  }
  return checksums;
}

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
  std::map<std::string, std::string> checksums = checksums_in(found->second);
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

const char* stored_name(DType dtype) { return type_of(dtype).name; }
bool is_stored_before(DType a, DType b) { return &type_of(a) < &type_of(b); }

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
  const JsonTree tree(parse_json(text, "header", nullptr, max_header_values));
  const auto metadata = tree.root.find(metadata_key);
  require_input(std::max(tree.root.size(), metadata == tree.root.end() ? 0 : metadata->size()) <=
                    max_header_entries,
                "the header has more than {} entries", max_header_entries);
  SafetensorsHeader header;
  for (const auto& [name, part] : JsonPart(tree.root, "header").members()) {
    if (name != metadata_key)
      header.tensors.push_back(tensor_in(name, part));
    else if (!part.value().is_null())  // the library reads it as no metadata
      for (const auto& [key, value] : part.members()) header.metadata[key] = value.text();
  }
  check_layout(header.tensors, data_bytes);
  take_checksums(header);
  return header;
}

SafetensorsHeader read_safetensors_header(const InputFile& file) {
  const std::int64_t first = std::min(file.size(), safetensors_length_bytes),
                     length = safetensors_header_length(file.text(0, first), file.size()),
                     begin = safetensors_length_bytes + length;
  SafetensorsHeader header =
      parse_safetensors_header(file.text(safetensors_length_bytes, length), file.size() - begin);
  for (StoredTensor& tensor : header.tensors) tensor.begin += begin, tensor.end += begin;
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
  return protobuf::little_endian(std::uint64_t{text.size()}) + text;
}

}  // namespace nystrom
