// Trained models.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <exception>
#include <filesystem>
#include <span>

#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/base/scratch_folder.h"
#include "data/tasks/task_statistics.h"
#include "python/bindings/bindings.h"
#include "train/config/yaml.h"
#include "train/export/export.h"
#include "train/export/extend.h"
#include "train/export/forward.h"
#include "train/objectives/fill_mask.h"
#include "train/objectives/task_predict.h"
#include "train/objectives/text_embedder.h"
#include "train/state/hf_config.h"
#include "train/state/sentence_modules.h"

namespace nystrom::python {
namespace {

using Strings = std::vector<std::string>;

/// Calls `work(begin, end)` for parts of `count` items. Ctrl-C ends the work before any of them.
void in_parts(std::size_t count, std::int64_t batch_size,
              const std::function<void(std::size_t, std::size_t)>& work) {
  require_input(batch_size >= 1, "batch_size {}; expected at least 1", batch_size);
  const auto part = static_cast<std::size_t>(64 * batch_size);
  for (std::size_t begin = 0; begin < count; begin += part) {
    check_interruption();
    work(begin, std::min(begin + part, count));
  }
}

/// A remark on texts that are longer than the model reads. Without `truncate` the first is an
/// InputError that ends in `remedy`.
void check_cut(const Occurrences& cut, bool truncate, std::int64_t length, const char* remedy) {
  require_input(truncate || cut.count == 0,
                "{}: has more than the {} tokens that the model reads; truncate=True reads its "
                "beginning{}",
                cut.first, length, remedy);
}

/// Why `work` cannot be done; nothing where it is done.
template <class F>
std::optional<std::string> refusal_of(const F& work) {
  try {
    work();
    return std::nullopt;
  } catch (const InputError& error) {
    return error.what();
  }
}

/// A model with what its folder says of it, which is not read later: another model may take the
/// folder's place while this one lives. Its calls may come from several threads.
class LoadedModel {
 public:
  LoadedModel(const std::string& path, const std::string& dtype, const std::string& device,
              const Strings& overrides) {
    Log log(/*quiet=*/true, log_sink());
    const Unlocked unlocked;
    const Device place =
        with_context("device '" + device + "'", [&] { return device_called(device); });
    folder_ = open_model(path, overrides, log);
    no_task_ = refusal_of([&] {
      if (task_of(folder_.config))
        task_ = open_task(folder_, settings_of(folder_, std::nullopt, {}));
    });
    no_vectors_ = refusal_of([&] { require_vectors(folder_); });
    tokenizer_ = task_.tokenizer ? task_.tokenizer : open_tokenizer_of(folder_);
    described_ = is_task_described(folder_, std::nullopt);
    length_ = nystrom::trained_length(folder_);
    no_files_ = refusal_of([&] {
      files_ = files_made_of(folder_, folder_.config, tokenizer_, length_);
      if (const auto settings = settings_beside(folder_.path))
        files_.texts["config.yaml"] = read_text_file(*settings, max_yaml_bytes);
    });
    task_.model = load_model(folder_, dtype_called(dtype), StoreMode::inference, place);
  }

  std::string path() const { return folder_.path.string(); }
  std::string config() const { return hf_config_text(folder_.config); }
  std::shared_ptr<const Tokenizer> tokenizer() const { return tokenizer_; }
  std::int64_t trained_length() const { return length_; }

  Strings fill_masks(const Strings& texts, std::int64_t top_k, std::int64_t batch_size) const {
    require_masked_lm(folder_, tokenizer_.get());
    const std::int64_t vocabulary = folder_.config.vocab_size;
    require_input(top_k >= 1 && top_k <= vocabulary, "top_k {}; expected 1 … {}", top_k,
                  vocabulary);
    std::vector<MaskedText> masked;
    for (const std::string& text : texts) {
      check_interruption();
      masked.push_back(with_context(fmt::format("'{}'", printable(text, 60)), [&] {
        return masked_text(folder_.config, *tokenizer_, text);
      }));
    }
    Strings result;
    in_parts(masked.size(), batch_size, [&](std::size_t begin, std::size_t end) {
      const auto part = std::span(masked).subspan(begin, end - begin);
      for (const MaskFills& fills :
           nystrom::fill_masks(*task_.model, *tokenizer_, part, top_k, batch_size))
        result.push_back(fill_mask_json(fills));
    });
    return result;
  }

