// Several processes in one run, through mpirun and the program: the same results in any number, and nothing lost when one of them dies,
// hangs, fails or is told to stop.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/file_io.h"
#include "core/json.h"
#include "tests/support/places.h"
#include "tests/train/finetune_fixture.h"
#include "tests/train/run_program.h"
#include "tests/train/small_text.h"
#include "train/checkpoint.h"
#include "train/safetensors.h"

namespace nystrom::testing {
namespace {

using std::chrono::milliseconds;

/// What mpirun needs on a machine with fewer cores than processes, as root too. Shared memory by system calls between processes is refused
/// in containers.
const std::string mpirun =
    "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 OMPI_MCA_btl_vader_single_copy_mechanism=none "
    "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none mpirun ";
const std::string program = "'" + build_folder().string() + "/nystrom' ";

class DistributedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "mpirun is not installed";
    write_small_text(folder_ / "text.txt");
    std::ofstream(folder_ / "run.yaml")
        << "model: {hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 32, "
           "max_position_embeddings: 32, attention: {num_landmarks: 4, conv_kernel_size: 5}}\n"
           "tokenizer: {train: {vocab_size: 32}}\n"
           "data: {train: [text.txt], validation_fraction: 0.1, documents: lines, sequence_length: 32, cache: cache}\n"
           "optimizer: {learning_rate: 1.0e-4}\n"
           "schedule: {warmup_steps: 2, decay: constant}\n"
           "training: {steps: 20, batch_size: 8, micro_batch_size: 2, dtype: f32}\n"
           "evaluation: {every: 10}\n"
           "checkpoint: {every: 5, keep: 2}\n"
           "logging: {every: 1, tensorboard: false}\n";
  }

  static std::string options(const std::string& run_dir, const std::string& sets) {
    std::string words = "pretrain run.yaml --threads 1 --set run_dir=" + run_dir;
    std::istringstream list(sets);
    for (std::string set; list >> set;) words += " --set " + set;
    return words;
  }
  /// Pretrains in `processes` processes; without mpirun in one. `sets` are options of the configuration: "training.zero=1 …".
  Outcome train(int processes, const std::string& run_dir, const std::string& sets = "") {
    const std::string command = program + options(run_dir, sets);
    return run_command(folder_, processes == 1 ? command : mpirun + "-np " + std::to_string(processes) + " " + command);
  }

  /// mpirun in the background; its processes leave their numbers in files pid.RANK, their messages in `log`.
  pid_t start(int processes, const std::string& run_dir, const std::string& sets) {
    write_bytes(folder_ / "one.sh",
                "echo $$ > pid.tmp.$OMPI_COMM_WORLD_RANK; mv pid.tmp.$OMPI_COMM_WORLD_RANK pid.$OMPI_COMM_WORLD_RANK\nexec " + program +
                    options(run_dir, sets) + "\n");
    const std::string line =
        "cd '" + folder_.path().string() + "' && exec " + mpirun + "-np " + std::to_string(processes) + " sh one.sh >log 2>&1 </dev/null";
    const pid_t process = ::fork();
    if (process == 0) {
      ::execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
      ::_exit(99);
    }
    return process;
  }
  static int outcome(pid_t process) {
    int status = 0;
    ::waitpid(process, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  void wait_for(const fs::path& path) {
    for (int i = 0; i < 6000 && !fs::exists(folder_ / path); ++i) std::this_thread::sleep_for(milliseconds(5));
    ASSERT_TRUE(fs::exists(folder_ / path)) << path << "\n" << read_bytes(folder_ / "log");
  }
  /// Once the run has a checkpoint of `step`, sends `signal` to one of its processes.
  void signal_rank(int rank, int signal, const std::string& run_dir, int step = 5) {
    wait_for(fs::path(run_dir) / "checkpoints" / ("step-" + std::to_string(step)));
    std::ifstream file(folder_ / ("pid." + std::to_string(rank)));
    pid_t process = 0;
    ASSERT_TRUE(file >> process);
    ASSERT_EQ(::kill(process, signal), 0);
  }

  std::string checksum(const std::string& run_dir, int step = 20) {
    return file_checksum(folder_ / run_dir / "checkpoints" / ("step-" + std::to_string(step)) / "model.safetensors");
  }
  /// A metric of every record that has it.
  std::vector<double> metric(const std::string& run_dir, const std::string& name) {
    std::vector<double> values;
    std::ifstream file(folder_ / run_dir / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
      if (record.is_discarded()) break;  // the last line, half written
      if (record.contains(name)) values.push_back(record[name]);
    }
    return values;
  }
  void expect_near(const std::vector<double>& got, const std::vector<double>& expected, double tolerance) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], tolerance * std::abs(expected[i])) << "record " << i;
  }

  TemporaryFolder folder_;
};

