#include <gtest/gtest.h>

#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"
#include "train/state/model_weights.h"
#include "train/state/pickle.h"
#include "train/state/safetensors.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;
using testing::source_folder;

/// A file that PyTorch wrote (make.py).
fs::path written_by_pytorch(const std::string& name) {
  return source_folder() / "tests/train/state/state_dicts" / name;
}

class StateDict : public ::testing::TestWithParam<const char*> {
 protected:
  const TensorFile file_ =
      TensorFile::open(written_by_pytorch(GetParam()), TensorFormat::state_dict);

  std::vector<double> values(const std::string& name) { return file_.read(name).to_doubles(); }
};
INSTANTIATE_TEST_SUITE_P(Forms, StateDict,
                         ::testing::Values("zip.bin", "legacy.bin", "protocol4.bin",
                                           "legacy4.bin"));

TEST_P(StateDict, HasTheValuesOfEachTensor) {
  EXPECT_EQ(values("plain"), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(values("transposed"), (std::vector<double>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  EXPECT_EQ(values("row"), (std::vector<double>{4, 5, 6, 7}));
  EXPECT_EQ(values("parameter"), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(values("positions"), (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(values("flags"), (std::vector<double>{1, 0}));
  EXPECT_EQ(values("scalar"), (std::vector<double>{7}));
  for (const char* name : {"half", "bfloat", "double"}) EXPECT_EQ(values(name), values("plain"));
}

TEST_P(StateDict, HasTheTypeAndShapeOfEachTensor) {
  EXPECT_EQ(file_.stored("transposed").shape, (Shape{4, 3}));
  EXPECT_EQ(file_.stored("positions").shape, (Shape{1, 3}));
  EXPECT_EQ(file_.stored("scalar").shape, Shape{});
  EXPECT_EQ(file_.stored("empty").shape, (Shape{0, 3}));
  EXPECT_EQ(file_.stored("bfloat").dtype, DType::bf16);
  EXPECT_EQ(file_.stored("integers").dtype, DType::i64);
}

TEST_P(StateDict, LeavesOutWhatIsNoTensor) {
  EXPECT_EQ(file_.tensors().size(), 12u);
  EXPECT_FALSE(file_.contains("epoch"));
}

TEST_P(StateDict, AFileThatIsCutOffIsRefused) {
  const TemporaryFolder folder;
  const std::string whole = read_bytes(written_by_pytorch(GetParam()));
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 7) {
    write_bytes(folder / "cut.bin", whole.substr(0, bytes));
    EXPECT_NE(input_error([&] { TensorFile::open(folder / "cut.bin", TensorFormat::state_dict); }),
              "no error")
        << bytes;
  }
}

using StateDicts = FolderTest;

TEST_F(StateDicts, AttributesOfModulesAreIgnored) {
  const auto file = TensorFile::open(written_by_pytorch("module.bin"), TensorFormat::state_dict);
  EXPECT_EQ(file.read("weight").to_doubles(), (std::vector<double>{1, 1, 1, 1}));
}

TEST_F(StateDicts, AFlippedBitOfAnArchiveIsFound) {
  std::string bytes = read_bytes(written_by_pytorch("module.bin"));
  const std::size_t ones = bytes.find(std::string("\0\0\x80\x3f\0\0\x80\x3f", 8));
  ASSERT_NE(ones, std::string::npos);
  bytes[ones] ^= 1;
  write_bytes(folder_ / "pytorch_model.bin", bytes);
  const auto weights = ModelWeights::open(folder_.path());
  EXPECT_EQ(input_error([&] { weights.read("weight"); }),
            (folder_ / "pytorch_model.bin").string() +
                ": tensor weight is damaged: its CRC-32 is not that of the archive");
}

/// The names of storages, and a storage of which tensors are parts.
TEST_F(StateDicts, AFlippedBitIsFoundInEveryEntryThatIsRead) {
  const std::string whole = read_bytes(written_by_pytorch("zip.bin"));
  const auto pickle = whole.find("torch._utils"), parts = whole.find("FB", whole.find("data/0"));
  ASSERT_NE(pickle, std::string::npos);
  ASSERT_NE(parts, std::string::npos);
  for (const auto& [place, name] :
       {std::pair(pickle, "zip/data.pkl"), std::pair(whole.find("\x80\x3f", parts), "data/0")}) {
    std::string bytes = whole;
    bytes[place] ^= 1;
    write_bytes(folder_ / "flipped.bin", bytes);
    EXPECT_EQ(
        input_error([&] { TensorFile::open(folder_ / "flipped.bin", TensorFormat::state_dict); }),
        (folder_ / "flipped.bin").string() + ": its entry " + name +
            " is damaged: its CRC-32 is not that of the archive");
  }
}

TEST_F(StateDicts, ShardsAreReadByTheirIndex) {
  fs::copy_file(written_by_pytorch("module.bin"), folder_ / "pytorch_model-00001-of-00001.bin");
  write_bytes(folder_ / "pytorch_model.bin.index.json",
              R"({"weight_map": {"weight": "pytorch_model-00001-of-00001.bin",
                                 "bias": "pytorch_model-00001-of-00001.bin"}})");
  EXPECT_EQ(ModelWeights::open(folder_.path()).names(),
            (std::vector<std::string>{"bias", "weight"}));
}

TEST_F(StateDicts, SafetensorsComeFirst) {
  fs::copy_file(written_by_pytorch("module.bin"), folder_ / "pytorch_model.bin");
  write_safetensors(folder_ / "model.safetensors", {{"a", Tensor::from<float>({1}, {1})}});
  EXPECT_EQ(ModelWeights::open(folder_.path()).names(), std::vector<std::string>{"a"});
}

TEST_F(StateDicts, OtherFilesAreNamed) {
  const auto said = [&](const std::string& bytes) {
    write_bytes(folder_ / "pytorch_model.bin", bytes);
    const std::string message = input_error([&] { ModelWeights::open(folder_.path()); });
    return message.substr(message.find("bin: ") + 5);
  };
  EXPECT_EQ(said("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
            "is a pointer of Git LFS, not the weights: fetch them with git lfs pull");
  EXPECT_EQ(said("<html>"), "is no file of torch.save: it begins with \"<html>\"");
  EXPECT_EQ(said(""), "is no file of torch.save: it begins with \"\"");
}

TEST_F(StateDicts, ParametersInParametersAreRefused) {
  std::string dict = "\x80\x02}U\x01w";
  for (int depth = 0; depth < 200'000; ++depth) dict += "ctorch._utils\n_rebuild_parameter\n(";
  dict += "}";
  for (int depth = 0; depth < 200'000; ++depth) dict += "tR";
  write_bytes(folder_ / "pytorch_model.bin",
              std::string("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.") +
                  "\x80\x02M\xe9\x03.\x80\x02}." + dict + "s.\x80\x02].");
  EXPECT_EQ(input_error([&] { ModelWeights::open(folder_.path()); }),
            (folder_ / "pytorch_model.bin").string() +
                ": tensor w: is made by torch._utils._rebuild_parameter");
}

/// The message about a pickle of these operations.
std::string refusal(const std::string& operations) {
  return input_error([&] { parse_pickle(operations); });
}

TEST(Pickles, FunctionsAreNamedAndNotCalled) {
  EXPECT_EQ(refusal("cos\nsystem\n(S'ls'\ntR."),
            "its pickle names os.system, which a state dict does not need; it is not executed; "
            "save model.state_dict() alone, of plain tensors");
  for (const std::string name :
       {"builtins\neval", "torch\nload", "torch._utils\n_rebuild_sparse_tensor",
        "torch.storage\nUntypedStorage", "numpy.core.multiarray\nscalar", "torch\nx.Storage"})
    EXPECT_NE(refusal("c" + name + "\n."), "no error") << name;
}

TEST(Pickles, OperationsOutsideOfAStateDictAreRefused) {
  for (const char operation : {'i', 'o', '\x81', 'P', 'I', '\x82', '\x8f'})
    EXPECT_NE(refusal(std::string("(") + operation + "."), "no error") << operation;
}

TEST(Pickles, DamagedOnesAreRefused) {
  for (const std::string operations :
       {"", "K", "t.", "(", ".", "h\x05.", "}s.", "}K\x01s.",
        "K\x01"
        "a.",
        ")R.", "K\x01Q.", "X\xff\xff\xff\x7f.", "U\x01\xff.", "N}b.", "\x8a\x09\x01."})
    EXPECT_NE(refusal(operations), "no error") << operations;
}

TEST(Pickles, AFewBytesCannotMakeMany) {
  // The arguments of a call, a tuple of 2,000, are kept as 1 and used again and again.
  std::string operations = "(" + std::string(2000, 'N') + "tq\x01";
  operations += "ctorch._utils\n_rebuild_tensor\nq\x02";
  for (int i = 0; i < 20'000; ++i) operations += "h\x02h\x01R";
  EXPECT_EQ(refusal(operations + "."), "its pickle has more than 16777216 entries");
}

TEST(Pickles, PythonTwoGivesADictAsPairs) {
  const Pickle pickle = parse_pickle(
      "ccollections\nOrderedDict\n(](](U\x01"
      "aK\x05"
      "eetR.");
  const PickleObject& dict = pickle[pickle.root];
  ASSERT_EQ(dict.kind, PickleKind::dict);
  ASSERT_EQ(dict.items.size(), 2u);
  EXPECT_EQ(pickle[dict.items[0]].text, "a");
  EXPECT_EQ(pickle[dict.items[1]].integer, 5);
}

}  // namespace
}  // namespace nystrom
