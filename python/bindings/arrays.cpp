#include <nanobind/stl/string.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "core/threads.h"
#include "python/bindings/bindings.h"
#include "train/config/config.h"

namespace nystrom::python {
namespace {

using Code = nb::dlpack::dtype_code;

struct ElementType {
  DType type;
  Code code;
};

/// Arrays of a type have its first code.
constexpr ElementType element_types[] = {{DType::f32, Code::Float}, {DType::f64, Code::Float},
                                         {DType::f16, Code::Float}, {DType::bf16, Code::Bfloat},
                                         {DType::i64, Code::Int},   {DType::i32, Code::Int},
                                         {DType::u8, Code::UInt},   {DType::u8, Code::Bool}};

nb::dlpack::dtype dlpack_dtype(const ElementType& element) {
  return {static_cast<std::uint8_t>(element.code),
          static_cast<std::uint8_t>(8 * size_of(element.type)), 1};
}

DType dtype_of(nb::dlpack::dtype given) {
  for (const ElementType& element : element_types)
    if (given == dlpack_dtype(element)) return element.type;
  throw InputError(
      fmt::format("an array has elements of {} bits that nystrom does not know; expected float32, "
                  "float64, float16, bfloat16, int64, int32, uint8 or bool",
                  given.bits));
}

}  // namespace

std::string loss_of(nb::handle array) {
  if (nb::hasattr(array, "mask") && nb::hasattr(array, "filled"))
    return "a masked array would lose its mask; pass array.filled(…), and the mask by itself";
  // torch's: their flags are lost on the way.
  if (nb::hasattr(array, "resolve_neg") &&
      (nb::cast<bool>(array.attr("requires_grad")) || nb::cast<bool>(array.attr("is_neg")()) ||
       nb::cast<bool>(array.attr("is_conj")())))
    return "a tensor of torch requires a gradient, or is a view of negated numbers; pass "
           "tensor.detach().resolve_neg()";
  return {};
}

nb::object readable(nb::handle array) {
  if (!nb::hasattr(array, "__dlpack__")) {
    if (const auto view = nb::steal(PyMemoryView_FromObject(array.ptr())); view.is_valid())
      return nb::module_::import_("numpy").attr("asarray")(view);
    PyErr_Clear();
  }
  return nb::borrow(array);
}

Tensor tensor_of(const Array& array, Memory memory) {
  require_input(array.refusal.empty(), "{}", array.refusal);
  const DType dtype = dtype_of(array.dtype());
  const std::size_t rank = array.ndim();
  require_input(rank <= max_rank, "an array has {} axes; expected at most {}", rank,
                static_cast<int>(max_rank));
  std::vector<std::int64_t> sizes, strides;
  bool negative = false;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    sizes.push_back(static_cast<std::int64_t>(array.shape(axis)));
    strides.push_back(array.stride(axis));
    negative |= strides.back() < 0;
  }
  require_input(!negative, "an array has a negative stride; pass numpy.ascontiguousarray(…)");
  if (array.size() == 0) return Tensor::empty(Shape(sizes), dtype);
  require_input(reinterpret_cast<std::uintptr_t>(array.data()) % size_of(dtype) == 0,
                "the elements of an array do not begin at multiples of their size; pass "
                "numpy.array(…), a copy");
  const std::shared_ptr<void> data(shared(Array(array)),
                                   const_cast<void*>(static_cast<const void*>(array.data())));
  return Tensor::borrow(data, Shape(sizes), strides, dtype, memory);
}

nb::object array_of(const Tensor& tensor) {
  const CView view = tensor;
  std::vector<std::size_t> sizes;
  std::vector<std::int64_t> strides;
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    sizes.push_back(static_cast<std::size_t>(tensor.dim(axis)));
    strides.push_back(tensor.stride(axis));
  }
  const nb::capsule owner(new Tensor(tensor),
                          [](void* kept) noexcept { delete static_cast<Tensor*>(kept); });
  void* data = const_cast<void*>(view.data);
  const auto* element = std::ranges::find(element_types, tensor.dtype(), &ElementType::type);
  const auto made = [&]<class Result>(TypeTag<Result>) {
    return nb::cast(Result(data, sizes.size(), sizes.data(), owner, strides.data(),
                           dlpack_dtype(*element), nb::device::cpu::value));
  };
  const auto shown = [&]<class Framework>(TypeTag<Framework>) {
    return tensor.memory() == Memory::read_only ? made(TypeTag<nb::ndarray<Framework, nb::ro>>{})
                                                : made(TypeTag<nb::ndarray<Framework>>{});
  };
  return tensor.dtype() == DType::bf16 ? shown(TypeTag<nb::array_api>{})
                                       : shown(TypeTag<nb::numpy>{});
}

LogSink log_sink() {
  nb::object function = nb::module_::import_("nystrom._output").attr("sink")();
  if (function.is_none()) return {};
  return [kept = shared(std::move(function))](const std::string& line) {
    const nb::gil_scoped_acquire lock;
    (*kept)(line);
  };
}

DType dtype_called(const std::string& name) { return value_called<DType>("dtype", name); }

namespace {

std::atomic<int> working = 0;   // the objects Unlocked
bool forked_from_work = false;  // whether there was one when this process began

std::atomic<bool> ending = false;  // whether the interpreter ends
std::thread::id ender;             // the thread that ends it
std::atomic<int> stopped = 0;      // of the working threads

/// Where the interpreter ends, stops this thread until the process does: one that asked for the
/// lock now would be ended within functions that let nothing through, and the process with it.
void wait_if_ending() {
  if (!ending || std::this_thread::get_id() == ender) return;
  ++stopped;
  while (true) ::pause();
}

}  // namespace

Unlocked::Unlocked()
    : check_([next = std::chrono::steady_clock::time_point()]() mutable {
        constexpr auto pause = std::chrono::milliseconds(50);  // other threads hold the lock too
        const auto now = std::chrono::steady_clock::now();
        if (now < next) return;
        next = now + pause;
        wait_if_ending();
        const nb::gil_scoped_acquire lock;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
      }) {
  require(!forked_from_work,
          "this process was forked while its parent computed in another thread or in a run, and "
          "cannot compute; start processes before that, or by "
          "multiprocessing.get_context('spawn')");
  ++working;
}

Unlocked::~Unlocked() {
  wait_if_ending();
  --working;
}

void prepare_for_the_end() {
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    ender = std::this_thread::get_id();
    ending = true;
    if (working > 0) nb::set_leak_warnings(false);  // what those threads hold stays
    // Their device ends with the process.
    const nb::gil_scoped_release released;
    for (int i = 0; i < 1000 && stopped < working; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }));
}

void prepare_for_forks() {
  ::pthread_atfork(end_waiting_threads, nullptr,
                   [] { forked_from_work |= working.exchange(0) > 0; });
}

}  // namespace nystrom::python
