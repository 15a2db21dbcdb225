// The extension nystrom._core: the libraries as Python sees them, and exceptions of three classes.
#include <nanobind/stl/string.h>

#include "core/threads.h"
#include "python/bindings/bindings.h"
#include "train/loop/failure.h"

namespace nystrom::python {
namespace {

struct Exceptions {
  nb::object input, internal, interrupted, in_words_of_python;
};

void throw_exceptions_of_python() {
  const nb::module_ errors = nb::module_::import_("nystrom.errors");
  // Lives as long as the process: exceptions may come until its end.
  static const auto& exceptions =
      *new Exceptions{errors.attr("InputError"), errors.attr("InternalError"),
                      errors.attr("Interrupted"), errors.attr("in_words_of_python")};
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const nb::python_error&) {
      throw;
    } catch (const nb::builtin_exception&) {
      throw;
    } catch (const std::exception&) {
      const Failure failure = current_failure();
      const nb::object& type = failure.kind == FailureKind::input         ? exceptions.input
                               : failure.kind == FailureKind::interrupted ? exceptions.interrupted
                                                                          : exceptions.internal;
      nb::object message = exceptions.in_words_of_python(failure.message);
      PyErr_SetObject(type.ptr(), message.ptr());
    }
  });
}

}  // namespace

void set_threads(const char* name, int threads, int fewest) {
  require_input(threads >= fewest, "{} {}; expected at least {}", name, threads, fewest);
  require_input(threads <= max_threads, "{} {}; expected at most {}", name, threads, max_threads);
  if (threads > 0) set_num_threads(threads);
}

NB_MODULE(_core, module) {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0)
    throw nb::import_error(
        "nystrom works in the main interpreter of a process alone; for mod_wsgi set "
        "WSGIApplicationGroup %{GLOBAL}");
  module.attr("version") = NYSTROM_VERSION;
  throw_exceptions_of_python();
  nb::set_implicit_cast_warnings(false);  // nystrom.ops says of its arguments why
  prepare_for_forks();
  prepare_for_the_end();
  module.def(
      "set_num_threads",
      [](const nb::object& n) {
        int threads = 0;
        if (nb::isinstance<nb::bool_>(n) || !nb::try_cast(n, threads))
          throw nb::type_error("n: expected a number of threads");
        set_threads("n", threads, 1);
      },
      "n"_a, nb::sig("def set_num_threads(n: int) -> None"),
      "Sets the number of CPU threads for calls from this thread of Python.");
  module.def("num_threads", &num_threads,
             "The number of CPU threads for calls from this thread of Python.");
  bind_autodiff(module);
  bind_ops(module);
  bind_nn(module);
  bind_tokenizer(module);
  bind_model(module);
  bind_runs(module);
}

}  // namespace nystrom::python
