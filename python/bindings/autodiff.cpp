// Tensors with gradients, and the tape.
#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "autograd/ops.h"
#include "docs.h"
#include "python/bindings/bindings.h"

namespace nystrom::python {
namespace {

/// A number of Python or of NumPy, which takes a tensor's type.
struct Number {
  double value;
};

}  // namespace
}  // namespace nystrom::python

template <>
struct nanobind::detail::type_caster<nystrom::python::Number> {
  NB_TYPE_CASTER(nystrom::python::Number, const_name("float"))

  bool from_python(handle given, std::uint8_t, cleanup_list*) noexcept {
    if (!PyFloat_Check(given.ptr()) && !PyLong_Check(given.ptr()) && !is_of_numpy(given))
      return false;
    value.value = PyFloat_AsDouble(given.ptr());
    const bool fails = PyErr_Occurred() != nullptr;
    PyErr_Clear();
    return !fails;
  }

 private:
  /// Arrays can be written to, numbers cannot.
  static bool is_of_numpy(handle given) noexcept {
    if (hasattr(given, "__setitem__") || !hasattr(given, "dtype")) return false;
    const object kind = getattr(getattr(given, "dtype"), "kind", none());
    return kind.equal(str("f")) || kind.equal(str("i")) || kind.equal(str("u"));
  }
};

namespace nystrom::python {
namespace {

/// A C++ object with a scope as a context manager of Python: it lives from __enter__ to __exit__,
/// and until the calls of other threads have returned.
template <class T>
class Context {
 public:
  void enter() {
    require_input(!object_, "the block of this object has begun; make another one");
    object_ = std::make_shared<T>();
  }
  void exit() { object_.reset(); }
  std::shared_ptr<T> object() {
    require_input(object_ != nullptr, "call this inside the block: with nystrom.Tape() as tape:");
    return object_;
  }

