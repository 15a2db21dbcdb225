// A process without standard input, like a daemon. The next file that it opens gets descriptor 0.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace nystrom::testing {

class ClosedInput {
 public:
  ClosedInput() : kept_(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)) { ::close(STDIN_FILENO); }
  ~ClosedInput() {
    ::dup2(kept_, STDIN_FILENO);
    ::close(kept_);
  }
  ClosedInput(const ClosedInput&) = delete;
  ClosedInput& operator=(const ClosedInput&) = delete;

  static bool is_still_closed() { return ::fcntl(STDIN_FILENO, F_GETFD) < 0; }

 private:
  int kept_;
};

}  // namespace nystrom::testing
