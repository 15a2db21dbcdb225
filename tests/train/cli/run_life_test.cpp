// Random events on a run in random order. No acknowledged checkpoint is lost, the run continues
// from the newest one, and errors name their cause. Nothing is left behind, and the final bits
// equal those of an undisturbed run.
#include "tests/train/cli/run_life.h"

#include <iostream>

#include "tests/support/rounds.h"

namespace nystrom::testing {
namespace {

/// Events happen at moments of a real clock, so a sequence may have another outcome next time. The
/// seed decides only the sequence.
TEST(RunLife, NoEventsLoseAnythingOrChangeTheEnd) {
  RunLife run;
  std::mt19937 random(static_cast<std::uint32_t>(test_rounds()));  // longer runs draw other lives
  for (int life = 0; life < 10 * test_rounds(); ++life) {
    const std::vector<Event> events = random_events(random, 8);
    const std::string problem = run.live(events);
    if (problem.empty()) continue;
    std::string shortest;
    for (const Event& event : run.fewest(events)) shortest += "\n  " + name_of(event);
    FAIL() << problem << "\nThe events of life " << life << " that are needed for it:" << shortest;
  }
  for (const auto& [name, count] : run.counts()) std::cout << name << ": " << count << '\n';
  EXPECT_GT(run.counts().at("resumed"), 5);
}

/// Cases found by an audit: a stop during an evaluation, whose step is saved again on a full disk;
/// a damaged best checkpoint; another held-out text.
TEST(RunLife, TroubleAfterAStopAtAnyMoment) {
  RunLife run;
  for (int tenth = 3; tenth < 10; ++tenth) {
    const Event stop{Event::Kind::stop, tenth / 10.0}, full{Event::Kind::full_disk, 0, 1, 20000};
    EXPECT_EQ(run.live({stop, full}), "") << "a full disk after a stop at " << tenth << " tenths";
    EXPECT_EQ(run.live({stop, {Event::Kind::damage_best}, {Event::Kind::evaluate}}), "")
        << "damage after a stop at " << tenth << " tenths";
    EXPECT_EQ(run.live({stop, {Event::Kind::change_held_out}}), "")
        << "other text after a stop at " << tenth << " tenths";
  }
}

}  // namespace
}  // namespace nystrom::testing
