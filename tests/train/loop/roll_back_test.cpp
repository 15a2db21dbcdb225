// training.on_loss_spike: after a loss spike a run rolls back to an earlier checkpoint. Its result
// equals that of a run without the skipped batches.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/file_io.h"
#include "core/threads.h"
#include "tests/support/numbered_batches.h"
#include "tests/support/says.h"
#include "tests/support/temporary_folder.h"
#include "train/loop/trainer.h"
#include "train/state/run_state.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

bool one_spike(std::int64_t batch) { return batch >= 34 && batch < 37; }
bool no_spike(std::int64_t) { return false; }

class RollBackTest : public ::testing::Test {
 protected:
  // Waking a second thread takes longer than the work of these models.
  void SetUp() override { set_num_threads(1); }
  void TearDown() override { set_num_threads(threads_); }
  RunConfig config(const std::string& run_dir, std::int64_t checkpoint_every) const {
    RunConfig config = numbered_run(1);
    config.model.num_hidden_layers = 1;
    config.run_dir = (folder_ / run_dir).string();
    config.training.steps = 44;
    config.training.ema = 0.9;
    config.training.on_loss_spike = OnLossSpike::roll_back;
    config.checkpoint.every = checkpoint_every;
    config.logging.every = 1;
    config.logging.tensorboard = false;
    return config;
  }
  static void train(const RunConfig& config, std::unique_ptr<Objective> objective) {
    Log log(true);
    log.mute();
    Communicator alone;
    train_numbered(config, *objective, log, cpu_device, alone);
  }
  static void train(const RunConfig& config, const SpikingObjective::Far& far) {
    train(config, std::make_unique<SpikingObjective>(0, 1, far));
  }
  fs::path checkpoint(const std::string& run_dir, int step = 44) const {
    return folder_ / run_dir / "checkpoints" / ("step-" + std::to_string(step));
  }
  std::string weights(const std::string& run_dir) const {
    return file_checksum(checkpoint(run_dir) / "model.safetensors") +
           file_checksum(checkpoint(run_dir) / "optimizer.safetensors");
  }
  std::string log(const std::string& run_dir) const {
    return read_bytes(folder_ / run_dir / "log.txt");
  }

  TemporaryFolder folder_;

 private:
  int threads_ = num_threads();
};

TEST_F(RollBackTest, EndsAsIfTheBatchesHadNeverBeen) {
  struct Case {
    int checkpoint_every, keep, target;
  };
  for (const auto& [every, keep, target] :
       {Case{7, 3, 28}, {10, 3, 30}, {17, 3, 34}, {2, 3, 34}, {1, 2, 34}}) {
    SCOPED_TRACE(every);
    const int skipped = 37 - target;
    const std::string name = std::to_string(every);
    RunConfig spiked = config("spiked-" + name, every);
    spiked.checkpoint.keep = keep;
    train(spiked, one_spike);
    train(config("shorter-" + name, every),
          std::make_unique<ShorterObjective>(0, 1, target, skipped));
    EXPECT_EQ(weights("spiked-" + name), weights("shorter-" + name));
    expect_says(log("spiked-" + name),
                "step 37: the loss has spiked: 9.0000, 9.0000, 9.0000 in the last 3 steps; its "
                "baseline is 4.0");
    expect_says(log("spiked-" + name),
                fmt::format("rolling back to step {}, skipping the {} batches since then\n", target,
                            skipped));
  }
}

TEST_F(RollBackTest, OtherBatchesGiveOtherWeights) {
  train(config("spiked", 7), one_spike);
  train(config("straight", 7), no_spike);
  EXPECT_NE(weights("spiked"), weights("straight"));
}

TEST_F(RollBackTest, RecordsEveryStepOnceAndWhatIsSkipped) {
  train(config("run", 7), one_spike);
  std::istringstream file(read_bytes(folder_ / "run" / "metrics.jsonl"));
  int step = 0;
  for (std::string line; std::getline(file, line);) {
    const auto record = nlohmann::json::parse(line);
    if (!record.contains("loss")) continue;
    EXPECT_EQ(record["step"], ++step);
    EXPECT_LT(record["loss"], 5);
  }
  EXPECT_EQ(step, 44);
  const RunState end = RunState::read(checkpoint("run") / "state.json");
  ASSERT_EQ(end.skipped_batches.size(), 1u);
  EXPECT_EQ(end.skipped_batches[0].step, 28);
  EXPECT_EQ(end.skipped_batches[0].batches, 9);
  EXPECT_EQ(end.next_batch(), 53);
}

/// From batch 36 on the data is of another kind.
class StagedObjective : public SpikingObjective {
 public:
  StagedObjective() : SpikingObjective(0, 1, [](std::int64_t b) { return b >= 70 && b < 73; }) {}
  void start(std::int64_t batch) override {
    next_ = batch;
    SpikingObjective::start(batch);
  }
  bool are_comparable(std::int64_t a, std::int64_t b) const override {
    return (a < 36) == (b < 36);
  }
  StepResult step(Model& model, Optimizer& optimizer, const StepOptions& options) override {
    StepResult done = SpikingObjective::step(model, optimizer, options);
    if (next_++ == 36) done.new_stage = "another kind";
    return done;
  }

 private:
  std::int64_t next_ = 0;
};

