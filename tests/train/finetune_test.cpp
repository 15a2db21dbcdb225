// The whole of fine-tuning, through the program: every kind of task learns a toy, killed runs end in the same bits, and what was trained is
// evaluated, predicts, and is read back.
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "core/file_io.h"
#include "tests/train/run_program.h"
#include "tests/train/tiny_checkpoint.h"
#include "train/config_io.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// What every toy of text has: a model of one layer from scratch.
const std::string tiny_model =
    "model: {hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 32, max_position_embeddings: 32, "
    "initializer_range: 0.1, hidden_dropout_prob: 0.0, attention: {num_landmarks: 8, conv_kernel_size: 3}}\n"
    "tokenizer: {path: tokenizer}\n"
    "data: {sequence_length: 32}\n"
    "run_dir: run\n"
    "optimizer: {learning_rate: 3.0e-3}\n"
    "logging: {tensorboard: false}\n"
    "training: {dtype: f32, batch_size: 16, micro_batch_size: 8, ";

/// Draws words without the two that the toys ask for.
class Words {
 public:
  explicit Words(std::uint32_t seed) : random_(seed) {}
  std::string word() {
    const char* words[] = {"the", "was", "calm", "and", "old", "sailed", "home", "under", "pale", "while", "sang"};
    return words[random_() % 11];
  }
  std::vector<std::string> words(std::size_t least, std::size_t most) {
    std::vector<std::string> result;
    for (std::size_t left = least + random_() % (most - least + 1); left > 0; --left) result.push_back(word());
    return result;
  }
  std::size_t below(std::size_t n) { return random_() % n; }

 private:
  std::minstd_rand random_;
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

class FinetuneTest : public ::testing::Test {
 protected:
  void SetUp() override { write_tiny_tokenizer(folder_ / "tokenizer"); }

  /// Text with "sea" in it, or with "men".
  void write_classification(const std::string& name, int count, std::uint32_t seed) {
    Words words(seed);
    std::string text = "label\tsentence\n";
    for (int i = 0; i < count; ++i) {
      auto line = words.words(2, 9);
      const bool sea = words.below(2) == 0;
      line.insert(line.begin() + static_cast<std::ptrdiff_t>(words.below(line.size())), sea ? "sea" : "men");
      text += std::string(sea ? "water" : "people") + "\t" + joined(line) + "\n";
    }
    write_bytes(folder_ / name, text);
  }

  /// A run on a classification of `extent` ("epochs: 3").
  void configure_classification(const std::string& extent = "epochs: 6") {
    write_classification("train.tsv", 192, 1);
    write_classification("dev.tsv", 48, 2);
    write_bytes(folder_ / "run.yaml", tiny_model + extent +
                                          "}\ntask: {kind: classification, train: [train.tsv], validation: [dev.tsv], columns: {text: "
                                          "sentence, label: label}}\n");
  }

  void run(const std::string& arguments) {
    last_ = run_program(folder_, arguments);
    ASSERT_EQ(last_.code, 0) << arguments << "\n" << last_.err;
  }
  void train() { run("finetune run.yaml --threads 1"); }
  double measured(const std::string& metric, const std::string& file) {
    last_ = run_program(folder_, "evaluate run --quiet --json --threads 1 --file " + file);
    EXPECT_EQ(last_.code, 0) << last_.err;
    return last_.code == 0 ? json::parse(last_.out).at(metric).get<double>() : 0;
  }
  json predicted(const std::string& arguments) {
    last_ = run_program(folder_, "predict run --quiet --json --threads 1 " + arguments);
    EXPECT_EQ(last_.code, 0) << last_.err;
    json lines = json::array();
    std::istringstream text(last_.out);
    for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
    return lines;
  }

