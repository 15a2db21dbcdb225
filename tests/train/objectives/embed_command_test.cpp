// nystrom embed, search and evaluate --retrieval, as a user calls them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/json.h"
#include "tests/support/program_test.h"
#include "tests/support/sanitized.h"
#include "tests/support/tiny_checkpoint.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

class EmbedCommandTest : public ProgramTest {
 protected:
  EmbedCommandTest() { write_lines(folder_ / "texts.txt", lines_); }

  std::string bytes_of(const char* name) { return read_bytes(folder_ / name); }

  TinyCheckpoint tiny_{folder_ / "model"};
  std::vector<std::string> lines_ = tiny_lines(400, 3);
};

TEST_F(EmbedCommandTest, KeepsTheOrderOfTexts) {
  std::istringstream out(run("embed model texts.txt 'the sea' --quiet").out);
  std::string line;
  for (const std::string& text : lines_) {
    ASSERT_TRUE(std::getline(out, line));
    EXPECT_EQ(parse_json(line, "line")["text"], text);
  }
  ASSERT_TRUE(std::getline(out, line));
  EXPECT_EQ(parse_json(line, "line")["text"], "the sea");
  EXPECT_FALSE(std::getline(out, line));
}

TEST_F(EmbedCommandTest, EveryFormHoldsTheSameVectors) {
  run("embed model texts.txt --output v.npy --quiet");
  run("embed model texts.txt --output v.safetensors --quiet --threads 1");
  run("embed model texts.txt --output v.jsonl --quiet --threads 2");
  const std::string npy = bytes_of("v.npy").substr(128), safetensors = bytes_of("v.safetensors");
  EXPECT_EQ(npy.size(), 400U * 6 * 4);
  EXPECT_TRUE(safetensors.ends_with(npy));
  EXPECT_EQ(bytes_of("v.jsonl"), run("embed model texts.txt --quiet").out);
  run("embed model texts.txt --output one.npy --batch 1 --quiet");
  EXPECT_EQ(bytes_of("one.npy"), bytes_of("v.npy"));
}

TEST_F(EmbedCommandTest, AKilledRunIsCompletedToTheSameBytes) {
  std::string texts;
  for (int i = 0; i < 40; ++i)
    for (const std::string& line : lines_) texts += line + "\n";
  write_bytes(folder_ / "many.txt", texts);
  const std::string command = "embed model many.txt --batch 4 --quiet --output ";
  run(command + "whole.npy");
  int interrupted = 0;
  for (int attempt = 0; attempt < 40 && !fs::exists(folder_ / "killed.npy"); ++attempt) {
    const pid_t process = start_command(folder_, program_word() + command + "killed.npy");
    std::this_thread::sleep_for(std::chrono::milliseconds(60 + 40 * attempt));
    ::kill(process, attempt % 2 == 0 ? SIGKILL : SIGTERM);
    const int code = outcome(process);
    EXPECT_TRUE(code == 0 || code == 130 || code == -SIGKILL || code == -SIGTERM) << code;
    interrupted += code != 0;
  }
  EXPECT_GT(interrupted, 0);
  if (!fs::exists(folder_ / "killed.npy")) run(command + "killed.npy");
  EXPECT_EQ(bytes_of("killed.npy"), bytes_of("whole.npy"));
  EXPECT_FALSE(fs::exists(folder_ / "killed.npy.partial"));
}

TEST_F(EmbedCommandTest, AMegabyteOfOneTextNeedsLittleMemory) {
  if (sanitized) GTEST_SKIP() << "sanitizers reserve addresses";
  std::string text;
  while (text.size() < 1'000'000) text += lines_[text.size() % 400] + " ";
  write_bytes(folder_ / "long.txt", text + "\n");
  // Most of these addresses are the program's and its libraries'.
  const Outcome outcome = succeeded(
      run_command(folder_, "sh -c 'ulimit -v 1500000; exec " + build_folder().string() +
                               "/nystrom embed model long.txt --threads 1 --output v.npy'"));
  expect_says(outcome.err,
              "note: 1 of 1 texts have more than 24 tokens: their vectors are means over windows");
}

TEST_F(EmbedCommandTest, SearchFindsATextItself) {
  run("embed model texts.txt --output v.npy --quiet");
  run("embed model texts.txt --output v.jsonl --quiet");
  for (const std::string corpus : {"v.npy", "v.npy --texts texts.txt", "v.jsonl", "texts.txt"}) {
    const std::string out =
        run("search model " + corpus + " '" + lines_[7] + "' --json --top-k 3").out;
    const auto found = parse_json(out, corpus);
    EXPECT_EQ(found["query"], lines_[7]);
    ASSERT_EQ(found["neighbours"].size(), 3U);
    EXPECT_NEAR(found["neighbours"][0]["score"].get<double>(), 1, 1e-6);
    if (corpus != "v.npy") {
      EXPECT_EQ(found["neighbours"][0]["text"], lines_[7]) << corpus;
    } else {
      EXPECT_FALSE(found["neighbours"][0].contains("text"));
    }
  }
}

