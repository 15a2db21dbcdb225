#include "data/tasks/feature_file.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/hdf5/hdf5.h"

namespace nystrom {
namespace {

constexpr std::int64_t largest_class = 10000;
constexpr std::int64_t cache_bytes = std::int64_t{64} << 20;
constexpr std::size_t max_listed = 20;

std::string shape_text(const Hdf5Array& array) {
  return fmt::format("[{}] {}", fmt::join(array.shape(), ", "), array.type());
}

}  // namespace

struct FeatureFile::State {
  std::filesystem::path path;
  Hdf5File file;
  std::optional<Hdf5Array> features;
  std::vector<std::int64_t> lengths, labels;
  std::vector<double> values;

  explicit State(const std::filesystem::path& place) : path(place), file(open(place)) {}

  static Hdf5File open(const std::filesystem::path& place) {
    const auto input = std::make_shared<const InputFile>(InputFile::open(place));
    require_harmless(input, std::array{"features", "lengths", "labels", "values"});
    return Hdf5File(input);
  }

  std::string name() const { return printable_path(path); }

  /// The names of what the file holds, for a message.
  std::string names() const {
    std::vector<std::string> names = file.names();
    if (names.empty()) return "nothing";
    const bool more = names.size() > max_listed;
    names.resize(std::min(names.size(), max_listed));
    for (std::string& each : names) each = "'" + printable(each) + "'";
    return fmt::format("{}{}", fmt::join(names, ", "), more ? ", …" : "");
  }

  void find_features() {
    features = file.find("features", cache_bytes);
    require_input(features.has_value(), "{}: there is no array 'features'; the file holds {}",
                  name(), names());
    require_input(features->shape().size() == 3,
                  "{}: 'features' is {}, expected numbers [samples, steps, width]", name(),
                  shape_text(*features));
    require_input(std::ranges::find(features->shape(), 0) == features->shape().end(),
                  "{}: 'features' is {}: there is nothing in it", name(), shape_text(*features));
  }

  /// All entries of an array with one entry a sample; empty if the file has no such array.
  std::vector<double> column(const char* array_name, bool whole) const {
    const std::optional<Hdf5Array> array = file.find(array_name, cache_bytes);
    if (!array) return {};
    const std::int64_t samples = features->shape()[0];
    const bool fits = array->shape() == std::vector{samples} && !(whole && array->is_floating());
    require_input(fits, "{}: '{}' is {}, expected [{}] {}", name(), array_name, shape_text(*array),
                  samples, whole ? "integers" : "numbers");
    std::vector<double> entries(static_cast<std::size_t>(samples));
    array->read(std::vector<std::int64_t>{0}, array->shape(), entries);
    return entries;
  }

  std::vector<std::int64_t> whole_column(const char* array_name, std::int64_t smallest,
                                         std::int64_t largest) const {
    std::vector<std::int64_t> entries;
    for (const double entry : column(array_name, true)) {
      const bool fits =
          entry >= static_cast<double>(smallest) && entry <= static_cast<double>(largest);
      require_input(fits, "{}: {}[{}] is {}, expected {} to {}", name(), array_name, entries.size(),
                    entry, smallest, largest);
      entries.push_back(static_cast<std::int64_t>(entry));
    }
    return entries;
  }
};

FeatureFile::FeatureFile(const std::filesystem::path& file)
    : state_(std::make_unique<State>(file)) {
  State& s = *state_;
  s.find_features();
  s.lengths = s.whole_column("lengths", 1, steps());
  s.labels = s.whole_column("labels", 0, largest_class - 1);
  s.values = s.column("values", false);
  for (std::size_t i = 0; i < s.values.size(); ++i)
    require_input(std::abs(s.values[i]) <= std::numeric_limits<float>::max(),
                  "{}: values[{}] is {}, expected a finite number (f32)", s.name(), i, s.values[i]);
  require_input(s.labels.empty() || s.values.empty(),
                "{}: it holds 'labels' and 'values'; only one of them can be predicted", s.name());
}

FeatureFile::~FeatureFile() = default;
FeatureFile::FeatureFile(FeatureFile&&) noexcept = default;
FeatureFile& FeatureFile::operator=(FeatureFile&&) noexcept = default;

std::int64_t FeatureFile::samples() const { return state_->features->shape()[0]; }
std::int64_t FeatureFile::steps() const { return state_->features->shape()[1]; }
std::int64_t FeatureFile::width() const { return state_->features->shape()[2]; }
const std::vector<std::int64_t>& FeatureFile::labels() const { return state_->labels; }
const std::vector<double>& FeatureFile::values() const { return state_->values; }
const std::filesystem::path& FeatureFile::path() const { return state_->path; }

std::int64_t FeatureFile::length(std::int64_t sample) const {
  require(sample >= 0 && sample < samples(), "FeatureFile: sample {} of {}", sample, samples());
  return state_->lengths.empty() ? steps() : state_->lengths[static_cast<std::size_t>(sample)];
}

void FeatureFile::read(std::int64_t sample, std::span<float> features) const {
  require(static_cast<std::int64_t>(features.size()) == length(sample) * width(),
          "FeatureFile: room for {} numbers", features.size());
  std::vector<double> numbers(features.size());
  const std::int64_t first[] = {sample, 0, 0}, count[] = {1, length(sample), width()};
  if (state_->features->is_half()) {  // the library converts them in 70 ns each
    std::vector<f16> halves(features.size());
    state_->features->read(first, count, std::span(halves));
    std::ranges::transform(halves, numbers.begin(),
                           [](f16 half) { return static_cast<float>(half); });
  } else {
    state_->features->read(first, count, std::span(numbers));
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    features[i] = static_cast<float>(numbers[i]);
    require_input(std::isfinite(features[i]),
                  "{}: features[{}, {}, {}] is {}, expected a finite number (f32)", state_->name(),
                  sample, static_cast<std::int64_t>(i) / width(),
                  static_cast<std::int64_t>(i) % width(), numbers[i]);
  }
}

Digest digest_of(const FeatureFile& file, std::int64_t sample) {
  std::vector<float> features(static_cast<std::size_t>(file.length(sample) * file.width()));
  file.read(sample, features);
  Checksum checksum;
  checksum.update(features.data(), features.size() * sizeof(float));
  return checksum.digest();
}

}  // namespace nystrom