  /// The predictions as JSON; `choices` are the words of texts of tokens. Without `truncate`, a
  /// text that is too long is an InputError; else the log is told of it.
  Strings predict(const Strings& texts, const std::vector<std::optional<std::string>>& pairs,
                  const std::vector<Strings>& choices, std::int64_t top_k,
                  std::optional<double> threshold, std::int64_t batch_size, bool truncate) const {
    Log log(/*quiet=*/true, log_sink());
    const Unlocked unlocked;
    require_input(top_k >= 1, "top_k {}; expected at least 1", top_k);
    require_input(!threshold || folder_.config.multi_label,
                  "threshold: {} does not give a text any number of labels; leave it out",
                  printable_path(folder_.path));
    require_input(task_of(folder_.config).has_value(),
                  "{}: is a {}, which does no task; finetune makes a model that does",
                  printable_path(folder_.path), enum_name(folder_.config.head));
    if (no_task_) throw InputError(*no_task_);
    const TaskConfig& options = task_.settings.task;
    const std::int64_t length = task_.settings.data.sequence_length;
    Strings result;
    EncodingCounts counts;
    const auto add = [&](const Predictions& predictions) {
      for (const Prediction& each : predictions.all) result.push_back(prediction_json(task_, each));
      check_cut(predictions.counts.truncated, truncate, length, "");
      counts.add(predictions.counts);
    };
    const auto tell = [&] { warn_of_losses(*options.kind, counts, length, log); };
    if (reads_files()) {
      for (std::size_t i = 0; i < texts.size(); ++i) {
        require_input(!pairs[i] && choices[i].empty(),
                      "'{}': the file's samples have no pair and no choices; leave them out",
                      printable(texts[i], 60));
        // One by one: several names would be sorted, and equal ones read once.
        add(nystrom::predict(task_, task_.reader->read(Strings{texts[i]}, Labelled::optional),
                             {batch_size, top_k, threshold}));
      }
      tell();
      return result;
    }
    std::vector<Example> examples;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      check_interruption();
      Example given;
      given.text = texts[i];
      given.pair = pairs[i];
      (options.kind == TaskKind::tokens ? given.words : given.choices) = choices[i];
      examples.push_back(example_of(options, described_, std::move(given)));
    }
    in_parts(examples.size(), batch_size, [&](std::size_t begin, std::size_t end) {
      const std::vector<Example> part(examples.begin() + static_cast<std::ptrdiff_t>(begin),
                                      examples.begin() + static_cast<std::ptrdiff_t>(end));
      add(nystrom::predict(task_, part, {batch_size, top_k, threshold}));
    });
    tell();
    return result;
  }