  TemporaryFolder folder_;
  Outcome last_;
};

TEST_F(FinetuneTest, LearnsToClassify) {
  configure_classification();
  ASSERT_NO_FATAL_FAILURE(train());
  EXPECT_NE(last_.err.find("  labels: people 104, water 88\n"), std::string::npos) << last_.err;
  EXPECT_GE(measured("accuracy", "dev.tsv"), 0.95);
  const json guesses = predicted("'the old sea was calm' 'men sang'");
  EXPECT_EQ(guesses[0][0].at("label"), "water");
  EXPECT_EQ(guesses[1][0].at("label"), "people");
  EXPECT_NEAR(guesses[0][0].at("score").get<double>() + guesses[0][1].at("score").get<double>(), 1, 1e-9);
}

TEST_F(FinetuneTest, LearnsANumberOfAPair) {
  Words words(3);
  for (const auto& [name, count] : {std::pair("train.csv", 192), std::pair("dev.csv", 48)}) {
    std::string text = "a,b,score\n";
    for (int i = 0; i < count; ++i) {
      const bool sea = words.below(2) == 0;
      text += joined(words.words(1, 5)) + "," + (sea ? "sea " : "men ") + joined(words.words(1, 4)) + "," + (sea ? "1.5" : "-0.5") + "\n";
    }
    write_bytes(folder_ / name, text);
  }
  write_bytes(folder_ / "run.yaml", tiny_model +
                                        "epochs: 6}\ntask: {kind: regression, train: [train.csv], validation: [dev.csv], columns: "
                                        "{text: a, pair: b, label: score}}\n");
  ASSERT_NO_FATAL_FAILURE(train());
  EXPECT_GE(measured("pearson", "dev.csv"), 0.95);
  EXPECT_NEAR(predicted("'the old' --pair 'sea was calm'")[0].at("value").get<double>(), 1.5, 0.5);
}

TEST_F(FinetuneTest, LearnsToTagWords) {
  Words words(4);
  for (const auto& [name, count] : {std::pair("train.conll", 128), std::pair("dev.conll", 32)}) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      for (const std::string& word : words.words(1, 6)) text += word + " O\n";
      text += words.below(2) == 0 ? "old B-PLACE\nsea I-PLACE\n\n" : "men B-WHO\nsang O\n\n";
    }
    write_bytes(folder_ / name, text);
  }
  write_bytes(folder_ / "run.yaml", tiny_model + "epochs: 12}\ntask: {kind: tokens, train: [train.conll], validation: [dev.conll]}\n");
  ASSERT_NO_FATAL_FAILURE(train());
  EXPECT_GE(measured("f1", "dev.conll"), 0.9);
  const json found = predicted("'the men sang'")[0];
  ASSERT_EQ(found.size(), 1u) << found;
  EXPECT_EQ(found[0].at("entity_group"), "WHO");
  EXPECT_EQ(found[0].at("word"), "men");
  EXPECT_EQ(found[0].at("start"), 4);
  EXPECT_EQ(found[0].at("end"), 7);
}

TEST_F(FinetuneTest, LearnsToAnswer) {
  Words words(5);
  for (const auto& [name, count] : {std::pair("train.json", 160), std::pair("dev.json", 40)}) {
    json paragraphs = json::array();
    for (int i = 0; i < count; ++i) {
      const std::string before = joined(words.words(1, 40)), answer = words.below(2) == 0 ? "sea" : "men";
      const json question = {
          {"id", std::to_string(i)}, {"question", "the old"}, {"answers", {{{"text", answer}, {"answer_start", before.size() + 1}}}}};
      paragraphs.push_back({{"context", before + " " + answer + " " + joined(words.words(1, 5))}, {"qas", {question}}});
    }
    write_bytes(folder_ / name, json{{"data", {{{"title", "t"}, {"paragraphs", paragraphs}}}}}.dump());
  }
  write_bytes(folder_ / "run.yaml",
              tiny_model + "epochs: 8}\ntask: {kind: questions, train: [train.json], validation: [dev.json], stride: 4}\n");
  ASSERT_NO_FATAL_FAILURE(train());
  EXPECT_NE(last_.err.find(" windows, "), std::string::npos) << "long contexts are cut: " << last_.err;
  EXPECT_GE(measured("f1", "dev.json"), 0.8);
  const json answers = predicted("'the old' --pair 'the pale sea was calm'")[0];
  EXPECT_EQ(answers[0].at("answer"), "sea");
  EXPECT_EQ(answers[0].at("start"), 9);
  EXPECT_EQ(answers[0].at("end"), 12);
}

