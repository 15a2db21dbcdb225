// nystrom.pretrain and nystrom.finetune.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "core/threads.h"
#include "docs.h"
#include "python/bindings/bindings.h"
#include "train/distributed/processes.h"
#include "train/finetune/finetune.h"
#include "train/pretrain/pretrain.h"

namespace nystrom::python {
namespace {

/// A finished run.
struct FinishedRun {
  std::string run_dir;
  RunResult result;
};

/// The arguments of both functions.
struct GivenRun {
  std::string config;  ///< the path of a file, or a text of YAML
  bool is_text;
  std::vector<std::string> overrides;
  std::string device;
  int threads;
  bool quiet;
};

/// Calls a function of Python after each step. What it throws stops the run, which saves a
/// checkpoint, and is thrown at its end.
class StepObserver {
 public:
  explicit StepObserver(nb::handle function) : function_(function) {}

  bool operator()(const StepRecord& record) {
    const nb::gil_scoped_acquire lock;
    try {
      // Ctrl-C from a moment in which the run has no handler of its own.
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (!function_.is_none()) function_(record);
      return true;
    } catch (...) {
      thrown_ = std::current_exception();
      return false;
    }
  }
  bool has_thrown() const { return thrown_ != nullptr; }
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  nb::handle function_;
  std::exception_ptr thrown_;
};

using Train = std::function<RunResult(const RunSpec&, Log&, Device, Communicator&, const OnStep&)>;

FinishedRun run(const GivenRun& given, nb::handle on_step, RunKind kind, const Train& train) {
  StepObserver observer(on_step);
  FinishedRun finished;
  {
    const Unlocked unlocked;
    require_input(started_as().size == 1,
                  "a run from Python has one process; for several start the program nystrom by "
                  "mpirun, srun or torchrun");
    require_input(given.threads >= 0, "threads {}; expected at least 0", given.threads);
    if (given.threads > 0) set_num_threads(given.threads);
    const Device device =
        with_context("device '" + given.device + "'", [&] { return device_called(given.device); });
    const ConfigText yaml =
        given.is_text ? ConfigText{"config", given.config} : config_file(given.config);
    const RunSpec spec = resolve(yaml, given.overrides, kind);
    Log log(given.quiet);
    Communicator alone;
    finished = {spec.options.run_dir, train(spec, log, device, alone, std::ref(observer))};
    if (!observer.has_thrown()) require_finished(finished.result, log);
  }
  observer.rethrow();
  return finished;
}

}  // namespace

void bind_runs(nb::module_& module) {
  nb::class_<StepRecord>(module, "Step", doc::StepRecord)
      .def_ro("step", &StepRecord::step, "Its number, from 1.")
      .def_ro("steps", &StepRecord::steps, "The last number of the run.")
      .def_ro("loss", &StepRecord::loss, doc::StepRecord_loss)
      .def_ro("accuracy", &StepRecord::accuracy, doc::StepRecord_accuracy)
      .def_ro("learning_rate", &StepRecord::learning_rate, "Of this step.")
      .def_ro("gradient_norm", &StepRecord::gradient_norm, doc::StepRecord_gradient_norm)
      .def_ro("tokens_per_second", &StepRecord::tokens_per_second,
              doc::StepRecord_tokens_per_second)
      .def("__repr__", [](const StepRecord& record) {
        return fmt::format("nystrom.Step(step={}, loss={:.4f})", record.step, record.loss);
      });
  nb::class_<FinishedRun>(module, "Run",
                          "A finished run. It stands for its folder: nystrom.load(run) opens its "
                          "best model.")
      .def_ro("run_dir", &FinishedRun::run_dir, "The folder of the run.")
      .def("__fspath__", [](const FinishedRun& run) { return run.run_dir; })
      .def_prop_ro(
          "steps", [](const FinishedRun& run) { return run.result.steps; }, doc::RunResult_steps)
      .def_prop_ro(
          "best_step", [](const FinishedRun& run) { return run.result.best; }, doc::RunResult_best)
      .def_prop_ro(
          "best_value", [](const FinishedRun& run) { return run.result.best_value; },
          doc::RunResult_best_value)
      .def_prop_ro(
          "metric", [](const FinishedRun& run) { return run.result.metric_name; },
          "The name of best_value: loss, accuracy.");
  const auto define = [&](const char* name, RunKind kind, const Train& train) {
    module.def(
        name,
        [kind, train](const std::string& config, bool is_text,
                      const std::vector<std::string>& overrides, nb::object on_step,
                      const std::string& device, int threads, bool quiet) {
          return run({config, is_text, overrides, device, threads, quiet}, on_step, kind, train);
        },
        nb::arg("config"), nb::arg("is_text"), nb::arg("overrides"), nb::arg("on_step").none(),
        nb::arg("device"), nb::arg("threads"), nb::arg("quiet"));
  };
  define("pretrain", RunKind::pretraining,
         [](const RunSpec& spec, Log& log, Device device, Communicator& alone,
            const OnStep& on_step) { return pretrain(spec, log, device, alone, on_step).run; });
  define(
      "finetune", RunKind::finetuning,
      [](const RunSpec& spec, Log& log, Device device, Communicator& alone, const OnStep& on_step) {
        return finetune(spec, log, device, alone, /*describe_data=*/true, on_step);
      });
}

}  // namespace nystrom::python
