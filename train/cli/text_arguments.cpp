#include "train/cli/text_arguments.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/word_cut.h"
#include "data/text/match_files.h"
#include "data/text/table_reader.h"
#include "train/config/config_io.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

/// Whether an argument looks like the name of a file, compressed or not.
bool ends_like_data(const std::string& word) {
  static const std::set<std::string> endings = {
      ".txt",     ".h5",   ".hdf5", ".conll", ".conllu", ".npy", ".safetensors",
      ".parquet", ".json", ".yaml", ".html",  ".md",     ".pdf", ".log",
      ".xls",     ".xlsx", ".docx", ".xml",   ".rst",    ".dat", ".arrow",
      ".feather", ".orc",  ".pkl",  ".npz",   ".zip",    ".bz2", ".xz"};
  return endings.contains(name_ending(word)) || table_format_of(word).has_value();
}

/// Whether an argument looks like the name of a file or folder: one word with a slash or a
/// wildcard.
bool looks_like_path(const std::string& word) {
  return word.find_first_of(" \t\n") == word.npos && word.find_first_of("/*") != word.npos;
}

/// Whether the format that the training or --config names reads a file of this name: files of the
/// training end so, or its forms end so and no file is named. A recipe's format is that of its own
/// files.
bool keeps_format(const TaskConfig& task, const std::string& file) {
  if (!task.format) return false;
  const std::string ending = name_ending(file);
  const auto ends_so = [&](const std::string& name) { return name_ending(name) == ending; };
  if (std::ranges::any_of(task.train, ends_so) || std::ranges::any_of(task.validation, ends_so))
    return true;
  const auto table = table_format_of(file);
  if (!table || task.recipe) return false;
  using enum TaskFormat;
  const TaskFormat format = *task.format;
  if (*table == TableFormat::json) return format == json || format == squad;
  if (*table == TableFormat::jsonl) return format == jsonl;
  return task.train.empty() && (format == tsv || format == csv);
}

}  // namespace

std::string shown(const std::string& text) { return printable(text, std::string::npos); }

bool is_path(const TextArguments& arguments, const std::string& text) {
  std::error_code error;
  return !arguments.as_text && fs::exists(text, error);
}

void TextArguments::add_flags_to(CLI::App& command) {
  command.add_flag("--as-text", as_text, "treat each TEXT as text, even one that names a file");
  command.add_flag("--document", document,
                   "read each file, and each file in a folder, as one text");
}

void check_texts(const TextArguments& arguments) {
  for (const std::string& text : arguments.texts) {
    require_input(!text.empty(), "TEXT is empty; give a text, or the name of a file");
    const bool path = arguments.document || ends_like_data(text) || looks_like_path(text);
    require_input(arguments.as_text || is_path(arguments, text) || !path,
                  "{}: no such file or folder; {}--as-text takes it for a text",
                  printable_path(text),
                  text.find('*') == text.npos ? "" : "a shell expands patterns without quotes; ");
    require_input(arguments.as_text || text != "-",
                  "-: texts are not read from standard input; give texts or files, or --as-text");
  }
}

void refuse_folder(const std::string& path, const std::string& why) {
  require_input(!fs::is_directory(path),
                "{}: is a folder, and {}; give a text, or the name of a file; --as-text takes it "
                "for a text",
                printable_path(path), why);
}

void refuse_format_beside(bool document) {
  require_input(!document,
                "--document and --set task.format both say how files are read; leave one of them "
                "out");
}

TaskConfig task_of_file(const TextArguments& arguments, const std::vector<std::string>& overrides,
                        TaskConfig task, const std::string& file) {
  if (options_in(overrides).contains("task.format")) {
    refuse_format_beside(arguments.document);
    return task;
  }
  if (arguments.document || task.format == TaskFormat::folders) {
    task.format = TaskFormat::documents;
    return task;
  }
  refuse_folder(file, "--document reads each file in it as one text");
  if (holds_images(task.format) || keeps_format(task, file)) return task;
  const std::string ending = name_ending(file);
  if (table_format_of(file) || ending == ".conll" || ending == ".conllu")
    task.format.reset();
  else if (ending == ".txt" || !task.format || task.recipe)  // a recipe's is that of its own files
    task.format = TaskFormat::lines;
  return task;
}

std::vector<std::string> read_arguments(const TextArguments& arguments,
                                        const std::vector<std::string>& overrides,
                                        const TaskConfig& task, const ExampleUse& use,
                                        const BadRowUse& bad) {
  std::vector<std::string> notes;
  for (const std::string& text : arguments.texts) {
    if (is_path(arguments, text)) {
      const TaskConfig own = task_of_file(arguments, overrides, task, text);
      std::ranges::copy(read_examples(own, {text}, Labelled::optional, use, bad),
                        std::back_inserter(notes));
      continue;
    }
    require_input(!is_blank(text), "TEXT is blank; give a text, or the name of a file");
    Example example;
    example.text = text;
    use(std::move(example));
  }
  return notes;
}

void add_example(Checksum& checksum, const Example& example) {
  checksum.add_counted(example.id);
  checksum.add_counted(example.text);
}

}  // namespace nystrom
