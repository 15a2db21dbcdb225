// The tape: a record of operations in their order, for the backward pass.
//
//   Tape tape;            // active in this thread until the end of its scope
//   Var loss = …;         // ops record themselves
//   tape.backward(loss);  // runs the steps in reverse and frees each at once
//
// Without an active tape nothing is recorded, and inference costs nothing extra. Second derivatives
// are not supported.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "autograd/var.h"

namespace nystrom {

/// The gradients of an op's inputs, for its backward function.
class Grads {
 public:
  explicit Grads(const std::vector<std::shared_ptr<GradSlot>>& slots, Tensor row_sum = {})
      : slots_(slots), row_sum_(std::move(row_sum)) {}

  /// Whether input i needs a gradient. Backward functions may skip work for other inputs.
  bool wants(std::size_t i) const { return slots_[i] != nullptr; }
  /// The type in which the gradient of input i, which must need one, is kept.
  DType dtype(std::size_t i) const { return slots_[i]->dtype; }
  /// Adds `grad`, which has input i's shape and any strides, to the gradient of input i. Does
  /// nothing if that input needs none. `row_sum` is the sum of grad's rows in the accumulate type,
  /// if it is at hand; see row_sum_of.
  void add(std::size_t i, Tensor grad, Tensor row_sum = {});
  /// An uninitialised tensor for the sum of the rows of input i's gradient, which is like `grad`
  /// [rows, n]: [n] in its accumulate type. Undefined if the op that made input i would not read
  /// it.
  Tensor row_sum_of(std::size_t i, const Tensor& grad) const;
  /// The sum of the rows of dy, if the op that made dy passed it on; undefined otherwise.
  const Tensor& row_sum() const { return row_sum_; }
  /// Calls f with tensors of `dtype` and the shapes of inputs first …, to which f adds their
  /// gradients. They are the gradients themselves where these exist in that type.
  template <class F>
  void add_sums(std::size_t first, const std::vector<Shape>& shapes, DType dtype, Device device,
                const F& f) {
    std::vector<Tensor> sums;
    for (const Shape& shape : shapes)
      sums.push_back(sum_target(first, first + sums.size(), shape, dtype, device));
    f(sums);
    for (std::size_t i = 0; i < sums.size(); ++i) finish_sum(first + i, sums[i]);
  }
  /// A tensor into which a kernel writes or adds input i's gradient.
  struct Destination {
    Tensor tensor;
    bool accumulate;  ///< add to the tensor; otherwise it is uninitialised
  };
  /// The destination for input i, which must need a gradient. `shape` is the input's shape.
  Destination into(std::size_t i, const Shape& shape, Device device);
  /// The same for a kernel that only adds: the gradient so far, zeros if there is none.
  Tensor so_far(std::size_t i, const Shape& shape, Device device);

 private:
  Tensor sum_target(std::size_t first, std::size_t i, const Shape& shape, DType dtype,
                    Device device);
  void finish_sum(std::size_t i, Tensor sum);

  const std::vector<std::shared_ptr<GradSlot>>& slots_;
  Tensor row_sum_;
};

/// The backward function of an op: adds the inputs' gradients to `grads`, from the output's
/// gradient dy. The tape holds dy no longer: a function that takes it by value may free it.
using Backward = std::function<void(Tensor dy, Grads grads)>;

/// The form in which a backward function asks for dy.
struct DyForm {
  bool strided = false;             ///< accepts any strides; otherwise dy is contiguous
  std::optional<DType> dtype = {};  ///< the type of dy, if it is not that of the result
  bool row_sum = false;  ///< Grads::row_sum, as for a bias, if the op that makes dy has it at hand
};

/// A record of operations and the backward pass over it. A tape serves the thread that made it;
/// any thread may destroy it.
class Tape {
 public:
  /// Becomes the active tape of this thread.
  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// Adds d loss / d leaf to the gradient of every leaf, and empties the tape, also where it
  /// throws. `loss` has one element, and is a leaf or was recorded by this tape. Threads whose
  /// tapes share leaves take turns, and the values that the tape recorded, such as parameters, must
  /// not change before.
  void backward(const Var& loss);
  /// The backward pass from `seed`, the gradient of `output`.
  void backward(const Var& output, Tensor seed);
  /// The number of recorded operations.
  std::size_t size() const;

  /// Registers `f` with the active tape, if there is one. The backward pass calls it after all
  /// operations that are recorded from here on, whether or not they contribute to the loss.
  static void add_backward_hook(std::function<void()> f);
  /// Whether operations of this thread are recorded: the last Tape or NoGrad that this thread made
  /// and that still lives is a tape. They may end in any order.
  static bool is_active();

 private:
  friend Var record(const char* name, Tensor value, std::vector<Var> inputs, Backward backward,
                    DyForm dy);
  friend Var checkpoint(const std::function<Var(const std::vector<Var>&)>& f,
                        const std::vector<Var>& inputs);

  /// The recorded steps. The tape owns them, and its thread knows them while the tape lives.
  struct Record;

  /// That of the active tape of this thread, or null.
  static std::shared_ptr<Record> active();
  /// The record. Throws in threads that did not make the tape.
  Record& own() const;
  /// Records a step with the active tape.
  static Var append(const char* name, Tensor value, std::vector<Var> inputs, Backward backward,
                    DyForm dy = {});
  /// Pops every step, and runs those whose output has a gradient.
  void walk();
  void run_steps(Record& record);

  std::shared_ptr<Record> record_;
};

/// Suspends recording in this thread while it lives.
class NoGrad {
 public:
  NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

  /// Whether an operation was not recorded that a tape would have.
  bool left_out() const { return *left_out_; }

 private:
  std::shared_ptr<bool> left_out_;
};

/// Makes `value` a Var. It is recorded if a tape is active and an input needs a gradient; otherwise
/// it is a constant. Throws an Error for an input whose gradient would reach nothing: it was
/// recorded before a backward pass, or by a tape that has ended.
Var record(const char* name, Tensor value, std::vector<Var> inputs, Backward backward,
           DyForm dy = {});

/// f(inputs) with activation checkpointing (Chen et al., arXiv 1604.06174): intermediate values are
/// not kept. f runs once now, unrecorded, and again in the backward pass, which also brings the
/// gradients of what f uses beside its inputs. Both runs must compute the same values. Dropout
/// does, because its masks come from counters.
Var checkpoint(const std::function<Var(const std::vector<Var>&)>& f,
               const std::vector<Var>& inputs);

}  // namespace nystrom
