// Images: CIFAR-10's binary batches, and Pathfinder's metadata with PNG files.
#include "data/tasks/example_files.h"

#include <gtest/gtest.h>
#include <png.h>

#include "data/tasks/task_dataset.h"
#include "data/tokenizers/builtin_tokenizer.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

using Pixels = std::vector<std::uint8_t>;

/// A CIFAR-10 image with one colour.
std::string record(int label, int red, int green, int blue) {
  std::string bytes(1, static_cast<char>(label));
  for (const int colour : {red, green, blue}) bytes += std::string(1024, static_cast<char>(colour));
  return bytes;
}

template <class Samples = Pixels>
void write_png(const fs::path& file, std::uint32_t width, std::uint32_t height,
               const Samples& samples, std::uint32_t format) {
  fs::create_directories(file.parent_path());
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = format;
  ASSERT_NE(png_image_write_to_file(&image, file.c_str(), 0, samples.data(), 0, nullptr), 0)
      << image.message;
}

std::vector<Example> examples_of(const char* recipe, const fs::path& file,
                                 Labelled labelled = Labelled::required) {
  TaskConfig task{.recipe = recipe, .bad_rows = BadRows::stop};
  std::vector<Example> examples;
  SkippedRows skipped;
  for_each_example(resolve_task(task), {file.string()}, labelled, skipped,
                   [&](Example&& example) { examples.push_back(std::move(example)); });
  return examples;
}

TEST(Grey, IsTensorFlows) {
  for (int value = 0; value < 256; ++value) EXPECT_EQ(grey(value, value, value), value);
  EXPECT_EQ(grey(255, 0, 0), 76);
  EXPECT_EQ(grey(0, 255, 0), 149);
  EXPECT_EQ(grey(0, 0, 255), 29);
  EXPECT_EQ(grey(12, 200, 99), 132);
}

TEST(Cifar10, ImagesAreGreyRowByRow) {
  const TemporaryFolder folder;
  std::string second = record(9, 0, 0, 0);
  for (const std::size_t plane : {0, 1, 2})
    second[1 + plane * 1024 + 33] = static_cast<char>(200);  // row 1, column 1
  write_bytes(folder / "batch.bin", record(3, 255, 0, 0) + second);
  const auto images = examples_of("cifar10", folder / "batch.bin");
  ASSERT_EQ(images.size(), 2);
  EXPECT_EQ(images[0].label, "cat");
  EXPECT_EQ(images[0].pixels, Pixels(1024, 76));
  EXPECT_EQ(images[1].label, "truck");
  EXPECT_EQ(images[1].pixels[33], 200);
  EXPECT_EQ(std::count(images[1].pixels.begin(), images[1].pixels.end(), 0), 1023);
  EXPECT_EQ(images[1].place(), (folder / "batch.bin").string() + ": image 1");
}

TEST(Cifar10, WhatIsWrong) {
  const TemporaryFolder folder;
  const std::string file = (folder / "batch.bin").string();
  write_bytes(file, record(3, 1, 2, 3) + record(10, 1, 2, 3));
  EXPECT_EQ(input_error([&] { examples_of("cifar10", file); }),
            file + ": image 1: has the class 10, expected 0 to 9");
  EXPECT_EQ(examples_of("cifar10", file, Labelled::optional).size(), 2);
  write_bytes(file, record(3, 1, 2, 3) + "abc");
  EXPECT_EQ(input_error([&] { examples_of("cifar10", file); }),
            file + ": ends after 3 bytes of image 1; an image of CIFAR-10's binary files has 3073");
  write_bytes(file, "");
  EXPECT_EQ(input_error([&] { examples_of("cifar10", file); }),
            file + ": there is no example in it");
}

TEST(Images, AreTokensOfTheByteTokenizer) {
  const TemporaryFolder folder;
  const std::string file = (folder / "batch.bin").string();
  write_bytes(file, record(0, 0, 0, 0) + record(1, 255, 255, 255) + record(2, 0, 0, 0));
  TaskConfig task{.recipe = "cifar10"};
  task = resolve_task(task);
  const auto bytes = make_builtin_tokenizer(BuiltinTokenizer::bytes);
  const TaskDataset dataset = TaskDataset::read(TaskEncoder(task, task_labels(task), *bytes, 1024),
                                                {file}, Labelled::required, false);
  EXPECT_EQ(dataset.sample(0).rows[0].ids, std::vector<std::int32_t>(1024, 1));
  EXPECT_EQ(dataset.sample(1).rows[0].ids, std::vector<std::int32_t>(1024, 256));
  EXPECT_EQ(dataset.sample(1).label, 1);
  EXPECT_NE(dataset.digests()[0], dataset.digests()[1]);
  EXPECT_EQ(dataset.digests()[0], dataset.digests()[2]);
}

class PathfinderTest : public FolderTest {
 protected:
  void SetUp() override {
    write_png(folder_ / "imgs/0/sample_0.png", 3, 2, {0, 50, 100, 150, 200, 255}, PNG_FORMAT_GRAY);
    write_png(folder_ / "imgs/0/sample_1.png", 3, 2,
              {255, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5}, PNG_FORMAT_RGB);
    write_png(folder_ / "imgs/0/small.png", 2, 2, {1, 2, 3, 4}, PNG_FORMAT_GRAY);
  }
  std::vector<Example> read(const std::string& lines) {
    write_bytes(folder_ / "metadata/0.npy", lines);
    return examples_of("pathfinder", folder_ / "metadata/0.npy");
  }
  std::string wrong(const std::string& lines) {
    return error_in_dir([&] { read(lines); });
  }
};

