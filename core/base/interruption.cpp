#include "core/base/interruption.h"

#include <utility>

namespace nystrom {
namespace {

thread_local InterruptionCheck* current = nullptr;

}  // namespace

InterruptionCheck::InterruptionCheck(std::function<void()> check)
    : check_(std::move(check)), previous_(std::exchange(current, this)) {}

InterruptionCheck::~InterruptionCheck() { current = previous_; }

void check_interruption() {
  if (current != nullptr) current->check_();
}

}  // namespace nystrom
