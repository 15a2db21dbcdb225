// A run as a state machine: events that happen to a run directory, and what must hold after each.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

namespace nystrom::testing {

/// Something that happens to a run.
struct Event {
  enum class Kind {
    train,            ///< to the end, unless something is damaged
    stop,             ///< SIGTERM at a moment
    kill,             ///< SIGKILL at a moment
    full_disk,        ///< for a while
    damage_newest,    ///< a bit of the newest checkpoint flips
    damage_best,      ///< … of the best one
    damage_log,       ///< metrics.jsonl loses its end
    change_text,      ///< then started, then changed back
    change_held_out,  ///< the same with the validation text
    change_settings,  ///< started with another learning rate
    forget_cache,     ///< and what is left of a preparation that was killed
    two_processes,    ///< asked to stop at a moment
    evaluate,
    export_model,
  };
  Kind kind;
  double moment = 0;  ///< of the time that a whole run takes, from its start
  double length = 0;  ///< of a full disk, in the same measure
  std::uint32_t choice = 0;
};

std::string name_of(const Event& event);
std::vector<Event> random_events(std::mt19937& random, int count);

/// Runs of the program in a folder, with the same settings each. The first one, never disturbed,
/// tells how all must end.
class RunLife {
 public:
  RunLife();
  /// A new run to which these events happen, one after another, and which then is trained to its
  /// end. What was wrong; empty: nothing.
  std::string live(const std::vector<Event>& events);
  /// The events without those that are not needed for something to be wrong, in the order given.
  std::vector<Event> fewest(std::vector<Event> events);
  /// How often each kind of event happened, and how often in which way it ended: "kill: 12",
  /// "resumed": 40.
  const std::map<std::string, int>& counts() const { return counts_; }

 private:
  struct Known {
    std::int64_t newest = 0;           ///< whole checkpoint; 0: none
    std::optional<std::int64_t> best;  ///< by the state of the newest one
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
  double seconds_ = 0;  // of a whole run
  std::map<std::string, int> counts_;
};

}  // namespace nystrom::testing
