// State dicts of PyTorch: read_state_dict of safetensors.h.
#include <zlib.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "core/base/printable.h"
#include "core/check.h"
#include "train/state/pickle.h"
#include "train/state/safetensors.h"

namespace nystrom {
namespace {

struct StorageType {
  std::string_view name;
  DType dtype;
};
constexpr StorageType storage_types[] = {
    {"torch.FloatStorage", DType::f32},     {"torch.HalfStorage", DType::f16},
    {"torch.BFloat16Storage", DType::bf16}, {"torch.DoubleStorage", DType::f64},
    {"torch.LongStorage", DType::i64},      {"torch.IntStorage", DType::i32},
    {"torch.ByteStorage", DType::u8},       {"torch.BoolStorage", DType::u8}};

/// The type of the elements in storages of a class.
DType element_type_of(const std::string& storage_class) {
  const auto found = std::ranges::find(storage_types, storage_class, &StorageType::name);
  require_input(found != std::end(storage_types),
                "has a {}; expected F64, F32, F16, BF16, I64, I32, U8 or BOOL",
                printable(storage_class, 60));
  return found->dtype;
}

std::int64_t checked_product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  require_input(!__builtin_mul_overflow(a, b, &result), "has sizes out of range");
  return result;
}
std::int64_t checked_sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  require_input(!__builtin_add_overflow(a, b, &result), "has sizes out of range");
  return result;
}

/// Where the bytes of a storage, or of an entry of a zip archive, are in the file.
struct Extent {
  std::int64_t begin = 0, bytes = 0;
  std::optional<std::uint32_t> crc = {};  ///< nothing if torch.save was told not to compute it

  std::int64_t end() const { return begin + bytes; }
};
/// The storages of a file by their keys, or the entries of an archive by their names.
using Extents = std::map<std::string, Extent>;

/// The elements of a call, a tuple or a persistent id.
class Items {
 public:
  Items(const Pickle& pickle, const PickleObject& object) : pickle_(pickle), object_(object) {}

  std::size_t size() const { return object_.items.size(); }
  const PickleObject& at(std::size_t index, PickleKind kind) const {
    require_input(index < size(), "has {} parts, expected more", size());
    const PickleObject& item = pickle_[object_.items[index]];
    require_input(item.kind == kind, "has a {} as part {}, expected a {}", name_of(item.kind),
                  index, name_of(kind));
    return item;
  }
  std::int64_t number(std::size_t index) const {
    const std::int64_t value = at(index, PickleKind::integer).integer;
    require_input(value >= 0, "has {} as part {}, expected a number of at least 0", value, index);
    return value;
  }
  /// The sizes or strides in a tuple.
  Shape shape(std::size_t index) const {
    const Items sizes(pickle_, at(index, PickleKind::tuple));
    require_input(sizes.size() <= max_rank, "has {} axes, expected at most {}", sizes.size(),
                  max_rank);
    Shape shape;
    for (std::size_t axis = 0; axis < sizes.size(); ++axis)
      shape = shape.append(sizes.number(axis));
    return shape;
  }

 private:
  const Pickle& pickle_;
  const PickleObject& object_;
};

bool is_contiguous(const Shape& shape, const Shape& strides) {
  std::int64_t step = 1;
  for (int axis = shape.rank(); axis-- > 0; step *= shape[axis])
    if (shape[axis] != 1 && strides[axis] != step) return false;
  return true;
}

/// The elements from the first of a tensor to behind its last.
std::int64_t span_of(const Shape& shape, const Shape& strides) {
  std::int64_t last = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 0) return 0;
    last = checked_sum(last, checked_product(shape[axis] - 1, strides[axis]));
  }
  return checked_sum(last, 1);
}

/// The storage with this key, which must have `bytes` bytes.
Extent extent_of(const Extents& extents, const std::string& key, std::int64_t bytes) {
  const auto found = extents.find(key);
  require_input(found != extents.end(), "lacks its storage {}", printable(key));
  require_input(found->second.bytes == bytes, "has a storage of {} bytes, expected {}",
                found->second.bytes, bytes);
  return found->second;
}

