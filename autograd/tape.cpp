#include "autograd/tape.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "core/check.h"
#include "core/kernels.h"

namespace nystrom {
namespace {

/// A Tape or a NoGrad that this thread has begun. Python may end them in any order and in any
/// thread, so that the thread only watches them.
struct Block {
  std::weak_ptr<void> alive;
  bool* left_out;  // of a NoGrad; null for a tape
};
thread_local std::vector<Block> blocks;

void begin(const std::shared_ptr<void>& block, bool* left_out) {
  std::erase_if(blocks, [](const Block& each) { return each.alive.expired(); });
  blocks.push_back({block, left_out});
}

/// Whether no two elements share memory, as those of an expanded tensor do.
bool has_own_elements(const Tensor& x) {
  for (int axis = 0; axis < x.rank(); ++axis)
    if (x.stride(axis) == 0 && x.dim(axis) > 1) return false;
  return true;
}

/// Makes a collected gradient safe to add to, because ops may pass one tensor to several inputs.
void make_unique(GradSlot& slot, bool safe_layout) {
  if (!slot.is_leaf && (!slot.grad.is_unique() || !safe_layout)) slot.grad = slot.grad.clone();
}

}  // namespace

Var Var::leaf(Tensor value, Tensor grad) {
  require(value.shape() == grad.shape(),
          "a leaf's gradient must have its shape; got {}, expected {}", grad.shape(),
          value.shape());
  const DType dtype = grad.dtype();
  require(is_float(value.dtype()), "a leaf must have a floating type, got {}", value.dtype());
  auto slot = std::make_shared<GradSlot>(GradSlot{std::move(grad), dtype, true});
  return {std::move(value), std::move(slot)};
}

Var Var::leaf(Tensor value) {
  Tensor grad = Tensor::zeros(value.shape(), accumulate_dtype(value.dtype()), value.device());
  return leaf(std::move(value), std::move(grad));
}

const Tensor& Var::grad() const {
  require(slot_ != nullptr, "a constant has no gradient");
  return slot_->grad;
}

void Grads::add(std::size_t i, Tensor grad, Tensor row_sum) {
  if (!wants(i)) return;
  GradSlot& slot = *slots_[i];
  const bool first = !slot.grad.defined();
  slot.row_sum = first && slot.wants_row_sum ? std::move(row_sum) : Tensor();
  if (!first) {
    require(slot.grad.shape() == grad.shape(), "gradient of input {} has shape {}, expected {}", i,
            grad.shape(), slot.grad.shape());
    make_unique(slot, has_own_elements(slot.grad));
    kernels::accumulate(grad, 1, slot.grad);
  } else {
    slot.grad = grad.cast(slot.dtype);
  }
}

Tensor Grads::row_sum_of(std::size_t i, const Tensor& grad) const {
  if (!wants(i) || !slots_[i]->wants_row_sum) return {};
  return Tensor::empty({grad.dim(-1)}, accumulate_dtype(grad.dtype()), grad.device());
}

Tensor Grads::sum_target(std::size_t first, std::size_t i, const Shape& shape, DType dtype,
                         Device device) {
  // One Var may be several inputs: its gradient is the target of the first alone.
  const auto begin = slots_.begin() + static_cast<std::ptrdiff_t>(first),
             own = slots_.begin() + static_cast<std::ptrdiff_t>(i);
  if (wants(i) && slots_[i]->grad.defined() && slots_[i]->grad.dtype() == dtype &&
      std::find(begin, own, slots_[i]) == own)
    return into(i, shape, device).tensor;
  return Tensor::zeros(shape, dtype, device);
}

void Grads::finish_sum(std::size_t i, Tensor sum) {
  const bool added =
      wants(i) && slots_[i]->grad.defined() && CView(slots_[i]->grad).data == CView(sum).data;
  if (!added) add(i, std::move(sum));
}

Grads::Destination Grads::into(std::size_t i, const Shape& shape, Device device) {
  GradSlot& slot = *slots_[i];
  slot.row_sum = {};
  if (slot.grad.defined()) {
    make_unique(slot, slot.grad.is_contiguous());
    return {slot.grad, true};
  }
  slot.grad = Tensor::empty(shape, slot.dtype, device);
  return {slot.grad, false};
}

Tensor Grads::so_far(std::size_t i, const Shape& shape, Device device) {
  Destination destination = into(i, shape, device);
  if (!destination.accumulate) kernels::fill(destination.tensor, 0);
  return destination.tensor;
}

struct Tape::Record {
  struct Step {
    const char* name;
    std::shared_ptr<GradSlot> output;
    std::vector<std::shared_ptr<GradSlot>> inputs;
    Backward backward;
    bool strided;  // whether backward accepts any strides of dy
  };
  struct Mark {
    std::size_t place;  // index into steps
    std::function<void()> reached;
  };