  /// The vectors of texts. Nothing stands for the model's own options; without `truncate` long
  /// texts are read in windows.
  nb::object encode(const Strings& texts, const std::optional<std::string>& pooling,
                    std::optional<bool> normalize, std::optional<std::int64_t> dimensions,
                    const std::string& prompt, std::int64_t batch_size,
                    std::optional<std::int64_t> max_length, std::optional<bool> truncate) const {
    Log log(/*quiet=*/true, log_sink());
    std::optional<Unlocked> unlocked(std::in_place);
    require_input(tokenizer_ != nullptr, "{}: has no tokenizer", printable_path(folder_.path));
    if (no_vectors_) throw InputError(*no_vectors_);
    const std::int64_t length = max_length.value_or(trained_length());
    if (max_length) {
      const std::int64_t fewest = std::ssize(tokenizer_->wrap({}, {}).ids) + 4;
      const std::int64_t most = task_.model->config().longest_sequence().value_or(length);
      require_input(length >= fewest && length <= most,
                    "max_length {}; expected from {} to the {} tokens that the model takes", length,
                    fewest, most);
    }
    EmbeddingOptions options = embedding_options(
        task_.model->config(), value_called<PromptKind>("prompt", prompt), length);
    if (pooling) options.pooling = value_called<SentencePooling>("pooling", *pooling);
    if (normalize) options.normalize = *normalize;
    options.dimensions = dimensions;
    options.batch_size = batch_size;
    options.whole = !truncate;
    TextEmbedder embedder(*task_.model, *tokenizer_, options);
    const Tensor vectors = embed_all(embedder, texts, [&](std::int64_t) {
      check_cut(embedder.counts().truncated, truncate.value_or(true), options.sequence_length,
                ", and truncate=None all of it in windows");
    });
    warn_of_losses(TaskKind::classification, embedder.counts(), options.sequence_length, log);
    unlocked.reset();
    return array_of(vectors);
  }

  nb::dict forward(const std::map<std::string, Array>& arrays) const {
    NamedTensors inputs;
    for (const auto& each : arrays)
      inputs.emplace(each.first,
                     with_context(each.first, [&] { return tensor_of(each.second).contiguous(); }));
    std::vector<NamedTensor> outputs;
    {
      const Unlocked unlocked;
      outputs = run_forward(*task_.model, inputs, /*gradients=*/false);
    }
    nb::dict result;
    for (const NamedTensor& output : outputs) result[output.name.c_str()] = array_of(output.tensor);
    return result;
  }

  ParameterStore& parameters() const { return task_.model->parameters(); }

  /// The kind of the model's task; nothing for masked language models and bare encoders.
  std::optional<std::string> kind() const {
    const auto kind = task_of(folder_.config);
    return kind ? std::optional<std::string>(enum_name(*kind)) : std::nullopt;
  }

  /// Whether the inputs of its task are files, of features or images, and not texts.
  bool reads_files() const {
    return task_of(folder_.config) == TaskKind::features ||
           holds_images(task_.settings.task.format);
  }

  /// The names of the classes; empty for other outputs.
  Strings labels() const {
    const auto kind = task_of(folder_.config);
    const bool classes = kind && (has_labels(*kind) ||
                                  (kind == TaskKind::features && folder_.config.num_labels() > 1));
    return classes ? folder_.config.labels : Strings();
  }

  /// Writes a folder as a checkpoint is, with the weights of this moment.
  void save(const std::string& folder) const {
    const Unlocked unlocked;
    write(folder);
  }

  /// `weights_now`: the weights of this moment in the place of those of the folder.
  Strings export_to(const std::string& folder, const std::string& format, bool softmax,
                    const std::optional<std::string>& sentence_transformers,
                    const std::string& onnx, bool verify, bool weights_now) const {
    Log log(/*quiet=*/true, log_sink());
    const Unlocked unlocked;
    ExportOptions options;
    options.format = value_called<ExportFormat>("format", format);
    options.softmax = softmax;
    options.sentence_transformers = sentence_transformers.has_value();
    if (sentence_transformers && *sentence_transformers != "model")
      options.pooling =
          value_called<SentencePooling>("sentence_transformers", *sentence_transformers);
    options.onnx = value_called<OnnxExport>("onnx", onnx);
    options.verify = verify;
    if (!weights_now) return export_model(folder_, folder, options, log).files;
    const ScratchFolder scratch;
    const std::filesystem::path now = scratch.path() / folder_.path.filename();
    write(now);
    return export_model(ModelFolder(now).with(folder_.config), folder, options, log).files;
  }

 private:
  void write(const std::filesystem::path& folder) const {
    if (no_files_) throw InputError(*no_files_);
    write_model_folder(files_, *task_.model, folder);
  }

