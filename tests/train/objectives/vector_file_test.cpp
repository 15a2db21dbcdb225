// Files of vectors: their bytes, their completion after an interruption, and damaged ones.
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"
#include "train/objectives/vector_file.h"
#include "train/state/safetensors.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

class VectorFileTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t rows = 5, width = 3;

  static VectorJob job(DType dtype = DType::f32) {
    return {"model", "options", "texts", {rows, width, dtype}};
  }
  /// Row r is (r, r + 0.25, r + 0.5).
  static Tensor vectors(std::int64_t begin, std::int64_t end) {
    std::vector<float> values;
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t i = 0; i < width; ++i)
        values.push_back(static_cast<float>(row) + 0.25F * static_cast<float>(i));
    return Tensor::from(values, {end - begin, width});
  }
  static std::vector<Example> examples(std::int64_t begin, std::int64_t end) {
    std::vector<Example> all;
    for (std::int64_t row = begin; row < end; ++row)
      all.emplace_back().text = "text " + std::to_string(row);
    return all;
  }
  static void add(VectorWriter& writer, std::int64_t begin, std::int64_t end) {
    writer.add(examples(begin, end), vectors(begin, end));
  }
  fs::path write(const char* name, const VectorJob& what) {
    VectorWriter writer(folder_ / name, what);
    add(writer, 0, rows);
    writer.finish();
    return folder_ / name;
  }
  static std::vector<double> read(const fs::path& path) {
    std::vector<double> all;
    read_vectors(path, 2, [&](const VectorBlock& block) {
      for (const double value : block.vectors.to_doubles()) all.push_back(value);
    });
    return all;
  }
  std::string problem(const std::string& name, const std::string& bytes) {
    write_bytes(folder_ / name, bytes);
    return message_of([&] { read(folder_ / name); });
  }

  TemporaryFolder folder_;
};

TEST_F(VectorFileTest, NpyHasNumpysHeader) {
  const std::string bytes = read_bytes(write("v.npy", job()));
  std::string header("\x93NUMPY\x01\x00\x76\x00", 10);
  header += "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 3), }";
  EXPECT_EQ(bytes.substr(0, header.size()), header);
  EXPECT_EQ(bytes.substr(header.size(), 128 - header.size()),
            std::string(127 - header.size(), ' ') + "\n");
  EXPECT_EQ(bytes.size(), 128U + rows * width * 4);
}

TEST_F(VectorFileTest, EveryFormIsReadBack) {
  const std::vector<double> expected = vectors(0, rows).to_doubles();
  for (const char* name : {"v.npy", "v.safetensors", "v.jsonl"}) {
    for (const DType dtype : {DType::f32, DType::f16}) {
      EXPECT_EQ(read(write(name, job(dtype))), expected) << name;
      fs::remove(folder_ / name);
    }
  }
}

TEST_F(VectorFileTest, JsonLinesMayEndInEmptyOnes) {
  write_bytes(folder_ / "v.jsonl", "{\"vector\": [1, 2]}\n\n\n");
  EXPECT_EQ(read(folder_ / "v.jsonl"), (std::vector<double>{1, 2}));
}

