#include "core/allocator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "tests/support/errors.h"
#include "tests/support/many_lengths.h"
#include "tests/support/says.h"

namespace nystrom::testing {
namespace {

constexpr std::int64_t kib = 1024, mib = 1024 * kib;

TEST(Arena, BlocksAreAlignedAndRounded) {
  struct Case {
    std::int64_t asked, given;
  };
  for (const auto [asked, given] : {Case{0, 64},
                                    {1, 64},
                                    {64, 64},
                                    {65, 128},
                                    {1000, 1024},
                                    {1025, 1152},
                                    {100000, 106496},
                                    {mib, mib}}) {
    Arena arena(cpu_device);
    const auto block = arena.allocate(asked);
    EXPECT_EQ(arena.statistics().in_use_bytes, given) << asked << " bytes";
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.get()) % 64, 0) << asked << " bytes";
  }
}

TEST(Arena, ReusesAFreedBlock) {
  Arena arena(cpu_device);
  const void* first = arena.allocate(1000).get();
  EXPECT_EQ(arena.allocate(1000).get(), first);
  EXPECT_EQ(arena.statistics().system_allocations, 1);
}

TEST(Arena, ReusesABlockAtMostAnEighthLarger) {
  Arena arena(cpu_device);
  const void* large = arena.allocate(1152).get();
  EXPECT_EQ(arena.allocate(1024).get(), large);
  EXPECT_NE(arena.allocate(960).get(), large);
}

TEST(Arena, TakesTheBestFittingBlock) {
  Arena arena(cpu_device);
  auto large = arena.allocate(1152), exact = arena.allocate(1024);
  const void* expected = exact.get();
  large.reset();
  exact.reset();
  EXPECT_EQ(arena.allocate(1024).get(), expected);
}

TEST(Arena, CountsWhatIsInUseItsPeakAndWhatIsReserved) {
  Arena arena(cpu_device);
  auto a = arena.allocate(mib);
  { const auto b = arena.allocate(2 * mib); }
  auto statistics = arena.statistics();
  EXPECT_EQ(statistics.in_use_bytes, mib);
  EXPECT_EQ(statistics.peak_in_use_bytes, 3 * mib);
  EXPECT_EQ(statistics.reserved_bytes, 3 * mib);
  EXPECT_EQ(statistics.system_allocations, 2);

  arena.reset_peak();
  arena.release_cache();
  statistics = arena.statistics();
  EXPECT_EQ(statistics.peak_in_use_bytes, mib);
  EXPECT_EQ(statistics.reserved_bytes, mib);
}

TEST(Arena, FreesItsCacheBeforeItGivesUp) {
  Arena arena(cpu_device);
  arena.set_limit(mib);
  arena.allocate(768 * kib).reset();
  const auto block = arena.allocate(960 * kib);
  EXPECT_EQ(arena.statistics().reserved_bytes, 960 * kib);
}

TEST(Arena, OutOfMemoryNamesTheLargestHolders) {
  Arena arena(cpu_device);
  arena.set_limit(8 * mib);
  std::vector<std::shared_ptr<void>> held;
  {
    const AllocationLabel label("small");
    held.push_back(arena.allocate(mib));
  }
  {
    const AllocationLabel label("large");
    held.push_back(arena.allocate(2 * mib));
    held.push_back(arena.allocate(2 * mib));
  }
  held.push_back(arena.allocate(mib / 2));
  EXPECT_EQ(message_of([&] { (void)arena.allocate(4 * mib); }),
            "out of memory on cpu: 4.0 MiB requested, 5.5 MiB in use, 5.5 MiB reserved; largest "
            "holders: large 4.0 MiB, small 1.0 MiB, other 0.5 MiB; lower micro_batch_size or "
            "sequence_length, set activation_checkpointing: true, or make the model smaller");
}

TEST(Arena, IsUsableAfterItRanOut) {
  Arena arena(cpu_device);
  arena.set_limit(mib);
  EXPECT_NE(message_of([&] { (void)arena.allocate(2 * mib); }), "");
  EXPECT_NE(arena.allocate(mib / 2), nullptr);
}

TEST(Arena, OutOfMemoryWithoutHolders) {
  Arena arena(cpu_device);
  arena.set_limit(0);
  expect_says(message_of([&] { (void)arena.allocate(1); }), "largest holders: nothing;");
}

TEST(Arena, RefusesNegativeSizes) {
  Arena arena(cpu_device);
  EXPECT_EQ(message_of([&] { (void)arena.allocate(-1); }), "cannot allocate -1 bytes");
}

TEST(Arena, BlocksOutliveTheirArena) {
  std::shared_ptr<void> block;
  {
    Arena arena(cpu_device);
    block = arena.allocate(1000);
  }
  std::memset(block.get(), 1, 1000);
}

TEST(Arena, ThreadsNeverShareABlock) {
  Arena arena(cpu_device);
  const auto work = [&arena](unsigned char mark, bool& intact) {
    std::vector<std::pair<std::shared_ptr<void>, std::size_t>> held(8);
    for (std::size_t i = 0; i < 2000; ++i) {
      auto& [block, size] = held[i % held.size()];
      const auto* bytes = static_cast<const unsigned char*>(block.get());
      for (std::size_t at = 0; block && at < size; ++at) intact = intact && bytes[at] == mark;
      size = 1 + i * 37 % 500;
      block = arena.allocate(static_cast<std::int64_t>(size));
      std::memset(block.get(), mark, size);
    }
  };
  bool intact[4] = {true, true, true, true};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back(work, static_cast<unsigned char>(i + 1), std::ref(intact[i]));
  for (auto& thread : threads) thread.join();
  for (const bool whole : intact) EXPECT_TRUE(whole);
  EXPECT_EQ(arena.statistics().in_use_bytes, 0);
}

TEST(Arena, TheSameWorkAgainAsksTheSystemForNothing) {
  Arena arena(cpu_device);
  const auto work = [&arena] {
    std::vector<std::shared_ptr<void>> held;
    for (std::int64_t i = 0; i < 100; ++i) {
      held.push_back(arena.allocate(1 + i * i * 7 % 5000));
      if (i % 3 == 0) held.erase(held.begin() + i % 5 % static_cast<std::int64_t>(held.size()));
    }
  };
  work();
  const auto after_first = arena.statistics().system_allocations;
  work();
  EXPECT_EQ(arena.statistics().system_allocations, after_first);
}

TEST(Arena, ManyLengthsReserveLittleMoreThanTheLargestNeeds) {
  for (const Device device : {cpu_device, Device{Device::Kind::planned}})
    EXPECT_LE(reserved_for_many_lengths(device), 1.3) << device.name();
}

}  // namespace
}  // namespace nystrom::testing