TEST_F(DistributedTest, CommunicatorAndStepsHoldInEveryProcess) {
  for (const int processes : {1, 2, 3, 4}) {
    const Outcome outcome =
        run_command(folder_, mpirun + "-np " + std::to_string(processes) + " '" + build_folder().string() + "/processes_worker'");
    EXPECT_EQ(outcome.code, 0) << processes << " processes: " << outcome.err;
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
    const Outcome reference = train(1, alone, type);
    ASSERT_EQ(reference.code, 0) << reference.err;
    std::vector<Case> cases = {{2, "training.zero=1 training.micro_batch_size=1"}, {4, "training.zero=0"}};
    if (dtype == "f64")
      cases.insert(cases.end(), {{2, "training.zero=0 training.micro_batch_size=4"}, {4, "training.zero=1 training.micro_batch_size=1"}});
    for (std::size_t i = 0; i < cases.size(); ++i) {
      SCOPED_TRACE(dtype + ", " + std::to_string(cases[i].processes) + " processes, " + cases[i].sets);
      const std::string run_dir = dtype + "-" + std::to_string(i);
      const Outcome outcome = train(cases[i].processes, run_dir, type + cases[i].sets);
      ASSERT_EQ(outcome.code, 0) << outcome.err;
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

TEST_F(DistributedTest, OneProcessUnderMpirunGoesTheSameWayToTheSameBits) {
  ASSERT_EQ(train(1, "alone").code, 0);
  for (const std::string zero : {"0", "1"}) {
    const Outcome outcome = run_command(folder_, mpirun + "-np 1 " + program + options("one-" + zero, "training.zero=" + zero));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(checksum("one-" + zero), checksum("alone"));
    EXPECT_FALSE(metric("one-" + zero, "communication_seconds").empty()) << "its gradients go through MPI";
  }
}

TEST_F(DistributedTest, DeterministicRunsGiveTheSameBitsInAnyNumber) {
  const std::string deterministic = "training.deterministic=true training.micro_batch_size=1 ";
  const Outcome reference = train(1, "alone", deterministic);
  ASSERT_EQ(reference.code, 0) << reference.err;
  for (const auto& [processes, zero] : {std::pair(2, 0), std::pair(2, 1), std::pair(4, 1)}) {
    const std::string run_dir = std::to_string(processes) + "-" + std::to_string(zero);
    SCOPED_TRACE(run_dir);
    const Outcome outcome = train(processes, run_dir, deterministic + "training.zero=" + std::to_string(zero));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(metric(run_dir, "loss"), metric("alone", "loss"));
    EXPECT_EQ(metric(run_dir, "grad_norm"), metric("alone", "grad_norm"));
    EXPECT_EQ(metric(run_dir, "validation_loss"), metric("alone", "validation_loss"));
    EXPECT_EQ(checksum(run_dir), checksum("alone"));
  }
}

TEST_F(DistributedTest, ARunGoesOnInAnotherNumberOfProcesses) {
  const std::string deterministic = "training.deterministic=true training.ema=0.9 training.dtype=bf16 ";
  ASSERT_EQ(train(1, "straight", deterministic).code, 0);
  struct Leg {
    int processes, zero, steps;
  };
  for (const Leg& leg : {Leg{2, 1, 5}, Leg{4, 1, 8}, Leg{1, 1, 11}, Leg{2, 0, 14}, Leg{4, 1, 20}}) {
    const Outcome outcome =
        train(leg.processes, "moved",
              deterministic + "training.zero=" + std::to_string(leg.zero) + " training.steps=" + std::to_string(leg.steps));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  EXPECT_EQ(checksum("moved"), checksum("straight"));
  const fs::path checkpoint = folder_ / "moved" / "checkpoints" / "step-20";
  EXPECT_EQ(checkpoint_problem(checkpoint), "");
  EXPECT_TRUE(fs::exists(checkpoint / "optimizer-00003-of-00004.safetensors"));
  EXPECT_FALSE(fs::exists(checkpoint / "optimizer.safetensors"));
  // The files of the processes hold what one process writes.
  const auto whole = SafetensorsFile::open(folder_ / "straight" / "checkpoints" / "step-20" / "optimizer.safetensors");
  std::int64_t elements = 0, expected = 0;
  for (const StoredTensor& tensor : whole.tensors()) expected += tensor.shape.numel();
  for (int rank = 0; rank < 4; ++rank) {
    const auto part = SafetensorsFile::open(checkpoint / ("optimizer-0000" + std::to_string(rank) + "-of-00004.safetensors"));
    for (const StoredTensor& tensor : part.tensors()) elements += tensor.shape.numel();
  }
  EXPECT_EQ(elements, expected);
}

TEST_F(DistributedTest, TheAverageOfWeightsIsThatOfOneProcess) {
  const std::string sets = "training.deterministic=true training.ema=0.9 ";
  ASSERT_EQ(train(1, "alone", sets).code, 0);
  const Outcome outcome = train(4, "together", sets + "training.zero=1");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(metric("together", "validation_loss"), metric("alone", "validation_loss"));
  EXPECT_EQ(checksum("together"), checksum("alone"));
}

TEST_F(DistributedTest, RoundedSumsChangeLittle) {
  ASSERT_EQ(train(1, "alone").code, 0);
  const Outcome outcome = train(2, "rounded", "training.reduction=bf16 training.zero=1");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  expect_near(metric("rounded", "loss"), metric("alone", "loss"), 1e-4);
  EXPECT_NE(metric("rounded", "grad_norm"), metric("alone", "grad_norm"));
}

TEST_F(DistributedTest, TextIsPreparedTogetherToTheSameBytes) {
  ASSERT_EQ(run_command(folder_, program + "prepare run.yaml --set data.cache=alone").code, 0);
  const Outcome outcome = run_command(folder_, mpirun + "-np 3 " + program + "prepare run.yaml --set data.cache=together");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
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
  write_bytes(folder_ / "one.sh", "exec " + program + "prepare run.yaml --set data.train=[text-$OMPI_COMM_WORLD_RANK.txt]\n");
  const Outcome outcome = run_command(folder_, mpirun + "-np 2 sh one.sh");
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find(" reads other text than rank 0 on "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(", or has another tokenizer: copy the same files to all machines"), std::string::npos) << outcome.err;
  for (const auto& entry : fs::directory_iterator(folder_ / "cache"))
    EXPECT_FALSE(entry.path().filename().string().starts_with("tokens-") && fs::exists(entry.path() / "train" / "index.json")) << entry;
}

TEST_F(DistributedTest, AKilledProcessEndsAllAndTheRunGoesOn) {
  const std::string sets = "training.zero=1 training.steps=40";
  ASSERT_EQ(train(2, "straight", sets).code, 0);
  const pid_t job = start(2, "killed", sets + " training.timeout=5");
  signal_rank(1, SIGKILL, "killed");
  EXPECT_NE(outcome(job), 0);
  EXPECT_NE(read_bytes(folder_ / "log").find("rank 1"), std::string::npos) << read_bytes(folder_ / "log");
  std::vector<std::string> passed_over;
  EXPECT_GE(newest_checkpoint(folder_ / "killed" / "checkpoints", passed_over).value_or(0), 5);
  const Outcome again = train(2, "killed", sets);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(checksum("killed", 40), checksum("straight", 40));
}

TEST_F(DistributedTest, AHangingProcessIsNamedAndEndsAll) {
  const std::string sets = "training.steps=100000 training.timeout=2";
  const pid_t job = start(4, "hung", sets);
  signal_rank(2, SIGSTOP, "hung");
  const auto stopped = std::chrono::steady_clock::now();
  EXPECT_NE(outcome(job), 0);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - stopped).count(), 15);
  const std::string log = read_bytes(folder_ / "log");
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  const std::string line =
      std::string("nystrom: no answer from rank 2 on ") + host + " within 2 seconds (training.timeout); all processes end";
  const std::size_t place = log.find(line);
  EXPECT_NE(place, std::string::npos) << log;
  EXPECT_EQ(log.find("no answer from", place + line.size()), std::string::npos) << log;
  std::vector<std::string> passed_over;
  const auto newest = newest_checkpoint(folder_ / "hung" / "checkpoints", passed_over);
  ASSERT_TRUE(newest.has_value());
  const Outcome again = train(4, "hung", "training.steps=" + std::to_string(*newest + 1));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("resuming at step " + std::to_string(*newest)), std::string::npos) << again.err;
}

TEST_F(DistributedTest, ASignalToOneProcessLeavesOneCheckpoint) {
  const std::string sets = "training.zero=1 training.steps=100000 checkpoint.every=100000 evaluation.every=100000";
  const pid_t job = start(2, "stopped", sets);
  wait_for("stopped/metrics.jsonl");
  for (int i = 0; i < 2000 && metric("stopped", "loss").size() < 3; ++i) std::this_thread::sleep_for(milliseconds(5));
  std::ifstream file(folder_ / "pid.1");
  pid_t process = 0;
  ASSERT_TRUE(file >> process);
  ASSERT_EQ(::kill(process, SIGTERM), 0);
  EXPECT_EQ(outcome(job), 130);
  const std::vector<std::int64_t> steps = checkpoint_steps(folder_ / "stopped" / "checkpoints");
  ASSERT_EQ(steps.size(), 1u) << read_bytes(folder_ / "log");
  EXPECT_EQ(checkpoint_problem(checkpoint_path(folder_ / "stopped" / "checkpoints", steps[0])), "");
  EXPECT_NE(read_bytes(folder_ / "log").find("nystrom: stopped after step " + std::to_string(steps[0]) + ";"), std::string::npos)
      << read_bytes(folder_ / "log");
  // What follows is what would have followed.
  const int last = static_cast<int>(steps[0]) + 3;
  const std::string to_last = "training.zero=1 training.steps=" + std::to_string(last);
  ASSERT_EQ(train(2, "stopped", to_last).code, 0);
  ASSERT_EQ(train(2, "straight", to_last).code, 0);
  EXPECT_EQ(checksum("stopped", last), checksum("straight", last));
}

TEST_F(DistributedTest, MpirunPassesOnTheRequestToStop) {
  const pid_t job = start(2, "stopped", "training.steps=100000 checkpoint.every=100000 evaluation.every=100000");
  wait_for("stopped/metrics.jsonl");
  for (int i = 0; i < 2000 && metric("stopped", "loss").empty(); ++i) std::this_thread::sleep_for(milliseconds(5));
  ASSERT_EQ(::kill(job, SIGUSR1), 0);
  EXPECT_EQ(outcome(job), 130) << read_bytes(folder_ / "log");
  EXPECT_EQ(checkpoint_steps(folder_ / "stopped" / "checkpoints").size(), 1u);
}

TEST_F(DistributedTest, AnErrorOfOneProcessEndsAll) {
  const Outcome outcome = run_command(
      folder_, mpirun + "-np 1 " + program + options("run", "") + " : -np 1 " + program + options("run", "data.train=[absent.txt]"));
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("nystrom: rank 1 on "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("absent.txt"), std::string::npos) << outcome.err;
}

TEST_F(DistributedTest, AnErrorOfAllIsToldOnce) {
  const Outcome outcome = train(2, "run", "data.train=[absent.txt]");
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  const std::size_t place = outcome.err.find("nystrom: rank 0 on ");
  ASSERT_NE(place, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("nystrom: rank 1 on "), std::string::npos) << outcome.err;
}

TEST_F(DistributedTest, OtherOptionsInOneProcessAreRefused) {
  const Outcome outcome =
      run_command(folder_, mpirun + "-np 1 " + program + options("run", "") + " : -np 1 " + program + options("run", "seed=7"));
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("has another configuration than rank 0 on "), std::string::npos) << outcome.err;
}

