// TEXT arguments of commands: texts, files and folders of documents.
#pragma once

#include <string>
#include <vector>

#include "core/base/checksum.h"
#include "data/tasks/examples.h"
#include "train/cli/commands.h"

namespace nystrom {

/// A text for a terminal: control characters are escaped.
std::string shown(const std::string& text);

/// The arguments, and the options that say how they are read.
struct TextArguments {
  std::vector<std::string> texts;
  bool as_text = false;   ///< --as-text: each is a text, even one that names a file
  bool document = false;  ///< --document: each file is one text

  /// Declares --as-text and --document.
  void add_flags_to(CLI::App& command);
};

/// Throws an InputError for an empty argument, and without --as-text also for one that looks like a
/// missing file or folder.
void check_texts(const TextArguments& arguments);

/// Whether an argument names a file or a folder.
bool is_path(const TextArguments& arguments, const std::string& text);

/// Throws an InputError if `path` is a folder. `why` is the reason in the message.
void refuse_folder(const std::string& path, const std::string& why);

/// Throws an InputError with --document, where task.format is given too.
void refuse_format_beside(bool document);

/// The task with the format of a file or folder to read. With --document, and for a model that was
/// trained on documents, each file is one text. Otherwise the task's own format decides, where the
/// training's files end as this one or the format is of the same family (tsv and csv; jsonl, json
/// and squad); else the file's ending; with other endings the task's own format, else one text per
/// line. An override of task.format has precedence.
TaskConfig task_of_file(const TextArguments& arguments, const std::vector<std::string>& overrides,
                        TaskConfig task, const std::string& file);

/// Calls use(example) for all examples of checked arguments, one after another, for vectors.
/// Returns the notes of read_examples, which calls bad(row). Throws an InputError for an argument
/// of white space. `task` is resolved.
std::vector<std::string> read_arguments(
    const TextArguments& arguments, const std::vector<std::string>& overrides,
    const TaskConfig& task, const ExampleUse& use,
    const BadRowUse& bad = [](const BadRow&) { throw; });

/// Adds what vectors are made of. Two readings of a file must have the same sum.
void add_example(Checksum& checksum, const Example& example);

}  // namespace nystrom
