// Runs on bags of features: folds, poolings, equal bits after a kill, predictions and maps.
#include <map>

#include <fmt/format.h>

#include "data/tasks/task_metrics.h"
#include "tests/support/bags.h"
#include "tests/support/finetune_fixture.h"
#include "tests/support/killed_run.h"

namespace nystrom::testing {
namespace {

class BagsRun : public ProgramTest {
 protected:
  void SetUp() override { write_bags(folder_.path(), 96, 1); }

  void configure(const std::string& pooling, const std::string& more = "",
                 const std::string& columns = "columns: {group: patient}, metric: auc") {
    write_bytes(
        folder_ / "run.yaml",
        "run_dir: run\nmodel: {norm: pre, positions: none, hidden_size: 16, "
        "num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16, pooling: " +
            pooling +
            ", hidden_dropout_prob: 0.0, attention: {num_landmarks: 8, conv_kernel_size: null}}\n"
            "task: {kind: features, train: [slides.csv], features_folder: bags, folds: 3, " +
            columns + more +
            "}\noptimizer: {learning_rate: 3.0e-3}\nlogging: {tensorboard: false}\n"
            "training: {dtype: f32, epochs: 30, batch_size: 4, micro_batch_size: 2}\n");
  }
  json test_scores(const std::string& run) {
    return json::parse(read_bytes(folder_ / run / "test.json"));
  }
};

TEST_F(BagsRun, EveryPoolingFindsTheSignalAndItsRows) {
  const std::map<std::string, std::string> settings = {
      {"token",
       " --set model.initializer_range=0.2 --set model.attention.num_landmarks=32 --set "
       "training.epochs=60"},
      {"attention", ""},
      {"none", " --set model.attention.kind=none"}};
  for (const auto& [name, more] : settings) {
    configure(name == "token" ? "token" : "attention");
    run("finetune run.yaml --threads 1 --set run_dir=" + name + more);
    EXPECT_GE(test_scores(name).at("auc"), 0.95) << name;
    expect_says(last_.err, "test: 32 examples, auc ");
    run("predict " + name + " bags/s2.h5 --json --attention map.h5");
    const json line = json::parse(last_.out);
    EXPECT_EQ(line.at("bag"), "bags/s2.h5");
    EXPECT_EQ(line.at("prediction").size(), 2U);
    const hid_t file = H5Fopen((folder_ / "map.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t set = H5Dopen2(file, "attention", H5P_DEFAULT);
    const hid_t space = H5Dget_space(set);
    std::vector<double> scores(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    EXPECT_GE(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, scores.data()), 0);
    EXPECT_GT(H5Lexists(file, "coords", H5P_DEFAULT), 0);
    H5Sclose(space);
    H5Dclose(set);
    H5Fclose(file);
    std::vector<bool> signal;
    for (std::size_t i = 0; i < scores.size(); ++i) signal.push_back(has_signal(i));
    EXPECT_GE(roc_auc(signal, scores), 0.95) << name;
    EXPECT_TRUE(read_bytes(folder_ / "map.png").starts_with("\x89PNG"));
  }
}

TEST_F(BagsRun, AllFoldsMakeATable) {
  configure("attention", ", balance: sampling");
  run("finetune run.yaml --threads 1 --folds all --quiet");
  EXPECT_TRUE(last_.out.starts_with("fold        accuracy         f1   f1_macro")) << last_.out;
  const json summary = json::parse(read_bytes(folder_ / "run" / "summary.json"));
  const json& runs = summary.at("points").at(0).at("runs");
  ASSERT_EQ(runs.size(), 3U);
  double mean = 0;
  for (int fold = 0; fold < 3; ++fold) {
    const std::string name = "run/fold-" + std::to_string(fold);
    EXPECT_EQ(runs[static_cast<std::size_t>(fold)].at("test").at("auc"),
              test_scores(name).at("auc"));
    mean += test_scores(name).at("auc").get<double>() / 3;
    EXPECT_EQ(test_scores(name).at("bags").size(), test_scores(name).at("examples"));
  }
  const json& tested = summary.at("points").at(0).at("test").at("auc");
  EXPECT_NEAR(tested.at("mean").get<double>(), mean, 1e-12);
  const std::string table = last_.out;
  EXPECT_EQ(run("finetune run.yaml --threads 1 --folds all --quiet").out, table);
  run("report run --quiet");
  expect_says(read_bytes(folder_ / "run" / "report.html"), "fold-2");
  expect_refused("predict run bags/s0.h5",
                 "run: holds a run for each fold, each tested on other data; name one of them, "
                 "such as run/fold-0");
}

/// Of large files few rows are compared, for to read all of them takes as long as an epoch.
TEST_F(BagsRun, LargeFilesThatWereWrittenSinceAreTold) {
  fs::create_directories(folder_ / "large");
  std::string table = "id,label,patient\n";
  const auto write = [&](int i, double last) {
    std::vector<double> features;
    for (int number = 0; number < 300 * 1024; ++number) features.push_back(number % 1021 - 500 + i);
    features.back() = last;
    write_bag(folder_ / "large" / fmt::format("s{}.h5", i), 1024, features, half_type(), 0);
  };
  for (int i = 0; i < 6; ++i) {
    write(i, 0);
    table += fmt::format("s{},{},p{}\n", i, i % 2 == 0 ? "normal" : "tumor", i);
  }
  write_bytes(folder_ / "large.csv", table);
  configure("mean");
  const std::string command =
      "finetune run.yaml --threads 1 --set task.train=[large.csv] --set "
      "task.features_folder=large --set model.attention.kind=none --set training.epochs=null --set "
      "training.steps=";
  run(command + "1");
  run(command + "2");
  expect_hides(last_.err, "large files");
  for (int i = 0; i < 6; ++i) write(i, 1);
  run(command + "3");
  expect_says(last_.err, "4 of 4 large files of features, the first large/s");
  expect_says(last_.err, ", were written after it");
}

TEST_F(BagsRun, KilledRunsEndInTheSameBits) {
  configure("token", ", balance: weights", "columns: {group: patient}, metric: loss");
  const std::string command =
      "finetune run.yaml --threads 1 --set checkpoint.every=7 --set "
      "training.epochs=2 --set run_dir=";
  expect_same_bits_after_a_kill(folder_, command, 16);
}

TEST_F(BagsRun, RefusesWhatWouldBeWrong) {
  configure("token");
  expect_says(refusal("finetune run.yaml --seeds 2 --folds all"), "--seeds excludes --folds");
  expect_says(
      refusal(
          "finetune run.yaml --folds all --set task.folds=null --set task.validation=[slides.csv]"),
      "--folds all: there are no folds");
  expect_says(refusal("finetune run.yaml --set task.validation=[slides.csv]"),
              "task.validation holds examples out, but task.folds parts");
  expect_says(
      refusal("finetune run.yaml --set model.positions=rope --set data.sequence_length=16 --set "
              "model.max_position_embeddings=16"),
      " rows are more than the 15 that the model takes, and bags are read whole; raise "
      "model.max_position_embeddings");
  run("finetune run.yaml --threads 1 --set training.epochs=1");
  expect_says(refusal("predict run bags/s0.h5 bags/s1.h5 --attention map.h5"), "one bag");
  expect_says(refusal("predict run bags/s0.h5 --attention map.csv"), ".h5");
  write_bytes(folder_ / "map.png", "mine");
  expect_says(refusal("predict run bags/s0.h5 --attention map.h5"),
              "map.png exists, and would be replaced by the map's picture");
  EXPECT_EQ(read_bytes(folder_ / "map.png"), "mine");
  expect_says(refusal("export run exported"), "pooling is token");
  expect_says(refusal("export run exported --verify --text slides.csv"),
              " reads features, and only what reads texts is measured here");
}

TEST_F(BagsRun, AModelOfThreeClassesIsTrainedFurther) {
  std::string table = "id,label\n";
  for (int i = 0; i < 96; ++i) table += fmt::format("s{},{}\n", i, "abc"[i % 3]);
  write_bytes(folder_ / "slides.csv", table);
  configure("attention", ", labels: [a, b, c]", "metric: accuracy");
  const std::string command = "finetune run.yaml --threads 1 --set training.epochs=1";
  run(command);
  run(command + " --set model.from=run --set run_dir=next");
  expect_hides(last_.err, "fresh:", "the head is kept");
}

TEST_F(BagsRun, NumbersCanBePredicted) {
  std::string table = "id,score\n";
  for (int i = 0; i < 96; ++i)
    table += "s" + std::to_string(i) + "," + (i / 2 % 2 == 1 ? "1.5" : "-0.5") + "\n";
  write_bytes(folder_ / "slides.csv", table);
  configure("attention", "", "columns: {value: score}");
  run("finetune run.yaml --threads 1");
  EXPECT_GE(test_scores("run").at("pearson"), 0.8);
  write_bytes(folder_ / "labels.csv", "id,label\ns0,a\ns1,b\n");
  expect_refused(
      "evaluate run --quiet --file labels.csv --set task.columns.value=null",
      "labels.csv:2: the row has a label, and the model predicts a number; name the column of "
      "numbers by task.columns.value");
}

/// As tables mark values that were not measured.
TEST_F(BagsRun, ExamplesOfWeightZeroDecideNothing) {
  std::string table = "id,score,weight\n";
  for (int i = 0; i < 96; ++i)
    table += fmt::format("s{},{}\n", i, i % 3 == 0 ? "-999999,0" : "0.5,1");
  write_bytes(folder_ / "slides.csv", table);
  configure("attention", "", "columns: {value: score, weight: weight}, metric: loss");
  run("finetune run.yaml --threads 1 --set training.epochs=1");
  expect_says(last_.err, "examples of weight 0 are left out of the parts that validate and test");
  EXPECT_LT(test_scores("run").at("mse"), 1);
}

}  // namespace
}  // namespace nystrom::testing
