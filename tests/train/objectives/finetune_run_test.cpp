// Fine-tuning runs: killed runs end in the same bits, sweeps skip finished runs, initial models
// must fit, and files are predicted in order.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <set>
#include <thread>

#include "core/base/stop_signals.h"
#include "tests/support/finetune_fixture.h"
#include "tests/support/places.h"
#include "tests/support/rounds.h"
#include "tests/support/sanitized.h"
#include "train/config/config_io.h"
#include "train/export/export_score.h"
#include "train/objectives/sweep.h"

namespace nystrom::testing {
namespace {

TEST(GridAxis, CommasInBracketsBelongToTheirValue) {
  EXPECT_EQ(parse_grid_axis("groups=[],[{parameters: a, freeze: true},{parameters: b}]"),
            (std::vector<std::string>{
                "optimizer.groups=[]",
                "optimizer.groups=[{parameters: a, freeze: true},{parameters: b}]"}));
}

TEST_F(FinetuneTest, KilledRunsEndInTheSameBits) {
  configure_classification();
  const auto start = [&](const std::string& run_dir) {
    return start_command(
        folder_,
        program_word() +
            "finetune run.yaml --threads 1 --set checkpoint.every=5 --set run_dir=" + run_dir);
  };
  ASSERT_EQ(outcome(start("straight")), 0) << read_bytes(folder_ / "log");
  std::minstd_rand random(7);
  const int wanted = 8 * test_rounds();
  int kills = 0;
  for (int attempt = 0; attempt < 8 * wanted && kills < wanted; ++attempt) {
    const pid_t process = start("killed");
    std::this_thread::sleep_for(
        std::chrono::milliseconds(std::uniform_int_distribution(0, 200)(random)));
    ::kill(process, SIGKILL);
    const int code = outcome(process);
    kills += code == -SIGKILL;
    ASSERT_TRUE(code == 0 || code == -SIGKILL) << read_bytes(folder_ / "log");
    if (code == 0) fs::remove_all(folder_ / "killed");
  }
  EXPECT_EQ(kills, wanted);
  ASSERT_EQ(outcome(start("killed")), 0) << read_bytes(folder_ / "log");
  const auto content = [&](const char* run_dir, const char* file) {
    return read_bytes(folder_ / run_dir / "checkpoints" / "step-72" / file);
  };
  for (const char* file : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(content("killed", file), content("straight", file)) << file;
  EXPECT_EQ(json::parse(content("killed", "state.json")).at("best_value"),
            json::parse(content("straight", "state.json")).at("best_value"));
}

TEST_F(FinetuneTest, OtherExamplesAreRefusedInTheSameFolder) {
  configure_classification("steps: 3");
  train();
  write_classification("train.tsv", 192, 9);
  expect_refused("finetune run.yaml --quiet",
                 "run: its checkpoints come from other data; bring the files of task.train back as "
                 "they were, or choose another run_dir");
}

TEST_F(FinetuneTest, AShareOfTheExamplesValidates) {
  configure_classification("steps: 6");
  const std::string command =
      "finetune run.yaml --threads 1 --set task.validation=[] --set task.validation_fraction=";
  expect_says(run(command + "0.25 --set training.steps=3").err, "training: 144 examples");
  expect_says(last_.err, "validation: 48 examples");
  expect_says(run(command + "0.25").err, "resuming at step 3\n");
  expect_refused(command + "0.2",
                 "run: holds a run with other settings; changed: task.validation_fraction (0.25, "
                 "now 0.2); choose another run_dir, or undo the changes");
  run("report run");
  expect_says(read_bytes(folder_ / "run" / "report.html"), "48 examples of the validation data");
  expect_says(run("export run exported --onnx int8").out, "on 48 examples of train.tsv");
  run("check run.yaml --data --set run_dir=other --set task.validation=[] --set "
      "task.validation_fraction=0.25");
  expect_says(last_.out, "validation: 48 examples");
  expect_refused(
      "finetune run.yaml --set task.validation_fraction=0.1",
      "task.validation_fraction and task.validation exclude each other; give one of them");
}

TEST_F(FinetuneTest, AnExportOfARunByLossShowsTheLossAndAMetric) {
  configure_classification("steps: 3");
  run("finetune run.yaml --threads 1 --set task.metric=loss");
  run("export run exported --verify --json --quiet");
  const json score = json::parse(last_.out).at("scores").at(0);
  EXPECT_TRUE(score.at("loss").is_number());
  EXPECT_TRUE(score.at("accuracy").is_number());
}

TEST_F(FinetuneTest, AnExportWarnsOfTextThatIsNotMeasured) {
  configure_classification("steps: 1");
  train();
  write_bytes(folder_ / "long.tsv", "label\tsentence\nwater\t" + Words(3).text(60, 60) + "\n");
  expect_says(run("export run exported --verify --text long.tsv").err, "1 cut to 32 tokens");
}

TEST_F(FinetuneTest, ASignalEndsTheMeasurementOfAnExport) {
  configure_classification("steps: 1");
  train();
  Log quiet(true);
  const ModelFolder source = open_model(folder_ / "run", {}, quiet);
  const ExportOptions plain;
  const ExportScoring score =
      export_scoring(source, plain, {(folder_ / "dev.tsv").string()}, {}, quiet);
  export_model(source, folder_ / "exported", plain, quiet);
  const EndAtSignals stop("stopped");
  std::raise(SIGTERM);
  EXPECT_THROW(score(folder_ / "exported", quiet), Interrupted);
}

TEST_F(FinetuneTest, CheckWarnsAsTheRunDoes) {
  configure_classification("steps: 1");
  for (const char* command : {"check run.yaml --data", "finetune run.yaml --threads 1"})
    expect_says(run(std::string(command) + " --set training.batch_size=200").err,
                "training.batch_size 200 exceeds the 192 training samples");
}

TEST_F(FinetuneTest, StopsEarlyByTheMetric) {
  configure_classification("epochs: 30");
  run("finetune run.yaml --threads 1 --set evaluation.early_stop_patience=2");
  expect_says(last_.err, "stopped early: 2 evaluations without a better accuracy than step ");
}

TEST_F(FinetuneTest, AGridIsComparedAndFinishedRunsDoNoStep) {
  configure_classification("steps: 4");
  const std::string command =
      "finetune run.yaml --threads 1 --seeds 2 --grid learning_rate=1e-3,3e-3 --set "
      "training.batch_size=32";
  run(command);
  const std::string log = last_.err;
  EXPECT_EQ(log.find("training: 192 examples"), log.rfind("training: 192 examples"))
      << "all runs have the same data";
  const json summary = json::parse(read_bytes(folder_ / "run" / "summary.json"));
  EXPECT_EQ(summary.at("metric"), "accuracy");
  ASSERT_EQ(summary.at("points").size(), 2u);
  for (const json& point : summary.at("points")) {
    ASSERT_EQ(point.at("runs").size(), 2u);
    const double a = point.at("runs")[0].at("value"), b = point.at("runs")[1].at("value");
    EXPECT_DOUBLE_EQ(point.at("mean").get<double>(), (a + b) / 2);
    EXPECT_NEAR(point.at("deviation").get<double>(), std::abs(a - b) / std::sqrt(2.0), 1e-12);
  }
  EXPECT_EQ(summary.at("points")[1].at("runs")[1].at("run_dir"), "learning_rate=3e-3/seed-43");
  const std::string table = last_.out;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 4) << table;
  const fs::path unfinished = folder_ / "run" / "summary.json.tmp-0123456789abcdef";
  write_bytes(unfinished, "a killed sweep left it");
  EXPECT_EQ(run(command).out, table);
  expect_says(last_.err, "run 4 of 4: run/learning_rate=3e-3/seed-43\nresuming at step 4\n");
  EXPECT_FALSE(fs::exists(unfinished));
}

TEST_F(FinetuneTest, ASweepGoesOnBehindARunThatDiverges) {
  configure_classification("steps: 8");
  run("finetune run.yaml --threads 1 --grid learning_rate=1e30,1e-3");
  expect_says(last_.err, "warning: run/learning_rate=1e30/seed-42: ");
  expect_says(last_.out, "learning_rate=1e30     1   undefined");
  expect_says(last_.out, "best: learning_rate=1e-3: ");
}

/// Results of other data or of another length would stand in one table.
TEST_F(FinetuneTest, ASweepRefusesRunsOfOtherDataOrLength) {
  configure_classification("steps: 4");
  const std::string command = "finetune run.yaml --threads 1 --seeds 1";
  run(command);
  expect_says(refusal(command + " --set training.steps=5"),
              "changed: training.steps (4, now 5); choose another run_dir, or undo the changes\n");
  expect_says(refusal(command + " --set evaluation.early_stop_patience=2"),
              "nystrom: run/seed-42: holds a run of another length or with other evaluations than "
              "the sweep; changed: evaluation.early_stop_patience (null, now 2); ");
  const std::string held_out = read_bytes(folder_ / "dev.tsv");
  write_bytes(folder_ / "dev.tsv", held_out + held_out.substr(held_out.find('\n') + 1));
  expect_says(refusal(command),
              "nystrom: run/seed-42: its checkpoints were evaluated on other data");
}

TEST_F(FinetuneTest, OtherWeightsToStartFromAreRefused) {
  configure_classification("steps: 4");
  run("finetune run.yaml --threads 1 --set run_dir=base");
  write_bytes(folder_ / "second.yaml",
              "run_dir: second\nmodel: {from: base, fresh_head: true}\n"
              "data: {sequence_length: 32}\n"
              "task: {kind: classification, train: [train.tsv], validation: [dev.tsv],\n"
              "       columns: {text: sentence, label: label}}\n"
              "training: {steps: 2, batch_size: 16, micro_batch_size: 8, dtype: f32}\n"
              "evaluation: {every: 2}\n");
  run("finetune second.yaml --threads 1");
  run("finetune second.yaml --threads 1");
  run("finetune run.yaml --threads 1 --set run_dir=base --set training.steps=40 --set "
      "checkpoint.keep=9");
  expect_says(refusal("finetune second.yaml --threads 1"),
              "second: its checkpoints started from other weights, those that log.txt names; bring "
              "the files of model.from back as they were, or choose another run_dir\n");
  run("finetune second.yaml --threads 1 --set model.from=base/checkpoints/step-4");
}

TEST_F(FinetuneTest, ARunGoesOnWithoutTheWeightsThatItStartedFrom) {
  configure_classification("steps: 2");
  run("finetune run.yaml --threads 1 --set run_dir=base");
  const auto checkpoint = [&](const char* run_dir, const char* step) {
    return folder_ / run_dir / "checkpoints" / step;
  };
  fs::create_directory(folder_ / "first");
  for (const char* file : {"config.json", "model.safetensors"})
    fs::copy_file(checkpoint("base", "step-2") / file, folder_ / "first" / file);
  std::string yaml = read_bytes(folder_ / "run.yaml");
  yaml.replace(0, yaml.find('\n'), "model: {from: first, fresh_head: true}");
  write_bytes(folder_ / "run.yaml", yaml);
  train();
  fs::remove(folder_ / "first" / "model.safetensors");
  run("finetune run.yaml --threads 1 --set training.steps=4");
  const auto start = [&](const char* step) {
    return json::parse(read_bytes(checkpoint("run", step) / "state.json")).at("start");
  };
  EXPECT_EQ(start("step-4"), start("step-2"));
}

TEST_F(FinetuneTest, PointsThatDifferInPunctuationHaveFoldersOfTheirOwn) {
  configure_classification("steps: 1");
  run("finetune run.yaml --threads 1 --grid 'groups=[{parameters: \"*.bias\"}],[{parameters: "
      "\"?*.bias\"}]'");
  const json summary = json::parse(read_bytes(folder_ / "run" / "summary.json"));
  std::vector<std::string> folders;
  for (const json& point : summary.at("points"))
    folders.push_back(point.at("runs")[0].at("run_dir"));
  EXPECT_EQ(folders, (std::vector<std::string>{
                         "groups=%5B%7Bparameters%3A%20%22%2A.bias%22%7D%5D/seed-42",
                         "groups=%5B%7Bparameters%3A%20%22%3F%2A.bias%22%7D%5D/seed-42"}));
}

TEST_F(FinetuneTest, LongPointsHaveFoldersWithShortNames) {
  configure_classification("steps: 1");
  const auto group = [](std::size_t stars) {
    return "[{parameters: \"" + std::string(stars, '*') + ".bias\"}]";
  };
  run("finetune run.yaml --threads 1 --grid 'groups=" + group(90) + "," + group(91) + "'");
  std::vector<std::size_t> lengths;
  for (const auto& entry : fs::directory_iterator(folder_ / "run"))
    if (entry.is_directory()) lengths.push_back(entry.path().filename().string().size());
  EXPECT_EQ(lengths, (std::vector<std::size_t>{200, 200}));
}

TEST_F(FinetuneTest, ASweepIsWholeWhereverItIs) {
  configure_classification("steps: 4");
  const std::string command =
      "finetune run.yaml --threads 1 --grid learning_rate=1e-3 --set run_dir=";
  run(command + "run");
  const std::string table = last_.out;
  fs::copy(folder_ / "run", folder_ / "copy", fs::copy_options::recursive);
  fs::rename(folder_ / "run", folder_ / "moved");
  const fs::path seed = fs::path("learning_rate=1e-3") / "seed-42";
  for (const std::string name : {"copy", "moved"}) {
    run("info " + name);
    EXPECT_TRUE(last_.err.starts_with(name + ": is a sweep; taking its best run " + seed.string()))
        << last_.err;
    run(command + name);
    EXPECT_EQ(last_.out.substr(0, table.find("; its best run")),
              table.substr(0, table.find("; its best run")));
  }
  fs::rename(folder_ / "copy" / seed, folder_ / "elsewhere");
  fs::create_directory_symlink(folder_ / "elsewhere", folder_ / "copy" / seed);
  for (const std::string& each : {std::string("info copy"), command + "copy"})
    expect_says(refusal(each), "seed-42: is a symbolic link");
  write_bytes(folder_ / "moved" / "summary.json",
              R"({"metric": "accuracy", "points": [{"options": [], "runs": [{"run_dir": "moved",
                  "value": 1}]}]})");
  refusal("info moved");  // a sweep that names itself
}

