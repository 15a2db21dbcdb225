#include "core/base/stop_signals.h"

#include <utility>

namespace nystrom {
namespace {

volatile std::sig_atomic_t stop_requested = 0;

void request(int) { stop_requested = 1; }

}  // namespace

StopSignals::StopSignals()
    : interrupt_(std::signal(SIGINT, &request)),
      terminate_(std::signal(SIGTERM, &request)),
      user_(std::signal(SIGUSR1, &request)) {
  stop_requested = 0;
}

StopSignals::~StopSignals() {
  std::signal(SIGINT, interrupt_);
  std::signal(SIGTERM, terminate_);
  std::signal(SIGUSR1, user_);
}

bool StopSignals::requested() const { return stop_requested != 0; }

EndAtSignals::EndAtSignals(std::string message)
    : check_([this, message = std::move(message)] {
        if (stop_.requested()) throw Interrupted(message);
      }) {}

}  // namespace nystrom
