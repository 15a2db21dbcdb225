// Several processes in one run. Nothing is lost when a process dies, hangs, fails or receives a
// signal. Impossible settings are rejected.
#include <fmt/format.h>

#include <random>

#include "tests/support/rounds.h"
#include "tests/train/cli/distributed_fixture.h"
#include "train/state/checkpoint.h"

namespace nystrom::testing {
namespace {

TEST_F(DistributedTest, AKilledProcessEndsAllAndTheRunGoesOn) {
  const std::string sets = "training.zero=1 training.steps=200 optimizer.name=muon";
  succeeded(train(2, "straight", sets));
  const pid_t job = start(2, "killed", sets + " training.timeout=5");
  signal_rank(1, SIGKILL, "killed");
  EXPECT_NE(outcome_of(job), 0);
  expect_says(read_bytes(folder_ / "log"), "rank 1");
  std::vector<std::string> passed_over;
  EXPECT_GE(newest_checkpoint(folder_ / "killed" / "checkpoints", passed_over).value_or(0), 5);
  succeeded(train(2, "killed", sets));
  EXPECT_EQ(checksum("killed", 200), checksum("straight", 200));
}

TEST_F(DistributedTest, AHangingProcessIsNamedAndEndsAll) {
  succeeded(train(4, "hung", "training.steps=5"));
  // No saves, because a disk may take two seconds.
  const std::string sets =
      "training.steps=100000 training.timeout=2 checkpoint.every=100000 evaluation.every=100000";
  const pid_t job = start(4, "hung", sets);
  wait_until([&] { return metric("hung", "loss").size() > 7; });
  signal_process(2, SIGSTOP);
  const auto stopped = std::chrono::steady_clock::now();
  EXPECT_NE(outcome_of(job), 0);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - stopped).count(), 15);
  const std::string log = read_bytes(folder_ / "log");
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  const std::string line = std::string("nystrom: no answer from rank 2 on ") + host +
                           " within 2 seconds (training.timeout); all processes end";
  const std::size_t place = log.find(line);
  EXPECT_NE(place, std::string::npos) << log;
  EXPECT_EQ(log.find("no answer from", place + line.size()), std::string::npos) << log;
  expect_says(succeeded(train(4, "hung", "training.steps=6")).err, "resuming at step 5");
}

/// Steps, evaluations and saves alternate quickly, so that random moments hit all of them. Emulated
/// GPUs need ten times as long for each.
const int restless_steps = on_gpus ? 40 : 400;
const std::string restless = fmt::format(
    "training.zero=1 training.steps={} evaluation.every=3 checkpoint.every=4 ", restless_steps);

TEST_F(DistributedTest, ADeathAtAnyMomentLosesNothing) {
  succeeded(train(3, "straight", restless));
  std::minstd_rand random(3);
  const int wanted = 4 * test_rounds();
  int while_training = 0;
  for (int attempt = 0; attempt < 4 * wanted && while_training < wanted; ++attempt) {
    const std::size_t before = metric("killed", "loss").size();
    const pid_t job = start(3, "killed", restless);
    // One kill in four comes before the first step, and the others after progress of the run. None
    // comes while MPI starts: mpirun (Open MPI 4.1.4) then hangs once in 200 times, with any
    // program.
    const bool early = attempt % 4 == 0;
    wait_until([&] {
      return early ? read_bytes(folder_ / "log").find("training ") != std::string::npos
                   : metric("killed", "loss").size() > before;
    });
    std::uniform_int_distribution moment(0, on_gpus ? 1500 : 150);
    std::this_thread::sleep_for(milliseconds(moment(random)));
    signal_process(attempt % 3, SIGKILL);
    while_training += outcome_of(job) != 0 && metric("killed", "loss").size() > before;
    if (std::ssize(metric("killed", "loss")) == restless_steps)
      fs::remove_all(folder_ / "killed");  // the run was complete
  }
  EXPECT_EQ(while_training, wanted);
  succeeded(train(3, "killed", restless));
  EXPECT_EQ(checksum("killed", restless_steps), checksum("straight", restless_steps));
  for (const auto& entry : fs::directory_iterator(folder_ / "killed" / "checkpoints")) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(name.find(".tmp-") == std::string::npos &&
                name.find(".trash-") == std::string::npos)
        << "left over: " << name;
  }
}

TEST_F(DistributedTest, AStopAtAnyMomentIsNamedAndAShortOneOutlasted) {
  std::minstd_rand random(4);
  for (int stop = 0; stop < 3 * test_rounds(); ++stop) {
    const pid_t job =
        start(3, "stopped", "training.steps=100000 training.timeout=4 evaluation.every=7");
    wait_until([&] { return metric("stopped", "loss").size() > 3; });
    std::this_thread::sleep_for(milliseconds(std::uniform_int_distribution(0, 300)(random)));
    const int culprit = stop % 3;
    signal_process(culprit, SIGSTOP);
    std::this_thread::sleep_for(milliseconds(500));
    signal_process(culprit, SIGCONT);  // slow, but alive
    std::this_thread::sleep_for(milliseconds(300));
    expect_hides(read_bytes(folder_ / "log"), "no answer from");
    signal_process(culprit, SIGSTOP);
    const auto stopped = std::chrono::steady_clock::now();
    EXPECT_NE(outcome_of(job), 0);
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - stopped).count(),
              30);
    expect_says(read_bytes(folder_ / "log"), "no answer from rank " + std::to_string(culprit));
    fs::remove_all(folder_ / "stopped");
  }
}