/// The tensor that a call of torch._utils._rebuild_* makes.
StoredTensor tensor_of(const Pickle& pickle, const PickleObject& made, const Extents& extents) {
  // A parameter wraps a tensor, once.
  const bool parameter = made.text == "torch._utils._rebuild_parameter";
  const PickleObject& call = parameter ? Items(pickle, made).at(0, PickleKind::call) : made;
  const Items arguments(pickle, call);
  require_input(call.text.starts_with("torch._utils._rebuild_tensor"), "is made by {}", call.text);
  if (arguments.size() > 6)
    require_input(arguments.at(6, PickleKind::dict).items.empty(),
                  "is conjugated or negated when it is read, which nystrom does not do");
  const Items storage(pickle, arguments.at(0, PickleKind::persistent));
  const DType type = element_type_of(storage.at(1, PickleKind::function).text);
  const bool whole =
      storage.size() < 6 || (storage.size() == 6 && storage.at(5, PickleKind::none).items.empty());
  require_input(whole, "lies in a part of another storage, which nystrom does not read");

  const Shape shape = arguments.shape(2), strides = arguments.shape(3);
  require_input(shape.rank() == strides.rank(), "has {} sizes and {} strides", shape.rank(),
                strides.rank());
  const std::int64_t numel = storage.number(4), offset = arguments.number(1);
  const std::int64_t element = size_of(type);
  const std::int64_t span = span_of(shape, strides);
  require_input(offset <= numel && span <= numel - offset,
                "takes {} elements from {} on of a storage of {}", span, offset, numel);
  std::int64_t elements = 1;
  for (const std::int64_t size : shape)
    if (span > 0) elements = checked_product(elements, size);
  require_input(span == 0 || elements <= span,
                "repeats the elements of its storage; save a copy of it");
  const Extent extent =
      extent_of(extents, storage.at(2, PickleKind::text).text, checked_product(numel, element));

  StoredTensor tensor;
  tensor.dtype = type;
  tensor.shape = shape;
  tensor.begin = extent.begin + offset * element;
  tensor.end = tensor.begin + span * element;
  if (!is_contiguous(shape, strides)) tensor.strides = strides;
  if (tensor.bytes() == extent.bytes) tensor.crc = extent.crc;
  return tensor;
}

std::vector<StoredTensor> tensors_of(const Pickle& pickle, const Extents& extents) {
  const PickleObject& dict = pickle[pickle.root];
  require_input(dict.kind == PickleKind::dict,
                "holds a {}, expected the dict of a model: save model.state_dict()",
                name_of(dict.kind));
  std::vector<StoredTensor> tensors;
  std::set<std::string> names;
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleObject& key = pickle[dict.items[i]];
    const PickleObject& value = pickle[dict.items[i + 1]];
    require_input(key.kind == PickleKind::text && is_tensor_name(key.text),
                  "tensor name {} is not 1 to 256 of A-Z a-z 0-9 . _ -",
                  key.kind == PickleKind::text ? '"' + printable(key.text) + '"'
                                               : std::string("of kind ") + name_of(key.kind));
    require_input(names.insert(key.text).second, "has tensor {} twice", key.text);
    if (value.kind <= PickleKind::text) continue;
    require_input(value.kind == PickleKind::call,
                  "entry {} is a {}, expected a tensor: a checkpoint of a training holds more than "
                  "the model; save model.state_dict() alone",
                  key.text, name_of(value.kind));
    with_context("tensor " + key.text,
                 [&] { tensors.push_back(tensor_of(pickle, value, extents)); });
    tensors.back().name = key.text;
  }
  return tensors;
}

constexpr std::int64_t max_directory_bytes = std::int64_t{64} << 20;

/// Bytes of the file, and the little-endian fields in them.
class Fields {
 public:
  Fields(const InputFile& file, std::int64_t begin, std::int64_t bytes) {
    require_input(begin >= 0 && bytes >= 0 && bytes <= file.size() && begin <= file.size() - bytes,
                  "is a damaged zip archive: {} bytes at {} lie outside of it", bytes, begin);
    text_ = file.text(begin, bytes);
  }

