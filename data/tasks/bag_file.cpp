#include "data/tasks/bag_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>

#include "core/base/printable.h"
#include "core/check.h"
#include "core/npy_header.h"
#include "core/safetensors_header.h"
#include "data/hdf5/hdf5.h"
#include "data/text/match_files.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t block_bytes = std::int64_t{8} << 20;
constexpr std::int64_t digest_rows = 16;
constexpr double exact_limit = 9007199254740992;  // 2^53: below it a double is exact
constexpr std::array hdf5_arrays = {"features", "coords"};

/// Where the features are, for all forms of files.
struct Place {
  std::int64_t rows = 0, width = 0, offset = 0;  // offset: of the first byte, not for HDF5
  StoredType type = StoredType::f32;  // a floating-point one; HDF5 converts all but f16 to f64
  bool hdf5 = false;
  int rank = 2;
};

/// Takes rows and width from a shape [rows, width] or [1, rows, width].
void set_shape(Place& place, const std::vector<std::int64_t>& shape, const std::string& what) {
  const bool one = shape.size() == 3 && shape[0] == 1;
  require_input(shape.size() == 2 || one, "{} is [{}], expected [rows, width]", what,
                fmt::join(shape, ", "));
  place.rank = static_cast<int>(shape.size());
  place.rows = shape[shape.size() - 2];
  place.width = shape.back();
  require_input(place.rows > 0 && place.width > 0, "{} is [{}]: there is nothing in it", what,
                fmt::join(shape, ", "));
}

std::string bytes_at(const InputFile& file, std::int64_t offset, std::int64_t count) {
  std::string bytes(static_cast<std::size_t>(count), '\0');
  file.read(std::as_writable_bytes(std::span(bytes)), offset);
  return bytes;
}

Place place_in_npy(const InputFile& file) {
  const NpyHeader header =
      parse_npy_header(bytes_at(file, 0, std::min(file.size(), max_npy_header)));
  Place place;
  set_shape(place, header.shape, "the array");
  place.type = header.type;
  place.offset = header.begin;
  return place;
}

Place place_in_safetensors(const InputFile& file) {
  const std::int64_t first = std::min(file.size(), safetensors_length_bytes),
                     length = safetensors_header_length(bytes_at(file, 0, first), file.size()),
                     begin = safetensors_length_bytes + length;
  const SafetensorsHeader header = parse_safetensors_header(
      bytes_at(file, safetensors_length_bytes, length), file.size() - begin);
  std::vector<const StoredTensor*> fitting;
  for (const StoredTensor& tensor : header.tensors)
    if (tensor.name == "features") fitting = {&tensor};
  if (fitting.empty())
    for (const StoredTensor& tensor : header.tensors)
      if (tensor.shape.rank() >= 2) fitting.push_back(&tensor);
  require_input(fitting.size() == 1, "there is no tensor 'features'; the file holds {} others",
                header.tensors.size());
  const StoredTensor& tensor = *fitting[0];
  Place place;
  const std::string what = "tensor " + tensor.name;
  set_shape(place, {tensor.shape.begin(), tensor.shape.end()}, what);
  constexpr std::array floating = {StoredType::f16, StoredType::bf16, StoredType::f32,
                                   StoredType::f64};
  require_input(std::ranges::find(floating, tensor.type) != floating.end(),
                "{} is {}, expected F16, BF16, F32 or F64", what, stored_name(tensor.type));
  place.type = tensor.type;
  place.offset = begin + tensor.begin;
  return place;
}

/// The array of features of an HDF5 file. Its cache holds one row of chunks.
Hdf5Array features_of(const Hdf5File& file, const std::string& name) {
  std::optional<Hdf5Array> array = file.find("features", block_bytes);
  if (!array) {
    std::vector<std::string> names = file.names();
    names.resize(std::min<std::size_t>(names.size(), 20));
    throw InputError(fmt::format(
        "{}: there is no array 'features'; the file holds {}", name,
        names.empty() ? "nothing" : printable(fmt::format("{}", fmt::join(names, ", ")))));
  }
  return std::move(*array);
}

Place place_in_hdf5(const std::shared_ptr<const InputFile>& input) {
  const std::string name = printable_path(input->path());
  require_harmless(input, hdf5_arrays);
  const Hdf5File file(input);
  const Hdf5Array array = features_of(file, name);
  Place place;
  set_shape(place, array.shape(), name + ": 'features'");
  require_input(array.is_complete(), "{}: 'features' has chunks that were never written", name);
  place.hdf5 = true;
  place.type = array.is_half() ? StoredType::f16 : StoredType::f64;
  return place;
}

bool is_hdf5_name(const fs::path& file) {
  const std::string ending = last_ending(file);
  return ending == ".h5" || ending == ".hdf5";
}

