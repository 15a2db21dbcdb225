// Several processes in one run. Results do not depend on their number, and they share the work of
// evaluation and preparation.
#include <algorithm>
#include <numeric>
#include <random>

#include "core/base/file_io.h"
#include "core/base/json.h"
#include "tests/support/finetune_fixture.h"
#include "tests/support/rounds.h"
#include "tests/train/cli/distributed_fixture.h"
#include "train/state/checkpoint.h"
#include "train/state/safetensors.h"

namespace nystrom::testing {
namespace {

TEST_F(DistributedTest, CommunicatorAndStepsHoldInEveryProcess) {
  for (const int processes : {1, 2, 3, 4}) {
    if (on_gpus && processes == 4) continue;  // the emulator takes a minute
    succeeded(run_command(folder_, mpirun + "-np " + std::to_string(processes) + " '" +
                                       program_folder + "/processes_worker'" +
                                       (on_gpus ? " cuda" : "")));
  }
}

TEST_F(DistributedTest, LossesAreThoseOfOneProcess) {
  struct Case {
    int processes;
    std::string sets;
  };
  const std::pair<std::string, double> types[] = {{"f64", 1e-10}, {"f32", 1e-5}};
  for (const auto& [dtype, tolerance] : types) {
    const std::string alone = dtype + "-alone", type = "training.dtype=" + dtype + " ";
    succeeded(train(1, alone, type));
    std::vector<Case> cases = {{2, "training.zero=1 training.micro_batch_size=1"},
                               {4, "training.zero=0"}};
    if (dtype == "f64")
      cases.insert(cases.end(), {{2, "training.zero=0 training.micro_batch_size=4"},
                                 {4, "training.zero=1 training.micro_batch_size=1"}});
    for (std::size_t i = 0; i < cases.size(); ++i) {
      SCOPED_TRACE(dtype + ", " + std::to_string(cases[i].processes) + " processes, " +
                   cases[i].sets);
      const std::string run_dir = dtype + "-" + std::to_string(i);
      succeeded(train(cases[i].processes, run_dir, type + cases[i].sets));
      expect_near(metric(run_dir, "loss"), metric(alone, "loss"), tolerance);
      expect_near(metric(run_dir, "grad_norm"), metric(alone, "grad_norm"), 10 * tolerance);
      expect_near(metric(run_dir, "validation_loss"), metric(alone, "validation_loss"), tolerance);
      EXPECT_EQ(metric(run_dir, "accuracy").size(), 20u);
      EXPECT_EQ(metric(run_dir, "communication_seconds").size(), 20u);
      EXPECT_EQ(metric(run_dir, "waiting_seconds").size(), 20u);
    }
    EXPECT_TRUE(metric(alone, "communication_seconds").empty());
  }
}

TEST_F(DistributedTest, MuonIsShardedByWholeMatrices) {
  const std::string type = "training.dtype=f64 optimizer.name=muon ";
  succeeded(train(1, "alone", type));
  for (const int processes : {2, 4}) {
    SCOPED_TRACE(processes);
    const std::string run_dir = "run-" + std::to_string(processes);
    succeeded(train(processes, run_dir, type + "training.zero=1"));
    expect_near(metric(run_dir, "loss"), metric("alone", "loss"), 1e-9);
    expect_near(metric(run_dir, "validation_loss"), metric("alone", "validation_loss"), 1e-9);
  }
  // A run goes on in another number of processes, whose ranges are others.
  succeeded(train(4, "moved", type + "training.zero=1 training.steps=10"));
  succeeded(train(2, "moved", type + "training.zero=1"));
  expect_near(metric("moved", "loss"), metric("alone", "loss"), 1e-9);
}

TEST_F(DistributedTest, OneProcessUnderMpirunGoesTheSameWayToTheSameBits) {
  succeeded(train(1, "alone"));
  for (const std::string zero : {"0", "1"}) {
    succeeded(run_command(
        folder_, mpirun + "-np 1 " + program + options("one-" + zero, "training.zero=" + zero)));
    EXPECT_EQ(checksum("one-" + zero), checksum("alone"));
    EXPECT_FALSE(metric("one-" + zero, "communication_seconds").empty())
        << "its gradients go through MPI";
  }
}

TEST_F(DistributedTest, DeterministicRunsGiveTheSameBitsInAnyNumber) {
  const std::string deterministic = "training.deterministic=true training.micro_batch_size=1 ";
  succeeded(train(1, "alone", deterministic));
  for (const auto& [processes, zero] : {std::pair(2, 0), std::pair(2, 1), std::pair(4, 1)}) {
    const std::string run_dir = std::to_string(processes) + "-" + std::to_string(zero);
    SCOPED_TRACE(run_dir);
    succeeded(train(processes, run_dir, deterministic + "training.zero=" + std::to_string(zero)));
    EXPECT_EQ(metric(run_dir, "loss"), metric("alone", "loss"));
    EXPECT_EQ(metric(run_dir, "grad_norm"), metric("alone", "grad_norm"));
    EXPECT_EQ(metric(run_dir, "validation_loss"), metric("alone", "validation_loss"));
    EXPECT_EQ(checksum(run_dir), checksum("alone"));
  }
}

TEST_F(DistributedTest, ARunGoesOnInAnotherNumberOfProcesses) {
  const std::string deterministic =
      "training.deterministic=true training.ema=0.9 training.dtype=bf16 ";
  succeeded(train(1, "straight", deterministic));
  struct Leg {
    int processes, zero, steps;
  };
  for (const Leg& leg : {Leg{2, 1, 5}, Leg{4, 1, 8}, Leg{1, 1, 11}, Leg{2, 0, 14}, Leg{4, 1, 20}}) {
    succeeded(train(leg.processes, "moved",
                    deterministic + "training.zero=" + std::to_string(leg.zero) +
                        " training.steps=" + std::to_string(leg.steps)));
  }
  EXPECT_EQ(checksum("moved"), checksum("straight"));
  const fs::path checkpoint = folder_ / "moved" / "checkpoints" / "step-20";
  EXPECT_EQ(checkpoint_problem(checkpoint), "");
  EXPECT_TRUE(fs::exists(checkpoint / "optimizer-00003-of-00004.safetensors"));
  EXPECT_FALSE(fs::exists(checkpoint / "optimizer.safetensors"));
  // The files of all processes together have the content that one process writes.
  const auto whole =
      TensorFile::open(folder_ / "straight" / "checkpoints" / "step-20" / "optimizer.safetensors");
  std::int64_t elements = 0, expected = 0;
  for (const StoredTensor& tensor : whole.tensors()) expected += tensor.shape.numel();
  for (int rank = 0; rank < 4; ++rank) {
    const auto part = TensorFile::open(
        checkpoint / ("optimizer-0000" + std::to_string(rank) + "-of-00004.safetensors"));
    for (const StoredTensor& tensor : part.tensors()) elements += tensor.shape.numel();
  }
  EXPECT_EQ(elements, expected);
}

/// Every change from one number of processes to another: within an epoch, at its end and after it.
TEST_F(DistributedTest, EveryChangeOfTheNumberOfProcessesGivesTheSameBits) {
  const std::string sets =
      "training.deterministic=true training.batch_size=48 training.micro_batch_size=2 "
      "schedule.warmup_steps=0 ";
  const std::vector<int> all_changes = {1, 1, 2, 1, 3, 1, 4, 2, 2,
                                        3, 2, 4, 3, 3, 4, 4, 1};  // each pair of neighbours once
  constexpr int last = 40;
  succeeded(train(1, "straight", sets + "training.steps=" + std::to_string(last)));
  std::minstd_rand random(5);
  for (int pass = 0; pass < test_rounds(); ++pass) {
    std::vector<int> cuts(last - 1);
    std::iota(cuts.begin(), cuts.end(), 1);
    std::shuffle(cuts.begin(), cuts.end(), random);
    cuts.resize(all_changes.size() - 1);
    std::sort(cuts.begin(), cuts.end());
    cuts.push_back(last);
    const std::string run = "moved" + std::to_string(pass);
    for (std::size_t leg = 0; leg < all_changes.size(); ++leg) {
      succeeded(train(all_changes[leg], run, sets + "training.steps=" + std::to_string(cuts[leg])));
    }
    EXPECT_EQ(checksum(run, last), checksum("straight", last)) << "pass " << pass;
    EXPECT_EQ(metric(run, "loss"), metric("straight", "loss")) << "pass " << pass;
    fs::remove_all(folder_ / run);
  }
}

TEST_F(DistributedTest, TheAverageOfWeightsIsThatOfOneProcess) {
  const std::string sets = "training.deterministic=true training.ema=0.9 ";
  succeeded(train(1, "alone", sets));
  succeeded(train(4, "together", sets + "training.zero=1"));
  EXPECT_EQ(metric("together", "validation_loss"), metric("alone", "validation_loss"));
  EXPECT_EQ(checksum("together"), checksum("alone"));
}

TEST_F(DistributedTest, RoundedSumsChangeLittle) {
  succeeded(train(1, "alone"));
  succeeded(train(2, "rounded", "training.reduction=bf16 training.zero=1"));
  expect_near(metric("rounded", "loss"), metric("alone", "loss"), 1e-4);
  EXPECT_NE(metric("rounded", "grad_norm"), metric("alone", "grad_norm"));
}

TEST_F(DistributedTest, TextIsPreparedTogetherToTheSameBytes) {
  succeeded(run_command(folder_, program + "prepare run.yaml --set data.cache=alone"));
  succeeded(run_command(
      folder_, mpirun + "-np 3 " + program + "prepare run.yaml --set data.cache=together"));
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "alone")) {
    if (!entry.is_regular_file()) continue;
    const fs::path other = folder_ / "together" / fs::relative(entry.path(), folder_ / "alone");
    ASSERT_TRUE(fs::exists(other)) << other;
    EXPECT_EQ(file_checksum(other), file_checksum(entry.path())) << other;
    ++files;
  }
  EXPECT_GE(files, 5U);
}