  std::string_view text(std::size_t at, std::size_t count) const {
    require_input(at <= text_.size() && count <= text_.size() - at,
                  "is a damaged zip archive: an entry of its directory is cut off");
    return std::string_view(text_).substr(at, count);
  }
  std::uint64_t number(std::size_t at, std::size_t width) const {
    std::uint64_t value = 0;
    const std::string_view digits = text(at, width);
    for (std::size_t i = width; i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(digits[i]);
    return value;
  }
  /// A number of 64 bits; what exceeds a file of any size lies outside of this one.
  std::int64_t place(std::size_t at, std::size_t width) const {
    return static_cast<std::int64_t>(std::min(number(at, width), std::uint64_t{1} << 62));
  }
  std::size_t size() const { return text_.size(); }
  const std::string& all() const { return text_; }

 private:
  std::string text_;
};

/// Finds the directory by the record at the end of the file, or by its form of 64 bits.
Extent find_directory(const InputFile& file) {
  constexpr std::int64_t record = 22, longest_comment = 65535, locator = 20;
  const std::int64_t tail = std::min(file.size(), record + longest_comment);
  const Fields last(file, file.size() - tail, tail);
  const std::size_t at = last.all().rfind("PK\5\6");
  require_input(at != std::string::npos && last.size() - at >= record,
                "is cut off or no zip archive: it has no directory at its end");
  const std::int64_t place = file.size() - tail + static_cast<std::int64_t>(at);
  if (place >= locator) {
    const Fields pointer(file, place - locator, locator);
    if (pointer.text(0, 4) == "PK\6\7") {
      const Fields wide(file, pointer.place(8, 8), 56);
      require_input(wide.text(0, 4) == "PK\6\6",
                    "is a damaged zip archive: its directory of 64 bits is not where it should be");
      return {wide.place(48, 8), wide.place(40, 8)};
    }
  }
  require_input(last.number(at + 4, 2) == 0, "is one of several parts of a zip archive");
  return {last.place(at + 16, 4), last.place(at + 12, 4)};
}

/// Replaces fields that do not fit into 32 bits by those of the extra field 1.
void read_wide_fields(const Fields& fields, std::size_t at, std::size_t end, std::int64_t& packed,
                      std::int64_t& bytes, std::int64_t& header) {
  constexpr std::int64_t elsewhere = 0xffffffff;
  while (at + 4 <= end) {
    const auto kind = fields.number(at, 2);
    std::size_t value = at + 4;
    at = value + static_cast<std::size_t>(fields.number(at + 2, 2));
    if (kind != 1) continue;
    for (std::int64_t* field : {&bytes, &packed, &header}) {
      if (*field != elsewhere) continue;
      *field = fields.place(value, 8);
      value += 8;
    }
  }
}

/// The entries of a zip archive by their names, with sizes of 64 bits. Throws an InputError for
/// compressed and encrypted entries, archives in several files, names that occur twice, and
/// anything outside of the file.
Extents read_zip_directory(const InputFile& file) {
  const Extent directory = find_directory(file);
  require_input(directory.bytes <= max_directory_bytes,
                "has a zip directory of {} bytes, expected at most {}", directory.bytes,
                max_directory_bytes);
  const Fields fields(file, directory.begin, directory.bytes);
  Extents entries;
  for (std::size_t at = 0; at < fields.size();) {
    constexpr std::size_t fixed = 46;
    require_input(fields.text(at, 4) == "PK\1\2",
                  "is a damaged zip archive: its directory has no entry where one should be");
    const auto name_bytes = static_cast<std::size_t>(fields.number(at + 28, 2));
    const auto extra_bytes = static_cast<std::size_t>(fields.number(at + 30, 2));
    const auto comment_bytes = static_cast<std::size_t>(fields.number(at + 32, 2));
    const std::string name(fields.text(at + fixed, name_bytes));
    require_input((fields.number(at + 8, 2) & 1) == 0, "its entry {} is encrypted",
                  printable(name));
    require_input(fields.number(at + 10, 2) == 0,
                  "its entry {} is compressed; torch.save stores entries as they are: unpack the "
                  "archive, or save it again",
                  printable(name));
    std::int64_t packed = fields.place(at + 20, 4), bytes = fields.place(at + 24, 4),
                 header = fields.place(at + 42, 4);
    const std::size_t extra = at + fixed + name_bytes;
    read_wide_fields(fields, extra, extra + extra_bytes, packed, bytes, header);
    require_input(packed == bytes, "its entry {} has two sizes", printable(name));

    const Fields local(file, header, 30);
    require_input(local.text(0, 4) == "PK\3\4",
                  "is a damaged zip archive: its entry {} is not where it should be",
                  printable(name));
    Extent entry;
    entry.begin =
        header + 30 + static_cast<std::int64_t>(local.number(26, 2) + local.number(28, 2));
    entry.bytes = bytes;
    require_input(entry.begin <= file.size() && bytes <= file.size() - entry.begin,
                  "is cut off: its entry {} ends at byte {} of {}", printable(name),
                  entry.begin + bytes, file.size());
    if (const auto crc = static_cast<std::uint32_t>(fields.number(at + 16, 4)); crc != 0)
      entry.crc = crc;
    require_input(entries.emplace(name, entry).second, "has entry {} twice", printable(name));
    at = extra + extra_bytes + comment_bytes;
  }
  return entries;
}

/// Throws an InputError unless the bytes of an entry have its CRC-32.
void verify(const InputFile& file, const std::string& name, const Extent& entry) {
  constexpr std::int64_t step = std::int64_t{1} << 20;
  std::vector<std::byte> chunk;
  uLong crc = 0;
  for (std::int64_t at = entry.begin; at < entry.end(); at += step) {
    chunk.resize(static_cast<std::size_t>(std::min(step, entry.end() - at)));
    file.read(chunk, at);
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(chunk.data()), chunk.size());
  }
  require_input(!entry.crc || *entry.crc == crc,
                "its entry {} is damaged: its CRC-32 is not that of the archive", printable(name));
}

