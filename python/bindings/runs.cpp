// nystrom.pretrain and nystrom.finetune.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <tuple>

#include "docs.h"
#include "python/bindings/bindings.h"
#include "train/distributed/processes.h"
#include "train/objectives/finetune.h"
#include "train/objectives/pretrain.h"
#include "train/objectives/task_settings.h"
#include "train/state/model_folder.h"
#include "train/state/run_folder.h"

namespace nystrom::python {
namespace {

/// The arguments of nystrom.Run: run_dir, steps, best_step, best_value, metric.
using FinishedRun = std::tuple<std::string, std::int64_t, std::optional<std::int64_t>,
                               std::optional<double>, std::string>;

/// The contents of a pickle of a Step: all of its fields, in their order.
using StepState =
    std::tuple<std::int64_t, std::int64_t, double, std::optional<double>, double, double, double>;

/// `config` is the path of a file, or a text of YAML.
ConfigText text_of(const std::string& config, bool is_text) {
  return is_text ? ConfigText{"config", config} : config_file(config);
}

/// Calls functions of Python after each step and each evaluation. What they throw stops the run,
/// which saves a checkpoint, and is thrown at its end.
class PythonObserver {
 public:
  PythonObserver(nb::handle on_step, nb::handle on_evaluation)
      : on_step_(on_step), on_evaluation_(on_evaluation) {}

  RunObserver observer() {
    return {[this](const StepRecord& record) {
              return call([&] {
                if (!on_step_.is_none()) on_step_(record);
              });
            },
            [this](std::int64_t step, const Metrics& metrics) {
              return call([&] {
                if (on_evaluation_.is_none()) return;
                nb::dict record;
                record["step"] = step;
                for (const auto& [name, value] : metrics) record[name.c_str()] = value;
                on_evaluation_(record);
              });
            }};
  }
  bool has_thrown() const { return thrown_ != nullptr; }
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  template <class Work>
  bool call(const Work& work) {
    const nb::gil_scoped_acquire lock;
    try {
      // Ctrl-C from a moment in which the run has no handler of its own.
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      work();
      return true;
    } catch (...) {
      if (!thrown_) thrown_ = std::current_exception();
      return false;
    }
  }

