#include "data/tasks/feature_file.h"

#include <algorithm>
#include <cmath>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/hdf5/hdf5_classic.h"

namespace nystrom {
namespace {

constexpr std::int64_t largest_class = 10000;

std::string shape_text(const ClassicArray& array) {
  return fmt::format("[{}] {}", fmt::join(array.shape, ", "), array.type());
}

}  // namespace

struct FeatureFile::State {
  ClassicHdf5File file;
  const ClassicArray* features = nullptr;
  std::vector<std::int64_t> lengths, labels;
  std::vector<double> values;

  explicit State(const std::filesystem::path& path) : file(InputFile::open(path)) {}

  std::string name() const { return printable_path(file.path()); }

  void find_features() {
    features = file.find("features");
    std::vector<std::string> names;
    for (const ClassicArray& array : file.arrays())
      names.push_back("'" + printable(array.name) + "'");
    require_input(features != nullptr, "{}: there is no array 'features'; arrays: {}", name(),
                  names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
    require_input(features->shape.size() == 3 && features->kind == StoredNumber::floating,
                  "{}: 'features' is {}, expected [samples, steps, width] f32 or f64", name(),
                  shape_text(*features));
    require_input(features->elements() > 0, "{}: 'features' is {}: there is nothing in it", name(),
                  shape_text(*features));
  }

  /// All entries of an array with one entry a sample; empty if the file has no such array.
  std::vector<double> column(const char* array_name, bool floating) const {
    const ClassicArray* array = file.find(array_name);
    if (array == nullptr) return {};
    const bool fits = array->shape.size() == 1 && array->shape[0] == features->shape[0] &&
                      (array->kind == StoredNumber::floating) == floating;
    require_input(fits, "{}: '{}' is {}, expected [{}] {}", name(), array_name, shape_text(*array),
                  features->shape[0], floating ? "f32 or f64" : "integers");
    std::vector<double> entries(static_cast<std::size_t>(array->shape[0]));
    file.read(*array, 0, entries);
    return entries;
  }

  std::vector<std::int64_t> whole_column(const char* array_name, std::int64_t smallest,
                                         std::int64_t largest) const {
    std::vector<std::int64_t> entries;
    for (const double entry : column(array_name, false)) {
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
  s.values = s.column("values", true);
  for (std::size_t i = 0; i < s.values.size(); ++i)
    require_input(std::abs(s.values[i]) <= std::numeric_limits<float>::max(),
                  "{}: values[{}] is {}, expected a finite number (f32)", s.name(), i, s.values[i]);
  require_input(s.labels.empty() || s.values.empty(),
                "{}: it holds 'labels' and 'values'; only one of them can be predicted", s.name());
}

FeatureFile::~FeatureFile() = default;
FeatureFile::FeatureFile(FeatureFile&&) noexcept = default;
FeatureFile& FeatureFile::operator=(FeatureFile&&) noexcept = default;

std::int64_t FeatureFile::samples() const { return state_->features->shape[0]; }
std::int64_t FeatureFile::steps() const { return state_->features->shape[1]; }
std::int64_t FeatureFile::width() const { return state_->features->shape[2]; }
const std::vector<std::int64_t>& FeatureFile::labels() const { return state_->labels; }
const std::vector<double>& FeatureFile::values() const { return state_->values; }
const std::filesystem::path& FeatureFile::path() const { return state_->file.path(); }

std::int64_t FeatureFile::length(std::int64_t sample) const {
  require(sample >= 0 && sample < samples(), "FeatureFile: sample {} of {}", sample, samples());
  return state_->lengths.empty() ? steps() : state_->lengths[static_cast<std::size_t>(sample)];
}

void FeatureFile::read(std::int64_t sample, std::span<float> features) const {
  require(static_cast<std::int64_t>(features.size()) == length(sample) * width(),
          "FeatureFile: room for {} numbers", features.size());
  std::vector<double> numbers(features.size());
  state_->file.read(*state_->features, sample * steps() * width(), numbers);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    features[i] = static_cast<float>(numbers[i]);
    require_input(std::isfinite(features[i]),
                  "{}: features[{}, {}, {}] is {}, expected a finite number (f32)", state_->name(),
                  sample, static_cast<std::int64_t>(i) / width(),
                  static_cast<std::int64_t>(i) % width(), numbers[i]);
  }
}

}  // namespace nystrom
