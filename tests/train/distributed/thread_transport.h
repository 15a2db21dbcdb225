// Threads that act as processes: a communicator without MPI. Tests can inspect all of them, and so
// can the thread sanitizer.
#pragma once

#include <atomic>
#include <barrier>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "train/distributed/communicator.h"
#include "train/distributed/transport.h"

namespace nystrom::testing {

/// The data that the threads share. Sums are in f64.
struct Room {
  explicit Room(int n) : size(n), data(static_cast<std::size_t>(n)), meeting(n) {}
  int size;
  std::vector<char*> data;
  std::barrier<> meeting;
  std::atomic<bool> stuck{false};  // the last process hangs
  std::atomic<bool> leave{false};
};

class ThreadTransport : public Transport {
 public:
  ThreadTransport(Room& room, int rank) : room_(room) {
    rank_ = local_rank_ = rank;
    size_ = room.size;
  }

  void run(const Operation& operation, Buffer values) override {
    if (operation.kind == Operation::all_reduce) all_reduce(values);
    if (operation.kind == Operation::all_gather) all_gather(values, operation.bounds.data());
  }
  void request_end(int) override {}
  void serve_end() override {}

 private:
  void all_reduce(Buffer values) {
    if (room_.stuck) {
      while (!room_.leave) std::this_thread::yield();
      return;
    }
    meet(values);
    std::vector<double> sums(static_cast<std::size_t>(values.count), 0);
    for (const char* each : room_.data) {
      for (std::size_t i = 0; i < sums.size(); ++i)
        sums[i] += reinterpret_cast<const double*>(each)[i];
    }
    room_.meeting.arrive_and_wait();  // all have read
    std::memcpy(values.data, sums.data(), sums.size() * sizeof(double));
  }
  void all_gather(Buffer all, const std::int64_t* bounds) {
    meet(all);
    for (int r = 0; r < room_.size; ++r) {
      const auto begin = static_cast<std::size_t>(bounds[r] * size_of(all.dtype)),
                 end = static_cast<std::size_t>(bounds[r + 1] * size_of(all.dtype));
      if (r != rank_)
        std::memcpy(static_cast<char*>(all.data) + begin,
                    room_.data[static_cast<std::size_t>(r)] + begin, end - begin);
    }
    room_.meeting.arrive_and_wait();
  }
  void meet(Buffer values) {
    room_.data[static_cast<std::size_t>(rank_)] = static_cast<char*>(values.data);
    room_.meeting.arrive_and_wait();
  }

  Room& room_;
};

/// Runs `f` in each process of the room.
template <class Transport = ThreadTransport>
void in_processes(Room& room, const std::function<void(Communicator&)>& f) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < room.size; ++rank) {
    threads.emplace_back([&, rank] {
      Communicator communicator([&] { return std::make_unique<Transport>(room, rank); });
      f(communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace nystrom::testing
