// The transport over NCCL on an emulated NCCL, with threads instead of processes; and that this
// NCCL finds broken contracts.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "core/cuda/runtime.h"
#include "core/kernels.h"
#include "core/tensor.h"
#include "tests/cuda/device.h"
#include "tests/support/errors.h"
#include "tests/support/places.h"
#include "tests/support/run_program.h"
#include "tests/support/says.h"
#include "train/distributed/processes.h"
#include "train/distributed/rendezvous.h"
#include "train/distributed/transport.h"

namespace nystrom::testing {
namespace {

/// The module's function, loaded as the program loads it.
ConnectNccl connect_nccl() {
  static const auto function = [] {
    const std::string path = (build_folder() / "emulated" / "libnystrom_nccl.so").string();
    void* const module = ::dlopen(path.c_str(), RTLD_NOW);
    if (!module) throw Error(::dlerror());
    return reinterpret_cast<ConnectNccl>(::dlsym(module, "nystrom_connect_nccl"));
  }();
  return function;
}

const Operation all_reduce{Operation::all_reduce};

/// A process uses the GPU in one thread at a time.
std::mutex gpu_mutex;

/// A tensor on the GPU, and when it is ready.
class OnGpu {
 public:
  explicit OnGpu(const Tensor& values) {
    const std::lock_guard lock(gpu_mutex);
    values_ = values.to(gpu);
    ready_.emplace(gpu.index);
  }
  Buffer buffer() {
    const View view = values_;
    return {view.data, values_.numel(), values_.dtype(), ready_->handle()};
  }
  std::vector<double> numbers() const {
    const std::lock_guard lock(gpu_mutex);
    return values_.to_doubles();
  }

 private:
  Tensor values_;
  std::optional<cuda::Event> ready_;
};

Buffer on_cpu(Tensor& values) { return {View(values).data, values.numel(), values.dtype()}; }

void finish(Transport& transport) {
  while (transport.unfinished() > 0) std::this_thread::yield();
}

class NcclTest : public GpuTest<> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    ::setenv("NYSTROM_EMULATED_GPUS", "4", 1);
    ::unsetenv("NYSTROM_NCCL_FAULT");
  }
  void TearDown() override {
    emulation::set_missing(emulation::Missing::nothing);
    GpuTest::TearDown();
  }

  /// The places of `size` threads on the given GPUs.
  static std::vector<NcclPlace> places(const std::vector<int>& gpus) {
    // Below the ports that the system gives out: there, a process that waits for a listener can
    // connect to itself.
    static int port = 10000 + static_cast<int>(::getpid() % 600) * 30;
    ++port;
    const int size = static_cast<int>(gpus.size());
    std::vector<NcclPlace> all;
    for (int rank = 0; rank < size; ++rank) {
      const MeetingPlace meeting{rank, size, "127.0.0.1", std::to_string(port)};
      all.push_back({nullptr, rank, size, rank, gpus[static_cast<std::size_t>(rank)],
                     [=](std::span<std::byte> bytes) { share_from_first(meeting, bytes); }});
    }
    return all;
  }

  /// Calls `work` in `size` threads that NCCL connects. Returns the messages of their errors.
  template <class Work>
  static std::vector<std::string> in_processes(int size, const Work& work) {
    connect_nccl();
    std::vector<int> gpus(static_cast<std::size_t>(size));
    std::iota(gpus.begin(), gpus.end(), 0);
    return in_places(places(gpus), work);
  }
  template <class Work>
  static std::vector<std::string> in_places(const std::vector<NcclPlace>& places,
                                            const Work& work) {
    std::vector<std::string> messages(places.size());
    std::vector<std::thread> threads;
    for (const NcclPlace& place : places)
      threads.emplace_back([&] {
        messages[static_cast<std::size_t>(place.rank)] = message_of([&] {
          const std::unique_ptr<Transport> transport(connect_nccl()(&place));
          work(*transport);
        });
      });
    for (std::thread& thread : threads) thread.join();
    return messages;
  }
};

const std::vector<std::string> none{"", "", ""};

TEST_F(NcclTest, CarriesValuesOnGpus) {
  std::mutex mutex;
  const auto messages = in_processes(3, [&](Transport& t) {
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      OnGpu sum(Tensor::full({1000}, t.rank() + 1, dtype)),
          one(Tensor::full({1000}, t.rank() + 1, dtype)),
          shared(Tensor::full({7}, t.rank(), dtype)), gathered(Tensor::full({5}, t.rank(), dtype)),
          carried(Tensor::full({3}, t.rank(), dtype));
      t.run(all_reduce, sum.buffer());
      t.run({Operation::reduce, 2}, one.buffer());
      t.run({Operation::broadcast, 1}, shared.buffer());
      t.run({Operation::all_gather, 0, {0, 1, 1, 5}}, gathered.buffer());  // rank 1 gives nothing
      if (t.rank() == 0) t.run({Operation::send, 2}, carried.buffer());
      if (t.rank() == 2) t.run({Operation::receive, 0}, carried.buffer());
      finish(t);
      const std::lock_guard lock(mutex);
      EXPECT_EQ(sum.numbers(), std::vector<double>(1000, 6));
      EXPECT_EQ(one.numbers(), std::vector<double>(1000, t.rank() == 2 ? 6 : t.rank() + 1));
      EXPECT_EQ(shared.numbers(), std::vector<double>(7, 1));
      EXPECT_EQ(gathered.numbers(), (std::vector<double>{0, 2, 2, 2, 2}));
      EXPECT_EQ(carried.numbers(), std::vector<double>(3, t.rank() == 1 ? 1 : 0));
    }
  });
  EXPECT_EQ(messages, none);
}

