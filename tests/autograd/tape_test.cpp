#include "autograd/tape.h"

#include <gtest/gtest.h>

#include <thread>

#include "autograd/ops.h"
#include "tests/support/errors.h"
#include "tests/support/views.h"

namespace nystrom::testing {
namespace {

using Values = std::vector<double>;

Var leaf(const Shape& shape, std::uint64_t seed, DType dtype = DType::f64) {
  return Var::leaf(random_normal(shape, seed).cast(dtype));
}

std::int64_t bytes_in_use() { return Arena::of(cpu_device).statistics().in_use_bytes; }

TEST(Tape, WithoutATapeNothingIsRecorded) {
  const Var x = leaf({3}, 1);
  EXPECT_FALSE(Tape::is_active());
  EXPECT_FALSE(square(x).requires_grad());
}

TEST(Tape, ConstantsAreNotRecorded) {
  Tape tape;
  EXPECT_FALSE(square(random_normal({3}, 1)).requires_grad());
  EXPECT_EQ(tape.size(), 0);
  (void)square(leaf({3}, 1));
  EXPECT_EQ(tape.size(), 1);
}

TEST(Tape, NoGradRecordsNothingWhileItLives) {
  Tape tape;
  const Var x = leaf({3}, 1);
  {
    const NoGrad no_recording;
    EXPECT_FALSE(square(x).requires_grad());
  }
  EXPECT_EQ(tape.size(), 0);
  EXPECT_TRUE(square(x).requires_grad());
}

TEST(Tape, DetachCutsTheGradient) {
  Tape tape;
  const Var x = leaf({1}, 1);
  tape.backward(x + square(x).detach());
  EXPECT_EQ(x.grad().item(), 1);
}

TEST(Tape, TheInnermostTapeIsTheActiveOne) {
  const Var x = leaf({1}, 1);
  Tape outer;
  {
    Tape inner;
    const Var y = square(x);
    EXPECT_EQ(inner.size(), 1);
    EXPECT_EQ(outer.size(), 0);
    inner.backward(y);
  }
  const Var y = square(x);
  EXPECT_EQ(outer.size(), 1);
  outer.backward(y);
  EXPECT_DOUBLE_EQ(x.grad().item(), 4 * x.value().item());
}

TEST(Tape, TapesAndPausesEndInAnyOrder) {
  const Var x = leaf({1}, 1);
  auto first = std::make_unique<Tape>();
  auto pause = std::make_unique<NoGrad>();
  auto second = std::make_unique<Tape>();
  first = nullptr;
  (void)square(x);
  EXPECT_EQ(second->size(), 1);
  second = nullptr;
  EXPECT_FALSE(square(x).requires_grad());
  pause = nullptr;
  EXPECT_FALSE(Tape::is_active());
}

TEST(Tape, AnotherThreadMayEndItButNotUseIt) {
  auto tape = std::make_unique<Tape>();
  const Var y = square(leaf({1}, 1));
  std::string message;
  std::thread([&] {
    EXPECT_FALSE(Tape::is_active());
    message = message_of([&] { tape->backward(y); });
    tape = nullptr;
  }).join();
  EXPECT_EQ(message,
            "this tape records another thread; use it there, and make one for each thread");
  EXPECT_FALSE(Tape::is_active());
}

TEST(Tape, RefusesWhatAnotherThreadRecords) {
  const Tape tape;
  const Var y = square(leaf({1}, 1));
  std::string message;
  std::thread([&] {
    const Tape other;
    message = message_of([&] { square(y); });
  }).join();
  EXPECT_EQ(message,
            "square: an input is on the tape of another thread; make it again under this tape, or "
            "detach() it");
}

TEST(Tape, IsNotWalkedWithinItsBackwardPass) {
  Tape tape;
  const Var x = square(leaf({1}, 1));
  int runs = 0;
  const Var y = checkpoint(
      [&](const std::vector<Var>& inputs) {
        if (++runs == 2) tape.backward(x);
        return square(inputs[0]);
      },
      {x});
  EXPECT_NE(message_of([&] { tape.backward(y); }).find("this tape is being walked"),
            std::string::npos);
}

TEST(Tape, BackwardPopsAndFreesEverything) {
  const Var x = leaf({1000}, 1);
  const std::int64_t before = bytes_in_use();
  Tape tape;
  Var loss = sum(square(gelu_erf(square(x))));
  EXPECT_GE(bytes_in_use() - before, 2 * 8000) << "the inputs of gelu and of the square after it";
  tape.backward(loss);
  loss = {};
  EXPECT_EQ(tape.size(), 0);
  EXPECT_EQ(bytes_in_use(), before);
}

TEST(Tape, BackwardFreesWhileItWalks) {
  constexpr std::int64_t size = 100000, depth = 20;
  const Var x = leaf({size}, 1);
  const std::int64_t before = bytes_in_use();
  Tape tape;
  Var y = x;
  for (std::int64_t i = 0; i < depth; ++i) y = affine(tanh(y), 1);
  const Var loss = sum(y);
  y = {};
  Arena::of(cpu_device).reset_peak();
  const std::int64_t at_start = bytes_in_use();
  tape.backward(loss);
  // Gradients are created while values are freed: the peak grows by the few that exist at once.
  EXPECT_GE(at_start - before, depth * size * 8);
  EXPECT_LE(Arena::of(cpu_device).statistics().peak_in_use_bytes - at_start, 4 * size * 8);
}

TEST(Tape, ASecondWalkSaysWhy) {
  const Var x = leaf({1}, 1);
  const std::string message =
      "backward: nothing to differentiate; no leaf was used, or no tape was active, or this tape "
      "was walked already (gradients of gradients are not supported)";
  EXPECT_EQ(message_of([&] {
              Tape tape;
              tape.backward(square(random_normal({1}, 2)));
            }),
            message);
  EXPECT_EQ(message_of([&] {
              Tape tape;
              const Var y = square(x);
              tape.backward(y);
              tape.backward(y);
            }),
            message);
}

TEST(Tape, TheGradientOfALeafByItselfIsTheSeed) {
  const Var x = leaf({1}, 1);
  for (int walk = 1; walk <= 2; ++walk) {
    Tape tape;
    tape.backward(x);
    EXPECT_EQ(x.grad().item(), walk);
  }
}

TEST(Tape, OtherErrors) {
  Tape tape;
  const Var x = leaf({2, 3}, 1);
  EXPECT_EQ(message_of([&] { tape.backward(square(x)); }),
            "backward: the loss must have one element, got shape [2, 3]");
  EXPECT_EQ(message_of([&] { tape.backward(square(x), random_normal({3}, 1)); }),
            "backward: the seed has shape [3], expected [2, 3]");
  EXPECT_EQ(message_of([&] { (void)Var(x.value()).grad(); }), "a constant has no gradient");
  EXPECT_EQ(message_of([&] { (void)Var::leaf(x.value(), random_normal({3}, 1)); }),
            "a leaf's gradient must have its shape; got [3], expected [2, 3]");
}

TEST(Tape, AnErrorOnTheWayBackNamesTheOp) {
  Tape tape;
  const Var y = record("stubborn", random_normal({1}, 1), {leaf({1}, 1)},
                       [](const Tensor&, Grads) { throw Error("no"); });
  EXPECT_EQ(message_of([&] { tape.backward(y); }), "in the backward pass of stubborn: no");
}

TEST(Tape, AFailedWalkLeavesNothingBehind) {
  const Var x = leaf({1}, 1);
  Tape tape;
  const Var h = square(x);
  const Var stubborn = record("stubborn", random_normal({1}, 1), {h},
                              [](const Tensor&, Grads) { throw Error("no"); });
  const Var loss = sum(stubborn) + sum(3 * h);
  EXPECT_NE(message_of([&] { tape.backward(loss); }), "");
  EXPECT_EQ(tape.size(), 0);
  EXPECT_FALSE(h.grad().defined());
  EXPECT_EQ(x.grad().item(), 0);
}

/// Its gradient would reach nothing.
TEST(Tape, RefusesWhatAnEndedTapeRecorded) {
  const Var x = leaf({1}, 1);
  const auto refusal = [&](const Var& h) { return message_of([&] { (void)square(h); }); };
  const char* expected =
      "square: an input was made before a backward pass or under a tape that has ended, so that "
      "its gradient would reach nothing; make it again under this tape, or detach() it";
  Var h;
  {
    Tape ended;
    h = square(x);
  }
  EXPECT_TRUE(square(h).defined());  // nothing is recorded
  Tape tape;
  EXPECT_EQ(refusal(h), expected);
  EXPECT_FALSE(square(h.detach()).requires_grad());
  const Var again = square(x), skipped = square(x);
  tape.backward(again);
  EXPECT_EQ(refusal(again), expected);
  EXPECT_EQ(refusal(skipped), expected);
}

/// One Var may be several parameters of a kernel that adds to their gradients.
TEST(Tape, ParametersMayBeTheSameVar) {
  const Tensor rows = random_normal({2, 4}, 1);
  const auto gradient = [&](bool same) {
    const Var g = leaf({4}, 2), w = leaf({4, 4}, 3);
    Tape tape;
    const Var a = 1 * g, b = same ? a : 1 * g, c = 1 * w, d = same ? c : 1 * w;
    const Tensor none = Tensor::zeros({4}, DType::f64);
    tape.backward(sum(square(layer_norm(rows, a, b, 1e-5))) + sum(a) + sum(b) +
                  sum(square(joint_linear(rows, {c, d}, {none, none}))) + sum(c) + sum(d));
    Values all = elements(g.grad());
    const Values more = elements(w.grad());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  EXPECT_LE(max_difference(gradient(true), gradient(false)), 1e-12);
}

TEST(Tape, LeavesAccumulateOverWalks) {
  const Var x = leaf({1}, 1);
  for (int walk = 1; walk <= 3; ++walk) {
    Tape tape;
    tape.backward(square(x));
    EXPECT_DOUBLE_EQ(x.grad().item(), walk * 2 * x.value().item());
  }
}

TEST(Tape, ALeafsGradientIsTheTensorItWasGiven) {
  Tensor slab = Tensor::zeros({5}, DType::f32);
  const Var x = Var::leaf(Tensor::full({2}, 3, DType::bf16), slab.slice(0, 1, 3));
  Tape tape;
  tape.backward(sum(square(x)));
  EXPECT_EQ(elements(slab), (Values{0, 6, 6, 0, 0}));
}

TEST(Tape, AVarUsedTwiceCollectsBothGradients) {
  const Var x = leaf({4}, 1);
  Tape tape;
  const Var y = square(x);
  tape.backward(sum(y + y));
  for (int i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(element(x.grad(), i), 4 * element(x.value(), i));
}

/// The seed is one number in memory. A part of it is the first gradient of h, and nobody else's
/// when the second one comes.
TEST(Tape, NothingIsAddedToARepeatedNumber) {
  const Var x = leaf({2, 2}, 1);
  Tensor seed = Tensor::full({1, 1}, 1, DType::f64);
  seed = seed.expand({4, 2});
  Tape tape;
  const Var h = 1 * x, squares = square(h);
  tape.backward(concat({squares, transpose(h, 0, 1)}, 0), std::move(seed));
  for (int i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(element(x.grad(), i), 2 * element(x.value(), i) + 1);
}

TEST(Tape, WhatDoesNotLeadToTheLossIsSkipped) {
  const Var x = leaf({1}, 1), unused = leaf({1}, 2);
  Tape tape;
  const Var loss = square(x);
  (void)square(unused);
  tape.backward(loss);
  EXPECT_EQ(unused.grad().item(), 0);
}

/// A block of a network with a wide hidden layer and dropout.
Var block(const std::vector<Var>& inputs) {
  const Tensor samples = int_tensor({3, 5, 8, 13}, {4});
  Var h = linear(inputs[0], inputs[1]);
  h = dropout(gelu_tanh(h), 0.25, {1, 2, 3}, samples);
  return inputs[0] + linear(h, transpose(inputs[1], 0, 1));
}

struct BlockRun {
  Values output, dx;
  Tensor dw;
  std::int64_t bytes;  // held by the tape before backward
};

BlockRun run_blocks(bool checkpointed) {
  const Var x = leaf({4, 8, 16}, 1, DType::f32), w = leaf({64, 16}, 2, DType::f32);
  const std::int64_t before = bytes_in_use();
  Tape tape;
  Var y = x;
  for (int i = 0; i < 6; ++i) y = checkpointed ? checkpoint(block, {y, w}) : block({y, w});
  const Var loss = sum(square(y));
  const std::int64_t bytes = bytes_in_use() - before;
  tape.backward(loss);
  return {elements(y.value()), elements(x.grad()), w.grad(), bytes};
}

TEST(Checkpoint, ChangesNoBit) {
  const BlockRun plain = run_blocks(false), checkpointed = run_blocks(true);
  EXPECT_EQ(checkpointed.output, plain.output);
  EXPECT_EQ(checkpointed.dx, plain.dx);
}

/// The gradient of a shared weight is summed in another order. The tape adds each product;
/// checkpointing adds each block.
TEST(Checkpoint, KeepsTheGradientOfASharedWeight) {
  const BlockRun plain = run_blocks(false), checkpointed = run_blocks(true);
  EXPECT_LE(relative_difference(checkpointed.dw, plain.dw), 1e-6);
}

TEST(Checkpoint, HoldsLessMemory) {
  EXPECT_LT(run_blocks(true).bytes, run_blocks(false).bytes / 3);
}

TEST(Checkpoint, InsideACheckpoint) {
  const Var x = leaf({4, 2, 6}, 1), w = leaf({5, 6}, 2);
  const auto twice = [](const std::vector<Var>& v) {
    return checkpoint(block, {checkpoint(block, v), v[1]});
  };
  const auto gradient = [&](bool checkpointed) {
    const Var input = Var::leaf(x.value());
    Tape tape;
    tape.backward(
        sum(square(checkpointed ? checkpoint(twice, {input, w}) : block({block({input, w}), w}))));
    return elements(input.grad());
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

TEST(Checkpoint, MayHandAnInputThrough) {
  const Var x = leaf({1}, 1);
  Tape tape;
  tape.backward(square(checkpoint([](const std::vector<Var>& v) { return v[0]; }, {x})));
  EXPECT_DOUBLE_EQ(x.grad().item(), 2 * x.value().item());
}

TEST(Checkpoint, MayReturnAConstant) {
  const Var x = leaf({1}, 1);
  Tape tape;
  tape.backward(x + checkpoint([](const std::vector<Var>& v) { return v[0].detach(); }, {x}));
  EXPECT_EQ(x.grad().item(), 1);
}

TEST(Checkpoint, BringsTheGradientsOfWhatItsFunctionUses) {
  const Var w = leaf({2, 2}, 1), h = leaf({2}, 2);
  const Tensor x = random_normal({3, 2}, 3);
  const auto gradients = [&](bool checkpointed) {
    const Var own = Var::leaf(w.value()), other = Var::leaf(h.value());
    const auto f = [&](const std::vector<Var>& v) { return square(linear(v[0], own)); };
    Tape tape;
    const Var twice = 2 * other;
    const auto captured = [&](const std::vector<Var>&) { return twice; };
    const Var y = checkpointed ? checkpoint(f, {x}) : f({x}),
              z = checkpointed ? checkpoint(captured, {x}) : captured({x});
    tape.backward(sum(y) + sum(square(z)) + sum(twice));
    return std::pair(elements(own.grad()), elements(other.grad()));
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

TEST(Checkpoint, MayReturnALeaf) {
  const Var w = leaf({1}, 1), x = leaf({1}, 2);
  for (int walk = 1; walk <= 3; ++walk) {
    Tape tape;
    tape.backward(checkpoint([&](const std::vector<Var>&) { return w; }, {x}));
    EXPECT_EQ(w.grad().item(), walk);
  }
}

TEST(Checkpoint, OfConstantsIsAConstant) {
  Tape tape;
  EXPECT_FALSE(
      checkpoint([](const std::vector<Var>& v) { return square(v[0]); }, {random_normal({3}, 1)})
          .requires_grad());
  EXPECT_EQ(tape.size(), 0);
}

TEST(Tape, TheThirdStepAsksTheSystemForNothing) {
  const Var w1 = leaf({64, 32}, 1, DType::bf16), w2 = leaf({32, 64}, 2, DType::bf16);
  const Tensor x = random_normal({40, 32}, 3).cast(DType::bf16);
  const auto step = [&] {
    Tape tape;
    const Var y = linear(gelu_tanh(linear(x, w1)), w2);
    tape.backward(mean_squared_error(softmax(y), x));
  };
  step();
  step();
  const auto after_second = Arena::of(cpu_device).statistics().system_allocations;
  step();
  EXPECT_EQ(Arena::of(cpu_device).statistics().system_allocations, after_second);
}

}  // namespace
}  // namespace nystrom::testing
