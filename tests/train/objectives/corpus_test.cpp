// Preparation of text files: the tokenizer and the data sets of a run.
#include "train/objectives/corpus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "tests/support/small_text.h"
#include "tests/support/temporary_folder.h"  // before nystrom::testing is opened
#include "train/config/config_io.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

class CorpusTest : public ::testing::Test {
 protected:
  void SetUp() override { testing::write_small_text(folder_ / "text.txt"); }

  std::string place(const char* name) const { return (folder_ / name).string(); }
  Corpus prepare(const std::string& data) { return prepare(data, place("text.txt"), 42); }
  /// `sources`: the files, as YAML.
  Corpus prepare(const std::string& data, const std::string& sources, int seed) {
    const std::string path = (folder_ / "run.yaml");
    std::ofstream(path) << "seed: " << seed << "\ntokenizer: {train: {vocab_size: 32}}\n"
                        << "data: {train: [" << sources << "], sequence_length: 32, "
                        << "cache: " << (folder_ / "cache").string() << ", " << data << "}\n";
    Log quiet(true);
    Communicator alone;
    return prepare_corpus(read_run(config_file(path)), quiet, alone);
  }
  std::vector<std::string> lines() {
    std::ifstream file(folder_ / "text.txt");
    std::vector<std::string> result;
    for (std::string line; std::getline(file, line);) result.push_back(line);
    return result;
  }
  /// Reverses the characters of the lines for which is(line) is true.
  template <class Is>
  void turn_lines(const Is& is) {
    std::vector<std::string> all = lines();
    std::ofstream file(folder_ / "text.txt");
    for (std::string& line : all) {
      if (is(line)) std::reverse(line.begin(), line.end());
      file << line << '\n';
    }
  }

  TemporaryFolder folder_;
};

std::set<std::string> documents_of(const TokenDataset& dataset, const Tokenizer& tokenizer) {
  std::set<std::string> texts;
  std::vector<std::int64_t> starts = dataset.document_starts(0, dataset.documents());
  starts.push_back(dataset.tokens());
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const auto ids = dataset.read(starts[i], starts[i + 1] - starts[i]);
    texts.insert(tokenizer.decode(std::vector<std::int32_t>(ids.begin(), ids.end())));
  }
  return texts;
}

TEST_F(CorpusTest, TheTokenizerDoesNotSeeWhatIsHeldOut) {
  const std::string data = "validation_fraction: 0.2, documents: lines";
  const Corpus first = prepare(data);
  const std::set<std::string> held_out =
      documents_of(*first.validation[0].tokens, *first.tokenizer);
  ASSERT_GT(held_out.size(), 30u);
  const auto is_held_out = [&](const std::string& line) {
    return held_out.count(line.substr(0, line.find_last_not_of(' ') + 1)) > 0;
  };
  const std::string model = read_bytes(first.tokenizer_folder / "tokenizer.json");
  turn_lines(is_held_out);
  const Corpus second = prepare(data);
  EXPECT_NE(second.tokenizer_folder, first.tokenizer_folder) << "the text has changed";
  EXPECT_EQ(read_bytes(second.tokenizer_folder / "tokenizer.json"), model);
  turn_lines([&](const std::string& line) { return !is_held_out(line); });
  EXPECT_NE(read_bytes(prepare(data).tokenizer_folder / "tokenizer.json"), model);
}

TEST_F(CorpusTest, AnotherFractionIsAnotherTokenizer) {
  const auto folder = [&](const char* fraction) {
    return prepare(std::string("validation_fraction: ") + fraction + ", documents: lines")
        .tokenizer_folder;
  };
  EXPECT_EQ(folder("0.1"), folder("0.1"));
  EXPECT_NE(folder("0.1"), folder("0.2"));
}

TEST_F(CorpusTest, OfFewFilesStretchesAreHeldOut) {
  const Corpus corpus = prepare("validation_fraction: 0.1, documents: files");
  const TokenDataset &train = *corpus.train[0].tokens, &held_out = *corpus.validation[0].tokens;
  const auto all = static_cast<double>(train.tokens() + held_out.tokens());
  EXPECT_NEAR(static_cast<double>(held_out.tokens()) / all, 0.1, 0.05);
  EXPECT_GE(held_out.documents(), 3);
  EXPECT_LE(train.documents(), held_out.documents() + 1) << "all else is in one piece";
}

TEST_F(CorpusTest, EachGroupOfDocumentsHoldsOutOne) {
  const Corpus corpus = prepare("validation_fraction: 0.2, documents: lines");
  const std::int64_t all =
      corpus.train[0].tokens->documents() + corpus.validation[0].tokens->documents();
  EXPECT_NEAR(static_cast<double>(corpus.validation[0].tokens->documents()),
              static_cast<double>(all) / 5, 1);
}

TEST_F(CorpusTest, EachSourceHoldsOutSomeOfItsOwn) {
  const std::vector<std::string> all = lines();
  for (const char* name : {"a.txt", "b.txt"}) {
    std::ofstream file(folder_ / name);
    for (int i = 0; i < 25; ++i) file << all[i] << '\n';
  }
  for (int seed = 1; seed < 9; ++seed) {
    const Corpus corpus = prepare("validation_fraction: 0.05, documents: lines",
                                  fmt::format("{{files: {}, name: a}}, {{files: {}, name: b}}",
                                              place("a.txt"), place("b.txt")),
                                  seed);
    for (const CorpusSource& source : corpus.validation)
      EXPECT_GE(source.tokens->documents(), 1) << source.name << ", seed " << seed;
  }
}

TEST_F(CorpusTest, TextIsTokenizedAsAWhole) {
  std::string text;  // without spaces, where a tokenizer tells pieces from the whole
  for (const std::string& line : lines()) text += line;
  std::erase(text, ' ');
  for (const char* name : {"text.txt", "other.txt"}) std::ofstream(folder_ / name) << text;
  const auto tokens_beyond = [&](const std::string& data) {
    const Corpus corpus = prepare(data + ", documents: files");
    const TokenDataset &train = *corpus.train[0].tokens, &held_out = *corpus.validation[0].tokens;
    const std::int64_t all = std::ssize(corpus.tokenizer->encode(text));
    if (data.starts_with("validation:")) return train.tokens() - all;
    const std::int64_t cuts = train.documents() + held_out.documents();
    return train.tokens() + held_out.tokens() - all - 3 * cuts;  // a mark, and a word in two
  };
  EXPECT_EQ(tokens_beyond("validation: [" + place("other.txt") + "]"), 0);
  EXPECT_LE(tokens_beyond("validation_fraction: 0.1"), 0);
}

TEST_F(CorpusTest, AFractionThatLeavesNothing) {
  std::string all;
  for (const std::string& line : lines()) all += line + ' ';
  std::ofstream(folder_ / "text.txt") << all << '\n';
  for (const char* fraction : {"0.01", "1e-20", "1e-300"})
    EXPECT_EQ(input_error([&] {
                prepare(std::string("validation_fraction: ") + fraction + ", documents: lines");
              }),
              "the held-out part of data.train: of 1 documents data.validation_fraction gives none "
              "to this data set; name data.validation, or choose another fraction");
}

}  // namespace
}  // namespace nystrom