TEST_F(NcclTest, CarriesValuesInCpuMemoryWithoutAllocatingAnything) {
  std::mutex mutex;
  std::barrier meeting(3);
  const auto messages = in_processes(3, [&](Transport& t) {
    std::optional<std::int64_t> before;
    for (int i = 0; i < 10; ++i) {
      Tensor sum = Tensor::full({100}, t.rank() + i, DType::f64);
      t.run(all_reduce, on_cpu(sum));
      const std::lock_guard lock(mutex);
      EXPECT_EQ(sum.to_doubles(), std::vector<double>(100, 3 + 3 * i));
    }
    OnGpu values(Tensor::full({100}, 1, DType::f32));
    for (int i = 0; i < 10; ++i) {
      meeting.arrive_and_wait();
      if (i == 3) before = emulation::creations();
      for (int k = 0; k < 4; ++k) t.run(all_reduce, values.buffer());
      finish(t);
      meeting.arrive_and_wait();
    }
    EXPECT_EQ(emulation::creations(), *before) << "sums have made events or memory";
  });
  EXPECT_EQ(messages, none);
}

TEST_F(NcclTest, WaitsForValuesThatTheGpuStillComputes) {
  for (const bool waits : {true, false}) {
    SetUp();
    emulation::set_missing(waits ? emulation::Missing::nothing : emulation::Missing::stream_waits);
    std::atomic<int> right{0};
    const auto messages = in_processes(2, [&](Transport& t) {
      OnGpu values(Tensor::full({100}, t.rank() + 1, DType::f32));
      t.run(all_reduce, values.buffer());
      finish(t);
      right += values.numbers() == std::vector<double>(100, 3);
    });
    EXPECT_EQ(messages, (std::vector<std::string>{"", ""}));
    EXPECT_EQ(right == 2, waits) << "a missing wait must be found";
  }
}

TEST_F(NcclTest, QueuesAllSumsBeforeTheFirstIsDone) {
  std::atomic<bool> queued{false};
  std::barrier meeting(2);
  const auto messages = in_processes(2, [&](Transport& t) {
    std::vector<std::unique_ptr<OnGpu>> buckets;
    for (int i = 0; i < 5; ++i)
      buckets.push_back(std::make_unique<OnGpu>(Tensor::full({10}, i, DType::f32)));
    while (t.rank() == 1 && !queued) std::this_thread::yield();
    for (const auto& bucket : buckets) t.run(all_reduce, bucket->buffer());
    if (t.rank() == 0) {
      EXPECT_EQ(t.unfinished(), 5u);
      queued = true;
    }
    finish(t);
    meeting.arrive_and_wait();
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(buckets[static_cast<std::size_t>(i)]->numbers(), std::vector<double>(10, 2 * i));
  });
  EXPECT_EQ(messages, (std::vector<std::string>{"", ""}));
}

/// Each process calls something else, and each of them is told.
template <class Work>
void expect_refusal(const std::vector<std::string>& messages, const Work& text) {
  for (const std::string& message : messages) expect_says(message, text);
}

TEST_F(NcclTest, ProcessesThatAskForDifferentThingsAreTold) {
  const auto refused = [&](const auto& work, const std::string& text) {
    SetUp();
    expect_refusal(
        in_processes(2,
                     [&](Transport& t) {
                       OnGpu values(Tensor::full({9}, 1, DType::f32)),
                           low(Tensor::full({9}, 1, DType::bf16));
                       work(t, values.buffer(), low.buffer());
                       finish(t);
                     }),
        "NCCL: communication: invalid usage: the processes ask for different things: " + text);
  };
  refused(
      [](Transport& t, Buffer x, Buffer) {
        t.run(all_reduce, {x.data, 8 + t.rank(), x.dtype, x.ready});
      },
      "rank 0: all_reduce of 8 f32; rank 1: all_reduce of 9 f32");
  refused([](Transport& t, Buffer x, Buffer low) { t.run(all_reduce, t.rank() ? low : x); },
          "rank 0: all_reduce of 9 f32; rank 1: all_reduce of 9 bf16");
  refused(
      [](Transport& t, Buffer x, Buffer) {
        t.run({Operation::broadcast, t.rank()}, x);
      },
      "rank 0: broadcast from 0 of 9 f32; rank 1: broadcast from 1 of 9 f32");
  refused(
      [](Transport& t, Buffer x, Buffer) {
        t.rank() ? t.run(all_reduce, x) : t.run({Operation::reduce, 0}, x);
      },
      "rank 0: reduce to 0 of 9 f32; rank 1: all_reduce of 9 f32");
  refused(
      [](Transport& t, Buffer x, Buffer) {
        t.rank() ? t.run(all_reduce, x) : t.run({Operation::receive, 1}, x);
      },
      "rank 0: receive from 1 of 9 f32; rank 1: all_reduce of 9 f32");
  refused(
      [](Transport& t, Buffer x, Buffer) {
        t.run({Operation::all_gather, 0, {0, t.rank() + 4, 9}}, x);
      },
      "rank 0: broadcast from 0 of 4 f32 broadcast from 1 of 5 f32; rank 1: broadcast from 0 of 5");
}

