// The process that all processes of an emulated communicator talk to: a thread of rank 0. It
// compares what they ask for, and computes it.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/nccl_emulation/messages.h"

namespace nystrom::nccl_emulation {

class Hub {
 public:
  /// Serves `size` processes that connect to the listening socket. Each gets an answer when all of
  /// them are there.
  Hub(int listening, int size);
  /// Waits until all processes have said goodbye or are gone, unless stop() was called.
  ~Hub();
  void stop() { stopped_ = true; }

 private:
  struct Process {
    explicit Process(int socket) : connection(socket) {}
    Connection connection;
    std::optional<Hello> hello;
    std::optional<Request> request;
    bool left = false;
  };

  void serve();
  void accept();
  /// Reads from a process. Returns false if it is gone without a goodbye.
  bool read(Process& process);
  void start();
  void match();
  bool needs_one_that_left(const Part& part) const;
  bool match_pairs();
  void match_collectives();
  void reduce(std::size_t part, const std::vector<std::size_t>& begins,
              std::vector<std::vector<char>>& results);
  void answer(Process& process, int status, const void* bytes, std::size_t count);
  /// Tells all processes of an error and ends the service.
  void fail(int status, const std::string& text);
  std::string what_each_asks() const;

  int listening_, size_;
  std::vector<std::unique_ptr<Process>> processes_;  // by rank, once all are there
  std::atomic<bool> stopped_{false};
  bool started_ = false, ended_ = false;
  std::thread thread_;
};

}  // namespace nystrom::nccl_emulation