TEST_F(DistributedTest, DeterministicStepsOfUnequalPartsAreRefused) {
  const Outcome outcome = train(3, "run", "training.deterministic=true");
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(
      outcome.err.find("training.deterministic with 3 processes needs a batch_size that is divisible by 3 x micro_batch_size 2; got 8"),
      std::string::npos)
      << outcome.err;
}

TEST_F(DistributedTest, ABatchThatIsTooSmallIsRefused) {
  const Outcome outcome = train(2, "run", "training.batch_size=1 training.micro_batch_size=1");
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("training.batch_size 1 leaves some of 2 processes without a sequence; raise it, or start fewer"),
            std::string::npos)
      << outcome.err;
  EXPECT_FALSE(fs::exists(folder_ / "run")) << "nothing is written before";
}

TEST_F(DistributedTest, EvaluationIsSharedAndToldOnce) {
  ASSERT_EQ(train(1, "run").code, 0);
  const std::string words = program + "evaluate run --threads 1 --text text.txt --batch 7 ";
  for (const std::string json : {"", "--json"}) {
    const Outcome alone = run_command(folder_, words + json);
    ASSERT_EQ(alone.code, 0) << alone.err;
    for (const std::string processes : {"1", "3"}) {
      const Outcome together = run_command(folder_, mpirun + "-np " + processes + " " + words + json);
      EXPECT_EQ(together.code, 0) << together.err;
      EXPECT_EQ(together.out, alone.out);
    }
  }
}