 private:
  std::shared_ptr<T> object_;
};

template <class T>
nb::class_<Context<T>> bind_context(nb::module_& module, const char* name, const char* doc) {
  return nb::class_<Context<T>>(module, name, doc)
      .def(nb::init<>())
      .def(
          "__enter__",
          [](Context<T>& self) -> Context<T>& {
            self.enter();
            return self;
          },
          nb::rv_policy::reference)
      .def(
          "__exit__", [](Context<T>& self, nb::handle, nb::handle, nb::handle) { self.exit(); },
          "type"_a.none(), "value"_a.none(), "traceback"_a.none());
}

nb::object numpy_of(const Var& x) { return array_of(x.value().to(cpu_device)); }

std::vector<std::int64_t> sizes_of(const Var& x) { return {x.shape().begin(), x.shape().end()}; }

/// np.array(x, dtype, copy=copy), for every version of NumPy.
nb::object array_as_asked(const Var& x, const nb::object& dtype, const nb::object& copy) {
  require_input(x.dtype() != DType::bf16,
                "NumPy has no bf16; convert the tensor first: nystrom.ops.cast(tensor, \"f32\")");
  const bool shares = x.value().device().is_cpu();
  if (!shares && !copy.is_none() && !nb::cast<bool>(copy))
    throw nb::value_error("the tensor lies on a GPU: NumPy cannot read it without a copy");
  return nb::module_::import_("numpy").attr("array")(numpy_of(x), dtype, "copy"_a = copy);
}

/// As NumPy treats a read-only array: only a consumer that knows of the flag may have it.
nb::object dlpack_of(const Var& x, const nb::kwargs& options) {
  const nb::object array = numpy_of(x);
  const auto option = [&](const char* name) {
    return options.contains(name) ? nb::object(options[name]) : nb::none();
  };
  const nb::object version = option("max_version"), copy = option("copy");
  const bool flagged = !version.is_none() && nb::cast<int>(version[0]) >= 1,
             copied = !copy.is_none() && nb::cast<bool>(copy);
  if (x.value().memory() == Memory::read_only && !flagged && !copied)
    throw nb::buffer_error(
        "the tensor lies on read-only memory, and this version of DLPack cannot "
        "say so; pass a copy");
  return array.attr("__dlpack__")(**options);
}

/// A tensor on the memory of an array. Whether that may be written to shows in the conversion.
Tensor lent_tensor(const nb::object& given) {
  const std::string loss = loss_of(given);
  require_input(loss.empty(), "{}", loss);
  const nb::object array = readable(given);
  WritableArray writable;
  if (nb::try_cast(array, writable))
    return tensor_of(Array(Array::Base(writable)), Memory::borrowed);
  Array read_only;
  if (nb::try_cast(array, read_only)) return tensor_of(read_only);
  PyErr_Clear();
  if (!nb::hasattr(given, "dtype")) throw nb::next_overload();
  std::string reason = "it is not in memory that DLPack knows";
  try {
    given.attr("__dlpack__")();
  } catch (const nb::python_error& error) {
    reason = nb::cast<std::string>(nb::str(error.value()));
  }
  const nb::object dtype = given.attr("dtype");
  throw InputError(fmt::format(
      "an array of {} cannot be read: {}; expected f16, f32, f64, i32, i64, u8 or bool in the "
      "machine's byte order, as array.astype(\"f4\") has it",
      nb::cast<std::string>(nb::str(dtype)), reason));
}

void bind_tensor(nb::module_& module) {
  nb::class_<Var> tensor(module, "Tensor", doc::Var);
  const auto def = [&](const char* name, auto function) {
    tensor.def(name, function, nb::is_operator(), ReleaseLock());
  };
  // Before those of two tensors, which a number of NumPy could become.
  def("__add__", [](const Var& x, Number y) { return x + y.value; });
  def("__sub__", [](const Var& x, Number y) { return x - y.value; });
  def("__mul__", [](const Var& x, Number y) { return x * y.value; });
  def("__truediv__", [](const Var& x, Number y) { return x / y.value; });
  def("__radd__", [](const Var& x, Number y) { return x + y.value; });
  def("__rsub__", [](const Var& x, Number y) { return affine(x, -1, y.value); });
  def("__rmul__", [](const Var& x, Number y) { return x * y.value; });
  tensor
      .def(
          "__init__",
          [](Var* self, const nb::object& array, bool requires_grad) {
            const Tensor value = lent_tensor(array);
            new (self) Var(requires_grad ? Var::leaf(value) : Var(value));
          },
          "array"_a, "requires_grad"_a = false,
          nb::sig("def __init__(self, array: typing.Annotated[numpy.typing.NDArray, "
                  "dict(device='cpu', writable=False)], requires_grad: bool = False) -> None"),
          "On the memory of an array of NumPy or another library, without a copy. requires_grad: "
          "a leaf, for which the backward pass collects a gradient.")
      .def("numpy", &numpy_of, nb::sig("def numpy(self) -> numpy.ndarray"),
           "The values as an array of NumPy on the same memory: read-only if the tensor was made "
           "from a read-only array. bf16, which NumPy lacks, becomes an object with __dlpack__ "
           "alone.")
      .def("__array__", &array_as_asked, "dtype"_a = nb::none(), "copy"_a = nb::none())
      .def("__dlpack__", &dlpack_of)
      .def("__dlpack_device__",
           [](const Var&) { return nb::make_tuple(nb::device::cpu::value, 0); })
      .def_prop_ro(
          "grad",
          [](const Var& x) {
            return x.grad().defined() ? std::optional(Var(x.grad())) : std::nullopt;
          },
          doc::Var_grad)
      .def_prop_ro("requires_grad", &Var::requires_grad, doc::Var_requires_grad)
      .def("detach", &Var::detach, doc::Var_detach)
      .def(
          "item",
          [](const Var& x) -> nb::object {
            const double value = x.value().item();
            if (is_float(x.dtype())) return nb::float_(value);
            return numpy_of(x).attr("item")();  // a double has 53 bits
          },
          "The value of a tensor with one element.", nb::sig("def item(self) -> float"))
      .def("__bool__",
           [](const Var& x) {
             if (x.value().numel() != 1)
               throw nb::type_error("the truth of a tensor of several elements; take its array");
             return x.value().item() != 0;
           })
      .def_prop_ro(
          "shape", [](const Var& x) { return nb::tuple(nb::cast(sizes_of(x))); }, doc::Var_shape)
      .def_prop_ro("ndim", &Var::rank, doc::Var_rank)
      .def_prop_ro(
          "dtype", [](const Var& x) { return std::string(name_of(x.dtype())); }, doc::Var_dtype)
      .def("__repr__",
           [](const Var& x) {
             return fmt::format("nystrom.Tensor({}, {}{})", x.shape(), x.dtype(),
                                x.requires_grad() ? ", requires_grad=True" : "");
           })
      .def(nb::self + nb::self, ReleaseLock())
      .def(nb::self - nb::self, ReleaseLock())
      .def(nb::self * nb::self, ReleaseLock())
      .def(nb::self / nb::self, ReleaseLock())
      .def(-nb::self, ReleaseLock());
  for (const char* name : {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"})
    tensor.def(name, [](const Var&, const nb::object&) -> bool {
      throw nb::type_error("tensors are not compared; compare their arrays: tensor.numpy()");
    });
  // Of an array and a tensor.
  def("__radd__", [](const Var& x, const Var& y) { return y + x; });
  def("__rsub__", [](const Var& x, const Var& y) { return y - x; });
  def("__rmul__", [](const Var& x, const Var& y) { return y * x; });
  def("__rtruediv__", [](const Var& x, const Var& y) { return y / x; });
  def("__rmatmul__", [](const Var& b, const Var& a) { return matmul(a, b); });
  def("__matmul__", [](const Var& a, const Var& b) { return matmul(a, b); });
  // NumPy leaves operators between its arrays and tensors to this class.
  tensor.attr("__array_ufunc__") = nb::none();
  nb::implicitly_convertible<Array, Var>();
}

/// A function of Python that a tape may call and drop without the interpreter's lock.
std::function<Var(const std::vector<Var>&)> callable_anywhere(const nb::callable& function) {
  return [kept = shared(function)](const std::vector<Var>& inputs) {
    const nb::gil_scoped_acquire lock;
    nb::list arguments;
    for (const Var& input : inputs) arguments.append(nb::cast(input));
    const nb::object result = (*kept)(*arguments);
    if (!nb::isinstance<Var>(result)) {
      const std::string got = nb::cast<std::string>(result.type().attr("__name__"));
      throw nb::type_error(
          fmt::format("checkpoint: f returned a {}, expected a Tensor", got).c_str());
    }
    return nb::cast<Var>(result);
  };
}

}  // namespace

void bind_autodiff(nb::module_& module) {
  bind_tensor(module);
  bind_context<Tape>(module, "Tape", doc::Tape)
      .def(
          "backward",
          [](Context<Tape>& tape, const Var& output, const std::optional<Array>& seed) {
            // The backward pass may overwrite the seed.
            const Tensor given = seed ? tensor_of(*seed).clone() : Tensor();
            const std::shared_ptr<Tape> kept = tape.object();
            const Unlocked unlocked;
            given.defined() ? kept->backward(output, given) : kept->backward(output);
          },
          "output"_a, "seed"_a = nb::none(), doc::Tape_backward)
      .def(
          "__len__", [](Context<Tape>& tape) { return tape.object()->size(); }, doc::Tape_size);
  bind_context<NoGrad>(module, "NoGrad", doc::NoGrad);
  module.def(
      "checkpoint",
      [](const nb::callable& f, const std::vector<Var>& inputs) {
        const auto function = callable_anywhere(f);
        const Unlocked unlocked;
        return checkpoint(function, inputs);
      },
      "f"_a, "inputs"_a, doc::checkpoint);
}

}  // namespace nystrom::python