TEST_F(DistributedTest, OtherTextOnAnotherMachineIsNotPrepared) {
  fs::copy_file(folder_ / "text.txt", folder_ / "text-0.txt");
  write_bytes(folder_ / "text-1.txt", read_bytes(folder_ / "text.txt") + "one line more\n");
  write_bytes(
      folder_ / "one.sh",
      "exec " + program + "prepare run.yaml --set data.train=[text-$OMPI_COMM_WORLD_RANK.txt]\n");
  const std::string error = refused(run_command(folder_, mpirun + "-np 2 sh one.sh"));
  expect_says(error, " reads other text than rank 0 on ");
  expect_says(error, ", or has another tokenizer: copy the same files to all machines");
  for (const auto& entry : fs::directory_iterator(folder_ / "cache"))
    EXPECT_FALSE(entry.path().filename().string().starts_with("tokens-") &&
                 fs::exists(entry.path() / "train" / "index.json"))
        << entry;
}

TEST_F(DistributedTest, EvaluationIsSharedAndToldOnce) {
  succeeded(train(1, "run"));
  const std::string words =
      program + "evaluate run --threads 1 " + device + "--text text.txt --batch 7 ";
  for (const std::string json : {"", "--json"}) {
    const Outcome alone = succeeded(run_command(folder_, words + json));
    for (const std::string processes : {"1", "3"})
      EXPECT_EQ(
          succeeded(run_command(folder_, mpirun + "-np " + processes + " " + words + json)).out,
          alone.out);
  }
}

