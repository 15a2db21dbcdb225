#include "core/base/stop_signals.h"

#include <utility>

namespace nystrom {
namespace {

volatile std::sig_atomic_t stop_requested = 0;

void request(int) { stop_requested = 1; }

}  // namespace

StopSignals::StopSignals() {
  stop_requested = 0;
  for (std::size_t i = 0; i < std::size(stop_signals); ++i) {
    before_[i] = std::signal(stop_signals[i], &request);
    // A terminal that closes ends nothing that nohup started.
    if (stop_signals[i] == SIGHUP && before_[i] == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < std::size(stop_signals); ++i)
    std::signal(stop_signals[i], before_[i]);
}

bool StopSignals::requested() const { return stop_requested != 0; }

EndAtSignals::EndAtSignals(std::string message)
    : check_([this, message = std::move(message)] {
        if (stop_.requested()) throw Interrupted(message);
      }) {}

}  // namespace nystrom