TEST_F(FinetuneTest, ASweepDoesNotWriteIntoAFolderOfOthers) {
  configure_classification("steps: 4");
  write_bytes(folder_ / "run" / "summary.json", "mine");
  expect_refused("finetune run.yaml --threads 1 --seeds 1",
                 "run: is not empty and holds no run; choose another run_dir");
  EXPECT_EQ(read_bytes(folder_ / "run" / "summary.json"), "mine");
}

TEST_F(FinetuneTest, TheFolderOfASweepStandsForItsBestRun) {
  configure_classification("steps: 4");
  run("finetune run.yaml --threads 1 --seeds 2");
  const json runs = json::parse(read_bytes(folder_ / "run" / "summary.json"))["points"][0]["runs"];
  const json& best = runs[0].at("value") >= runs[1].at("value") ? runs[0] : runs[1];
  EXPECT_EQ(measured("accuracy", "dev.tsv"), best.at("value"));
  run("evaluate run --file dev.tsv");
  EXPECT_TRUE(last_.err.starts_with("run: is a sweep; taking its best run " +
                                    best.at("run_dir").get<std::string>() + "\n"))
      << last_.err;
  const std::string summary = read_bytes(folder_ / "run" / "summary.json");
  json second_best = json::parse(summary);
  second_best["points"][0]["runs"][1]["value"] = 2;
  write_bytes(folder_ / "run" / "summary.json", second_best.dump());
  fs::remove_all(folder_ / "run" / "seed-42");
  run("evaluate run --file dev.tsv");
  EXPECT_TRUE(last_.err.starts_with("run: is a sweep; taking its best run seed-43\n"))
      << "the others may be gone: " << last_.err;
  write_bytes(folder_ / "run" / "summary.json", summary);
  fs::remove_all(folder_ / "run" / "seed-43");
  write_bytes(folder_ / "run" / "seed-43" / "mine", "");
  refusal("finetune run.yaml --threads 1 --seeds 2");
  EXPECT_EQ(read_bytes(folder_ / "run" / "summary.json"), summary) << "no run is lost of it";
}