TEST_F(DistributedTest, EvaluationOfUnequalTextsIsRefused) {
  succeeded(train(1, "run"));
  write_bytes(folder_ / "other.txt", read_bytes(folder_ / "text.txt") + "one line more\n");
  const std::string words = program + "evaluate run --threads 1 " + device + "--text ";
  const std::string error = refused(
      run_command(folder_, mpirun + "-np 1 " + words + "text.txt : -np 1 " + words + "other.txt"));
  expect_says(error, "--text: rank 1 on ");
  expect_says(error, ": copy the same ones to all machines");
}

TEST_F(DistributedTest, WhatOneProcessDoesIsRefusedInSeveral) {
  succeeded(train(1, "run"));
  for (const std::string words :
       {"predict run 'the [MASK] was calm'", "extend run longer --length 64", "info run"}) {
    const std::string name = words.substr(0, words.find(' '));
    const Outcome outcome = run_command(folder_, mpirun + "-np 2 " + program + words);
    refused(outcome);
    EXPECT_EQ(outcome.out, "");
    const std::string line = "nystrom: " + name +
                             " works in one process, and 2 were started; start it without mpirun, "
                             "srun or torchrun, or unset ";
    const std::size_t place = outcome.err.find(line);
    ASSERT_NE(place, std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("nystrom: ", place + 1), std::string::npos) << outcome.err;
    expect_says(outcome.err, " (in several work prepare, pretrain, finetune, evaluate)\n");
  }
  EXPECT_FALSE(fs::exists(folder_ / "longer"));
  succeeded(
      run_command(folder_, mpirun + "-np 1 " + program + "predict run 'the [MASK] was calm'"));
}