TEST_F(FinetuneTest, LearnsToChoose) {
  Words words(6);
  for (const auto& [name, count] : {std::pair("train.jsonl", 192), std::pair("dev.jsonl", 48)}) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      const auto right = words.below(3);
      json choices = json::array();
      for (std::size_t c = 0; c < 3; ++c) choices.push_back(joined(words.words(1, 3)) + (c == right ? " sea" : " men"));
      text += json{{"before", joined(words.words(1, 4))}, {"endings", choices}, {"right", right}}.dump() + "\n";
    }
    write_bytes(folder_ / name, text);
  }
  write_bytes(folder_ / "run.yaml", tiny_model +
                                        "epochs: 6}\ntask: {kind: choice, train: [train.jsonl], validation: [dev.jsonl], columns: "
                                        "{text: before, choices: [endings], label: right}}\n");
  ASSERT_NO_FATAL_FAILURE(train());
  EXPECT_GE(measured("accuracy", "dev.jsonl"), 0.9);
  EXPECT_EQ(predicted("'the old' --choice 'calm men' --choice 'calm sea'")[0][0].at("choice"), "calm sea");
}

/// Sequences of three features: of class 1, or of a positive number, when the first is positive in the last step.
void write_features(const fs::path& path, bool classes, hsize_t samples, std::uint32_t seed) {
  constexpr hsize_t steps = 8, width = 3;
  std::minstd_rand random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> features, values;
  std::vector<std::int64_t> lengths, labels;
  for (hsize_t i = 0; i < samples; ++i) {
    lengths.push_back(static_cast<std::int64_t>(1 + random() % steps));
    for (hsize_t j = 0; j < steps * width; ++j) features.push_back(normal(random));
    const float last = features[(i * steps + static_cast<hsize_t>(lengths.back()) - 1) * width];
    labels.push_back(last > 0);
    values.push_back(last);
  }
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const auto put = [&](const char* name, hid_t type, const std::vector<hsize_t>& shape, const void* data) {
    const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    const hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ASSERT_GE(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), 0);
    H5Dclose(set);
    H5Sclose(space);
  };
  put("features", H5T_NATIVE_FLOAT, {samples, steps, width}, features.data());
  put("lengths", H5T_NATIVE_INT64, {samples}, lengths.data());
  if (classes) {
    put("labels", H5T_NATIVE_INT64, {samples}, labels.data());
  } else {
    put("values", H5T_NATIVE_FLOAT, {samples}, values.data());
  }
  H5Fclose(file);
}

const std::string features_model =
    "model: {norm: pre, positions: none, embed_dim: 3, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: "
    "16, initializer_range: 0.1, hidden_dropout_prob: 0.0, attention: {landmark_source: keys, num_landmarks: 4, conv_kernel_size: null}}\n"
    "data: {sequence_length: 8}\nrun_dir: run\noptimizer: {learning_rate: 1.0e-2}\nlogging: {tensorboard: false}\n"
    "training: {dtype: f32, epochs: 12, batch_size: 32, micro_batch_size: 16}\n"
    "task: {kind: features, train: [train.h5], validation: [dev.h5]}\n";

TEST_F(FinetuneTest, LearnsClassesOfFeatures) {
  write_features(folder_ / "train.h5", true, 256, 7);
  write_features(folder_ / "dev.h5", true, 64, 8);
  write_bytes(folder_ / "run.yaml", features_model);
  ASSERT_NO_FATAL_FAILURE(train());
  EXPECT_GE(measured("accuracy", "dev.h5"), 0.85);
  const json guesses = predicted("dev.h5");
  ASSERT_EQ(guesses.size(), 64u);
  EXPECT_TRUE(guesses[0][0].at("label") == "0" || guesses[0][0].at("label") == "1") << guesses[0];
}

TEST_F(FinetuneTest, LearnsNumbersOfFeatures) {
  write_features(folder_ / "train.h5", false, 256, 7);
  write_features(folder_ / "dev.h5", false, 64, 8);
  write_bytes(folder_ / "run.yaml", features_model);
  ASSERT_NO_FATAL_FAILURE(train());
  EXPECT_GE(measured("pearson", "dev.h5"), 0.85);
  EXPECT_EQ(predicted("dev.h5").size(), 64u);
}

// ---- Runs ---------------------------------------------------------------------------------------------------------------------------