Place place_in(const std::shared_ptr<const InputFile>& file) {
  if (is_hdf5_name(file->path())) return place_in_hdf5(file);
  const std::string ending = last_ending(file->path()), name = printable_path(file->path());
  require_input(ending == ".npy" || ending == ".safetensors",
                "{}: a bag of features is .h5, .hdf5, .npy or .safetensors; save it as one of them",
                name);
  const Place place = with_context(
      name, [&] { return ending == ".npy" ? place_in_npy(*file) : place_in_safetensors(*file); });
  std::int64_t bytes = stored_size(place.type);
  const bool fits = !__builtin_mul_overflow(bytes, place.rows, &bytes) &&
                    !__builtin_mul_overflow(bytes, place.width, &bytes) &&
                    bytes <= file->size() - place.offset;
  require_input(fits, "{}: [{}, {}] numbers do not fit into its {} bytes: it is cut short", name,
                place.rows, place.width, file->size());
  return place;
}

/// A file that is open, to read rows of it.
class Rows {
 public:
  Rows(const std::shared_ptr<const InputFile>& file, const Place& place)
      : file_(file), place_(place) {
    if (place.hdf5) array_ = features_of(Hdf5File(file), printable_path(file->path()));
  }

  /// Rows first … first + count − 1 in the stored type.
  std::vector<std::byte> read(std::int64_t first, std::int64_t count) const {
    const std::int64_t row = place_.width * stored_size(place_.type);
    std::vector<std::byte> bytes(static_cast<std::size_t>(count * row));
    if (!array_) {
      file_->read(bytes, place_.offset + first * row);
      return bytes;
    }
    std::vector<std::int64_t> begin = {first, 0}, size = {count, place_.width};
    if (place_.rank == 3) begin.insert(begin.begin(), 0), size.insert(size.begin(), 1);
    const auto numbers = static_cast<std::size_t>(count * place_.width);
    if (place_.type == StoredType::f16)
      array_->read(begin, size, std::span(reinterpret_cast<f16*>(bytes.data()), numbers));
    else
      array_->read(begin, size, std::span(reinterpret_cast<double*>(bytes.data()), numbers));
    return bytes;
  }

  /// The rows of a block, at most block_bytes; whole chunks of an HDF5 file.
  std::int64_t block() const {
    const std::int64_t rows =
        std::max<std::int64_t>(1, block_bytes / (place_.width * stored_size(place_.type)));
    const std::int64_t chunk = array_ && place_.rank == 2 ? array_->chunk_rows() : 0;
    return chunk > 0 ? std::max(chunk, rows / chunk * chunk) : rows;
  }

  /// The rows to read for one of them: the whole chunk where the library does not keep it.
  std::int64_t least() const {
    const std::int64_t chunk = array_ && place_.rank == 2 ? array_->chunk_rows() : 0;
    return chunk * place_.width * 8 > block_bytes ? chunk : 1;
  }

 private:
  std::shared_ptr<const InputFile> file_;
  const Place& place_;
  std::optional<Hdf5Array> array_;  // keeps its file open
};

bool is_finite(float value) { return std::isfinite(value); }
bool is_finite(f16 value) { return (value.bits & 0x7c00) != 0x7c00; }

/// Converts numbers of a file and returns the index of the first that is not finite, else −1.
template <class From, class To>
std::int64_t convert(const std::vector<std::byte>& bytes, To* to) {
  std::int64_t bad = -1;
  for (std::size_t i = 0; i < bytes.size() / sizeof(From); ++i) {
    From from;
    std::memcpy(&from, bytes.data() + i * sizeof(From), sizeof(From));
    to[i] = static_cast<To>(from);
    if (!is_finite(to[i]) && bad < 0) bad = static_cast<std::int64_t>(i);
  }
  return bad;
}

std::int64_t convert(StoredType type, const std::vector<std::byte>& bytes, float* to) {
  return type == StoredType::f16    ? convert<f16>(bytes, to)
         : type == StoredType::bf16 ? convert<bf16>(bytes, to)
         : type == StoredType::f32  ? convert<float>(bytes, to)
                                    : convert<double>(bytes, to);
}

}  // namespace

struct BagFile::State {
  fs::path path;
  Place place;
  std::int64_t size;
  fs::file_time_type changed;

  std::string name() const { return printable_path(path); }

  std::shared_ptr<const InputFile> open() const {
    auto file = std::make_shared<const InputFile>(InputFile::open(path));
    std::error_code error;
    require_input(file->size() == size && fs::last_write_time(path, error) == changed,
                  "{}: it changed since the program opened it first", name());
    return file;
  }
};

BagFile::BagFile(const fs::path& file) {
  const auto input = std::make_shared<const InputFile>(InputFile::open(file));
  std::error_code error;
  const fs::file_time_type changed = fs::last_write_time(file, error);
  state_ = std::make_shared<State>(State{file, place_in(input), input->size(), changed});
}

