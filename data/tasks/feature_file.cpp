#include "data/tasks/feature_file.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/ascii.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/examples.h"
#include "data/text/table_reader.h"

namespace nystrom {
namespace {

constexpr std::int64_t largest_class = 10000;
constexpr std::int64_t own_cache_bytes = std::int64_t{64} << 20;

std::string shape_text(const Hdf5Array& array) {
  return fmt::format("[{}] {}", fmt::join(array.shape(), ", "), array.type());
}

Hdf5File open(const std::filesystem::path& file) {
  const auto input = std::make_shared<const InputFile>(InputFile::open(file));
  require_harmless(input, std::array{"features", "lengths", "labels", "values"});
  return Hdf5File(input);
}

}  // namespace

Hdf5Array features_of(const Hdf5File& file, const std::string& name, std::int64_t cache_bytes) {
  std::optional<Hdf5Array> array = file.find("features", cache_bytes);
  if (array) return std::move(*array);
  const std::vector<std::string> names = file.names();
  throw InputError(fmt::format("{}: there is no array 'features'; the file holds {}", name,
                               names.empty() ? "nothing" : list_of_names(names)));
}

void refuse_masks(const std::vector<std::string>& arrays, bool bag) {
  const char* const remedy =
      bag ? "every row of a bag counts; write the rows that are no padding, without it"
          : "how many steps of a sample are no padding stands in 'lengths'; write that, or remove "
            "it";
  constexpr std::string_view others[] = {"lengths", "length",    "lens",    "len",
                                         "valid",   "valid_len", "n_valid", "seq_len"};
  for (const std::string& array : arrays) {
    const std::string name = ascii_lower(array);
    require_input(std::ranges::find(others, name) == std::end(others) &&
                      name.find("mask") == name.npos && name.find("padding") == name.npos,
                  "'{}' is not read: {}", printable(array, 60), remedy);
  }
}

FeatureFile::FeatureFile(std::filesystem::path file, bool targets)
    : path_(std::move(file)), file_(open(path_)), features_(find_features()) {
  lengths_ = whole_column("lengths", 1, steps());
  if (lengths_.empty())
    with_context(printable_path(path_), [&] { refuse_masks(file_.names(), false); });
  if (!targets) return;
  labels_ = whole_column("labels", 0, largest_class - 1);
  values_ = column("values", false);
  const std::string name = printable_path(path_);
  for (std::size_t i = 0; i < values_.size(); ++i)
    require_input(std::abs(values_[i]) <= max_target,
                  "{}: values[{}] is {}, expected a finite number up to 1e18", name, i, values_[i]);
  require_input(labels_.empty() || values_.empty(),
                "{}: it holds 'labels' and 'values'; only one of them can be predicted", name);
}

Hdf5Array FeatureFile::find_features() const {
  const std::string name = printable_path(path_);
  Hdf5Array array = features_of(file_, name, own_cache_bytes);
  require_input(array.shape().size() == 3,
                "{}: 'features' is {}, expected numbers [samples, steps, width]", name,
                shape_text(array));
  require_input(std::ranges::find(array.shape(), 0) == array.shape().end(),
                "{}: 'features' is {}: there is nothing in it", name, shape_text(array));
  return array;
}

/// All entries of an array with one entry a sample; empty if the file has no such array.
std::vector<double> FeatureFile::column(const char* array_name, bool whole) const {
  const std::optional<Hdf5Array> array = file_.find(array_name, own_cache_bytes);
  if (!array) return {};
  const bool fits = array->shape() == std::vector{samples()} && !(whole && array->is_floating());
  require_input(fits, "{}: '{}' is {}, expected [{}] {}", printable_path(path_), array_name,
                shape_text(*array), samples(), whole ? "integers" : "numbers");
  std::vector<double> entries(static_cast<std::size_t>(samples()));
  array->read(std::vector<std::int64_t>{0}, array->shape(), entries);
  return entries;
}

std::vector<std::int64_t> FeatureFile::whole_column(const char* array_name, std::int64_t smallest,
                                                    std::int64_t largest) const {
  std::vector<std::int64_t> entries;
  for (const double entry : column(array_name, true)) {
    const bool fits =
        entry >= static_cast<double>(smallest) && entry <= static_cast<double>(largest);
    require_input(fits, "{}: {}[{}] is {}, expected {} to {}", printable_path(path_), array_name,
                  entries.size(), entry, smallest, largest);
    entries.push_back(static_cast<std::int64_t>(entry));
  }
  return entries;
}

std::int64_t FeatureFile::length(std::int64_t sample) const {
  require(sample >= 0 && sample < samples(), "FeatureFile: sample {} of {}", sample, samples());
  return lengths_.empty() ? steps() : lengths_[static_cast<std::size_t>(sample)];
}

void FeatureFile::read(std::int64_t sample, std::span<float> features) const {
  const std::int64_t kept = std::ssize(features) / width();
  require(std::ssize(features) == kept * width() && kept <= length(sample),
          "FeatureFile: room for {} numbers", features.size());
  std::vector<double> numbers(features.size());
  const std::int64_t first[] = {sample, 0, 0}, count[] = {1, kept, width()};
  if (features_.is_half()) {  // the library converts them in 70 ns each
    std::vector<f16> halves(features.size());
    features_.read(first, count, std::span(halves));
    std::ranges::transform(halves, numbers.begin(),
                           [](f16 half) { return static_cast<float>(half); });
  } else {
    features_.read(first, count, std::span(numbers));
  }
  const std::string name = printable_path(path_);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    features[i] = static_cast<float>(numbers[i]);
    require_input(std::abs(features[i]) <= max_feature,
                  "{}: features[{}, {}, {}] is {}, expected a finite number up to {:g}", name,
                  sample, static_cast<std::int64_t>(i) / width(),
                  static_cast<std::int64_t>(i) % width(), numbers[i], max_feature);
  }
}

Digest digest_of(const FeatureFile& file, std::int64_t sample) {
  std::vector<float> features(static_cast<std::size_t>(file.length(sample) * file.width()));
  file.read(sample, features);
  return checksum_of_items(features);
}

}  // namespace nystrom
