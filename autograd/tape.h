// The tape: what was computed, in order, so that it can be walked back.
//
//   Tape tape;                       // active in this thread until it goes out of scope
//   Var loss = …;                    // ops record themselves
//   tape.backward(loss);             // walks back, popping: each step frees what it saved as soon
//   as it has run
//
// Without an active tape nothing is recorded, and inference costs nothing. Gradients of gradients
// are not supported.
#pragma once

#include <functional>
#include <vector>

#include "autograd/var.h"

namespace nystrom {

/// The gradients of an op's inputs, as its backward function sees them.
class Grads {
 public:
  explicit Grads(const std::vector<std::shared_ptr<GradSlot>>& slots) : slots_(slots) {}

  /// Whether input i needs a gradient; work for others can be left out.
  bool wants(std::size_t i) const { return slots_[i] != nullptr; }
  /// Adds `grad` (of input i's shape, any strides) to what input i has collected. Does nothing when
  /// it wants none.
  void add(std::size_t i, Tensor grad);
  /// Where a kernel may write or add input i's gradient itself.
  struct Destination {
    Tensor tensor;
    bool accumulate;  ///< add to what is there; else it is uninitialised
  };
  /// Only for an input that wants it. `shape` is the input's.
  Destination into(std::size_t i, const Shape& shape, Device device);

 private:
  const std::vector<std::shared_ptr<GradSlot>>& slots_;
};

/// Adds to `grads` what follows from dy, the gradient of the op's output.
using Backward = std::function<void(const Tensor& dy, Grads grads)>;

/// Whether a backward function takes dy with any strides, or wants it contiguous.
enum class DyLayout { contiguous, strided };

class Tape {
 public:
  /// Becomes the active tape of this thread; the one before is active again afterwards.
  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// Adds d loss / d leaf to every leaf's gradient and empties the tape. `loss` has one element and
  /// was recorded here (or is a leaf).
  void backward(const Var& loss);
  /// The same from `seed`, the gradient of `output`.
  void backward(const Var& output, Tensor seed);
  std::size_t size() const { return steps_.size(); }

  /// `f` is called in backward when everything recorded from here on has been walked, whether or
  /// not it led to the loss.
  void add_backward_hook(std::function<void()> f) {
    marks_.push_back({steps_.size(), std::move(f)});
  }

  /// The active tape of this thread, or null.
  static Tape* active();

 private:
  friend Var record(const char* name, Tensor value, std::vector<Var> inputs, Backward backward,
                    DyLayout layout);
  friend Var checkpoint(const std::function<Var(const std::vector<Var>&)>& f,
                        const std::vector<Var>& inputs);
  friend class NoGrad;

  /// Pops every step, running those whose output has a gradient.
  void walk();
  /// Pops the marks behind the last step.
  void reach_marks();

  struct Step {
    const char* name;
    std::shared_ptr<GradSlot> output;
    std::vector<std::shared_ptr<GradSlot>> inputs;
    Backward backward;
    DyLayout layout;
  };

  struct Mark {
    std::size_t place;  // in steps_
    std::function<void()> reached;
  };

  std::vector<Step> steps_;
  std::vector<Mark> marks_;
  Tape* previous_;
};

/// While alive, nothing is recorded in this thread.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  Tape* previous_;
};

/// `value` as a Var: recorded when a tape is active and an input wants a gradient, else a constant.
Var record(const char* name, Tensor value, std::vector<Var> inputs, Backward backward,
           DyLayout layout = DyLayout::contiguous);

/// f(inputs) without keeping what it computes: f runs once now, unrecorded, and again in backward,
/// when its gradients are needed (Chen et al., arXiv 1604.06174). f must compute the same again:
/// dropout does, its masks come from counters.
Var checkpoint(const std::function<Var(const std::vector<Var>&)>& f,
               const std::vector<Var>& inputs);

}  // namespace nystrom
