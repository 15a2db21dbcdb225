#include "data/tasks/feature_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "core/base/printable.h"
#include "core/check.h"
#include "core/kernels.h"
#include "core/npy_header.h"
#include "core/safetensors_header.h"
#include "data/hdf5/hdf5.h"
#include "data/text/match_files.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t block_bytes = std::int64_t{8} << 20;
// A digest is that of all numbers of a small bag, else of some rows.
constexpr std::int64_t digest_rows = 16, digest_numbers = std::int64_t{1} << 18;
constexpr double exact_limit = 9007199254740992;  // 2^53: below it a double is exact
constexpr std::array hdf5_arrays = {"features", "coords"};

/// Where the features are, for all forms of files.
struct Place {
  std::int64_t rows = 0, width = 0, offset = 0;  // offset: of the first byte, not for HDF5
  DType dtype = DType::f32;                      // a float; HDF5 converts all but f16 to f64
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

/// The features in a file with several tensors.
StoredTensor features_in(const SafetensorsHeader& header) {
  std::vector<std::string> names;
  for (const StoredTensor& tensor : header.tensors) names.push_back(tensor.name);
  refuse_masks(names, true);
  std::vector<StoredTensor> fitting;
  for (const StoredTensor& tensor : header.tensors) {
    if (tensor.name == "features") return tensor;
    if (tensor.shape.rank() >= 2) fitting.push_back(tensor);
  }
  require_input(fitting.size() == 1, "there is no tensor 'features'; the file holds {} others",
                header.tensors.size());
  return fitting[0];
}

Place place_in_hdf5(const std::shared_ptr<const InputFile>& input) {
  const std::string name = printable_path(input->path());
  require_harmless(input, hdf5_arrays);
  const Hdf5File file(input);
  const Hdf5Array array = features_of(file, name, block_bytes);
  with_context(name, [&] { refuse_masks(file.names(), true); });
  Place place;
  set_shape(place, array.shape(), name + ": 'features'");
  require_input(array.is_complete(), "{}: 'features' has chunks that were never written", name);
  place.hdf5 = true;
  place.dtype = array.is_half() ? DType::f16 : DType::f64;
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
  return with_context(name, [&] {
    const StoredTensor tensor =
        ending == ".npy" ? read_npy_header(*file) : features_in(read_safetensors_header(*file));
    const std::string what = tensor.name.empty() ? "the array" : "tensor " + tensor.name;
    Place place;
    set_shape(place, {tensor.shape.begin(), tensor.shape.end()}, what);
    require_input(is_float(tensor.dtype), "{} is {}, expected F16, BF16, F32 or F64", what,
                  stored_name(tensor.dtype));
    place.dtype = tensor.dtype;
    place.offset = tensor.begin;
    return place;
  });
}

/// Throws an InputError for a number of the rows from `first` on that a model does not take.
void require_good(const Tensor& rows, std::int64_t first, const std::string& name) {
  visit_any_float(rows.dtype(), [&]<class T>(TypeTag<T>) {
    const std::span numbers(rows.data<T>(), static_cast<std::size_t>(rows.numel()));
    const auto bad = std::ranges::find_if_not(
        numbers, [](T number) { return std::abs(static_cast<float>(number)) <= max_feature; });
    if (bad == numbers.end()) return;
    const std::int64_t at = bad - numbers.begin(), width = rows.dim(1);
    throw InputError(fmt::format("{}: features[{}, {}] is {}, expected a finite number up to {:g}",
                                 name, first + at / width, at % width, static_cast<float>(*bad),
                                 max_feature));
  });
}

/// A file that is open, to read rows of it.
class Rows {
 public:
  Rows(const std::shared_ptr<const InputFile>& file, const Place& place)
      : file_(file), place_(place) {
    if (place.hdf5) array_ = features_of(Hdf5File(file), printable_path(file->path()), block_bytes);
  }