TEST_F(FinetuneTest, KilledRunsEndInTheSameBits) {
  configure_classification();
  const auto start = [&](const std::string& run_dir) {
    const std::string program = fs::path(NYSTROM_BINARY_DIR) / "nystrom";
    const pid_t process = ::fork();
    if (process == 0) {
      if (::chdir(folder_.path().c_str()) != 0 || !std::freopen("log", "w", stderr)) ::_exit(99);
      ::execl(program.c_str(), "nystrom", "finetune", "run.yaml", "--threads", "1", "--set", "checkpoint.every=5", "--set",
              ("run_dir=" + run_dir).c_str(), static_cast<char*>(nullptr));
      ::_exit(99);
    }
    return process;
  };
  const auto outcome = [](pid_t process) {
    int status = 0;
    ::waitpid(process, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  };
  ASSERT_EQ(outcome(start("straight")), 0) << read_bytes(folder_ / "log");
  std::minstd_rand random(7);
  int kills = 0;
  for (int attempt = 0; attempt < 50 && kills < 8; ++attempt) {
    const pid_t process = start("killed");
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution(0, 200)(random)));
    ::kill(process, SIGKILL);
    const int code = outcome(process);
    kills += code == -SIGKILL;
    ASSERT_TRUE(code == 0 || code == -SIGKILL) << read_bytes(folder_ / "log");
    if (code == 0) fs::remove_all(folder_ / "killed");
  }
  EXPECT_EQ(kills, 8);
  ASSERT_EQ(outcome(start("killed")), 0) << read_bytes(folder_ / "log");
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    const auto sum = [&](const std::string& run_dir) { return read_bytes(folder_ / run_dir / "checkpoints" / "step-72" / file); };
    if (std::string(file) == "state.json") {
      const auto killed = json::parse(sum("killed")), straight = json::parse(sum("straight"));
      EXPECT_EQ(killed.at("best_value"), straight.at("best_value"));
    } else {
      EXPECT_EQ(sum("killed"), sum("straight")) << file;
    }
  }
}

TEST_F(FinetuneTest, OtherExamplesAreRefusedInTheSameFolder) {
  configure_classification("steps: 3");
  ASSERT_NO_FATAL_FAILURE(train());
  write_classification("train.tsv", 192, 9);
  const Outcome outcome = run_program(folder_, "finetune run.yaml --quiet");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "nystrom: run: its checkpoints come from other text; bring the files of task.train back as they were, or choose another "
            "run_dir\n");
}

TEST_F(FinetuneTest, AFinishedRunIsFoundAgainWithTheSameSettings) {
  configure_classification("steps: 3");
  ASSERT_NO_FATAL_FAILURE(train());
  ASSERT_NO_FATAL_FAILURE(train());
  EXPECT_NE(last_.err.find("resuming at step 3\n"), std::string::npos) << last_.err;
}

TEST_F(FinetuneTest, StopsEarlyByTheMetric) {
  configure_classification("epochs: 30");
  ASSERT_NO_FATAL_FAILURE(run("finetune run.yaml --threads 1 --set evaluation.early_stop_patience=2"));
  EXPECT_NE(last_.err.find("stopped early: 2 evaluations without a better accuracy than step "), std::string::npos) << last_.err;
}

TEST_F(FinetuneTest, AGridIsComparedAndFinishedRunsAreSkipped) {
  configure_classification("steps: 4");
  const std::string command = "finetune run.yaml --threads 1 --seeds 2 --grid learning_rate=1e-3,3e-3 --set training.batch_size=32";
  ASSERT_NO_FATAL_FAILURE(run(command));
  const json summary = json::parse(read_bytes(folder_ / "run" / "summary.json"));
  EXPECT_EQ(summary.at("metric"), "accuracy");
  ASSERT_EQ(summary.at("points").size(), 2u);
  for (const json& point : summary.at("points")) {
    ASSERT_EQ(point.at("runs").size(), 2u);
    const double a = point.at("runs")[0].at("value"), b = point.at("runs")[1].at("value");
    EXPECT_DOUBLE_EQ(point.at("mean").get<double>(), (a + b) / 2);
    EXPECT_NEAR(point.at("deviation").get<double>(), std::abs(a - b) / std::sqrt(2.0), 1e-12);
  }
  EXPECT_EQ(summary.at("points")[1].at("runs")[1].at("run_dir"), "run/learning_rate=3e-3/seed-43");
  const std::string table = last_.out;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 4) << table;
  ASSERT_NO_FATAL_FAILURE(run(command));
  EXPECT_EQ(last_.out, table);
  EXPECT_NE(last_.err.find("run 4 of 4: run/learning_rate=3e-3/seed-43 is finished\n"), std::string::npos) << last_.err;
  EXPECT_EQ(last_.err.find("resuming"), std::string::npos) << last_.err;
}

