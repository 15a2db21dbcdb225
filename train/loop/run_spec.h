// The resolution of a run: its options, and the folders that they name, found and opened once,
// before anything starts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/problem.h"
#include "data/tokenizers/tokenizer.h"
#include "train/config/config_io.h"
#include "train/state/model_folder.h"
#include "train/state/run_folder.h"

namespace nystrom {

/// A run before its start. The functions below make it; nothing changes one that is made. What the
/// data decide makes another: with_tokenizer for a trained tokenizer, prepare_task for labels.
struct RunSpec {
  RunConfig options;
  std::optional<ModelFolder> start{};  ///< the folder of model.from
  std::vector<std::string> notices{};  ///< of these folders: a damaged checkpoint …
  /// Null if the run trains one or reads features. The model's options fit it.
  std::shared_ptr<const Tokenizer> tokenizer{};
  std::optional<ModelFolder> teacher{};  ///< the folder of distillation.teacher
  std::optional<ModelConfig> teacher_shape() const {
    return teacher ? std::optional(teacher->config) : std::nullopt;
  }
  /// Resolved: pretraining reads the inputs of this task, texts or features, in the place of files.
  std::optional<TaskConfig> inputs{};
  SavedRun saved{};  ///< what run_dir holds
};

/// What a run trains.
enum class RunKind { pretraining, finetuning };

/// The errors of a resolution: the first one is thrown, or all are collected for nystrom check.
class ResolutionErrors {
 public:
  /// Throws the first error.
  ResolutionErrors() = default;
  /// Collects all errors, each once. `file` is the name of the configuration, in front of each.
  explicit ResolutionErrors(std::string file) : file_(std::move(file)) {}

  /// Runs f. Its InputError gets `option` in front, and is thrown or becomes a line. Returns
  /// whether f succeeded.
  template <class F>
  bool note(const std::string& option, const F& f) {
    try {
      with_context(option, f);
      return true;
    } catch (const InputError& error) {
      if (!file_) throw;
      add_line(error.what());
      return false;
    }
  }
  void add(const Problems& problems);
  /// Adds the lines of an error that say where they are from. note() adds none of them again.
  void add(const InputError& error);
  std::size_t size() const { return lines_.size(); }
  bool empty() const { return lines_.empty(); }
  /// Throws one InputError with all lines, if there are any.
  void throw_if_any() const;

 private:
  void add_line(const std::string& message);

  std::optional<std::string> file_;
  std::vector<std::string> lines_;
};

/// Reads the options and opens the folder of model.from: all that one needs to know of a run that
/// does not start. Throws an InputError with all errors of single options, one per line.
RunSpec read_run(const ConfigText& yaml, Overrides overrides = {});

/// The same for nystrom check: an error also tells what is wrong with the files and folders that
/// the options name. The run is then incomplete.
RunSpec read_run(const ConfigText& yaml, Overrides overrides, ResolutionErrors& errors);

/// Takes the task of a pretraining run out of its options, if there is one, into spec.inputs. Then
/// checks the rules of pretraining.
void check_pretraining_run(RunSpec& spec, ResolutionErrors& errors);

/// Matches the files of data.train and data.validation, or of the task. Throws an InputError, or
/// collects it, for a pattern without files, for files that the run itself writes, and for a table
/// without the column of the texts.
void match_inputs_of_run(const RunSpec& spec, ResolutionErrors& errors);

/// The whole resolution: checks the rules of its kind, finds the text files, opens tokenizer and
/// teacher, and compares with the run in run_dir and with the weights of model.from. Resolves the
/// task. Writes nothing. The files of a task are not read.
RunSpec resolve(RunSpec given, RunKind kind, ResolutionErrors& errors);
/// The same for a run that starts; throws the first InputError.
RunSpec resolve(const ConfigText& yaml, Overrides overrides, RunKind kind);

/// The option that names the files to train on, those to evaluate on, and those of the tokenizer.
std::string training_option(const RunSpec& spec);
std::string validation_option(const RunSpec& spec);
std::string tokenizer_option(const RunSpec& spec);

/// Throws an InputError if two special tokens are one, or the tokenizer lacks the sep that
/// masking.sentence_order and data.cross_documents need, or the words of masking.whole_word.
void require_pretraining_tokens(const Tokenizer& tokenizer, const RunConfig& config);

/// The run with a tokenizer. Sets the options of the model that depend on it: the ids of padding
/// and of the ends of a text, and vocab_size if the file leaves it out. Throws an InputError if the
/// tokenizer has more pieces than model.vocab_size, or lacks the padding token. A run without a
/// task also needs the tokens of masked language models, and those of require_pretraining_tokens.
RunSpec with_tokenizer(RunSpec spec, std::shared_ptr<const Tokenizer> tokenizer);

/// The folder or file of the tokenizer: that of tokenizer.path, else that of model.from; nothing
/// for a fixed vocabulary and for a tokenizer that is trained.
std::optional<std::filesystem::path> tokenizer_place(const RunSpec& spec);

/// The run with the tokenizer that its options name, and with its task resolved. Throws an
/// InputError if the tokenizer does not exist, or does not fit the model, the task or
/// data.sequence_length.
RunSpec with_named_tokenizer(RunSpec spec);

/// Throws an InputError unless the saved run, if there is one, has the same settings, and a new run
/// can start with the weights of model.from. The options must be complete.
void require_same_run(const RunSpec& spec);

/// Returns a line for each file that the patterns of training and validation both match. Missing
/// files are ignored.
std::vector<std::string> shared_file_warnings(const RunConfig& config);

}  // namespace nystrom