/// Its best run would no longer stand for the folder, though its own folder stays.
TEST_F(FinetuneTest, ASweepThatLeavesOutRunsOfTheSummaryIsRefused) {
  configure_classification("steps: 1");
  const std::string command = "finetune run.yaml --threads 1 --grid learning_rate=";
  const auto summary = [&] { return read_bytes(folder_ / "run" / "summary.json"); };
  run(command + "1e-3,1e-4");
  const std::string before = summary();
  expect_refused(command + "1e-2",
                 "run/summary.json: compares runs that this sweep leaves out, such as "
                 "learning_rate=1e-3/seed-42; add them, or choose another run_dir");
  EXPECT_EQ(summary(), before);
  run(command + "1e-2,1e-3,1e-4");
  EXPECT_EQ(json::parse(summary()).at("points").size(), 3u);
  fs::remove_all(folder_ / "run" / "learning_rate=1e-2");
  run(command + "1e-3,1e-4");
  EXPECT_EQ(summary(), before);
}

/// They would be scored on other examples.
TEST_F(FinetuneTest, ASweepDoesNotCompareWhatItLeavesOutOtherwise) {
  configure_classification("steps: 1");
  const std::string command =
      "finetune run.yaml --threads 1 --set task.bad_rows=skip --grid task.columns.text=text,words";
  expect_says(refusal(command), "differ in what their scores mean: task.columns.text");
}