TEST_F(VectorFileTest, SafetensorsHaveChecksums) {
  const fs::path path = write("v.safetensors", job(DType::f16));
  const auto file = TensorFile::open(path);
  EXPECT_EQ(file.stored("vectors").dtype, DType::f16);
  EXPECT_EQ(file.read("vectors").to_doubles(), vectors(0, rows).to_doubles());
  std::string bytes = read_bytes(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  EXPECT_EQ(
      problem("v.safetensors", bytes),
      path.string() + ": tensor vectors is damaged: its checksum is not that in nystrom.integrity");
}

TEST_F(VectorFileTest, JsonLinesHaveTheTexts) {
  const std::string bytes = read_bytes(write("v.jsonl", job()));
  EXPECT_EQ(bytes.substr(0, bytes.find('\n')),
            "{\"text\": \"text 0\", \"vector\": [0, 0.25, 0.5]}");
  read_vectors(folder_ / "v.jsonl", 9,
               [](const VectorBlock& block) { EXPECT_EQ(block.examples.at(4).text, "text 4"); });
}

TEST_F(VectorFileTest, AnInterruptedFileIsCompletedToTheSameBytes) {
  for (const char* name : {"v.npy", "v.safetensors", "v.jsonl"}) {
    const std::string expected = read_bytes(write(name, job()));
    fs::remove(folder_ / name);
    {
      VectorWriter writer(folder_ / name, job());
      add(writer, 0, 2);
    }
    EXPECT_FALSE(fs::exists(folder_ / name));
    const fs::path partial = folder_ / (std::string(name) + ".partial");
    write_bytes(partial, read_bytes(partial) + "torn");  // written, but not yet known as done
    VectorWriter writer(folder_ / name, job());
    EXPECT_EQ(writer.done(), 2);
    add(writer, 2, rows);
    writer.finish();
    EXPECT_EQ(read_bytes(folder_ / name), expected) << name;
    EXPECT_FALSE(fs::exists(partial));
    EXPECT_FALSE(fs::exists(partial.string() + ".json"));
  }
}

TEST_F(VectorFileTest, ADamagedPartIsNotContinued) {
  const fs::path path = folder_ / "v.npy";
  {
    VectorWriter writer(path, job());
    add(writer, 0, 2);
  }
  const std::string partial = path.string() + ".partial";
  std::string bytes = read_bytes(partial);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_bytes(partial, bytes);
  EXPECT_EQ(message_of([&] { VectorWriter(path, job()); }),
            partial + ": is damaged: its vectors have another checksum than " + partial +
                ".json says; remove both files");
}

TEST_F(VectorFileTest, OtherWorkIsNotContinuedNorOverwritten) {
  const fs::path path = folder_ / "v.npy";
  const auto begin = [&](const VectorJob& what) {
    return message_of([&] { VectorWriter(path, what); });
  };
  ASSERT_EQ(begin(job()), "");
  const std::string partial = path.string() + ".partial";
  const auto refusal = [&](const char* what) {
    return partial + ": was begun with " + what + "; remove it and " + partial +
           ".json, or give --output another name";
  };
  VectorJob other = job();
  other.model = "other";
  EXPECT_EQ(begin(other), refusal("another model"));
  other = job();
  other.options = "other";
  EXPECT_EQ(begin(other), refusal("other options"));
  other = job();
  other.texts = "other";
  EXPECT_EQ(begin(other), refusal("other texts"));
  {
    const VectorWriter writer(path, job());
    EXPECT_EQ(begin(job()), partial + ": another process writes it");
  }
  const std::string state = read_bytes(partial + ".json");
  write_bytes(partial + ".json", "{}");
  EXPECT_EQ(begin(job()), partial +
                              ".json: is no record of nystrom embed; move it, or give "
                              "--output another name");
  write_bytes(partial + ".json", state);
  write_bytes(partial, "x");
  EXPECT_EQ(begin(job()),
            partial + ": has 1 bytes, and " + partial + ".json says 128; remove both files");
  write_bytes(path, "mine");
  EXPECT_EQ(begin(job()),
            path.string() + ": exists already; remove it, or give --output another name");
  EXPECT_EQ(read_bytes(path), "mine");
}

TEST_F(VectorFileTest, AFileOfOthersIsNotTakenForAPart) {
  const fs::path partial = folder_ / "v.npy.partial", state = folder_ / "v.npy.partial.json";
  write_bytes(partial, "mine");
  EXPECT_EQ(message_of([&] { VectorWriter(folder_ / "v.npy", job()); }),
            partial.string() + ": was not begun by nystrom embed, for " + state.string() +
                " is missing; move it, or give --output another name");
  EXPECT_EQ(read_bytes(partial), "mine");
  fs::remove(partial);
  write_bytes(state, "[]");
  EXPECT_EQ(
      message_of([&] { VectorWriter(folder_ / "v.npy", job()); }),
      state.string() + ": is no record of nystrom embed; move it, or give --output another name");
  EXPECT_EQ(read_bytes(state), "[]");
  EXPECT_FALSE(fs::exists(partial));
}

TEST_F(VectorFileTest, DamageIsRefused) {
  const std::string npy = read_bytes(write("good.npy", job()));
  const std::string name = (folder_ / "bad.npy").string();
  EXPECT_EQ(problem("bad.npy", "NUMPY"), name + ": is no npy file");
  EXPECT_EQ(problem("bad.npy", npy.substr(0, npy.size() - 1)),
            fmt::format("{}: [5, 3] numbers do not fit into its {} bytes: it is cut short", name,
                        npy.size() - 1));
  std::string huge = npy;
  huge.replace(huge.find("(5, 3), }"), 30, "(999999999999, 999999999), }  ");
  EXPECT_EQ(problem("bad.npy", huge),
            fmt::format("{}: [999999999999, 999999999] numbers do not fit into its {} bytes: it is "
                        "cut short",
                        name, huge.size()));
  // A shape of digits alone has one reading; tried in every way, it would take forever.
  std::string digits = npy;
  digits.replace(digits.find("5, 3), }"), 40, std::string(40, '0'));
  EXPECT_TRUE(problem("bad.npy", digits)
                  .starts_with(name + ": expected an array of numbers; its header is"));
  std::string infinite = npy;
  infinite.replace(128 + 4 * 4, 4, std::string("\x00\x00\x80\x7f", 4));
  EXPECT_EQ(problem("bad.npy", infinite), name + ": number 1 of vector 1 is not finite");
  const std::string lines = (folder_ / "bad.jsonl").string();
  EXPECT_EQ(problem("bad.jsonl", "{\"vector\": [1, 2]}\n{\"vector\": [1]}\n"),
            lines + ":2: the vector has 1 numbers, those before have 2");
  EXPECT_EQ(problem("bad.jsonl", "{\"vector\": [1, \"x\"]}\n"),
            lines + ":1: the vector holds \"x\", which is no number");
  EXPECT_EQ(problem("bad.jsonl", ""), lines + ": there are no vectors in it");
}

}  // namespace
}  // namespace nystrom::testing