TEST_F(RollBackTest, LossesOfAnEarlierStageAreForgotten) {
  RunConfig staged = config("staged", 36);
  staged.training.steps = 80;
  train(staged, std::make_unique<StagedObjective>());
  ASSERT_NE(log("staged").find("rolling back to step 36, skipping the 37 batches since then\n"),
            std::string::npos)
      << log("staged");
  const RunState end = RunState::read(checkpoint("staged", 80) / "state.json");
  EXPECT_EQ(end.losses->baseline().size(), 80u - 36u) << "those of the new stage alone";
}

/// Ends the run in its step call number `last`. An error leaves the disk as a kill does. A request
/// to stop lets the run save.
class EndingObjective : public SpikingObjective {
 public:
  EndingObjective(std::int64_t last, bool stops)
      : SpikingObjective(0, 1, one_spike), left_(last), stops_(stops) {}
  StepResult step(Model& model, Optimizer& optimizer, const StepOptions& options) override {
    if (--left_ == 0 && stops_) std::raise(SIGTERM);
    if (left_ == 0 && !stops_) throw Error("killed");
    return SpikingObjective::step(model, optimizer, options);
  }

 private:
  std::int64_t left_;
  bool stops_;
};

TEST_F(RollBackTest, AKilledRunEndsInTheSameBits) {
  for (const int every : {2, 3}) {
    train(config("straight-" + std::to_string(every), every), one_spike);
    for (int last = 33; last < 42; ++last) {
      SCOPED_TRACE(fmt::format("checkpoint every {}, ended in call {}", every, last));
      fs::remove_all(folder_ / "killed");
      EXPECT_THROW(train(config("killed", every), std::make_unique<EndingObjective>(last, false)),
                   Error);
      train(config("killed", every), one_spike);
      EXPECT_EQ(weights("killed"), weights("straight-" + std::to_string(every)));
    }
  }
}

/// A run never rolls back to checkpoints of stops, and these do not replace the one that it needs.
TEST_F(RollBackTest, AStoppedRunEndsInTheSameBits) {
  train(config("straight", 7), one_spike);
  for (int first = 29; first < 38; ++first) {
    SCOPED_TRACE(fmt::format("stopped in call {}, and in each of the next three", first));
    fs::remove_all(folder_ / "stopped");
    RunConfig stopped = config("stopped", 7);
    stopped.checkpoint.keep = 2;
    train(stopped, std::make_unique<EndingObjective>(first, true));
    for (int i = 0; i < 3; ++i) train(stopped, std::make_unique<EndingObjective>(1, true));
    train(stopped, one_spike);
    EXPECT_EQ(weights("stopped"), weights("straight"));
  }
}

TEST_F(RollBackTest, WithoutACheckpointBeforeTheSpikeItOnlyWarns) {
  train(config("run", 40), one_spike);
  expect_says(log("run"), "; there is no checkpoint before it to roll back to\n");
  EXPECT_EQ(RunState::read(checkpoint("run") / "state.json").next_batch(), 44);
}

TEST_F(RollBackTest, WhereTheLastCheckpointIsDamagedTheOneBeforeIsTaken) {
  train(config("run", 7), [&](std::int64_t batch) {
    if (batch == 35) fs::remove(checkpoint("run", 28) / "model.safetensors");
    return one_spike(batch);
  });
  const RunState end = RunState::read(checkpoint("run") / "state.json");
  ASSERT_EQ(end.skipped_batches.size(), 1u);
  EXPECT_EQ(end.skipped_batches[0].step, 21);
  EXPECT_EQ(end.skipped_batches[0].batches, 16);
}

TEST_F(RollBackTest, TheFourthSpikeAfterOneCheckpointEndsTheRun) {
  const auto four_spikes = [](std::int64_t batch) { return batch >= 34 && (batch - 34) % 6 < 3; };
  const std::string message = input_error([&] { train(config("run", 7), four_spikes); });
  expect_says(message, "in the last 3 steps; its baseline is 4.0");
  expect_says(message,
              ", for the fourth time after the checkpoint of step 28; lower "
              "optimizer.learning_rate or raise schedule.warmup_steps, in a new run_dir");
}

TEST_F(RollBackTest, WarningAloneGoesOn) {
  RunConfig warned = config("run", 7);
  warned.training.on_loss_spike = OnLossSpike::warn;
  train(warned, one_spike);
  EXPECT_EQ(RunState::read(checkpoint("run") / "state.json").next_batch(), 44);
  expect_says(log("run"),
              "; if it stays there, lower optimizer.learning_rate or raise schedule.warmup_steps "
              "in a new run_dir, or roll back before it as the FAQ describes\n");
}

/// As the FAQ says.
TEST_F(RollBackTest, MayBeSwitchedOnOnceThereWasASpike) {
  RunConfig warned = config("run", 7);
  warned.training.on_loss_spike = OnLossSpike::warn;
  train(warned, one_spike);
  for (const std::int64_t step : {44, 42, 35})
    fs::remove_all(checkpoint("run", static_cast<int>(step)));
  train(config("run", 7), one_spike);
  EXPECT_EQ(RunState::read(checkpoint("run") / "state.json").next_batch(), 53);
}

}  // namespace
}  // namespace nystrom::testing