TEST_F(DistributedTest, EvaluationOfUnequalTextsIsRefused) {
  ASSERT_EQ(train(1, "run").code, 0);
  write_bytes(folder_ / "other.txt", read_bytes(folder_ / "text.txt") + "one line more\n");
  const std::string words = program + "evaluate run --threads 1 --text ";
  const Outcome outcome = run_command(folder_, mpirun + "-np 1 " + words + "text.txt : -np 1 " + words + "other.txt");
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("--text: rank 1 on "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(": copy the same ones to all machines"), std::string::npos) << outcome.err;
}

TEST_F(DistributedTest, WhatOneProcessDoesIsRefusedInSeveral) {
  ASSERT_EQ(train(1, "run").code, 0);
  for (const std::string words : {"predict run 'the [MASK] was calm'", "extend run longer --length 64", "info run"}) {
    const std::string name = words.substr(0, words.find(' '));
    const Outcome outcome = run_command(folder_, mpirun + "-np 2 " + program + words);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    const std::string line = "nystrom: " + name +
                             " works in one process, and 2 were started; start it without mpirun, srun or torchrun (in several work "
                             "prepare, pretrain, finetune, evaluate)\n";
    const std::size_t place = outcome.err.find(line);
    ASSERT_NE(place, std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("nystrom: ", place + 1), std::string::npos) << outcome.err;
  }
  EXPECT_FALSE(fs::exists(folder_ / "longer"));
  EXPECT_EQ(run_command(folder_, mpirun + "-np 1 " + program + "predict run 'the [MASK] was calm'").code, 0);
}