  std::vector<Step> steps;
  std::vector<Mark> marks;
  bool walking = false;  // backwards
  std::thread::id thread = std::this_thread::get_id();

  Record() = default;
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;
  ~Record() { drop_steps(); }

  /// Forgets all steps, and the gradients that wait for them.
  void drop_steps() {
    for (Step& step : steps) {
      step.output->passed = true;
      step.output->grad = step.output->row_sum = {};
    }
    steps.clear();
    marks.clear();
  }

  /// Pops the hooks behind the last step, and calls them.
  void reach_marks() {
    while (!marks.empty() && marks.back().place >= steps.size()) {
      const Mark mark = std::move(marks.back());
      marks.pop_back();
      mark.reached();
    }
  }
};

Tape::Tape() : record_(std::make_shared<Record>()) { begin(record_, nullptr); }
Tape::~Tape() = default;
NoGrad::NoGrad() : left_out_(std::make_shared<bool>(false)) { begin(left_out_, left_out_.get()); }

std::shared_ptr<Tape::Record> Tape::active() {
  while (!blocks.empty()) {
    const Block& last = blocks.back();
    if (const std::shared_ptr<void> alive = last.alive.lock())
      return last.left_out ? nullptr : std::static_pointer_cast<Record>(alive);
    blocks.pop_back();
  }
  return nullptr;
}

bool Tape::is_active() { return active() != nullptr; }

Var Tape::append(const char* name, Tensor value, std::vector<Var> inputs, Backward backward,
                 DyForm dy) {
  const std::shared_ptr<Record> tape = active();
  if (!tape) {
    if (!blocks.empty()) *blocks.back().left_out = true;
    return Var(std::move(value));
  }
  auto slot =
      std::make_shared<GradSlot>(GradSlot{{}, dy.dtype.value_or(value.dtype()), false, dy.row_sum});
  std::vector<std::shared_ptr<GradSlot>> slots;
  slots.reserve(inputs.size());
  for (const Var& input : inputs) {
    slots.push_back(input.slot());
    require(!slots.back() || !slots.back()->passed,
            "{}: an input was made before a backward pass or under a tape that has ended, so that "
            "its gradient would reach nothing; make it again under this tape, or detach() it",
            name);
    require(!slots.back() || slots.back()->thread == std::thread::id() ||
                slots.back()->thread == tape->thread,
            "{}: an input is on the tape of another thread; make it again under this tape, or "
            "detach() it",
            name);
  }
  slot->thread = tape->thread;
  tape->steps.push_back({name, slot, std::move(slots), std::move(backward), dy.strided});
  return {std::move(value), std::move(slot)};
}

Tape::Record& Tape::own() const {
  require(record_->thread == std::this_thread::get_id(),
          "this tape records another thread; use it there, and make one for each thread");
  return *record_;
}

std::size_t Tape::size() const { return own().steps.size(); }

void Tape::add_backward_hook(std::function<void()> f) {
  if (const auto record = active()) record->marks.push_back({record->steps.size(), std::move(f)});
}

void Tape::backward(const Var& loss) {
  require(loss.value().numel() == 1, "backward: the loss must have one element, got shape {}",
          loss.shape());
  backward(loss, Tensor::full(loss.shape(), 1, loss.dtype(), loss.value().device()));
}

void Tape::backward(const Var& output, Tensor seed) {
  require(!own().walking,
          "backward: this tape is being walked; make another one for gradients "
          "within its backward pass");
  const std::vector<Record::Step>& steps = own().steps;
  const auto made_output = [&](const Record::Step& step) { return step.output == output.slot(); };
  require(output.requires_grad() &&
              (output.slot()->is_leaf || std::any_of(steps.rbegin(), steps.rend(), made_output)),
          "backward: nothing to differentiate; no leaf was used, or no tape was active, or this "
          "tape was walked already (gradients of "
          "gradients are not supported)");
  require(seed.shape() == output.shape(), "backward: the seed has shape {}, expected {}",
          seed.shape(), output.shape());
  Grads({output.slot()}).add(0, std::move(seed));
  walk();
}

void Tape::walk() {
  const NoGrad no_recording;
  Record& record = own();
  struct Walk {
    bool& walking;
    explicit Walk(bool& flag) : walking(flag) { walking = true; }
    ~Walk() { walking = false; }
  } const walk(record.walking);
  try {
    run_steps(record);
  } catch (...) {
    record.drop_steps();
    throw;
  }
}

void Tape::run_steps(Record& record) {
  for (record.reach_marks(); !record.steps.empty(); record.reach_marks()) {
    Record::Step step = std::move(record.steps.back());
    record.steps.pop_back();
    step.output->passed = true;
    if (!step.output->grad.defined()) continue;  // does not contribute to the loss
    Tensor dy = std::exchange(step.output->grad, {}),
           row_sum = std::exchange(step.output->row_sum, {});
    if (!step.strided) dy = dy.contiguous();
    with_context(fmt::format("in the backward pass of {}", step.name),
                 [&] { step.backward(std::move(dy), Grads(step.inputs, row_sum)); });
  }
}

Var record(const char* name, Tensor value, std::vector<Var> inputs, Backward backward, DyForm dy) {
  const bool wanted =
      std::ranges::any_of(inputs, [](const Var& input) { return input.requires_grad(); });
  if (!wanted) return Var(std::move(value));
  return Tape::append(name, std::move(value), std::move(inputs), std::move(backward), dy);
}

Var checkpoint(const std::function<Var(const std::vector<Var>&)>& f,
               const std::vector<Var>& inputs) {
  std::vector<Tensor> values;
  for (const Var& input : inputs) values.push_back(input.value());
  // Values that f uses beside its inputs may need gradients too.
  const auto [output, wanted] = [&] {
    const NoGrad no_recording;
    const Var result = f(inputs);
    return std::pair(result.value(), result.requires_grad() || no_recording.left_out());
  }();
  if (!wanted) return Var(output);
  return Tape::append("checkpoint", output, inputs, [f, values](Tensor dy, Grads grads) {
    Tape inner;
    std::vector<Var> copies;
    for (std::size_t i = 0; i < values.size(); ++i) {
      copies.push_back(grads.wants(i) ? Var(values[i], std::make_shared<GradSlot>(
                                                           GradSlot{{}, values[i].dtype(), false}))
                                      : Var(values[i]));
    }
    // The second run's result is not kept either, nor dy.
    const std::shared_ptr<GradSlot> again = f(copies).slot();
    if (!again) return;
    // This also covers an f that returns an input: nothing was recorded then,
    // and its gradient is complete.
    Grads({again}).add(0, std::exchange(dy, {}));
    inner.walk();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (grads.wants(i) && copies[i].grad().defined()) grads.add(i, copies[i].grad());
    }
  });
}

}  // namespace nystrom
