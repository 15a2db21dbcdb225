// Silent corruption: a flipped bit in replicated data is found together with its rank.
#include "train/distributed/replicas.h"

#include <gtest/gtest.h>

#include "core/rng.h"
#include "tests/support/errors.h"
#include "tests/support/models.h"
#include "tests/support/random.h"
#include "tests/support/rounds.h"
#include "tests/train/distributed/thread_transport.h"
#include "train/distributed/gradient_sum.h"

namespace nystrom::testing {
namespace {

/// Random number `i` below `bound`, with an independent sequence for each `stream`.
std::int64_t choice(std::uint64_t stream, std::int64_t i, std::int64_t bound) {
  const PhiloxBlock block =
      philox(philox_key(5, stream), {{static_cast<std::uint32_t>(i), 0, 0, 0}});
  return static_cast<std::int64_t>(block.word[0] % static_cast<std::uint64_t>(bound));
}

void flip(void* data, std::int64_t bit) {
  static_cast<unsigned char*>(data)[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
}

std::string blamed(Communicator& c, int odd, const std::string& what, const std::string& reason) {
  return c.name_of(odd) + " has other " + what + " than " + c.name_of(odd == 0 ? 1 : 0) + ": " +
         reason;
}

TEST(Replicas, EveryFlippedBitIsFoundAndItsProcessNamed) {
  Room room(3);
  std::atomic<int> found{0}, false_alarms{0};
  const int flips = 700 * test_rounds();
  in_processes(room, [&](Communicator& c) {
    std::vector<Tensor> slabs;
    for (const auto& [dtype, count] :
         {std::pair{DType::f32, 70001}, {DType::bf16, 999}, {DType::f64, 500}})
      slabs.push_back(random_normal({count}, 1).cast(dtype));
    for (int i = 0; i < flips; ++i) {
      const int odd = i % c.size();
      const Tensor& slab = slabs[static_cast<std::size_t>(choice(1, i, 3))];
      const std::int64_t bit = choice(2, i, 8 * slab.bytes());
      if (c.rank() == odd) flip(const_cast<void*>(CView(slab).data), bit);
      const auto compare = [&] { require_same_replicas(c, fingerprint(slabs), "weights", "stop"); };
      found += message_of(compare) == blamed(c, odd, "weights", "stop");
      if (c.rank() == odd) flip(const_cast<void*>(CView(slab).data), bit);
      false_alarms += message_of(compare) != "";
    }
  });
  EXPECT_EQ(found, 3 * flips);
  EXPECT_EQ(false_alarms, 0);
}

const int flipped_sums = 300 * test_rounds();

/// Flips a bit of the sum that one process receives.
class FlippingTransport : public ThreadTransport {
 public:
  using ThreadTransport::ThreadTransport;
  void run(const Operation& operation, Buffer values) override {
    ThreadTransport::run(operation, values);
    if (operation.kind != Operation::all_reduce || values.count < 100) return;  // not gradients
    if (rank() == sums_ % size()) flip(values.data, choice(3, sums_, 64 * values.count));
    ++sums_;
  }

 private:
  int sums_ = 0;
};

TEST(Replicas, AFlippedBitOfASumOfGradientsIsFoundInItsStep) {
  Room room(3);
  std::atomic<int> found{0};
  in_processes<FlippingTransport>(room, [&](Communicator& c) {
    const auto model = make_model(tiny_config(), DType::f64);
    ParameterStore& store = model->parameters();
    GradientSum sum(store, c, {0, 1, 2}, {});
    RunContext run;
    for (int i = 0; i < flipped_sums; ++i) {
      Tensor gradients = store.gradients();
      kernels::copy(
          random_normal({store.slab_size()}, static_cast<std::uint64_t>(10 * i + c.rank())),
          gradients);
      sum.begin(0, run);
      sum.end(0);
      found +=
          message_of([&] { sum.finish(); }) ==
          blamed(c, i % c.size(), "gradients after their sum",
                 "the memory or the processor of one of them is at fault; the step is not done");
    }
  });
  EXPECT_EQ(found, 3 * flipped_sums);
}

/// NaN has many bit patterns, and libraries may produce different ones in each process.
TEST(Replicas, SumsThatAreNotFiniteAreNotCompared) {
  Room room(2);
  std::atomic<int> skipped{0};
  in_processes(room, [&](Communicator& c) {
    const auto model = make_model(tiny_config(), DType::f64);
    GradientSum sum(model->parameters(), c, {0, 1}, {});
    RunContext run;
    sum.begin(0, run);
    model->parameters().gradients().data<double>()[3] = NAN;
    sum.end(0);
    skipped += std::isnan(sum.finish());
  });
  EXPECT_EQ(skipped, 2);
}

/// Sums in the order of micro-batches are made at the end of the step.
TEST(GradientSum, ReducesInTheLastBackwardPassAlone) {
  Room room(1);
  in_processes(room, [&](Communicator& c) {
    const auto model = make_model(tiny_config(), DType::f64);
    for (const bool deterministic : {false, true}) {
      GradientSum sum(model->parameters(), c, {0, 0}, {.deterministic = deterministic});
      RunContext run;
      sum.begin(0, run);
      EXPECT_FALSE(run.gradients_final);
      sum.begin(1, run);
      EXPECT_EQ(run.gradients_final != nullptr, !deterministic);
    }
  });
}

TEST(SlabBounds, AreEqualAndDivideNoMatrixOfMuon) {
  using Bounds = std::vector<std::int64_t>;
  EXPECT_EQ(slab_bounds(160, 4), (Bounds{0, 48, 80, 128, 160}));
  const SlabRange whole[] = {{16, 64}, {64, 144}};
  EXPECT_EQ(slab_bounds(160, 4, whole), (Bounds{0, 64, 64, 144, 160}));
  const SlabRange last[] = {{32, 160}};
  EXPECT_EQ(slab_bounds(160, 2, last), (Bounds{0, 32, 160}));
}

}  // namespace
}  // namespace nystrom::testing