/// All predictions are equal, so their correlation is undefined.
TEST_F(FinetuneTest, AnUndefinedMetricOfASweepStaysUndefined) {
  write_bytes(folder_ / "train.csv",
              "text,score\nthe sea,1\nold men,2\nmen sang,3\npale stars,4\n");
  write_bytes(folder_ / "dev.csv", "text,score\nthe old sea,1\nthe old sea,2\n");
  write_task_run("steps: 1",
                 "kind: regression, train: [train.csv], validation: [dev.csv], columns: {text: "
                 "text, label: score}");
  const std::string command = "finetune run.yaml --threads 1 --seeds 2";
  run(command);
  const std::string table = last_.out;
  EXPECT_TRUE(table.ends_with("best: none, for pearson is undefined in a run of every line\n"))
      << table;
  const json summary = json::parse(read_bytes(folder_ / "run" / "summary.json"));
  EXPECT_TRUE(summary.at("points")[0].at("mean").is_null()) << summary;
  EXPECT_TRUE(summary.at("points")[0].at("runs")[0].at("value").is_null()) << summary;
  EXPECT_EQ(run(command).out, table) << "finished runs are found again";
  run("report run");
}

/// Points by these names have the folders of their runs.
TEST(Sweep, OptionsOfOneNameAreToldApart) {
  const SweepPoint point{{"optimizer.learning_rate=1e-3", "evaluation.every=1", "seed=2"}, {}};
  EXPECT_EQ(point.name(), "learning_rate=1e-3,evaluation.every=1,seed=2");
}

TEST(Sweep, AnUndefinedMetricIsWorseThanAnyOther) {
  const auto run_of = [](std::int64_t seed, double value) {
    return SweepRun{seed, "run/seed-" + std::to_string(seed), 1, 1, "pearson", value};
  };
  SweepResult result{"pearson",
                     {{{"a=1"}, {run_of(1, NAN)}},
                      {{"a=2"}, {run_of(1, -0.5), run_of(2, -0.25)}},
                      {{"a=3"}, {run_of(1, 0.5), run_of(2, NAN)}}}};
  EXPECT_EQ(&result.best(), &result.points[1]);
  EXPECT_EQ(sweep_table(result),
            "options  runs     pearson  deviation        best\n"
            "a=1         1   undefined          -   undefined  (seed 1)\n"
            "a=2         2     -0.3750     0.1768     -0.2500  (seed 2)\n"
            "a=3         2   undefined  undefined      0.5000  (seed 1)\n"
            "best: a=2: -0.3750 ± 0.1768; its best run is run/seed-2\n");
}