// ---- Where a run starts -------------------------------------------------------------------------------------------------------------

class StartTest : public FinetuneTest {
 protected:
  void SetUp() override {
    FinetuneTest::SetUp();
    TinyCheckpoint(folder_ / "base");
    write_classification("train.tsv", 32, 1);
    write_classification("dev.tsv", 16, 2);
    write_bytes(folder_ / "run.yaml",
                "{run_dir: run, model: {from: base}, training: {steps: 2, batch_size: 8, micro_batch_size: 8, dtype: f32}, logging: "
                "{tensorboard: false}, task: {kind: classification, train: [train.tsv], validation: [dev.tsv], columns: {text: sentence, "
                "label: label}}}\n");
  }
  std::string error(const std::string& arguments) {
    const Outcome outcome = run_program(folder_, arguments + " --quiet");
    EXPECT_EQ(outcome.code, 2);
    return outcome.err;
  }
};

TEST_F(StartTest, SaysWhichWeightsAreFreshAndWhichAreUnused) {
  ASSERT_NO_FATAL_FAILURE(train());
  EXPECT_NE(last_.err.find("tensors of base; fresh: classifier.dense.weight, classifier.dense.bias, classifier.out_proj.weight, "
                           "classifier.out_proj.bias; unused: cls.predictions.bias, "),
            std::string::npos)
      << last_.err;
  const RunConfig config = read_resolved_config((folder_ / "run" / "config.yaml").string());
  EXPECT_EQ(config.model.hidden_size, 6) << "the folder's";
  EXPECT_EQ(config.data.sequence_length, 24) << "the length that it was trained with";
}

TEST_F(StartTest, AFreshHeadFollowsFromTheSeed) {
  const auto weights = [&](const std::string& run_dir, const std::string& seed) {
    run("finetune run.yaml --threads 1 --set training.steps=1 --set optimizer.learning_rate=1e-30 --set run_dir=" + run_dir +
        " --set seed=" + seed);
    return SafetensorsFile::open(folder_ / run_dir / "checkpoints" / "step-1" / "model.safetensors")
        .read("classifier.dense.weight")
        .to_doubles();
  };
  const auto one = weights("one", "1");
  EXPECT_EQ(one, weights("again", "1"));
  EXPECT_NE(one, weights("two", "2"));
}

TEST_F(StartTest, AHeadOfOtherLabelsIsRefusedWithTheWayOut) {
  ASSERT_NO_FATAL_FAILURE(train());
  std::string more = read_bytes(folder_ / "train.tsv");
  write_bytes(folder_ / "train.tsv", more + "sky\tpale stars\n");
  EXPECT_EQ(
      error("finetune run.yaml --set model.from=run --set run_dir=next"),
      "nystrom: run/checkpoints/step-2: its head tells 2 labels (people, water), the task has 3 (people, sky, water); name the same in "
      "task.labels, or start a new head with model.fresh_head: true\n");
  ASSERT_NO_FATAL_FAILURE(run("finetune run.yaml --set model.from=run --set run_dir=next --set model.fresh_head=true"));
}

TEST_F(StartTest, AHeadOfTheSameLabelsGoesOn) {
  ASSERT_NO_FATAL_FAILURE(train());
  ASSERT_NO_FATAL_FAILURE(run("finetune run.yaml --set model.from=run --set run_dir=next"));
  EXPECT_EQ(last_.err.find("fresh"), std::string::npos) << last_.err;
}

TEST_F(StartTest, AnotherLengthIsRefusedWithTheWayOut) {
  EXPECT_EQ(error("finetune run.yaml --set model.max_position_embeddings=64"),
            "nystrom: model.max_position_embeddings is 64, but base has 24; nystrom extend makes a folder with a longer table\n");
}