  /// Rows first … first + count − 1 in the stored type, [count, width].
  Tensor read(std::int64_t first, std::int64_t count) const {
    Tensor rows = Tensor::empty({count, place_.width}, place_.dtype);
    if (!array_) {
      file_->read(bytes_of(rows), place_.offset + first * place_.width * size_of(place_.dtype));
      return rows;
    }
    std::vector<std::int64_t> begin = {first, 0}, size = {count, place_.width};
    if (place_.rank == 3) begin.insert(begin.begin(), 0), size.insert(size.begin(), 1);
    const auto numbers = static_cast<std::size_t>(rows.numel());
    if (place_.dtype == DType::f16)
      array_->read(begin, size, std::span(rows.data<f16>(), numbers));
    else
      array_->read(begin, size, std::span(rows.data<double>(), numbers));
    return rows;
  }

  /// The rows of a block, at most block_bytes; whole chunks of an HDF5 file.
  std::int64_t block() const {
    const std::int64_t rows =
        std::max<std::int64_t>(1, block_bytes / (place_.width * size_of(place_.dtype)));
    const std::int64_t chunk = chunk_rows();
    return chunk > 0 ? std::max(chunk, rows / chunk * chunk) : rows;
  }

  /// The rows to read for one of them: the whole chunk where the library does not keep it.
  std::int64_t least() const {
    const std::int64_t chunk = chunk_rows();
    return chunk * place_.width * 8 > block_bytes ? chunk : 1;
  }

 private:
  /// The rows of a chunk of an HDF5 file; 0 without chunks.
  std::int64_t chunk_rows() const {
    return array_ ? array_->chunk_size(static_cast<std::size_t>(place_.rank) - 2) : 0;
  }

  std::shared_ptr<const InputFile> file_;
  const Place& place_;
  std::optional<Hdf5Array> array_;  // keeps its file open
};

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
DType BagFile::dtype() const { return state_->place.dtype == DType::f16 ? DType::f16 : DType::f32; }
const fs::path& BagFile::path() const { return state_->path; }

void BagFile::read(Tensor features) const {
  const State& s = *state_;
  const std::int64_t wanted = features.dim(0);
  require(features.shape() == Shape({wanted, width()}) && wanted <= rows() &&
              (features.dtype() == DType::f32 || features.dtype() == dtype()),
          "BagFile: no room of {}", features.shape());
  const Rows source(s.open(), s.place);
  for (std::int64_t first = 0; first < wanted; first += source.block()) {
    const std::int64_t count = std::min(source.block(), wanted - first);
    const Tensor block = source.read(first, count).cast(features.dtype());
    require_good(block, first, s.name());
    kernels::copy(block, features.slice(0, first, first + count));
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
  checksum.add(std::array{rows(), width()});
  std::set<std::vector<float>> different;
  const auto add = [&](std::int64_t count) {
    const std::int64_t at_once = count < rows() ? source.least() : source.block();
    Tensor block;
    std::int64_t first = 0, end = 0;  // the rows of the block
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t wanted = i * rows() / count;
      if (wanted >= end) {
        first = wanted / at_once * at_once;
        end = std::min(first + at_once, rows());
        block = source.read(first, end - first).cast(DType::f32);
      }
      const float* row = block.data<float>() + (wanted - first) * width();
      checksum.update(row, static_cast<std::size_t>(width()) * sizeof(float));
      if (count < rows()) different.emplace(row, row + width());
    }
  };
  const std::int64_t read = is_large() ? std::min(rows(), digest_rows) : rows();
  add(read);
  // Rows of padding, or of empty background, tell nothing of a bag.
  if (read < rows() && std::ssize(different) < read) add(rows());
  return checksum.digest();
}

bool BagFile::is_large() const { return rows() * width() > digest_numbers; }

bool is_bag_file(const fs::path& file, bool without_labels) {
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
  return without_labels && shape.size() == 3 && shape[0] == 1 && !has("labels") && !has("values") &&
         !has("lengths");
}

}  // namespace nystrom
