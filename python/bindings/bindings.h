// What the units of the Python extension share. The extension holds no logic of its own: every
// function calls one of a library.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "autograd/var.h"
#include "core/tensor.h"

namespace nystrom::python {

namespace nb = nanobind;

/// An array of any library in CPU memory, which is not written to.
using Array = nb::ndarray<nb::ro, nb::device::cpu>;
using ReleaseLock = nb::call_guard<nb::gil_scoped_release>;

/// A tensor on the memory of an array, which lives as long as the tensor. Booleans become u8.
/// Throws an InputError for element types that nystrom lacks and for negative strides.
Tensor tensor_of(const Array& array);
/// A NumPy array on the memory of a CPU tensor. NumPy lacks bf16: such a tensor becomes an object
/// with __dlpack__ alone.
nb::object array_of(const Tensor& tensor);

/// The type called "f32", "bf16", "f16" or "f64". Throws an InputError for other names.
DType dtype_called(const std::string& name);

/// Throws the KeyboardInterrupt of a pressed Ctrl-C. Callable without the interpreter's lock.
void check_signals();

// Each adds the classes and functions of one file to the module.
void bind_autodiff(nb::module_& module);
void bind_ops(nb::module_& module);
void bind_nn(nb::module_& module);
void bind_model(nb::module_& module);
void bind_runs(nb::module_& module);

}  // namespace nystrom::python