TEST(Sweep, TheTestPartDecidesNothing) {
  const auto run_of = [](double value, double test) {
    return SweepRun{7, "run/seed-7", 1, 1, "accuracy", value, 0, {{"accuracy", test}}};
  };
  const SweepResult result{"accuracy",
                           {{{"a=1"}, {run_of(0.75, 0.25)}}, {{"a=2"}, {run_of(0.5, 1)}}}};
  EXPECT_EQ(sweep_table(result),
            "options  runs    accuracy  deviation        best            on the test part\n"
            "a=1         1      0.7500          -      0.7500  (seed 7)  0.2500\n"
            "a=2         1      0.5000          -      0.5000  (seed 7)  1.0000\n"
            "best: a=1: 0.7500; its best run is run/seed-7\n");
}

TEST_F(FinetuneTest, ANewHeadOfRegressionBeginsAtTheMean) {
  write_bytes(folder_ / "train.csv",
              "text,score\nthe sea,998\nold men,1000\nmen sang,1001\npale stars,1001\n");
  write_task_run("steps: 1",
                 "kind: regression, train: [train.csv], validation: [train.csv], columns: {text: "
                 "text, label: score}");
  run("finetune run.yaml --threads 1 --set optimizer.learning_rate=1e-9");
  EXPECT_NEAR(measured("mse", "train.csv"), 1.5, 0.5) << "the variance";
  run("finetune run.yaml --threads 1 --set model.from=run --set run_dir=next --set "
      "optimizer.learning_rate=1e-9");
  expect_hides(last_.err, "fresh:", "the head is kept");
}

// ---- The warm-up of a run whose data decide the number of steps ---------------------------------

TEST_F(FinetuneTest, AWarmUpOfMoreStepsThanTheEpochsMakeIsRefusedAtOnce) {
  configure_classification("epochs: 2");
  const std::string message =
      "schedule.warmup_steps 500 exceeds the number of steps, 24, that training.epochs 2 make of "
      "192 samples in batches of 16; the learning rate would never reach its peak: lower it, or "
      "give schedule.warmup_share in its place\n";
  for (const char* command : {"finetune run.yaml --quiet", "check run.yaml --data",
                              "finetune run.yaml --quiet --seeds 2"}) {
    refusal(command + std::string(" --set schedule.warmup_steps=500"));
    EXPECT_TRUE(last_.err.ends_with(message)) << last_.err;
    EXPECT_FALSE(fs::exists(folder_ / "run")) << command;
  }
  run("check run.yaml --set schedule.warmup_steps=500");
  EXPECT_EQ(last_.err,
            "warning: training.epochs decide the steps: whether schedule.warmup_steps 500 is fewer "
            "is known with --data\n");
  run("finetune run.yaml --threads 1 --set schedule.warmup_steps=24");
}

