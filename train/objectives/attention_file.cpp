#include "train/objectives/task_predict.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/hdf5/hdf5.h"
#include "data/tasks/task_metrics.h"
#include "data/text/match_files.h"
#include "nn/attention_map.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t max_side = 2048, usual_side = 512;
constexpr double largest_coordinate = 1e15;

/// Squares of a picture along one axis.
struct Axis {
  double first = 0, step = 1;
  std::int64_t squares = 1;

  std::int64_t square(double at) const {
    return std::min(squares - 1, static_cast<std::int64_t>((at - first) / step + 0.5));
  }
};

/// The usual distance of a row's place to the nearest other one, along the axis on which they
/// differ most; 0 if all are at one place. Pieces of tissue may each have a grid of their own.
double usual_distance(const std::vector<double>& x, const std::vector<double>& y) {
  constexpr std::size_t looked_at = 256;
  std::vector<double> nearest;
  for (std::size_t k = 0; k < std::min(x.size(), looked_at); ++k) {
    const std::size_t i = k * x.size() / std::min(x.size(), looked_at);
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double distance = std::max(std::abs(x[i] - x[j]), std::abs(y[i] - y[j]));
      if (distance > 0) least = std::min(least, distance);
    }
    if (std::isfinite(least)) nearest.push_back(least);
  }
  if (nearest.empty()) return 0;
  const auto middle = nearest.begin() + std::ssize(nearest) / 2;
  std::ranges::nth_element(nearest, middle);
  return *middle;
}

Axis axis_of(const std::vector<double>& numbers, double step) {
  const auto [low, high] = std::ranges::minmax(numbers);
  return {low, step, static_cast<std::int64_t>((high - low) / step + 0.5) + 1};
}

/// Ranks from 0 (lowest) to 1; equal scores have their mean rank, and one alone 0.5.
std::vector<double> ranks_of(const std::vector<double>& scores) {
  std::vector<double> ranks = mean_ranks(scores);
  const double last = static_cast<double>(std::max<std::size_t>(scores.size(), 2) - 1);
  for (double& rank : ranks) rank = scores.size() == 1 ? 0.5 : (rank - 1) / last;
  return ranks;
}

/// Blue over grey to red.
void set_colour(double rank, unsigned char* pixel) {
  constexpr double colours[3][3] = {{40, 60, 160}, {225, 225, 225}, {180, 20, 30}};
  const int part = rank < 0.5 ? 0 : 1;
  const double share = 2 * rank - part;
  for (int i = 0; i < 3; ++i)
    pixel[i] = static_cast<unsigned char>(colours[part][i] +
                                          share * (colours[part + 1][i] - colours[part][i]));
}

/// The picture as the bytes of a PNG file; white where there is no row. Where rows share a square,
/// the highest score shows.
std::string picture_of(const std::vector<double>& scores, const BagArray& coords) {
  std::vector<double> x, y;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    x.push_back(coords.values[i * static_cast<std::size_t>(coords.columns)]);
    y.push_back(coords.values[i * static_cast<std::size_t>(coords.columns) + 1]);
    require_input(std::abs(x[i]) <= largest_coordinate && std::abs(y[i]) <= largest_coordinate,
                  "coords[{}] are no numbers of at most 1e15", i);
  }
  const auto range = [](const std::vector<double>& numbers) {
    const auto [low, high] = std::ranges::minmax(numbers);
    return high - low;
  };
  const double least = std::max(range(x), range(y)) / (max_side - 1);
  double step = std::max(usual_distance(x, y), least);
  if (step == 0) step = 1;
  const Axis across = axis_of(x, step), down = axis_of(y, step);
  const std::int64_t scale = std::clamp<std::int64_t>(
                         usual_side / std::max(across.squares, down.squares), 1, 16),
                     width = across.squares * scale, height = down.squares * scale;
  std::vector<double> best(static_cast<std::size_t>(across.squares * down.squares), -1);
  const std::vector<double> ranks = ranks_of(scores);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    double& square =
        best[static_cast<std::size_t>(down.square(y[i]) * across.squares + across.square(x[i]))];
    square = std::max(square, ranks[i]);
  }
  std::vector<unsigned char> pixels(static_cast<std::size_t>(3 * width * height), 255);
  for (std::int64_t row = 0; row < height; ++row)
    for (std::int64_t column = 0; column < width; ++column) {
      const double rank =
          best[static_cast<std::size_t>(row / scale * across.squares + column / scale)];
      if (rank >= 0)
        set_colour(rank, &pixels[static_cast<std::size_t>(3 * (row * width + column))]);
    }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string file(bytes, '\0');
  require(png_image_write_to_memory(&image, file.data(), &bytes, 0, pixels.data(), 0, nullptr) != 0,
          "cannot make a picture: {}", image.message);
  file.resize(bytes);
  return file;
}

