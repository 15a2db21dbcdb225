// An operation of the emulated NCCL on a stream: it sends numbers to the hub and takes the answer.
#pragma once

#include <nccl.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/nccl_emulation/messages.h"

namespace nystrom::nccl_emulation {

using Clock = std::chrono::steady_clock;

/// What an environment variable asks for.
struct Fault {
  int rank = -1;
  std::int64_t operation = 0;
  std::string what;

  static Fault from_environment() {
    Fault fault;
    if (const char* text = std::getenv("NYSTROM_NCCL_FAULT"))
      std::istringstream(text) >> fault.rank >> fault.operation >> fault.what;
    return fault;
  }
};

/// A communicator. Operations on streams own it too: they may outlive the program's handle.
struct Shared {
  int rank = 0, size = 0, device = 0;
  std::unique_ptr<Connection> hub;
  std::mutex mutex;  // protects the next two
  ncclResult_t state = ncclInProgress;
  std::string error;
  std::atomic<bool> aborted{false};
  Fault fault = Fault::from_environment();
  std::int64_t operations = 0;

  void set(ncclResult_t to, const std::string& text) {
    const std::lock_guard lock(mutex);
    if (state != ncclSuccess && state != ncclInProgress) return;  // the first error counts
    state = to;
    error = text;
  }
  ncclResult_t now() {
    const std::lock_guard lock(mutex);
    return state;
  }
};

/// A part of an operation, and its numbers on the GPU.
struct Work {
  Part part;
  const void* source;
  void* target;
};

/// An operation on a stream: one part, or a group of them.
class Exchange {
 public:
  Exchange(std::shared_ptr<Shared> communicator, std::vector<Work> works)
      : communicator_(std::move(communicator)), works_(std::move(works)) {}

  /// Does what can be done without waiting. Returns whether the operation is done.
  bool run() {
    if (communicator_->aborted) return true;
    if (communicator_->now() != ncclSuccess) return false;  // kernels wait for ever
    if (!sent_ && !send()) return false;
    const bool open = communicator_->hub->read();
    if (take()) return true;
    if (!open) communicator_->set(ncclRemoteError, "the connection is closed");
    return false;
  }

 private:
  bool send() {
    if (begun_ == Clock::time_point{}) {
      begun_ = Clock::now();
      ++communicator_->operations;
    }
    if (!faulty()) return false;
    sent_ = true;
    const std::uint64_t parts = works_.size();
    Connection& hub = *communicator_->hub;
    bool open = hub.write(&parts, sizeof parts);
    for (const Work& work : works_) open = open && hub.write(&work.part, sizeof work.part);
    for (const Work& work : works_)
      if (work.part.gives(communicator_->rank))
        open = open && hub.write(work.source, work.part.bytes());
    return true;  // a closed connection is noticed when an answer is read
  }

  /// Injects the fault. Returns whether the operation goes on.
  bool faulty() {
    const Fault& fault = communicator_->fault;
    if (fault.rank != communicator_->rank) return true;
    if (fault.what == "late") return Clock::now() > begun_ + std::chrono::milliseconds(3);
    if (fault.operation > communicator_->operations) return true;
    if (fault.what == "die") ::raise(SIGKILL);
    if (fault.what == "error") communicator_->set(ncclInternalError, "an injected error");
    return false;
  }

  /// Takes the answer if it is complete.
  bool take() {
    Connection& hub = *communicator_->hub;
    const auto* head = hub.front<Answer>();
    if (!head || hub.received.size() < sizeof(Answer) + head->bytes) return false;
    const auto status = static_cast<ncclResult_t>(head->status);
    const char* bytes = hub.received.data() + sizeof(Answer);
    if (status != ncclSuccess) {
      communicator_->set(status, std::string(bytes, head->bytes));
      return false;
    }
    for (const Work& work : works_) {
      if (!work.part.takes(communicator_->rank)) continue;
      std::memcpy(work.target, bytes, work.part.bytes());
      bytes += work.part.bytes();
    }
    hub.drop(sizeof(Answer) + head->bytes);
    return true;
  }

  std::shared_ptr<Shared> communicator_;
  std::vector<Work> works_;
  Clock::time_point begun_{};
  bool sent_ = false;
};

}  // namespace nystrom::nccl_emulation
