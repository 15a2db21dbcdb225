// The extension nystrom._core: the libraries as Python sees them, and exceptions of three classes.
#include <nanobind/stl/string.h>

#include "core/threads.h"
#include "python/bindings/bindings.h"
#include "train/loop/failure.h"

namespace nystrom::python {
namespace {

struct Exceptions {
  PyObject *input, *internal, *interrupted;
};

PyObject* new_exception(nb::module_& module, const char* name, const char* doc, PyObject* base) {
  const std::string path = std::string("nystrom.") + name;
  PyObject* made = PyErr_NewExceptionWithDoc(path.c_str(), doc, base, nullptr);
  if (!made) throw nb::python_error();
  module.attr(name) = nb::borrow(made);
  return made;  // lives as long as the process
}

void bind_exceptions(nb::module_& module) {
  static const Exceptions exceptions{
      new_exception(module, "InputError",
                    "A wrong file, option or value. The message is the program's.",
                    PyExc_ValueError),
      new_exception(module, "InternalError", "An error of nystrom itself; please report it.",
                    PyExc_RuntimeError),
      new_exception(module, "Interrupted",
                    "A signal stopped the work. What had to be saved is saved.",
                    PyExc_KeyboardInterrupt)};
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const nb::python_error&) {
      throw;
    } catch (const nb::builtin_exception&) {
      throw;
    } catch (const std::exception&) {
      const Failure failure = current_failure();
      PyObject* type = failure.kind == FailureKind::input         ? exceptions.input
                       : failure.kind == FailureKind::interrupted ? exceptions.interrupted
                                                                  : exceptions.internal;
      PyErr_SetString(type, failure.message.c_str());
    }
  });
}

}  // namespace

NB_MODULE(_core, module) {
  module.attr("__version__") = NYSTROM_VERSION;
  bind_exceptions(module);
  module.def("set_num_threads", &set_num_threads, nb::arg("n"),
             "Sets the number of CPU threads for calls from this thread of Python.");
  module.def("num_threads", &num_threads,
             "The number of CPU threads for calls from this thread of Python.");
  bind_autodiff(module);
  bind_ops(module);
  bind_nn(module);
  bind_model(module);
  bind_runs(module);
}

}  // namespace nystrom::python