/// Verifies the storages of which a tensor takes a part; a whole one is verified when it is read.
void verify_parts(const InputFile& file, const Extents& storages,
                  const std::vector<StoredTensor>& tensors) {
  std::map<std::int64_t, std::string> key_at;
  for (const auto& [key, storage] : storages)
    if (storage.bytes > 0) key_at[storage.begin] = key;
  std::set<std::string> parted;
  for (const StoredTensor& tensor : tensors)
    if (tensor.bytes() > 0 && !tensor.crc)
      parted.insert(std::prev(key_at.upper_bound(tensor.begin))->second);
  for (const std::string& key : parted)
    if (storages.at(key).crc) verify(file, "data/" + key, storages.at(key));
}

/// The form since PyTorch 1.6: a zip archive of NAME/data.pkl and NAME/data/KEY.
std::vector<StoredTensor> read_zip(const InputFile& file) {
  const Extents entries = read_zip_directory(file);
  constexpr std::string_view pickle_name = "/data.pkl";
  const auto found = std::ranges::find_if(
      entries, [&](const auto& entry) { return entry.first.ends_with(pickle_name); });
  require_input(found != entries.end(),
                "is a zip archive without data.pkl; expected a file of torch.save");
  const std::string folder = found->first.substr(0, found->first.size() - pickle_name.size() + 1);
  const auto order = entries.find(folder + "byteorder");
  require_input(order == entries.end() ||
                    (order->second.bytes == 6 && file.text(order->second.begin, 6) == "little"),
                "is big-endian; save it on a little-endian machine");
  const std::int64_t bytes = found->second.bytes;
  require_input(bytes <= static_cast<std::int64_t>(max_pickle_bytes),
                "its pickle has {} bytes, expected at most {}", bytes, max_pickle_bytes);
  const std::string data = folder + "data/";
  Extents extents;
  for (const auto& [name, entry] : entries)
    if (name.starts_with(data)) extents[name.substr(data.size())] = entry;
  if (found->second.crc) verify(file, found->first, found->second);
  std::vector<StoredTensor> tensors =
      tensors_of(parse_pickle(file.text(found->second.begin, bytes)), extents);
  verify_parts(file, extents, tensors);
  return tensors;
}