TEST_F(StartTest, PretrainingGoesOnFromAModelThatWasExtended) {
  ASSERT_NO_FATAL_FAILURE(run("extend base longer --length 48 --landmarks 6"));
  write_lines(folder_ / "text.txt", tiny_lines(60, 3));
  write_bytes(
      folder_ / "more.yaml",
      "{run_dir: more, model: {from: longer}, data: {train: [text.txt], validation_fraction: 0.2, cross_documents: true, documents: "
      "lines, cache: cache}, schedule: {warmup_steps: 1}, training: {steps: 2, batch_size: 4, micro_batch_size: 4, dtype: f32}}\n");
  ASSERT_NO_FATAL_FAILURE(run("pretrain more.yaml --threads 1"));
  EXPECT_EQ(last_.err.find("fresh"), std::string::npos) << last_.err;
  const RunConfig config = read_resolved_config((folder_ / "more" / "config.yaml").string());
  EXPECT_EQ(config.data.sequence_length, 48);
  EXPECT_EQ(config.model.attention.num_landmarks, 6);
}

// ---- Predicting a file --------------------------------------------------------------------------------------------------------------

class PredictFileTest : public FinetuneTest {
 protected:
  void SetUp() override {
    FinetuneTest::SetUp();
    configure_classification("steps: 1");
    train();
  }
};

TEST_F(PredictFileTest, ResultsComeInTheOrderOfTheLinesWhateverTheBatch) {
  Words words(11);
  std::string text;
  for (int i = 0; i < 300; ++i) text += joined(words.words(1, 20)) + "\n";
  write_bytes(folder_ / "texts.txt", text);
  const json together = predicted("texts.txt --batch 4");  // 300 lines are more than a window of 256
  ASSERT_EQ(together.size(), 300u);
  std::istringstream lines(text);
  std::string line;
  for (int i = 0; std::getline(lines, line); ++i) {
    if (i % 60 != 0) continue;
    const json alone = predicted("'" + line + "'")[0];
    EXPECT_EQ(alone[0].at("label"), together[static_cast<std::size_t>(i)][0].at("label")) << line;
    EXPECT_NEAR(alone[0].at("score").get<double>(), together[static_cast<std::size_t>(i)][0].at("score").get<double>(), 1e-5) << line;
  }
}

TEST_F(PredictFileTest, ABadLineEndsItOrIsMarkedInItsPlace) {
  write_bytes(folder_ / "texts.txt", "the sea\n\nold \xff men\nmen sang\n");
  const Outcome stopped = run_program(folder_, "predict run texts.txt --quiet --json");
  EXPECT_EQ(stopped.code, 2);
  EXPECT_EQ(stopped.err, "nystrom: texts.txt:2: the line is empty; --skip-bad marks such a line and goes on\n");
  EXPECT_EQ(std::count(stopped.out.begin(), stopped.out.end(), '\n'), 1) << "what came before it: " << stopped.out;
  const json lines = predicted("texts.txt --skip-bad");
  EXPECT_NE(last_.err.find("2 of 4 were not predicted\n"), std::string::npos) << last_.err;
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[1], json({{"error", "texts.txt:2: the line is empty"}}));
  EXPECT_TRUE(lines[2].contains("error")) << lines[2];
  EXPECT_TRUE(lines[0].is_array() && lines[3].is_array());
}

TEST_F(PredictFileTest, AFileOfTheTaskNeedsNoLabels) {
  write_bytes(folder_ / "new.tsv", "sentence\nthe sea\nmen sang\n");
  EXPECT_EQ(predicted("new.tsv").size(), 2u);
}

TEST_F(PredictFileTest, AnExportPredictsTheSame) {
  ASSERT_NO_FATAL_FAILURE(run("export run exported --quiet"));
  const json ours = predicted("'the old sea'");
  const Outcome outcome = run_program(folder_, "predict exported --quiet --json --threads 1 'the old sea'");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out), ours[0]);
  const json config = json::parse(read_bytes(folder_ / "exported" / "config.json"));
  EXPECT_EQ(config.at("id2label"), json({{"0", "people"}, {"1", "water"}}));
  EXPECT_EQ(config.at("label2id"), json({{"people", 0}, {"water", 1}}));
}

}  // namespace
}  // namespace nystrom::testing