std::int64_t BagFile::rows() const { return state_->place.rows; }
std::int64_t BagFile::width() const { return state_->place.width; }
DType BagFile::dtype() const {
  return state_->place.type == StoredType::f16 ? DType::f16 : DType::f32;
}
const fs::path& BagFile::path() const { return state_->path; }

void BagFile::read(Tensor features) const {
  const State& s = *state_;
  require(features.shape() == Shape({rows(), width()}) &&
              (features.dtype() == DType::f32 || features.dtype() == dtype()),
          "BagFile: no room of {}", features.shape());
  const Rows source(s.open(), s.place);
  for (std::int64_t first = 0; first < rows(); first += source.block()) {
    const std::int64_t count = std::min(source.block(), rows() - first);
    const std::vector<std::byte> bytes = source.read(first, count);
    const std::int64_t place = first * width();
    const std::int64_t bad = features.dtype() == DType::f16
                                 ? convert<f16>(bytes, features.data<f16>() + place)
                                 : convert(s.place.type, bytes, features.data<float>() + place);
    require_input(bad < 0, "{}: features[{}, {}] is no finite number (f32)", s.name(),
                  first + bad / width(), bad % width());
  }
}

std::optional<BagArray> BagFile::coords() const {
  const State& s = *state_;
  if (!s.place.hdf5) return std::nullopt;
  const Hdf5File file(s.open());
  const std::optional<Hdf5Array> array = file.find("coords", block_bytes);
  if (!array) return std::nullopt;
  std::vector<std::int64_t> shape = array->shape();
  const bool one = shape.size() == 3 && shape[0] == 1 && s.place.rank == 3;
  require_input(
      (shape.size() == 2 || one) && shape[shape.size() - 2] == rows() && shape.back() >= 2,
      "{}: 'coords' is [{}], expected [{}, 2]", s.name(), fmt::join(shape, ", "), rows());
  BagArray coords;
  coords.columns = shape.back();
  coords.whole = !array->is_floating();
  coords.values.resize(static_cast<std::size_t>(rows() * coords.columns));
  array->read(std::vector<std::int64_t>(shape.size()), shape, coords.values);
  for (std::size_t i = 0; coords.whole && i < coords.values.size(); ++i)
    require_input(std::abs(coords.values[i]) < exact_limit,
                  "{}: coords[{}] is beyond 2^53, where whole numbers lose their last digits; "
                  "write coords in pixels of the slide",
                  s.name(), i / static_cast<std::size_t>(coords.columns));
  return coords;
}

Digest BagFile::digest() const {
  const State& s = *state_;
  const Rows source(s.open(), s.place);
  Checksum checksum;
  const std::int64_t shape[] = {rows(), width()};
  checksum.update(shape, sizeof shape);
  std::vector<float> row(static_cast<std::size_t>(width()));
  std::set<std::vector<float>> different;
  const std::int64_t row_bytes = width() * stored_size(s.place.type);
  const auto add = [&](std::int64_t count) {
    const std::int64_t at_once = count < rows() ? source.least() : source.block();
    std::vector<std::byte> block;
    std::int64_t first = 0, end = 0;  // the rows of the block
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t wanted = i * rows() / count;
      if (wanted >= end) {
        first = wanted / at_once * at_once;
        end = std::min(first + at_once, rows());
        block = source.read(first, end - first);
      }
      const auto begin = block.begin() + (wanted - first) * row_bytes;
      convert(s.place.type, std::vector(begin, begin + row_bytes), row.data());
      checksum.update(row.data(), row.size() * sizeof(float));
      if (count < rows()) different.insert(row);
    }
  };
  const std::int64_t read = std::min(rows(), digest_rows);
  add(read);
  // Rows of padding, or of empty background, tell nothing of a bag.
  if (read < rows() && std::ssize(different) < read) add(rows());
  return checksum.digest();
}

bool is_bag_file(const fs::path& file, bool of_bags) {
  const std::string ending = last_ending(file);
  if (ending == ".npy" || ending == ".safetensors") return true;
  if (!is_hdf5_name(file)) return false;
  const auto input = std::make_shared<const InputFile>(InputFile::open(file));
  require_harmless(input, hdf5_arrays);
  const Hdf5File arrays(input);
  const std::optional<Hdf5Array> array = arrays.find("features", 0);
  if (!array) return false;
  const std::vector<std::int64_t> shape = array->shape();
  if (shape.size() == 2) return true;
  const std::vector<std::string> names = arrays.names();
  const auto has = [&](const char* name) { return std::ranges::find(names, name) != names.end(); };
  return of_bags && shape.size() == 3 && shape[0] == 1 && !has("labels") && !has("values") &&
         !has("lengths");
}

}  // namespace nystrom
