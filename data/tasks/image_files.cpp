// Images as examples of classification.
#include <png.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/base/printable.h"
#include "core/base/words.h"
#include "core/check.h"
#include "data/tasks/example_files.h"
#include "data/text/byte_source.h"
#include "data/text/line_reader.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t cifar_pixels = 32 * 32;
constexpr std::size_t cifar_record = 1 + 3 * cifar_pixels;

/// A PNG file in grey values.
struct Picture {
  std::uint32_t width = 0, height = 0;
  std::vector<std::uint8_t> pixels;
};

constexpr std::size_t max_png_bytes = std::size_t{1} << 24;
constexpr std::uint32_t max_png_side = 1024;

/// Reads an image. Throws a BadRow "place: file: …" for an unreadable one.
Picture read_png(const fs::path& file, const std::string& place) {
  const auto fail = [&](const std::string& message) {
    throw BadRow(fmt::format("{}: {}: {}", place, printable_path(file), message));
  };
  std::error_code error;
  if (!fs::is_regular_file(file, error)) fail("no such file");
  if (const auto size = fs::file_size(file, error); error || size > max_png_bytes)
    fail(fmt::format("has more than {} bytes", max_png_bytes));
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_file(&image, file.c_str()) == 0)
    fail(fmt::format("no PNG image: {}", image.message));
  Picture picture{image.width, image.height, {}};
  if (image.width > max_png_side || image.height > max_png_side) {
    png_image_free(&image);
    fail(fmt::format("is {} x {} pixels, expected at most {} on a side", picture.width,
                     picture.height, max_png_side));
  }
  image.format = PNG_FORMAT_RGBA;            // the colour counts, however transparent
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // as in 8 bits, not as linear light
  std::vector<std::uint8_t> colours(PNG_IMAGE_SIZE(image));
  if (png_image_finish_read(&image, nullptr, colours.data(), 0, nullptr) == 0)
    fail(fmt::format("no whole PNG image: {}", image.message));
  for (std::size_t i = 0; i < colours.size(); i += 4)
    picture.pixels.push_back(grey(colours[i], colours[i + 1], colours[i + 2]));
  return picture;
}

}  // namespace

std::vector<std::string> cifar10_classes() {
  return {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
}

void read_cifar10(const fs::path& file, Labelled labelled, ExampleSink& sink) {
  const auto name = std::make_shared<const std::string>(printable_path(file));
  const auto source = open_byte_source(file);
  const std::vector<std::string> classes = cifar10_classes();
  std::int64_t number = 0;
  sink.take_all([&]() -> std::optional<Example> {
    std::vector<char> record(cifar_record);
    const std::size_t size = source->read(record);
    if (size == 0) return std::nullopt;
    require_input(size == cifar_record,
                  "{}: ends after {} bytes of image {}; an image of CIFAR-10's binary files has {}",
                  *name, size, number, cifar_record);
    Example example;
    example.file = name;
    example.id = std::to_string(number++);
    const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(record[i]); };
    for (std::size_t i = 1; i <= cifar_pixels; ++i)
      example.pixels.push_back(grey(byte(i), byte(i + cifar_pixels), byte(i + 2 * cifar_pixels)));
    if (labelled == Labelled::optional) return example;
    if (byte(0) >= classes.size())
      throw BadRow(fmt::format("{}: has the class {}, expected 0 to 9", example.place(), byte(0)));
    example.label = classes[byte(0)];
    example.labelled = true;
    return example;
  });
}

void read_pathfinder(const fs::path& file, Labelled labelled, ExampleSink& sink) {
  const auto name = std::make_shared<const std::string>(printable_path(file));
  const fs::path folder = fs::absolute(file).parent_path().parent_path();
  LineReader lines(file);
  std::uint32_t width = 0, height = 0;
  sink.take_all([&]() -> std::optional<Example> {
    std::string line;
    do {
      if (!lines.next(line)) return std::nullopt;
    } while (line.empty());
    Example example;
    example.file = name;
    example.line = lines.line();
    check_text(line, example.place());
    const auto words = words_between(line, " ");
    if (words.size() < 4 || (words[3] != "0" && words[3] != "1"))
      throw BadRow(
          fmt::format("{}: got '{}', expected a folder, a PNG file, a number and the label 0 or 1",
                      example.place(), printable(line, 60)));
    const fs::path image = fs::path(words[0]) / words[1];
    if (image.is_absolute() || std::ranges::find(image, fs::path("..")) != image.end())
      throw BadRow(fmt::format("{}: '{}' lies outside of the data set's folder", example.place(),
                               printable(image.string(), 60)));
    Picture picture = read_png(folder / image, example.place());
    if (width == 0) std::tie(width, height) = std::pair(picture.width, picture.height);
    if (picture.width != width || picture.height != height)
      throw BadRow(fmt::format("{}: the image is {} x {} pixels, those before it {} x {}",
                               example.place(), picture.width, picture.height, width, height));
    example.pixels = std::move(picture.pixels);
    example.labelled = labelled == Labelled::required;
    if (example.labelled) example.label = words[3];
    return example;
  });
}

std::uint8_t grey(std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  return static_cast<std::uint8_t>(
      std::floor((0.2989 * red + 0.5870 * green + 0.1140 * blue) * 255.5 / 255));
}

}  // namespace nystrom