TEST_F(PathfinderTest, ReadsTheImagesThatTheMetadataName) {
  const auto images = read("imgs/0 sample_0.png 0 1 0.1 14 2\nimgs/0 sample_1.png 1 0 0.1 14 2\n");
  ASSERT_EQ(images.size(), 2);
  EXPECT_EQ(images[0].label, "1");
  EXPECT_EQ(images[0].pixels, (Pixels{0, 50, 100, 150, 200, 255}));
  EXPECT_EQ(images[1].label, "0");
  EXPECT_EQ(images[1].pixels, (Pixels{76, 1, 2, 3, 4, 5}));
}

/// In 16 bits a picture has the numbers of 8 bits, finer, unless it says that they are of light.
TEST_F(PathfinderTest, SixteenBitsAreReadAsEight) {
  std::vector<std::uint16_t> samples;
  for (const int level : {0, 50, 100, 150, 200, 255})
    samples.push_back(static_cast<std::uint16_t>(257 * level));
  write_png(folder_ / "imgs/0/deep.png", 3, 2, samples, PNG_FORMAT_LINEAR_Y);
  std::string bytes = read_bytes(folder_ / "imgs/0/deep.png");
  ASSERT_EQ(bytes[24], 16) << "bits a sample";
  for (const auto& [chunk, size] : {std::pair("gAMA", 16), {"cHRM", 44}})
    if (const std::size_t at = bytes.find(chunk); at != bytes.npos) bytes.erase(at - 4, size);
  write_bytes(folder_ / "imgs/0/deep.png", bytes);
  EXPECT_EQ(read("imgs/0 deep.png 0 1 0.1 14 2\n").at(0).pixels,
            (Pixels{0, 50, 100, 150, 200, 255}));
}

/// A picture is no text, from which marks of its encoding would be dropped.
TEST_F(PathfinderTest, ByteOrderMarksWithinAPictureStay) {
  std::string bytes = read_bytes(folder_ / "imgs/0/sample_0.png");
  constexpr char comment[] = "\0\0\0\x06tEXta\0\n\xEF\xBB\xBF\x44\x8D\x65\xFF";
  bytes.insert(bytes.size() - 12, comment, sizeof comment - 1);  // before the last chunk
  write_bytes(folder_ / "imgs/0/marked.png", bytes);
  EXPECT_EQ(read("imgs/0 marked.png 0 1 0.1 14 2\n").at(0).pixels,
            (Pixels{0, 50, 100, 150, 200, 255}));
}

TEST_F(PathfinderTest, ItsRecipePassesOverEmptyFiles) {
  write_bytes(folder_ / "imgs/0/empty.png", "");
  write_bytes(folder_ / "metadata/0.npy", "imgs/0 empty.png 0 1\nimgs/0 sample_0.png 0 1\n");
  TaskConfig task{.recipe = "pathfinder"};
  SkippedRows skipped;
  int read = 0;
  for_each_example(resolve_task(task), {(folder_ / "metadata/0.npy").string()}, Labelled::required,
                   skipped, [&](const Example&) { ++read; });
  EXPECT_EQ(read, 1);
  EXPECT_EQ(skipped.count, 1);
}

TEST_F(PathfinderTest, WhatIsWrong) {
  EXPECT_EQ(wrong(""), "DIR/metadata/0.npy: there is no example in it");
  EXPECT_EQ(wrong("imgs/0 sample_0.png 0\n"),
            "DIR/metadata/0.npy:1: got 'imgs/0 sample_0.png 0', expected a folder, a PNG file, a "
            "number and the label 0 or 1");
  EXPECT_EQ(wrong("imgs/0 sample_0.png 0 2\n"),
            "DIR/metadata/0.npy:1: got 'imgs/0 sample_0.png 0 2', expected a folder, a PNG file, a "
            "number and the label 0 or 1");
  EXPECT_EQ(wrong("imgs/0 sample_0.png 0 1\nimgs/0 sample_9.png 0 1\n"),
            "DIR/metadata/0.npy:2: DIR/imgs/0/sample_9.png: no such file");
  EXPECT_EQ(wrong("imgs/0 sample_0.png 0 1\nimgs/0 small.png 0 1\n"),
            "DIR/metadata/0.npy:2: the image is 2 x 2 pixels, those before it 3 x 2");
  EXPECT_EQ(wrong("imgs/.. sample_0.png 0 1\n"),
            "DIR/metadata/0.npy:1: 'imgs/../sample_0.png' lies outside of the data set's folder");
  EXPECT_EQ(wrong("\x93NUMPY\x01"),
            "DIR/metadata/0.npy:1: byte 1 is not UTF-8 (\\x93); if the file is Latin-1, convert "
            "it, as with iconv -f WINDOWS-1252 -t UTF-8");
}

TEST_F(PathfinderTest, DamagedPictures) {
  write_bytes(folder_ / "imgs/0/text.png", "no picture");
  EXPECT_TRUE(wrong("imgs/0 text.png 0 1\n")
                  .starts_with("DIR/metadata/0.npy:1: DIR/imgs/0/text.png: no PNG image: "));
  const std::string whole = read_bytes(folder_ / "imgs/0/sample_0.png");
  write_bytes(folder_ / "imgs/0/cut.png", whole.substr(0, whole.size() - 30));
  EXPECT_TRUE(wrong("imgs/0 cut.png 0 1\n")
                  .starts_with("DIR/metadata/0.npy:1: DIR/imgs/0/cut.png: no whole PNG image: "));
  /// Any wrong byte gives an image or an error, but never a crash.
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
    write_bytes(folder_ / "imgs/0/damaged.png", damaged);
    wrong("imgs/0 damaged.png 0 1\n");
  }
}

}  // namespace
}  // namespace nystrom