  ModelFolder folder_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool described_ = false;
  std::int64_t length_ = 0;
  FolderFiles files_;  // for save
  TaskModel task_;     // has its model, and the rest where the folder tells a task
  /// Why there are none, which the calls that need them throw.
  std::optional<std::string> no_task_, no_vectors_, no_files_;
};

}  // namespace

void bind_model(nb::module_& module) {
  nb::class_<LoadedModel>(module, "Model", "The C++ part of nystrom.Model.")
      .def(nb::init<const std::string&, const std::string&, const std::string&, const Strings&>(),
           "path"_a, "dtype"_a, "device"_a, "overrides"_a)
      .def_prop_ro("path", &LoadedModel::path)
      .def_prop_ro("config", &LoadedModel::config)
      .def_prop_ro("tokenizer", &LoadedModel::tokenizer)
      .def_prop_ro("max_length", &LoadedModel::trained_length)
      .def_prop_ro("kind", &LoadedModel::kind)
      .def_prop_ro("reads_files", &LoadedModel::reads_files)
      .def_prop_ro("labels", &LoadedModel::labels)
      .def_prop_ro("num_parameters",
                   [](const LoadedModel& model) { return model.parameters().count(); })
      .def("fill_masks", &LoadedModel::fill_masks, "texts"_a, "top_k"_a, "batch_size"_a,
           ReleaseLock())
      .def("predict", &LoadedModel::predict, "texts"_a, "pairs"_a, "choices"_a, "top_k"_a,
           "threshold"_a, "batch_size"_a, "truncate"_a)
      .def("encode", &LoadedModel::encode, "texts"_a, "pooling"_a, "normalize"_a, "dimensions"_a,
           "prompt"_a, "batch_size"_a, "max_length"_a, "truncate"_a,
           nb::sig("def encode(self, texts: list[str], pooling: str | None, "
                   "normalize: bool | None, dimensions: int | None, prompt: str, batch_size: int, "
                   "max_length: int | None, truncate: bool | None) -> numpy.ndarray"))
      .def("forward", &LoadedModel::forward, "inputs"_a,
           nb::sig("def forward(self, inputs: dict[str, typing.Any]) -> dict[str, numpy.ndarray]"))
      .def(
          "parameters",
          [](const LoadedModel& model) {
            nb::dict result;
            const ParameterStore& store = model.parameters();
            for (const Parameter& parameter : store.parameters()) {
              const Tensor& value = parameter.var().value();
              require_input(value.device().is_cpu(), "the parameters lie on {}, not on the CPU",
                            value.device().name());
              result[parameter.name().c_str()] = array_of(value);
            }
            return result;
          },
          nb::sig("def parameters(self) -> dict[str, numpy.ndarray]"))
      .def(
          "weights",
          [](const LoadedModel& model) {
            nb::dict result;
            const ParameterStore& store = model.parameters();
            for (const Parameter& parameter : store.parameters()) {
              const Tensor value = store.master(parameter.name()).to(cpu_device);
              result[parameter.name().c_str()] =
                  array_of(value.dtype() == DType::f64 ? value : value.cast(DType::f32));
            }
            return result;
          },
          nb::sig("def weights(self) -> dict[str, numpy.ndarray]"))
      .def(
          "set_weights",
          [](LoadedModel& model, const std::map<std::string, Array>& weights) {
            for (const auto& [name, array] : weights)
              model.parameters().set(name, tensor_of(array).contiguous());
          },
          "weights"_a, nb::sig("def set_weights(self, weights: dict[str, typing.Any]) -> None"))
      .def("save", &LoadedModel::save, "folder"_a)
      .def("export", &LoadedModel::export_to, "folder"_a, "format"_a, "softmax"_a,
           "sentence_transformers"_a, "onnx"_a, "verify"_a, "weights_now"_a);
}

}  // namespace nystrom::python
