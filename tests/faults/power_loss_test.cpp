// Power loss at any moment of saving. Every checkpoint that was reported as saved exists and is
// complete, and no incomplete one is visible. The tests take every prefix of the recorded
// operations. Unsynced changes are lost, kept or partly kept, with torn writes.
#include <gtest/gtest.h>

#include <set>

#include <fmt/format.h>

#include "tests/faults/crash_states.h"
#include "tests/faults/saving.h"
#include "tests/support/rounds.h"
#include "tests/support/temporary_folder.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;
using Kind = FileOperation::Kind;

struct LossSave {
  std::int64_t step;
  int version;
};
/// The folder keeps three checkpoints. A run that stops during an evaluation loss_saves its step
/// again.
constexpr LossSave loss_saves[] = {{1, 0}, {2, 0}, {3, 0}, {3, 1}, {4, 0}, {4, 1}, {5, 0}};

/// Records all loss_saves, starting without a run directory.
std::vector<FileOperation> history(Exchange exchange) {
  const TemporaryFolder root;
  FileRecorder recorder(root.path(), exchange);
  CheckpointFolder folder(checkpoints_below(root.path()), 3);
  for (std::int64_t number = 0; number < std::ssize(loss_saves); ++number) {
    save_step(folder, loss_saves[number].step, loss_saves[number].version);
    recorder.acknowledge(number + 1);
  }
  return recorder.operations();
}

/// The part that readers see: they ignore the names of unfinished and removed checkpoints. `latest`
/// is only a hint to users.
Tree visible(const Tree& tree) {
  Tree seen;
  for (const auto& [path, content] : tree) {
    if (path.find(".tmp-") == std::string::npos && path.find(".trash-") == std::string::npos &&
        !path.ends_with("/latest"))
      seen.emplace(path, content);
  }
  return seen;
}

void write_tree(const Tree& tree, const fs::path& folder) {
  for (const auto& [path, content] : tree) {
    if (path.ends_with('/')) {
      fs::create_directories(folder / path);
    } else {
      write_bytes(folder / path, content);
    }
  }
}

/// The number of the save that wrote the checkpoint at `path`, counted from 1, or 0.
std::int64_t save_at(const fs::path& path) {
  const std::string weights = read_bytes(path / "weights");
  for (std::int64_t number = 0; number < std::ssize(loss_saves); ++number)
    if (weights == weights_of(loss_saves[number].step, loss_saves[number].version))
      return number + 1;
  return 0;
}

/// Describes the problem of a disk after save number `acknowledged` was reported, or returns an
/// empty text.
std::string problem_of(const Tree& tree, std::int64_t acknowledged) {
  const TemporaryFolder root;
  write_tree(tree, root.path());
  const fs::path checkpoints = checkpoints_below(root.path());
  std::int64_t newest = 0;
  for (const std::int64_t step : checkpoint_steps(checkpoints)) {
    const fs::path path = checkpoint_path(checkpoints, step);
    const std::string problem = checkpoint_problem(path);
    if (!problem.empty()) return "an incomplete checkpoint shows: " + problem;
    if (save_at(path) == 0) return "other weights";
    newest = std::max(newest, save_at(path));
  }
  return newest >= acknowledged
             ? ""
             : fmt::format("save {} was acknowledged, save {} found", acknowledged, newest);
}

struct Checked {
  std::int64_t states = 0;
  std::string problem;
};

/// Restores the name that `path` had before a rename.
void undo_rename(std::string& path, const FileOperation& renaming) {
  if ((path + "/").starts_with(renaming.target + "/"))
    path.replace(0, renaming.target.size(), renaming.path);
}

