// A run as a state machine: events on a run directory, and conditions that must hold after each.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

namespace nystrom::testing {

/// An event of a run.
struct Event {
  enum class Kind {
    train,            ///< to the end, unless something is damaged
    stop,             ///< SIGTERM at a random moment
    kill,             ///< SIGKILL at a random moment
    full_disk,        ///< for some time
    damage_newest,    ///< flips a bit of the newest checkpoint
    damage_best,      ///< flips a bit of the best checkpoint
    damage_log,       ///< removes the end of metrics.jsonl
    change_text,      ///< changes the text, starts, and changes it back
    change_held_out,  ///< the same with the validation text
    change_settings,  ///< started with another learning rate
    forget_cache,     ///< and the leftovers of a killed preparation
    two_processes,    ///< stopped at a random moment
    evaluate,
    export_model,
  };
  Kind kind;
  double moment = 0;  ///< start, as a share of the time of a whole run
  double length = 0;  ///< length of a full disk, in the same unit
  std::uint32_t choice = 0;
};

std::string name_of(const Event& event);
std::vector<Event> random_events(std::mt19937& random, int count);

/// Runs of the program in a folder with equal settings. The first run is undisturbed and gives the
/// expected end.
class RunLife {
 public:
  RunLife();
  /// Creates a new run, applies the events one after another, and trains it to its end. Returns a
  /// description of the first error, or an empty text.
  std::string live(const std::vector<Event>& events);
  /// Removes events that are not needed for the error. The order stays.
  std::vector<Event> fewest(std::vector<Event> events);
  /// How often each kind of event occurred, and how often each way to end: "kill: 12", "resumed":
  /// 40.
  const std::map<std::string, int>& counts() const { return counts_; }

 private:
  struct Known {
    std::int64_t newest = 0;           ///< complete checkpoint; 0: none
    std::optional<std::int64_t> best;  ///< according to the state of the newest one
    bool best_is_whole = false;
    std::vector<std::int64_t> damaged;
  };
  Known look() const;
  std::string checkpoint(std::int64_t step) const;
  pid_t start(const std::string& more, int processes) const;

  std::string happens(const Event& event);
  std::string trained(const Event& event, const Known& before, int code);
  std::string go(const Event& event);
  std::string damage(std::int64_t step, std::uint32_t choice);
  std::string refused(const std::string& file, const std::string& more, const std::string& cause);
  std::string evaluated() const;
  std::string exported() const;
  std::string ended();
  std::string leftovers() const;
  std::string log() const { return read_bytes(folder_ / "log"); }

  TemporaryFolder folder_;
  std::string final_weights_;
  double seconds_ = 0;  // duration of a whole run
  std::map<std::string, int> counts_;
};

}  // namespace nystrom::testing
