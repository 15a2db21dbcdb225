// The communicator, with threads instead of processes.
#include "train/distributed/communicator.h"

#include <gtest/gtest.h>

#include "core/kernels.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/distributed/thread_transport.h"

namespace nystrom::testing {
namespace {

TEST(Communicator, WorksBesideItsCaller) {
  Room room(3);
  std::atomic<int> right{0};
  in_processes(room, [&](Communicator& c) {
    std::vector<Tensor> ranges;
    /// The caller computes while other sums are in flight.
    for (int i = 0; i < 50; ++i) {
      ranges.push_back(Tensor::full({100}, c.rank() + i, DType::f64));
      c.all_reduce(ranges.back());
      if (i % 20 == 19) c.wait();
    }
    c.wait();
    bool all = true;
    for (int i = 0; i < 50; ++i)
      all = all &&
            ranges[static_cast<std::size_t>(i)].to_doubles() == std::vector<double>(100, 3 + 3 * i);
    all = all && c.gather(std::string(static_cast<std::size_t>(c.rank()), 'x')) ==
                     std::vector<std::string>{"", "x", "xx"};
    all = all && c.sum({1, static_cast<double>(c.rank())}) == std::vector<double>{3, 3};
    right += all;
    EXPECT_GE(c.working_seconds(), 0);
    EXPECT_GT(c.waiting_seconds(), 0);
  });
  EXPECT_EQ(right, 3);
}

TEST(Communicator, NamesTheOneThatDoesNotCome) {
  const TemporaryFolder folder;
  Room room(3);
  std::atomic<int> told{0}, right{0};
  in_processes(room, [&](Communicator& c) {
    const Communicator::TimeLimit limit(c, folder / "waiting", 0.5);
    c.barrier();
    room.stuck = true;
    if (c.rank() < 2) {
      const std::string message = message_of([&] { c.barrier(); });
      right += message.starts_with("no answer from " + c.name_of(2) +
                                   " within 0.5 seconds (training.timeout)");
      ++told;
    }
    while (told < 2) std::this_thread::yield();
    room.leave = true;
  });
  EXPECT_EQ(right, 2);
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

TEST(Communicator, TellsWhoIsNotLikeMost) {
  constexpr std::uint64_t base = 0xfedcba9876543210u;
  using Odd = std::optional<std::pair<int, int>>;
  const std::pair<std::vector<std::uint64_t>, Odd> cases[] = {
      {{base, base, base}, std::nullopt},
      {{base, base, base ^ 1}, {{2, 0}}},
      {{base ^ (std::uint64_t{1} << 63), base, base}, {{0, 1}}},
      {{base, base ^ 1, base ^ 2}, {{1, 0}}},
      {{base, base ^ 4}, {{1, 0}}}};
  for (const auto& each : cases) {
    const std::vector<std::uint64_t>& values = each.first;
    Room room(static_cast<int>(values.size()));
    std::atomic<std::size_t> right{0};
    in_processes(room, [&](Communicator& c) {
      const auto found = c.find_divergent_rank(values[static_cast<std::size_t>(c.rank())]);
      const auto of_texts =
          c.find_divergent_rank(std::to_string(values[static_cast<std::size_t>(c.rank())]));
      const auto pair = [](const auto& odd) {
        return odd ? Odd({odd->rank, odd->majority}) : Odd();
      };
      right += pair(found) == each.second && pair(of_texts) == each.second;
    });
    EXPECT_EQ(right, values.size());
  }
}

}  // namespace
}  // namespace nystrom::testing