/// Replays the history without some operations. Stops at the first problem.
Checked check(std::vector<FileOperation> operations, int random_states,
              const std::set<std::size_t>& left_out = {}) {
  std::mt19937 random(1);
  std::set<std::pair<std::int64_t, Tree>> known;  // most states are equal
  DiskModel disk;
  Checked checked;
  std::int64_t acknowledged = 0;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (left_out.contains(i)) {
      if (operations[i].kind != Kind::rename) continue;
      for (std::size_t j = i + 1; j < operations.size(); ++j) {
        undo_rename(operations[j].path, operations[i]);
        undo_rename(operations[j].target, operations[i]);
      }
      continue;
    }
    disk.apply(operations[i]);
    if (operations[i].kind == Kind::acknowledge) acknowledged = operations[i].acknowledged;
    if (!left_out.empty() && i < *left_out.begin()) continue;  // equal to the whole history
    for (int state = 0; state < 2 + random_states; ++state) {
      const Unsynced unsynced = state == 0   ? Unsynced::lost
                                : state == 1 ? Unsynced::kept
                                : state % 2  ? Unsynced::dropped
                                             : Unsynced::torn;
      Tree tree = visible(disk.after_power_loss(unsynced, random));
      ++checked.states;
      if (!known.emplace(acknowledged, tree).second) continue;
      checked.problem = problem_of(tree, acknowledged);
      if (checked.problem.empty()) continue;
      checked.problem = fmt::format("after operation {}: {}", i, checked.problem);
      return checked;
    }
  }
  return checked;
}

/// Operation `i`. If it syncs a folder, also all other syncs of that folder in the same save: the
/// last sync alone would be enough.
std::set<std::size_t> with_its_like(const std::vector<FileOperation>& operations, std::size_t i) {
  std::set<std::size_t> like{i};
  if (operations[i].kind != Kind::sync_folder) return like;
  std::size_t begin = i, end = i;
  while (begin > 0 && operations[begin - 1].kind != Kind::acknowledge) --begin;
  while (operations[end].kind != Kind::acknowledge) ++end;
  for (std::size_t j = begin; j < end; ++j)
    if (operations[j].kind == Kind::sync_folder && operations[j].path == operations[i].path)
      like.insert(j);
  return like;
}

class PowerLoss : public ::testing::TestWithParam<Exchange> {};

TEST_P(PowerLoss, LosesNoAcknowledgedCheckpointAndShowsNoIncompleteOne) {
  const Checked checked = check(history(GetParam()), 500 * test_rounds());
  EXPECT_EQ(checked.problem, "");
  EXPECT_GE(checked.states, 100000);
}

TEST_P(PowerLoss, EverySyncAndRenameIsNeeded) {
  const auto operations = history(GetParam());
  int needed = 0;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const auto& [kind, path, target, offset, bytes, acknowledged] = operations[i];
    if (kind != Kind::sync_file && kind != Kind::sync_folder && kind != Kind::rename &&
        kind != Kind::exchange)
      continue;
    if (path.find("/latest.tmp-") != std::string::npos) continue;  // a hint
    EXPECT_NE(check(operations, 30, with_its_like(operations, i)).problem, "")
        << "operation " << i << ": " << path;
    ++needed;
  }
  EXPECT_GT(needed, 70);
}

/// An old checkpoint is renamed, the new name is made durable, and only then are its files removed.
TEST_P(PowerLoss, RemovingWaitsForTheNewName) {
  const auto operations = history(GetParam());
  int found = 0;
  for (std::size_t i = 1; i + 1 < operations.size(); ++i) {
    if (operations[i].kind != Kind::sync_folder ||
        operations[i - 1].target.find(".trash-") == std::string::npos)
      continue;
    EXPECT_NE(check(operations, 30, {i}).problem, "") << "operation " << i;
    ++found;
  }
  EXPECT_EQ(found, 2);
}

INSTANTIATE_TEST_SUITE_P(Exchange, PowerLoss,
                         ::testing::Values(Exchange::possible, Exchange::impossible),
                         [](const auto& test) {
                           return test.param == Exchange::possible ? "Possible" : "Impossible";
                         });

}  // namespace
}  // namespace nystrom::testing
