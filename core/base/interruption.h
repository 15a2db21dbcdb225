// Requests to stop, heeded while long work is done: between batches, and while files are read.
#pragma once

#include <functional>
#include <stdexcept>

namespace nystrom {

/// Thrown after a requested stop, when all work is saved. The program exits with status 130, and
/// prints the message unless it is empty. It is no Error: nobody adds contexts to it.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// While the object lives, check_interruption() calls `check` in the thread that made it, in place
/// of the check before. `check` throws to end the work.
class InterruptionCheck {
 public:
  explicit InterruptionCheck(std::function<void()> check);
  ~InterruptionCheck();
  InterruptionCheck(const InterruptionCheck&) = delete;
  InterruptionCheck& operator=(const InterruptionCheck&) = delete;

 private:
  friend void check_interruption();

  std::function<void()> check_;
  InterruptionCheck* previous_;
};

/// Calls the check of this thread; does nothing without one. Long work calls it several times a
/// second, at places where an exception leaves nothing half done.
void check_interruption();

}  // namespace nystrom