/// The length of what begins every file of the older form: a pickle, of protocol 2 to 5, of a
/// number that PyTorch chose. 0 for another beginning.
std::size_t legacy_beginning(std::string_view text) {
  constexpr std::string_view number = "\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  constexpr std::size_t frame = 9;  // of protocol 4 and 5: a byte and a length
  if (text.size() < 2 || text[0] != '\x80' || text[1] < 2 || text[1] > 5) return 0;
  const std::size_t at = text.substr(2).starts_with('\x95') ? 2 + frame : 2;
  return at < text.size() && text.substr(at).starts_with(number) ? at + number.size() : 0;
}

/// The older form: pickles of the magic number, of the version, of the machine, of the dict and of
/// the keys of its storages, and then for each storage the number of elements and their bytes.
std::vector<StoredTensor> read_legacy(const InputFile& file) {
  const std::string text = file.text(0, std::min<std::int64_t>(file.size(), 2 * max_pickle_bytes));
  std::size_t at = legacy_beginning(text);
  const auto next = [&] {
    const Pickle pickle = parse_pickle(std::string_view(text).substr(at));
    at += pickle.length;
    return pickle;
  };
  const Pickle version = next();
  require_input(version[version.root].integer == 1001,
                "has version {} of PyTorch's older form, expected 1001",
                version[version.root].integer);
  const Pickle machine = next();
  const std::vector<PickleId>& facts = machine[machine.root].items;
  for (std::size_t i = 0; i + 1 < facts.size(); i += 2)
    require_input(machine[facts[i]].text != "little_endian" || machine[facts[i + 1]].integer == 1,
                  "is big-endian; save it on a little-endian machine");
  const Pickle dict = next(), keys = next();

  // The sizes of elements are known from the dict alone.
  std::map<std::string, std::int64_t> element_bytes;
  for (const PickleObject& each : dict.objects) {
    if (each.kind != PickleKind::persistent) continue;
    const Items storage(dict, each);
    element_bytes[storage.at(2, PickleKind::text).text] =
        size_of(element_type_of(storage.at(1, PickleKind::function).text));
  }
  Extents extents;
  auto begin = static_cast<std::int64_t>(at);
  for (const PickleId id : keys[keys.root].items) {
    const std::string& key = keys[id].text;
    const auto element = element_bytes.find(key);
    require_input(element != element_bytes.end(), "has storage {}, which no tensor uses",
                  printable(key));
    require_input(file.size() - begin >= 8, "is cut off at byte {}", file.size());
    std::uint64_t numel = 0;
    file.read(std::as_writable_bytes(std::span(&numel, 1)), begin);
    begin += 8;
    require_input(numel <= static_cast<std::uint64_t>((file.size() - begin) / element->second),
                  "is cut off: storage {} has {} elements, and {} bytes follow", printable(key),
                  numel, file.size() - begin);
    extents[key] = {begin, static_cast<std::int64_t>(numel) * element->second};
    begin += extents[key].bytes;
  }
  require_input(begin == file.size(), "has {} bytes behind its last storage", file.size() - begin);
  return tensors_of(dict, extents);
}

}  // namespace

std::vector<StoredTensor> read_state_dict(const InputFile& file) {
  const std::string first = file.text(0, std::min<std::int64_t>(file.size(), 64));
  if (first.starts_with("PK\3\4")) return read_zip(file);
  if (legacy_beginning(first) > 0) return read_legacy(file);
  require_input(!first.starts_with("version https://git-lfs"),
                "is a pointer of Git LFS, not the weights: fetch them with git lfs pull");
  throw InputError("is no file of torch.save: it begins with \"" + printable(first.substr(0, 16)) +
                   "\"");
}

}  // namespace nystrom