TEST_F(FinetuneTest, CheckTellsOfItsDataAndWritesNothing) {
  configure_classification("epochs: 2");
  const json plan = json::parse(run("check run.yaml --data --json").out);
  EXPECT_EQ(plan.at("ok"), true);
  EXPECT_EQ(plan.at("steps"), 24);
  EXPECT_EQ(plan.at("parameters"), 9960);
  EXPECT_EQ(plan.at("data")[1], "  labels: people 104, water 88");
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

/// The number of choices in a list is that of the examples, with --data and without.
TEST_F(FinetuneTest, CheckPlansTheChoicesOfAList) {
  std::string lists, columns;
  for (int i = 0; i < 8; ++i) {
    const std::string text = "{\"text\": \"the sea\", \"label\": " + std::to_string(i % 4) + ", ";
    lists += text + "\"choices\": [\"calm\", \"old\", \"men\", \"ships\"]}\n";
    columns += text + "\"a\": \"calm\", \"b\": \"old\", \"c\": \"men\", \"d\": \"ships\"}\n";
  }
  write_bytes(folder_ / "lists.jsonl", "{\"text\": \"bad\", \"label\": 0}\n" + lists);
  write_bytes(folder_ / "columns.jsonl", columns);
  const auto check = [&](const std::string& file, const std::string& choices,
                         const std::string& more) {
    write_task_run("steps: 1", "kind: choice, bad_rows: skip, train: [" + file +
                                   "], validation: [" + file + "], columns: {choices: [" + choices +
                                   "]}");
    const json plan = json::parse(run("check run.yaml --json --memory 1G" + more).out);
    return std::pair(plan.at("max_tokens_per_step"), plan.at("memory"));
  };
  const auto four = check("columns.jsonl", "a, b, c, d", "");
  for (const std::string more : {"", " --data"})
    EXPECT_EQ(check("lists.jsonl", "choices", more), four) << more;
  run("info run.yaml");
  expect_says(last_.out, "  for two choices: nystrom check counts those that the files list\n");
}

TEST_F(FinetuneTest, NamesOfChoicesStayWithTheRun) {
  write_bytes(folder_ / "train.csv",
              "text,a,b,label\nthe sea,was calm,sang,A\nthe men,were calm,sang,B\n");
  write_task_run("steps: 1",
                 "kind: choice, train: [train.csv], validation: [train.csv], columns: {choices: "
                 "[a, b]}, labels: [A, B]");
  train();
  run("evaluate run --file train.csv");
}

// ---- Initial weights ----------------------------------------------------------------------------

class StartTest : public FinetuneTest {
 protected:
  void SetUp() override {
    FinetuneTest::SetUp();
    TinyCheckpoint(folder_ / "base");
    write_classification("train.tsv", 32, 1);
    write_classification("dev.tsv", 16, 2);
    write_bytes(
        folder_ / "run.yaml",
        "{run_dir: run, model: {from: base}, training: {steps: 2, batch_size: 8, micro_batch_size: "
        "8, dtype: f32}, logging: {tensorboard: false}, task: {kind: classification, train: "
        "[train.tsv], validation: [dev.tsv], columns: {text: sentence, label: label}}}\n");
  }
};

TEST_F(StartTest, SaysWhichWeightsAreFreshAndWhichAreUnused) {
  train();
  expect_says(
      last_.err,
      "tensors of base; fresh: classifier.dense.weight, classifier.dense.bias, "
      "classifier.out_proj.weight, classifier.out_proj.bias; unused: cls.predictions.bias, ");
  const RunConfig config = read_resolved_config((folder_ / "run" / "config.yaml").string());
  EXPECT_EQ(config.model.hidden_size, 6) << "the folder's";
  EXPECT_EQ(config.data.sequence_length, 24) << "the length that it was trained with";
}

TEST_F(StartTest, AFreshHeadFollowsFromTheSeed) {
  const auto weights = [&](const std::string& run_dir, const std::string& seed) {
    run("finetune run.yaml --threads 1 --set training.steps=1 --set optimizer.learning_rate=1e-30 "
        "--set run_dir=" +
        run_dir + " --set seed=" + seed);
    return TensorFile::open(folder_ / run_dir / "checkpoints" / "step-1" / "model.safetensors")
        .read("classifier.dense.weight")
        .to_doubles();
  };
  const auto one = weights("one", "1");
  EXPECT_EQ(one, weights("again", "1"));
  EXPECT_NE(one, weights("two", "2"));
}

TEST_F(StartTest, AHeadOfOtherLabelsIsRefusedWithTheWayOut) {
  train();
  std::string more = read_bytes(folder_ / "train.tsv");
  write_bytes(folder_ / "train.tsv", more + "sky\tpale stars\n");
  expect_refused(
      "finetune run.yaml --set model.from=run --set run_dir=next --quiet",
      "model.from: run/checkpoints/step-2: its head tells 2 labels (people, water), the task has 3 "
      "(people, "
      "sky, water); name the same in task.labels, or start a new head with model.fresh_head: true");
  run("finetune run.yaml --set model.from=run --set run_dir=next --set model.fresh_head=true");
}

TEST_F(StartTest, AHeadOfTheSameLabelsGoesOnInItsOrder) {
  const auto labels = [&](const std::string& run_dir) {
    return ModelFolder(folder_ / run_dir / "checkpoints" / "step-2").config.labels;
  };
  const std::vector<std::string> turned = {"water", "people"};
  run("finetune run.yaml --set task.labels=[water,people]");
  ASSERT_EQ(labels("run"), turned) << "or the test cannot fail";
  expect_hides(run("finetune run.yaml --set model.from=run --set run_dir=next").err, "fresh");
  EXPECT_EQ(labels("next"), turned);
}

/// transformers gives such names, whose order as words is another.
TEST_F(StartTest, NamesOfTransformersStandForNoOtherOfThem) {
  std::string text = read_bytes(folder_ / "train.tsv");
  for (const auto& [from, to] : {std::pair("water\t", "LABEL_0\t"), {"people\t", "LABEL_1\t"}})
    for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += std::strlen(to))
      text.replace(at, std::strlen(from), to);
  write_bytes(folder_ / "train.tsv", text);
  write_bytes(folder_ / "dev.tsv", text);
  run("finetune run.yaml");
  expect_refused(
      "finetune run.yaml --set model.from=run --set run_dir=next --set "
      "task.labels=[LABEL_1,LABEL_0] --quiet",
      "model.from: run/checkpoints/step-2: its head tells 2 labels (LABEL_0, LABEL_1), the task "
      "has 2 "
      "(LABEL_1, LABEL_0); name the same in task.labels, or start a new head with "
      "model.fresh_head: true");
}