class DistributedTaskTest : public FinetuneTest {
 protected:
  void SetUp() override {
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "mpirun is not installed";
    FinetuneTest::SetUp();
    configure_classification("epochs: 1");
  }
};

TEST_F(DistributedTaskTest, ATaskGivesTheSameBits) {
  const std::string sets = "finetune run.yaml --threads 1 --set training.deterministic=true --set training.micro_batch_size=4 ";
  ASSERT_EQ(run_command(folder_, program + sets + "--set run_dir=alone").code, 0);
  const Outcome together = run_command(folder_, mpirun + "-np 2 " + program + sets + "--set run_dir=together --set training.zero=1");
  ASSERT_EQ(together.code, 0) << together.err;
  const auto of = [&](const std::string& run_dir) {
    const fs::path checkpoints = folder_ / run_dir / "checkpoints";
    const std::int64_t step = checkpoint_steps(checkpoints).at(0);
    return std::pair(file_checksum(checkpoint_path(checkpoints, step) / "model.safetensors"),
                     read_json_file(checkpoint_path(checkpoints, step) / "state.json").at("best_value").get<double>());
  };
  EXPECT_EQ(of("together"), of("alone"));
}

TEST_F(DistributedTaskTest, EvaluationIsSharedAndToldOnce) {
  ASSERT_EQ(run_command(folder_, program + "finetune run.yaml --threads 1").code, 0);
  const std::string words = program + "evaluate run --threads 1 --file dev.tsv --batch 5";
  const Outcome alone = run_command(folder_, words), together = run_command(folder_, mpirun + "-np 2 " + words);
  EXPECT_EQ(together.code, 0) << together.err;
  EXPECT_EQ(together.out, alone.out);
}

TEST_F(DistributedTaskTest, TooFewMicroBatchesAreRefused) {
  const std::string sets = "--set training.batch_size=8 --set training.micro_batch_size=8";
  const Outcome outcome = run_command(folder_, mpirun + "-np 2 " + program + "finetune run.yaml --threads 1 " + sets);
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("training.batch_size 8 makes 1 micro-batches of training.micro_batch_size 8, too few for 2 processes; set "
                             "training.micro_batch_size to 4 or less"),
            std::string::npos)
      << outcome.err;
}

TEST_F(DistributedTaskTest, SeveralSeedsAreOneTable) {
  const Outcome outcome = run_command(folder_, mpirun + "-np 2 " + program + "finetune run.yaml --threads 1 --seeds 2 --quiet");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 3) << outcome.out;
  EXPECT_TRUE(fs::exists(folder_ / "run" / "summary.json"));
}

}  // namespace
}  // namespace nystrom::testing
