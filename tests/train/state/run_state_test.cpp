// state.json of a checkpoint: it survives writing and reading, and other content is rejected.
#include "train/state/run_state.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"

namespace nystrom::testing {
namespace {

RunState everything() {
  RunState state;
  state.step = 70;
  state.updates = 65;
  state.skipped_in_a_row = 1;
  state.loss_scale.emplace(512, 7);
  state.losses.emplace(std::vector<double>{4.1, 4.25}, std::vector<double>{9});
  state.anchor = 60;
  state.skipped_batches = {{20, 3}, {40, 12}};
  state.best_value = 3.5;
  state.best_step = 60;
  state.evaluations_since_best = 1;
  state.evaluated_step = 65;
  state.tokenizer = "a";
  state.data = "b";
  state.validation = "e";
  state.settings = "c";
  state.version = "d";
  return state;
}

RunState written_and_read(const RunState& state) {
  const TemporaryFolder folder;
  write_bytes(folder / "state.json", state.to_json());
  return RunState::read(folder / "state.json");
}

TEST(RunState, ComesBackAsItWas) {
  EXPECT_EQ(written_and_read(everything()).to_json(), everything().to_json());
  EXPECT_EQ(written_and_read(RunState()).to_json(), RunState().to_json());
}

TEST(RunState, HasWhatBelongsToSomeRunsInThoseAlone) {
  for (const char* key : {"loss_scale", "losses", "anchor", "skipped_batches"}) {
    EXPECT_TRUE(nlohmann::json::parse(everything().to_json()).contains(key));
    EXPECT_FALSE(nlohmann::json::parse(RunState().to_json()).contains(key));
  }
}

TEST(RunState, TheNextBatchComesBehindThoseThatAreSkipped) {
  EXPECT_EQ(everything().next_batch(), 70 + 3 + 12);
}

/// The error for state.json merged with `patch` (RFC 7396: null removes a key).
std::string refusal(const char* patch) {
  const TemporaryFolder folder;
  auto json = nlohmann::json::parse(everything().to_json());
  json.merge_patch(nlohmann::json::parse(patch));
  write_bytes(folder / "state.json", json.dump());
  const std::string message = input_error([&] { RunState::read(folder / "state.json"); }),
                    path = (folder / "state.json").string() + ": ";
  EXPECT_TRUE(message.starts_with(path)) << message;
  return message.substr(path.size());
}

TEST(RunState, AnythingElseIsRefused) {
  EXPECT_EQ(refusal(R"({"step": null})"), "is not the state of a run");
  EXPECT_EQ(refusal(R"({"tokenizer": 3})"), "is not the state of a run");
  EXPECT_EQ(refusal(R"({"losses": {"baseline": [null]}})"), "is not the state of a run");
  EXPECT_EQ(refusal(R"({"skipped_batches": [3]})"), "is not the state of a run");
  EXPECT_EQ(refusal(R"({"step": -1})"),
            "step is -1, expected a whole number from 0 to 9007199254740992");
  EXPECT_EQ(refusal(R"({"updates": 2.5})"),
            "updates is 2.5, expected a whole number from 0 to 9007199254740992");
  EXPECT_EQ(refusal(R"({"best_step": 9007199254740993})"),
            "best_step is 9007199254740993, expected a whole number from 0 to 9007199254740992");
  EXPECT_EQ(refusal(R"({"loss_scale": {"value": 3}})"),
            "loss_scale.value is 3, expected a power of two from 1 on");
  EXPECT_EQ(refusal(R"({"loss_scale": {"value": 0.5}})"),
            "loss_scale.value is 0.5, expected a power of two from 1 on");
  EXPECT_EQ(refusal(R"({"losses": {"outliers": [9, 9, 9]}})"),
            "losses has 2 in its baseline and 3 outliers; expected at most 100 and fewer than 3");
  EXPECT_EQ(refusal(R"({"skipped_batches": [{"step": 80, "batches": 3}]})"),
            "skipped_batches.step is 80, expected one from 0 to 70");
  EXPECT_EQ(
      refusal(R"({"skipped_batches": [{"step": 5, "batches": 3}, {"step": 4, "batches": 3}]})"),
      "skipped_batches.step is 4, expected one from 5 to 70");
  EXPECT_EQ(refusal(
                R"({"skipped_batches": [{"step": 4, "batches": 9007199254740992},
                                   {"step": 5, "batches": 1}]})"),
            "skipped_batches are 9007199254740993 in all, expected at most 9007199254740992");
}

}  // namespace
}  // namespace nystrom::testing