TEST_F(DistributedTest, AMachineThatStandsStillEndsNothing) {
  const pid_t job = start(
      3, "still",
      "training.steps=100000 training.timeout=2 checkpoint.every=100000 evaluation.every=100000");
  wait_until([&] { return metric("still", "loss").size() > 3; });
  for (int rank = 0; rank < 3; ++rank) signal_process(rank, SIGSTOP);
  std::this_thread::sleep_for(milliseconds(3000));
  const std::size_t before = metric("still", "loss").size();
  for (int rank = 0; rank < 3; ++rank) signal_process(rank, SIGCONT);
  wait_until([&] { return metric("still", "loss").size() > before + 10; });
  signal_process(0, SIGTERM);
  EXPECT_EQ(outcome_of(job), 130) << read_bytes(folder_ / "log");
}

TEST_F(DistributedTest, ASignalToOneProcessLeavesOneCheckpoint) {
  const std::string sets =
      "training.zero=1 training.steps=100000 checkpoint.every=100000 evaluation.every=100000";
  const pid_t job = start(2, "stopped", sets);
  wait_for("stopped/metrics.jsonl");
  wait_until([&] { return metric("stopped", "loss").size() >= 3; });
  signal_process(1, SIGTERM);
  EXPECT_EQ(outcome_of(job), 130);
  const std::vector<std::int64_t> steps = checkpoint_steps(folder_ / "stopped" / "checkpoints");
  ASSERT_EQ(steps.size(), 1u) << read_bytes(folder_ / "log");
  EXPECT_EQ(checkpoint_problem(checkpoint_path(folder_ / "stopped" / "checkpoints", steps[0])), "");
  expect_says(read_bytes(folder_ / "log"),
              "nystrom: stopped after step " + std::to_string(steps[0]) + ";");
  // The resumed run equals an undisturbed one.
  const int last = static_cast<int>(steps[0]) + 3;
  const std::string to_last = "training.zero=1 training.steps=" + std::to_string(last);
  succeeded(train(2, "stopped", to_last));
  succeeded(train(2, "straight", to_last));
  EXPECT_EQ(checksum("stopped", last), checksum("straight", last));
}

/// The signal hits the process that trains the tokenizer, or one that waits for it.
TEST_F(DistributedTest, ASignalWhileTextIsPreparedEndsAllAndLeavesNothingHalfMade) {
  std::ofstream text(folder_ / "text.txt");
  std::minstd_rand random(1);
  for (int word = 0; word < 200000; ++word) text << random() % 50000 << (word % 10 ? ' ' : '\n');
  text.close();
  const auto half_made = [&] {
    if (!fs::exists(folder_ / "cache")) return false;
    for (const auto& entry : fs::directory_iterator(folder_ / "cache"))
      if (entry.path().filename().string().find(".tmp-") != std::string::npos) return true;
    return false;
  };
  for (const int rank : {0, 1}) {
    fs::remove_all(folder_ / "cache");
    const pid_t job = start(2, "stopped", "tokenizer.train.vocab_size=2000");
    wait_until(half_made);
    signal_process(rank, SIGTERM);
    EXPECT_EQ(outcome_of(job), 130) << read_bytes(folder_ / "log");
    EXPECT_FALSE(half_made());
    expect_says(read_bytes(folder_ / "log"), "nystrom: stopped during preparation of the text; ");
  }
}

TEST_F(DistributedTest, MpirunPassesOnTheRequestToStop) {
  const pid_t job =
      start(2, "stopped", "training.steps=100000 checkpoint.every=100000 evaluation.every=100000");
  wait_for("stopped/metrics.jsonl");
  wait_until([&] { return !metric("stopped", "loss").empty(); });
  const auto asked = std::chrono::steady_clock::now();
  ASSERT_EQ(::kill(job, SIGUSR1), 0);
  EXPECT_EQ(outcome_of(job), 130) << read_bytes(folder_ / "log");
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - asked).count(), 8);
  expect_says(read_bytes(folder_ / "log"), "nystrom: stopped after step ");
  EXPECT_EQ(checkpoint_steps(folder_ / "stopped" / "checkpoints").size(), 1u);
}

TEST_F(DistributedTest, AnErrorOfOneProcessEndsAll) {
  const std::string error =
      refused(run_command(folder_, mpirun + "-np 1 " + program + options("run", "") + " : -np 1 " +
                                       program + options("run", "data.train=[absent.txt]")));
  expect_says(error, "nystrom: rank 1 on ");
  expect_says(error, "absent.txt");
}

TEST_F(DistributedTest, AnErrorOfAllIsToldOnce) {
  const std::string error = refused(train(2, "run", "data.train=[absent.txt]"));
  expect_says(error, "nystrom: rank 0 on ");
  expect_hides(error, "nystrom: rank 1 on ");
}

TEST_F(DistributedTest, OtherOptionsInOneProcessAreRefused) {
  expect_says(refused(run_command(folder_, mpirun + "-np 1 " + program + options("run", "") +
                                               " : -np 1 " + program + options("run", "seed=7"))),
              "has another configuration than rank 0 on ");
}

TEST_F(DistributedTest, DeterministicStepsOfUnequalPartsAreRefused) {
  expect_says(refused(train(3, "run", "training.deterministic=true")),
              "training.deterministic with 3 processes needs a batch_size that is divisible by 3 x "
              "micro_batch_size 2; got 8");
}

TEST_F(DistributedTest, ABatchThatIsTooSmallIsRefused) {
  expect_says(refused(train(2, "run", "training.batch_size=1 training.micro_batch_size=1")),
              "training.batch_size 1 leaves some of 2 processes without a sequence; raise it, or "
              "start fewer");
  EXPECT_FALSE(fs::exists(folder_ / "run")) << "nothing is written before";
}
}  // namespace
}  // namespace nystrom::testing