TEST_F(NcclTest, MemoryOfTheCpuIsRefused) {
  const auto messages = in_processes(2, [&](Transport& t) {
    OnGpu elsewhere(Tensor::full({4}, 1, DType::f32));
    Tensor values = Tensor::full({4}, 1, DType::f32);
    Buffer wrong = elsewhere.buffer();
    wrong.data = View(values).data;
    t.run(all_reduce, wrong);
  });
  expect_refusal(messages, "invalid argument: memory that is not the GPU's: all_reduce of 4 f32");
}

TEST_F(NcclTest, ErrorsOfOneProcessReachAll) {
  ::setenv("NYSTROM_NCCL_FAULT", "1 3 error", 1);
  const auto messages = in_processes(3, [&](Transport& t) {
    OnGpu values(Tensor::full({4}, 1, DType::f32));
    for (int i = 0; i < 5; ++i) {
      t.run(all_reduce, values.buffer());
      finish(t);
    }
  });
  EXPECT_EQ(messages[1], "NCCL: communication: internal error: an injected error");
  for (const int other : {0, 2})
    EXPECT_EQ(messages[static_cast<std::size_t>(other)],
              "NCCL: communication: remote process exited or there was a network error: process 1 "
              "is gone");
}

TEST_F(NcclTest, ALateProcessIsWaitedFor) {
  ::setenv("NYSTROM_NCCL_FAULT", "1 0 late", 1);
  const auto messages = in_processes(2, [&](Transport& t) {
    OnGpu values(Tensor::full({4}, 1, DType::f32));
    for (int i = 0; i < 5; ++i) t.run(all_reduce, values.buffer());
    finish(t);
    EXPECT_EQ(values.numbers(), std::vector<double>(4, 32));
  });
  EXPECT_EQ(messages, (std::vector<std::string>{"", ""}));
}

TEST_F(NcclTest, TwoProcessesOnOneGpuNeedTwoNames) {
  connect_nccl();
  expect_refusal(in_places(places({0, 0}), [](Transport&) {}),
                 "NCCL: connecting: invalid usage: Duplicate GPU detected : rank 1 and "
                 "rank 0 both on GPU 0");
}

TEST_F(NcclTest, GroupsMustBeOpenedAndClosed) {
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclCommFinalize(nullptr), ncclInvalidUsage);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
}

TEST_F(NcclTest, ProcessesShareTheGpusThatTheySee) {
  EXPECT_EQ(gpu_of_process(3), 3);
  EXPECT_EQ(gpu_of_process(5), 1);
  ::setenv("NYSTROM_EMULATED_GPUS", "1", 1);  // a launcher that shows each process one
  EXPECT_EQ(gpu_of_process(3), 0);
}

/// Two processes of processes_worker with torchrun's variables, without MPI.
class TorchrunTest : public ::testing::Test {
 protected:
  /// Returns the last one's exit code and the messages of both.
  Outcome run(const std::string& environment) {
    const std::string port = std::to_string(20000 + ::getpid() % 12000);
    const std::string start =
        "env NYSTROM_EMULATED_GPUS=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "
        "OMP_NUM_THREADS=1 MASTER_PORT=" +
        port + " " + environment;
    const std::string worker =
        "'" + (build_folder() / "emulated" / "processes_worker").string() + "' cuda";
    const auto process = [&](const std::string& rank) {
      return start + " NCCL_HOSTID=host" + rank + " RANK=" + rank + " LOCAL_RANK=" + rank + " " +
             worker;
    };
    return run_command(folder_, "sh -c \"" + process("1") + " & first=\\$!; " + process("0") +
                                    "; code=\\$?; wait \\$first && exit \\$code\"");
  }
  TemporaryFolder folder_;
};

TEST_F(TorchrunTest, TheDeathOfAProcessEndsTheOther) {
  const Outcome outcome = run("NYSTROM_NCCL_FAULT='1 40 die'");
  EXPECT_NE(outcome.code, 0);
  expect_says(
      outcome.err,
      "NCCL: communication: remote process exited or there was a network error: process 1 is gone");
}

}  // namespace
}  // namespace nystrom::testing