/// The arrays of a map.
constexpr std::array map_arrays = {"attention", "coords"};

/// The arrays of an earlier map; none for any other file. A map has an array `attention`, and none
/// of other names: files with coords alone are those of other programs.
std::vector<std::string> arrays_of_map(const fs::path& file) {
  try {
    std::vector<std::string> names =
        Hdf5File(std::make_shared<const InputFile>(InputFile::open(file))).names();
    for (const std::string& name : names)
      if (std::ranges::find(map_arrays, name) == map_arrays.end()) return {};
    if (std::ranges::find(names, map_arrays[0]) == names.end()) return {};
    return names;
  } catch (const InputError&) {
    return {};
  }
}

/// Refuses to replace anything but an earlier map, and the picture beside one with coords, and
/// links. `picture` may be empty. Returns whether there is such a picture.
bool check_map_place(const fs::path& output, const fs::path& picture) {
  for (const fs::path& place : {output, picture}) require_no_link(place);
  const std::vector<std::string> earlier = arrays_of_map(output);
  require_input(!fs::exists(output) || !earlier.empty(),
                "--attention {}: exists and is no attention map; move it, or give another name",
                printable_path(output));
  const bool drawn = std::ranges::find(earlier, map_arrays[1]) != earlier.end();
  require_input(picture.empty() || drawn || !fs::exists(picture),
                "--attention {}: {} exists, and would be replaced by the map's picture; move it, "
                "or give another name",
                printable_path(output), printable_path(picture));
  return drawn;
}

}  // namespace

void write_attention(const TaskModel& task, const std::string& file, const fs::path& output,
                     Log& log) {
  const std::string obstacle = attention_map_obstacle(task.model->config());
  require_input(obstacle.empty(), "--attention: the model has no attention map: {}", obstacle);
  require_input(last_ending(output) == ".h5", "--attention {}: expected a file name with .h5",
                printable_path(output));
  std::error_code error;
  require_input(!fs::equivalent(file, output, error), "--attention {}: that is the bag itself",
                printable_path(output));
  const auto dataset = task.reader->read({file}, Labelled::optional);
  require_input(dataset->has_bags() && dataset->size() == 1,
                "--attention: '{}' is no bag of features [rows, width]; a map is of one bag",
                printable(file, 80));
  const std::int64_t first = 0, rows = dataset->bag(first).rows();
  require_input(dataset->length(first) == rows,
                "--attention: '{}' has {} rows, and is cut to data.sequence_length {}, which the "
                "model learned at; give fewer rows, or --set data.sequence_length={}",
                printable(file, 80), rows, dataset->length(first), rows);
  Batch batch = make_task_batch(*dataset, {&first, 1}, {&first, 1});
  const std::vector<double> scores =
      attention_map(*task.model, std::move(batch.input)).to_doubles();
  require_finite(scores);
  const std::optional<BagArray> coords = dataset->bag(0).coords();
  std::string picture;
  if (coords) picture = with_context(file, [&] { return picture_of(scores, *coords); });
  fs::path beside = output;
  beside.replace_extension(".png");
  const bool drawn = check_map_place(output, coords ? beside : fs::path());
  Hdf5Writer writer(output);
  writer.add_numbers(map_arrays[0], scores, 0, false);
  if (coords) writer.add_numbers(map_arrays[1], coords->values, coords->columns, coords->whole);
  writer.commit();
  log.say(fmt::format("{}: the attention to {} rows", printable_path(output), scores.size()));
  if (!coords && drawn) fs::remove(beside, error);  // it was the picture of the earlier map
  if (!coords) return;
  write_text_file(beside, picture);
  log.say(fmt::format("{}: their picture", printable_path(beside)));
}

}  // namespace nystrom