  nb::handle on_step_, on_evaluation_;
  std::exception_ptr thrown_;
};

using Train =
    std::function<RunResult(const RunSpec&, Log&, Device, Communicator&, const RunObserver&)>;

FinishedRun run(RunKind kind, const Train& train, const std::string& config, bool is_text,
                const std::vector<std::string>& overrides, nb::handle on_step,
                nb::handle on_evaluation, const std::string& device, int threads, bool quiet) {
  PythonObserver python(on_step, on_evaluation);
  RunResult result;
  std::string run_dir;
  const LogSink sink = log_sink();
  {
    const Unlocked unlocked;
    require_input(started_as().size == 1,
                  "a run from Python has one process; for several start the program nystrom by "
                  "mpirun, srun or torchrun");
    set_threads("threads", threads, 0);
    const Device place =
        with_context("device '" + device + "'", [&] { return device_called(device); });
    const RunSpec spec = resolve(text_of(config, is_text), overrides, kind);
    Log log(quiet, sink);
    Communicator alone;
    result = train(spec, log, place, alone, python.observer());
    run_dir = spec.options.run_dir;
    if (!python.has_thrown()) require_finished(result, log);
  }
  python.rethrow();
  return {run_dir, result.steps, result.best, result.best_value, result.metric_name};
}

/// Which columns a task reads, and its kind; None where the task names none.
void add_columns(nb::dict& plan, TaskConfig task) {
  plan["names_labels"] = !task.labels.empty();
  if (problems(task).empty()) task = resolve_task(task);
  const TaskColumns columns = named_columns(task);
  plan["kind"] = task.kind ? nb::cast(enum_name(*task.kind)) : nb::none();
  plan["format"] = task.format ? nb::cast(enum_name(*task.format)) : nb::none();
  plan["text"] = columns.text;
  plan["pair"] = columns.pair;
  plan["label"] = columns.label;
  plan["labels"] = columns.labels;
  plan["multi_label"] = task.multi_label == true;
  plan["label_separator"] = task.label_separator;
  plan["id"] = columns.id;
  plan["choices"] = columns.choices;
  plan["negatives"] = columns.negatives;
  plan["classes"] = task.labels;
  plan["bad_rows"] = task.bad_rows ? nb::cast(enum_name(*task.bad_rows)) : nb::none();
  plan["train"] = task.train;
  plan["validation"] = task.validation;
}

/// What a configuration says of a run before it begins: where its files lie, and which columns its
/// task reads.
nb::dict plan_of(const std::string& config, bool is_text, const std::vector<std::string>& overrides,
                 bool task) {
  RunConfig options;
  bool names_run_dir = false;
  {
    const Unlocked unlocked;
    const ConfigText text = text_of(config, is_text);
    options = read_run(text, overrides).options;
    names_run_dir = options_in(overrides, text).contains("run_dir");
  }
  nb::dict plan;
  plan["names_run_dir"] = names_run_dir;
  plan["run_dir"] = options.run_dir;
  plan["cache"] = options.data.cache;
  plan["text_column"] = options.data.text_column;
  nb::dict models;  // that the run reads, by their options
  if (options.start.from) models["model.from"] = *options.start.from;
  if (options.tokenizer.path) models["tokenizer.path"] = *options.tokenizer.path;
  if (options.distillation.teacher) models["distillation.teacher"] = *options.distillation.teacher;
  plan["models"] = models;
  plan["fresh_head"] = options.start.fresh_head;
  if (task) add_columns(plan, options.task);
  return plan;
}

/// The same of a trained model, for files that it is evaluated on.
nb::dict plan_of_model(const std::string& path, const std::vector<std::string>& overrides) {
  RunConfig config;
  {
    const Unlocked unlocked;
    Log log(/*quiet=*/true, [](const std::string&) {});  // who reads the model tells all that
    config = settings_of(open_model(path, {}, log), std::nullopt, overrides);
  }
  nb::dict plan;
  plan["head"] = enum_name(config.model.head);
  plan["text_column"] = config.data.text_column;
  add_columns(plan, config.task);
  return plan;
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
      .def("__getstate__",
           [](const StepRecord& record) {
             const auto& [step, steps, loss, accuracy, rate, norm, speed] = record;
             return StepState(step, steps, loss, accuracy, rate, norm, speed);
           })
      .def("__setstate__",
           [](StepRecord& record, const StepState& state) {
             const auto& [step, steps, loss, accuracy, rate, norm, speed] = state;
             new (&record) StepRecord{step, steps, loss, accuracy, rate, norm, speed};
           })
      .def("__repr__", [](const StepRecord& record) {
        return fmt::format("nystrom.Step(step={}, loss={:.4f})", record.step, record.loss);
      });
  const auto define = [&](const char* name, RunKind kind, const Train& train) {
    module.def(
        name,
        [kind, train](const std::string& config, bool is_text,
                      const std::vector<std::string>& overrides, nb::object on_step,
                      nb::object on_evaluation, const std::string& device, int threads,
                      bool quiet) {
          return run(kind, train, config, is_text, overrides, on_step, on_evaluation, device,
                     threads, quiet);
        },
        "config"_a, "is_text"_a, "overrides"_a, "on_step"_a.none(), "on_evaluation"_a.none(),
        "device"_a, "threads"_a, "quiet"_a);
  };
  define(
      "pretrain", RunKind::pretraining,
      [](const RunSpec& spec, Log& log, Device device, Communicator& alone,
         const RunObserver& observer) { return pretrain(spec, log, device, alone, observer).run; });
  define("finetune", RunKind::finetuning,
         [](const RunSpec& spec, Log& log, Device device, Communicator& alone,
            const RunObserver& observer) {
           return finetune(spec, log, device, alone, /*describe_data=*/true, observer);
         });
  module.def(
      "plan", &plan_of, "config"_a, "is_text"_a, "overrides"_a, "task"_a,
      nb::sig("def plan(config: str, is_text: bool, overrides: list[str], task: bool) -> dict[str, "
              "typing.Any]"));
  module.def("plan_of_model", &plan_of_model, "path"_a, "overrides"_a,
             nb::sig("def plan_of_model(path: str, overrides: list[str]) -> dict[str, "
                     "typing.Any]"));
  module.def(
      "outputs_of",
      [](const std::string& path) {
        const Unlocked unlocked;
        Log log(/*quiet=*/true, [](const std::string&) {});
        return with_context("model.from", [&] { return open_model(path, {}, log).config.labels; });
      },
      "path"_a);
  module.def(
      "check_run_place", [](const std::string& run_dir) { check_run_place(run_dir); }, "run_dir"_a);
}

}  // namespace nystrom::python