/// A folder of Hugging Face whose landmarks do not divide its length. Options of the run override
/// it before it is checked.
TEST_F(StartTest, OptionsOfTheRunComeBeforeTheCheckOfTheFolder) {
  json config = json::parse(read_bytes(folder_ / "base" / "config.json"));
  config["segment_means_seq_len"] = 16;
  config["model_type"] = "nystromformer";
  config.erase("nystrom");
  write_bytes(folder_ / "base" / "config.json", config.dump());
  expect_says(refusal("finetune run.yaml --quiet"),
              "model.attention.num_landmarks 3 does not divide segment_means_seq_len 16");
  run("finetune run.yaml --set model.attention.semantics=nystrom");
}

TEST_F(StartTest, PretrainingGoesOnFromAModelThatWasExtended) {
  run("extend base longer --length 48 --landmarks 6");
  write_lines(folder_ / "text.txt", tiny_lines(60, 3));
  write_bytes(folder_ / "more.yaml",
              "{run_dir: more, model: {from: longer}, data: {train: [text.txt], "
              "validation_fraction: 0.2, cross_documents: true, documents: "
              "lines, cache: cache}, schedule: {warmup_steps: 1}, training: {steps: 2, batch_size: "
              "4, micro_batch_size: 4, dtype: f32}}\n");
  expect_hides(run("pretrain more.yaml --threads 1").err, "fresh");
  const RunConfig config = read_resolved_config((folder_ / "more" / "config.yaml").string());
  EXPECT_EQ(config.data.sequence_length, 48);
  EXPECT_EQ(config.model.attention.num_landmarks, 6);
}

// ---- Predicting a file --------------------------------------------------------------------------

class PredictFileTest : public FinetuneTest {
 protected:
  void SetUp() override {
    FinetuneTest::SetUp();
    configure_classification("steps: 1");
    train();
  }
};

/// The lines that a program printed, and its peak memory meanwhile. The program is at most two
/// pages ahead of the reader.
struct Watched {
  std::vector<std::string> lines;
  double peak_megabytes = 0;
  int code = -1;
};

double peak_megabytes(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

Watched watch(const fs::path& folder, std::vector<std::string> words) {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ::fcntl(ends[1], F_SETPIPE_SZ, 4096);
  const std::string program = build_folder() / "nystrom";
  std::vector<char*> arguments = {const_cast<char*>("nystrom")};
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t process = ::fork();
  if (process == 0) {
    if (::chdir(folder.c_str()) != 0 || ::dup2(ends[1], STDOUT_FILENO) < 0 ||
        !std::freopen("log", "w", stderr))
      ::_exit(99);
    ::execv(program.c_str(), arguments.data());
    ::_exit(99);
  }
  ::close(ends[1]);
  Watched result;
  std::string text;
  char buffer[4096];
  for (ssize_t bytes; (bytes = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(bytes));
    result.peak_megabytes = std::max(result.peak_megabytes, peak_megabytes(process));
  }
  ::close(ends[0]);
  result.code = outcome(process);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) result.lines.push_back(line);
  return result;
}

TEST_F(PredictFileTest, TenThousandResultsComeInOrderAndInBoundedMemory) {
  Words words(11);
  std::vector<std::string> lines;
  for (int i = 0; i < 10000; ++i) lines.push_back(i == 5000 ? "" : words.text(1, 20));
  write_lines(folder_ / "texts.txt", lines);
  write_lines(folder_ / "few.txt", {lines.begin(), lines.begin() + 100});
  const auto predict = [&](const std::string& file) {
    return watch(folder_.path(), {"predict", "run", file, "--json", "--skip-bad", "--threads", "1",
                                  "--batch", "4"});
  };
  const Watched few = predict("few.txt"), many = predict("texts.txt");
  ASSERT_EQ(many.code, 0) << read_bytes(folder_ / "log");
  expect_says(read_bytes(folder_ / "log"), "1 of 10000 were not predicted\n");
  ASSERT_EQ(few.lines.size(), 100u);
  ASSERT_EQ(many.lines.size(), 10000u);
  EXPECT_EQ(
      json::parse(many.lines[5000]),
      json({{"error", "texts.txt:5001: the line is empty; --document is for files of one text"}}));
  std::set<double> scores;
  for (std::size_t i = 499; i < 10000; i += 500) {
    const json alone = predicted("'" + lines[i] + "'")[0], together = json::parse(many.lines[i]);
    EXPECT_EQ(alone[0].at("label"), together[0].at("label")) << lines[i];
    EXPECT_NEAR(alone[0].at("score").get<double>(), together[0].at("score").get<double>(), 1e-5)
        << lines[i];
    scores.insert(together[0].at("score").get<double>());
  }
  EXPECT_GE(scores.size(), 18u) << "of 20: lines can be told from each other";
  RecordProperty("megabytes_for_100_lines", std::to_string(few.peak_megabytes));
  RecordProperty("megabytes_for_10000_lines", std::to_string(many.peak_megabytes));
  EXPECT_GT(few.peak_megabytes, 1);
  if (!sanitized) {
    EXPECT_LT(many.peak_megabytes, few.peak_megabytes + 15);
  }
}