TEST_F(EmbedCommandTest, DocumentsAreKnownByTheirNames) {
  write_bytes(folder_ / "docs/a.txt", "the sea\nwas calm\n");
  write_bytes(folder_ / "docs/b.txt", "old ships\n");
  run("embed model docs --document --output v.jsonl --quiet");
  const std::string text = bytes_of("v.jsonl");
  EXPECT_TRUE(text.starts_with("{\"document\": \"docs/a.txt\", \"vector\": [")) << text;
  const std::string out = run("search model v.jsonl 'old ships' --top-k 1").out;
  EXPECT_EQ(out, "old ships\n  1.0000  docs/b.txt\n");
}

TEST_F(EmbedCommandTest, EvaluatesABeirFolder) {
  write_bytes(folder_ / "beir/queries.jsonl", "{\"_id\": \"q\", \"text\": \"old ships\"}\n");
  write_bytes(folder_ / "beir/corpus.jsonl",
              "{\"_id\": \"a\", \"text\": \"old ships\"}\n{\"_id\": \"b\", \"text\": \"men\"}\n");
  write_bytes(folder_ / "beir/qrels/test.tsv", "query-id\tcorpus-id\tscore\nq\ta\t1\n");
  EXPECT_EQ(run("evaluate model --retrieval beir --json --quiet").out,
            "{\"queries\":1,\"documents\":2,\"ndcg_at_10\":1.0,\"mrr_at_10\":1.0,"
            "\"recall_at_100\":1.0,\"map_at_100\":1.0}\n");
}

TEST_F(EmbedCommandTest, WrongInputsAreRefused) {
  run("embed model texts.txt --output v.npy --quiet");
  write_bytes(folder_ / "short.txt", "the sea\n");
  write_bytes(folder_ / "table.tsv", "sentence\nthe sea\n");
  const std::pair<const char*, const char*> cases[] = {
      {"embed model texts.txt --output v.txt",
       "v.txt: its ending tells no form of vectors; expected .npy, .safetensors or .jsonl"},
      {"embed model texts.txt --output v.npy",
       "v.npy: exists already; remove it, or give --output another name"},
      {"embed model absent.txt",
       "absent.txt: no such file or folder; --as-text takes it for a text"},
      {"embed model ''", "TEXT is empty; give a text, or the name of a file"},
      {"embed model model",
       "model: is a folder, and --document reads each file in it as one text; "
       "give a text, or the name of a file; --as-text takes it for a text"},
      {"embed model texts.txt --dimensions 7",
       "7 dimensions: the vectors of this model have 6; choose at most as many"},
      {"embed model texts.txt --set data.sequence_length=30",
       "--set data.sequence_length=30: data.sequence_length 30 exceeds "
       "model.max_position_embeddings 24; shorten the sequences or enlarge the model's position "
       "table"},
      {"embed model texts.txt --set task.kind=tokens",
       "--set task.kind=tokens: vectors are made of single texts; leave it out"},
      {"embed model texts.txt --set optimizer.learning_rate=1",
       "--set optimizer.learning_rate=1: this command takes options of model, task, data"},
      {"search model absent.npy 'the sea'", "absent.npy: cannot open: No such file or directory"},
      {"search model absent 'the sea'", "absent: no such file or folder"},
      {"search model v.npy 'the sea' --dimensions 3",
       "v.npy: its vectors have 6 numbers, those of the queries 3; give the model and the "
       "--dimensions that made the file"},
      {"search model v.npy 'the sea' --texts short.txt",
       "short.txt: has 1 texts, and v.npy has 400 vectors"},
      {"search model texts.txt 'the sea' --texts short.txt",
       "--texts has the texts of a file of vectors, and texts.txt is none; leave it out"},
      {"search model v.npy 'the sea' --document",
       "--document reads texts, and v.npy has vectors; leave it out, or name the texts of the "
       "vectors in --texts"},
      {"evaluate model --retrieval absent",
       "absent/queries.jsonl: no such file; absent is no folder of BEIR's form: queries.jsonl, "
       "corpus.jsonl and qrels/*.tsv"},
      {"evaluate model --retrieval a --pairs b",
       "--retrieval and --pairs are given; --text and --minimal-pairs are for masked language "
       "models, --file for tasks, "
       "--retrieval, --pairs and --classify for vectors; give one of them"},
      {"evaluate model --text a --split dev",
       "--split requires --retrieval; see nystrom evaluate --help"},
      {"evaluate model --text a --document",
       "--document requires --file; see nystrom evaluate --help"},
      {"evaluate model --text a --dimensions 3",
       "--dimensions is for --retrieval, --pairs and --classify; with --text leave it out"},
      {"evaluate model --classify a.tsv",
       "--classify requires --test; see nystrom evaluate --help"},
      {"evaluate model --text a --test b",
       "--test requires --classify; see nystrom evaluate --help"},
      {"evaluate model --text a --good b",
       "--good requires --minimal-pairs; see nystrom evaluate --help"},
  };
  for (const auto& [arguments, message] : cases)
    expect_refused(std::string(arguments) + " --quiet", message);
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    expect_hides(entry.path().string(), ".partial");
}

}  // namespace
}  // namespace nystrom::testing
