// Helpers of the units of the Python extension. The extension holds no logic of its own: every
// function calls one of a library.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autograd/var.h"
#include "core/base/fields.h"
#include "core/base/interruption.h"
#include "core/base/log.h"
#include "core/check.h"
#include "core/tensor.h"

namespace nystrom::python {

namespace nb = nanobind;
using namespace nb::literals;  // "x"_a: the argument x

/// An array of any library in CPU memory, which is not written to.
class Array : public nb::ndarray<nb::ro, nb::device::cpu> {
 public:
  using Base = nb::ndarray<nb::ro, nb::device::cpu>;
  Array() = default;
  explicit Array(const Base& array) : Base(array) {}
  /// Why tensor_of refuses it, in words: what it would lose. Empty for most.
  std::string refusal;
};
/// One whose library lets others write to it.
using WritableArray = nb::ndarray<nb::device::cpu>;

/// Work without the interpreter's lock, which Ctrl-C ends at the next check_interruption().
/// Throws an Error in a process that was forked during such work: what its threads held stays
/// locked there.
class Unlocked {
 public:
  Unlocked();
  ~Unlocked();

 private:
  nb::gil_scoped_release released_;
  InterruptionCheck check_;
};
using ReleaseLock = nb::call_guard<Unlocked>;

/// An object of Python that any thread may drop.
template <class T>
std::shared_ptr<T> shared(T object) {
  return {new T(std::move(object)), [](T* kept) {
            if (!nb::is_alive()) return;  // at the end of the interpreter nothing can be released
            const nb::gil_scoped_acquire lock;
            delete kept;
          }};
}

/// Lets threads that compute while the interpreter ends stay out of it.
void prepare_for_the_end();
/// Lets processes that are forked from now on compute.
void prepare_for_forks();

/// Sets the number of CPU threads for calls from this thread; 0 leaves it. Throws an InputError,
/// which begins with `name`, for less than `fewest`.
void set_threads(const char* name, int threads, int fewest);

/// Where the messages of a call go: what nystrom._output.sink returns. The lock must be held.
LogSink log_sink();

/// The loss that an array would suffer on its way into the extension, in words; empty for most.
std::string loss_of(nb::handle array);
/// The array; one of NumPy for another kind of buffer, such as ctypes', which nanobind cannot read.
nb::object readable(nb::handle array);

/// A tensor on the memory of an array, which lives as long as the tensor. Booleans become u8.
/// Throws an InputError for element types that nystrom lacks, for negative strides, and for a
/// refusal.
Tensor tensor_of(const Array& array, Memory memory = Memory::read_only);
/// Ids, labels, a mask or a table of this moment: a tape keeps them until backward, and callers may
/// fill their array anew before that.
inline Tensor copy_of(const Array& array) { return tensor_of(array).clone(); }
/// The same of an argument that may be left out.
inline Tensor copy_of(const std::optional<Array>& array) {
  return array ? copy_of(*array) : Tensor();
}
/// A NumPy array on the memory of a CPU tensor, read-only if that is. NumPy lacks bf16: such a
/// tensor becomes an object with __dlpack__ alone.
nb::object array_of(const Tensor& tensor);

/// The value that has this name. Throws an InputError, which begins with `option`.
template <class E>
E value_called(const char* option, const std::string& name) {
  const auto value = value_named<E>(name);
  require_input(value.has_value(), "{} '{}'; expected {}", option, name,
                fmt::join(names_of<E>(), ", "));
  return *value;
}

/// The type called "f32", "bf16", "f16" or "f64". Throws an InputError for other names.
DType dtype_called(const std::string& name);

// Each adds the classes and functions of one file to the module.
void bind_autodiff(nb::module_& module);
void bind_ops(nb::module_& module);
void bind_nn(nb::module_& module);
void bind_tokenizer(nb::module_& module);
void bind_model(nb::module_& module);
void bind_runs(nb::module_& module);

}  // namespace nystrom::python

template <>
struct nanobind::detail::type_caster<nystrom::python::Array> {
  using Caster = type_caster<nystrom::python::Array::Base>;
  NB_TYPE_CASTER(nystrom::python::Array, Caster::Name)

  /// Casters do not throw, so what is refused is said by tensor_of.
  bool from_python(handle given, std::uint32_t flags, cleanup_list* cleanup) noexcept {
    try {
      Caster caster;
      if (!caster.from_python(nystrom::python::readable(given), flags, cleanup)) return false;
      value = nystrom::python::Array(caster.value);
      value.refusal = nystrom::python::loss_of(given);
      return true;
    } catch (...) {
      return false;
    }
  }
};