TEST_F(PredictFileTest, ANameOfDataMustBeAFileAndASentenceNeedNot) {
  for (const std::string ending :
       {".txt", ".tsv", ".csv", ".json", ".jsonl", ".h5", ".hdf5", ".conll"}) {
    for (const std::string packed : {"", ".gz", ".zst"}) {
      expect_refused(
          "predict run 'the sea' absent" + ending + packed,
          "absent" + ending + packed + ": no such file or folder; --as-text takes it for a text");
    }
  }
  expect_refused("predict run 'my notes.txt'",
                 "my notes.txt: no such file or folder; --as-text takes it for a text");
  EXPECT_EQ(predicted("'the old men sang.' sea 'www.sea.home' 'calm, pale'").size(), 4u);
}

TEST_F(PredictFileTest, AsTextTakesNamesOfFilesForTexts) {
  write_bytes(folder_ / "sea.txt", "old men\nmen sang\nthe sea\n");
  EXPECT_EQ(predicted("sea.txt").size(), 3u);
  EXPECT_EQ(predicted("--as-text sea.txt 'see notes.txt' run").size(), 3u);
  run("predict run --quiet --as-text sea.txt");
  EXPECT_TRUE(last_.out.starts_with("sea.txt\n")) << last_.out;
}

TEST_F(PredictFileTest, ATextThatIsCutIsTold) {
  std::string text = "sea";
  for (int i = 0; i < 60; ++i) text += " men";
  write_lines(folder_ / "texts.txt", {"the sea", text, text});
  EXPECT_EQ(predicted("texts.txt").size(), 3u);
  EXPECT_EQ(last_.err,
            "warning: 3 examples: 2 cut to 32 tokens (66.7 %; the first: texts.txt:2); the rest "
            "was not read\n");
  predicted("'the sea'");
  EXPECT_EQ(last_.err, "");
}

TEST_F(PredictFileTest, ABadLineEndsItOrIsMarkedInItsPlace) {
  write_bytes(folder_ / "texts.txt", "the sea\n\nold \xff men\nmen sang\n");
  EXPECT_EQ(refusal("predict run texts.txt --quiet --json"),
            "nystrom: texts.txt:2: the line is empty; --document is for files of one text; "
            "--skip-bad marks such a line and goes on\n");
  EXPECT_EQ(std::count(last_.out.begin(), last_.out.end(), '\n'), 1)
      << "what came before it: " << last_.out;
  const json lines = predicted("texts.txt --skip-bad");
  expect_says(last_.err, "2 of 4 were not predicted\n");
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(
      lines[1],
      json({{"error", "texts.txt:2: the line is empty; --document is for files of one text"}}));
  EXPECT_TRUE(lines[2].contains("error")) << lines[2];
  EXPECT_TRUE(lines[0].is_array() && lines[3].is_array());
}

TEST_F(PredictFileTest, AFileOfTheTaskNeedsNoLabels) {
  write_bytes(folder_ / "new.tsv", "sentence\nthe sea\nmen sang\n");
  EXPECT_EQ(predicted("new.tsv").size(), 2u);
}

TEST_F(PredictFileTest, PartsThatTheTaskDoesNotHaveAreRefused) {
  expect_refused("predict run --quiet 'the sea' --pair old",
                 "'the sea': the task has single texts (task.columns.pair is null); leave --pair "
                 "out");
  expect_refused("predict run --quiet 'the sea' --choice old --choice men",
                 "'the sea': a task of kind classification has no choices; leave --choice out");
  expect_refused(
      "predict run --quiet dev.tsv --pair old",
      "--pair goes with a text on the command line, for a task; 'dev.tsv' is a file or folder");
}

TEST_F(PredictFileTest, OtherLabelsThanTheModelsAreRefused) {
  const std::string
      command = "evaluate run --quiet --file dev.tsv --set task.labels=",
      where = "run/checkpoints/step-1: its labels are 'people' and 'water', but task.labels are ",
      advice = "; leave task.labels out, or choose another model";
  expect_refused(command + "[water,people]", where + "'water' and 'people'" + advice);
  expect_refused(command + "[x,y,z]", where + "'x', 'y' and 'z'" + advice);
  EXPECT_EQ(run(command + "[people,water]").err, "");
}

TEST_F(PredictFileTest, TheTextColumnIsThatOfOtherCommands) {
  write_bytes(folder_ / "table.csv", "title,body\nnews,the old sea\n");
  EXPECT_EQ(predicted("table.csv --set data.text_column=body"), predicted("'the old sea'"));
  EXPECT_EQ(predicted("table.csv --set data.text_column=title"), predicted("news --as-text"));
}

TEST_F(PredictFileTest, AnExportPredictsTheSame) {
  run("export run exported --quiet");
  const json ours = predicted("'the old sea'");
  run("predict exported --quiet --json --threads 1 'the old sea'");
  EXPECT_EQ(json::parse(last_.out), ours[0]);
  const json config = json::parse(read_bytes(folder_ / "exported" / "config.json"));
  EXPECT_EQ(config.at("id2label"), json({{"0", "people"}, {"1", "water"}}));
  EXPECT_EQ(config.at("label2id"), json({{"people", 0}, {"water", 1}}));
}

}  // namespace
}  // namespace nystrom::testing