class DistributedTaskTest : public FinetuneTest {
 protected:
  void SetUp() override {
    if (!has_mpirun()) GTEST_SKIP() << "mpirun is not installed";
    FinetuneTest::SetUp();
    configure_classification("epochs: 1");
  }

  /// One process, and two that divide the optimizer's state.
  void expect_same_bits(const std::string& options) {
    const std::string sets =
        "finetune run.yaml --threads 1 " + device +
        "--set training.deterministic=true --set training.micro_batch_size=4 " + options;
    succeeded(run_command(folder_, program + sets + "--set run_dir=alone"));
    succeeded(run_command(folder_, mpirun + "-np 2 " + program + sets +
                                       "--set run_dir=together --set training.zero=1"));
    const auto of = [&](const std::string& run_dir) {
      const fs::path checkpoints = folder_ / run_dir / "checkpoints";
      const std::int64_t step = checkpoint_steps(checkpoints).at(0);
      return std::pair(file_checksum(checkpoint_path(checkpoints, step) / "model.safetensors"),
                       read_json_file(checkpoint_path(checkpoints, step) / "state.json")
                           .at("best_value")
                           .get<double>());
    };
    EXPECT_EQ(of("together"), of("alone"));
  }
};

TEST_F(DistributedTaskTest, ATaskGivesTheSameBits) { expect_same_bits(""); }

// The bias of such a head has 32 bits (Parameter::keep_exact).
TEST_F(DistributedTaskTest, NumbersAreLearntWithTheSameBits) {
  Words words(3);
  std::string text = "label\tsentence\n";
  for (int i = 0; i < 32; ++i) text += fmt::format("{}\t{}\n", 250.3 + i, words.text(2, 9));
  write_bytes(folder_ / "numbers.tsv", text);
  write_task_run("epochs: 1",
                 "kind: regression, train: [numbers.tsv], validation: [numbers.tsv], columns: "
                 "{text: sentence, label: label}");
  expect_same_bits("--set training.dtype=bf16 ");
}

TEST_F(DistributedTaskTest, EvaluationIsSharedAndToldOnce) {
  succeeded(run_command(folder_, program + "finetune run.yaml --threads 1 " + device));
  const std::string words =
      program + "evaluate run --threads 1 " + device + "--file dev.tsv --batch 5";
  const Outcome alone = run_command(folder_, words),
                together = succeeded(run_command(folder_, mpirun + "-np 2 " + words));
  EXPECT_EQ(together.out, alone.out);
}

TEST_F(DistributedTaskTest, TooFewMicroBatchesAreRefused) {
  const std::string sets = "--set training.batch_size=8 --set training.micro_batch_size=8";
  expect_says(refused(run_command(folder_, mpirun + "-np 2 " + program +
                                               "finetune run.yaml --threads 1 " + device + sets)),
              "training.batch_size 8 makes 1 micro-batches of training.micro_batch_size 8, too few "
              "for 2 processes; set training.micro_batch_size to 4 or less");
}

TEST_F(DistributedTaskTest, SeveralSeedsAreOneTable) {
  const Outcome outcome = succeeded(run_command(folder_, mpirun + "-np 2 " + program +
                                                             "finetune run.yaml --threads 1 " +
                                                             device + "--seeds 2 --quiet"));
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 3) << outcome.out;
  EXPECT_TRUE(fs::exists(folder_ / "run" / "summary.json"));
}

}  // namespace
}  // namespace nystrom::testing
