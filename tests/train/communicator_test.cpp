// The communicator without MPI: processes are threads here, so that the thread sanitizer sees all of it.
#include "train/communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <thread>

#include "core/kernels.h"
#include "tests/support/errors.h"
#include "tests/train/temporary_folder.h"
#include "train/transport.h"

namespace nystrom::testing {
namespace {

/// What threads share. Sums are of f64.
struct Room {
  explicit Room(int n) : size(n), data(static_cast<std::size_t>(n)), meeting(n) {}
  int size;
  std::vector<char*> data;
  std::barrier<> meeting;
  std::atomic<bool> stuck{false};  // the last process does not come any more
  std::atomic<bool> leave{false};
};

class ThreadTransport : public Transport {
 public:
  ThreadTransport(Room& room, int rank) : room_(room), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return room_.size; }
  int local_rank() const override { return rank_; }

  void all_reduce(Buffer values) override {
    if (room_.stuck) {
      while (!room_.leave) std::this_thread::yield();
      return;
    }
    meet(values);
    std::vector<double> sums(static_cast<std::size_t>(values.count), 0);
    for (const char* each : room_.data) {
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += reinterpret_cast<const double*>(each)[i];
    }
    room_.meeting.arrive_and_wait();  // all have read
    std::memcpy(values.data, sums.data(), sums.size() * sizeof(double));
  }
  void all_gather(Buffer all, const std::int64_t* bounds) override {
    meet(all);
    for (int r = 0; r < room_.size; ++r) {
      const auto begin = static_cast<std::size_t>(bounds[r] * size_of(all.dtype)),
                 end = static_cast<std::size_t>(bounds[r + 1] * size_of(all.dtype));
      if (r != rank_) std::memcpy(static_cast<char*>(all.data) + begin, room_.data[static_cast<std::size_t>(r)] + begin, end - begin);
    }
    room_.meeting.arrive_and_wait();
  }
  void reduce(Buffer, int) override {}
  void broadcast(Buffer, int) override {}
  void send(Buffer, int) override {}
  void receive(Buffer, int) override {}
  void request_end(int) override {}
  void serve_end() override {}

 private:
  void meet(Buffer values) {
    room_.data[static_cast<std::size_t>(rank_)] = static_cast<char*>(values.data);
    room_.meeting.arrive_and_wait();
  }

  Room& room_;
  int rank_;
};

/// Runs `f` as each of `size` processes.
void in_processes(Room& room, const std::function<void(Communicator&)>& f) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < room.size; ++rank) {
    threads.emplace_back([&, rank] {
      Communicator communicator([&] { return std::make_unique<ThreadTransport>(room, rank); });
      f(communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Communicator, WorksBesideItsCaller) {
  Room room(3);
  std::atomic<int> right{0};
  in_processes(room, [&](Communicator& c) {
    std::vector<Tensor> ranges;
    for (int i = 0; i < 50; ++i) {
      ranges.push_back(Tensor::full({100}, c.rank() + i, DType::f64));  // the caller computes while others are under way
      c.all_reduce(ranges.back());
      if (i % 20 == 19) c.wait();
    }
    c.wait();
    bool all = true;
    for (int i = 0; i < 50; ++i) all = all && ranges[static_cast<std::size_t>(i)].to_doubles() == std::vector<double>(100, 3 + 3 * i);
    all = all && c.gather(std::string(static_cast<std::size_t>(c.rank()), 'x')) == std::vector<std::string>{"", "x", "xx"};
    all = all && c.sum({1, static_cast<double>(c.rank())}) == std::vector<double>{3, 3};
    int calls = 0;
    all = all && c.first_before_others([&] { return ++calls; }) == 1;
    right += all;
    EXPECT_GE(c.working_seconds(), 0);
    EXPECT_GT(c.waiting_seconds(), 0);
  });
  EXPECT_EQ(right, 3);
}

TEST(Communicator, NamesTheOneThatDoesNotCome) {
  const TemporaryFolder folder;
  Room room(3);
  std::atomic<int> told{0};
  in_processes(room, [&](Communicator& c) {
    const Communicator::TimeLimit limit(c, folder / "waiting", 0.5);
    c.barrier();
    room.stuck = true;
    if (c.rank() < 2) {
      const std::string message = message_of([&] { c.barrier(); });
      told += message.starts_with("no answer from " + c.name_of(2) + " within 0.5 seconds (training.timeout)");
    } else {
      while (told < 1) std::this_thread::yield();
    }
    while (told < 2) std::this_thread::yield();
    room.leave = true;
  });
  EXPECT_EQ(told, 2);
}

TEST(Communicator, ThrowsWhatConnectingThrows) {
  const auto connect = []() -> std::unique_ptr<Transport> { throw InputError("no network"); };
  EXPECT_EQ(message_of([&] { Communicator communicator(connect); }), "no network");
}

TEST(Communicator, AloneDoesNothing) {
  Communicator alone;
  const Tensor values = Tensor::full({3}, 2, DType::i64);
  alone.all_reduce(values);
  alone.broadcast(values, 0);
  alone.all_gather(values, {0, 3});
  alone.wait();
  alone.barrier();
  EXPECT_EQ(values.to_doubles(), (std::vector<double>{2, 2, 2}));
  EXPECT_EQ(alone.sum({1, 2}), (std::vector<double>{1, 2}));
  EXPECT_EQ(alone.gather("text"), std::vector<std::string>{"text"});
  EXPECT_EQ(alone.from_first("text"), "text");
  EXPECT_EQ(alone.waiting_seconds() + alone.working_seconds(), 0);
  EXPECT_TRUE(alone.is_first());
}

}  // namespace
}  // namespace nystrom::testing
