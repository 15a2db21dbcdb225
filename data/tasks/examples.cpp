#include "data/tasks/examples.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/bags.h"
#include "data/tasks/example_files.h"
#include "data/text/byte_source.h"
#include "data/text/line_reader.h"
#include "data/text/match_files.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

/// Whether a file of this format is one text, or one a line, without columns.
bool is_plain(TaskFormat format) {
  return format == TaskFormat::folders || format == TaskFormat::lines ||
         format == TaskFormat::documents;
}

TaskFormat format_of(const TaskConfig& task, const fs::path& file, Labelled labelled) {
  if (task.format) return *task.format;
  if (fs::is_directory(file)) return TaskFormat::folders;
  refuse_columns_of_arrow(file);
  const std::string name = name_ending(file);
  const bool tokens = *task.kind == TaskKind::tokens;
  if (name == ".txt" && labelled == Labelled::optional) return TaskFormat::lines;
  if (tokens && (name == ".tsv" || name == ".txt")) return TaskFormat::conll;
  if (name == ".conll" || name == ".conllu") return TaskFormat::conll;
  if (name == ".json" && *task.kind == TaskKind::questions) return TaskFormat::squad;
  if (const auto table = table_format_of(file)) return static_cast<TaskFormat>(*table);
  if (name == ".bin") return TaskFormat::cifar10;
  if (name == ".npy") return TaskFormat::pathfinder;
  char begin[8];
  const std::string last = last_ending(file),
                    hint = last == ".gz" || last == ".zst"
                               ? ""
                               : encoding_hint({begin, open_byte_source(file)->read(begin)});
  throw InputError(fmt::format("{}: the ending of its name does not tell its form{}",
                               printable_path(file), hint.empty() ? "; set task.format" : hint));
}

void read_file(const TaskConfig& task, const fs::path& file, Labelled labelled, ExampleSink& sink) {
  const TaskFormat format = format_of(task, file, labelled);
  const std::vector<TaskFormat> formats = formats_of(*task.kind);
  require_input(std::ranges::find(formats, format) != formats.end(),
                "{}: {} does not hold a task of kind {}", printable_path(file), enum_name(format),
                enum_name(*task.kind));
  const bool single = format == TaskFormat::folders || holds_images(format);
  require_input(!*task.multi_label || !single || labelled == Labelled::optional,
                "{}: {} gives each example one label; leave task.multi_label out, or give a table",
                printable_path(file), enum_name(format));
  const TaskColumns names = named_columns(task);
  if (is_plain(format) && names.pair &&
      (task.kind == TaskKind::classification || task.kind == TaskKind::regression))
    throw InputError(fmt::format(
        "{}: {} gives each example one text, and the task has pairs of texts; give a table with "
        "the columns '{}' and '{}'",
        printable_path(file), enum_name(format), printable(*names.text), printable(*names.pair)));
  if (is_table(format)) return read_table(task, file, format, labelled, sink);
  if (format == TaskFormat::conll) return read_conll(task, file, labelled, sink);
  if (format == TaskFormat::squad) return read_squad(task, file, labelled, sink);
  if (format == TaskFormat::folders) return read_folders(task, file, labelled, sink);
  if (format == TaskFormat::cifar10) return read_cifar10(file, labelled, sink);
  if (format == TaskFormat::pathfinder) return read_pathfinder(file, labelled, sink);
  require(is_plain(format), "features are no examples");
  require_input(labelled == Labelled::optional,
                "{}: task.format {} has no labels, and this file needs them", printable_path(file),
                enum_name(format));
  if (format == TaskFormat::lines) return read_lines(task, file, sink);
  read_document(file, sink);
}

/// The columns that files of a form have, of which a text has one; nothing for tables, which have
/// any.
std::optional<std::vector<std::string>> columns_of(TaskFormat format) {
  if (is_table(format)) return std::nullopt;
  if (format == TaskFormat::conll) return {{"text", "label"}};
  if (format == TaskFormat::squad) return {{"id"}};
  return is_plain(format) ? std::vector<std::string>{"text"} : std::vector<std::string>();
}

/// The files that patterns match; folders for the format folders, and all files below folders for
/// the format documents.
std::vector<fs::path> files_of(const TaskConfig& task, const std::vector<std::string>& patterns) {
  const bool documents = task.format == TaskFormat::documents,
             folders =
                 task.format ? *task.format == TaskFormat::folders : fs::is_directory(patterns[0]);
  if (!documents && !folders) return match_files(patterns);
  std::vector<fs::path> files;
  std::set<fs::path> named, taken;
  for (const std::string& pattern : patterns) {
    const bool is_folder = fs::is_directory(pattern);
    require_input(!is_folder || named.insert(fs::weakly_canonical(pattern)).second,
                  "{}: the folder is named twice, and its files would count twice",
                  printable(pattern));
    const auto table = table_format_of(pattern);
    require_input(is_folder || !folders,
                  "'{}' is no folder; task.format folders needs a folder with one a label in it{}",
                  printable(pattern),
                  table ? fmt::format("; to read this table set task.format to {}",
                                      enum_name(static_cast<TaskFormat>(*table)))
                        : "");
    const std::vector<fs::path> found = folders     ? std::vector<fs::path>{pattern}
                                        : is_folder ? files_below(pattern)
                                                    : match_files(std::span(&pattern, 1));
    require_input(!found.empty(), "{}: there is no file in this folder", printable(pattern));
    for (const fs::path& file : found)
      if (taken.insert(file.lexically_normal()).second) files.push_back(file);
  }
  return files;
}

}  // namespace

std::string Example::place() const {
  if (!file) return fmt::format("the example '{}'", printable(text, 60));
  if (row > 0) return fmt::format("{}: row {}", *file, row);
  if (!pixels.empty() && line == 0) return fmt::format("{}: image {}", *file, id);
  return line > 0 ? fmt::format("{}:{}", *file, line)
                  : fmt::format("{}: question '{}'", *file, printable(id));
}

Digest digest_of(const Example& example) {
  Checksum checksum;
  checksum.add_counted(example.text);
  checksum.add_counted(example.pixels);
  if (example.pair) checksum.add_counted(*example.pair);
  for (const std::string& word : example.words) checksum.add_counted(word);
  for (const std::string& choice : example.choices) checksum.add_counted(choice);
  return checksum.digest();
}

std::int64_t count_known(const std::vector<Digest>& digests, std::vector<Digest> known) {
  std::ranges::sort(known);
  return std::ranges::count_if(
      digests, [&](const Digest& digest) { return std::ranges::binary_search(known, digest); });
}

std::string header_hint(const TaskConfig& task, const Example& example) {
  const bool possible = task.header == false && example.line == 1;
  return possible ? "; if this line names the columns, set task.header to true and their names in "
                    "task.columns"
                  : "";
}

void add_new_notes(std::vector<std::string>& lines, const std::vector<std::string>& notes) {
  for (const std::string& note : notes)
    if (std::ranges::find(lines, note) == lines.end()) lines.push_back(note);
}

std::vector<std::string> warnings_of(const SkippedRows& skipped) {
  std::vector<std::string> warnings = skipped.notes;
  if (skipped.count > 0)
    warnings.push_back(
        fmt::format("{} rows left out; the first: {}", skipped.count, skipped.first));
  return warnings;
}

std::string describe_unreadable(const std::vector<std::string>& patterns,
                                const SkippedRows& skipped) {
  return fmt::format("{}: none of its {} examples can be read; the first: {}",
                     fmt::join(patterns, ", "), skipped.count, skipped.first);
}

void require_read_columns(const TaskConfig& task) {
  const auto given = given_columns(task.columns);
  const bool features = task.kind == TaskKind::features;
  const bool validates_by_table = std::ranges::any_of(
      task.validation, [](const std::string& file) { return table_format_of(file).has_value(); });
  if (validates_by_table || (given.empty() && !task.features_folder) || task.train.empty() ||
      (features && are_bag_tables(task, task.train)))
    return;
  const fs::path named = task.train[0];
  const fs::path file = task.format || fs::is_directory(named) ? named : match_files(task.train)[0];
  const TaskFormat format =
      features ? TaskFormat::hdf5 : format_of(task, file, needed_labels(task));
  const auto known = columns_of(format);
  if (!known) return;
  const auto refuse = [&](const std::string& option) {
    throw InputError(
        fmt::format("{}: task.{} is for tables, and {} is read otherwise; leave it out",
                    printable_path(file), option, enum_name(format)));
  };
  for (const auto& [name, column] : given)
    if (std::ranges::find(*known, name) == known->end()) refuse("columns." + name);
  if (task.features_folder) refuse("features_folder");
}

std::vector<std::string> read_examples(const TaskConfig& task,
                                       const std::vector<std::string>& patterns, Labelled labelled,
                                       const ExampleUse& use, const BadRowUse& bad,
                                       std::int64_t most) {
  require(task.kind && task.bad_rows, "read_examples: the task is not resolved");
  require_input(!patterns.empty(), "the task names no files to read");
  const std::vector<fs::path> files = files_of(task, patterns);
  ExampleSink sink{use, bad, most};
  if (task.format == TaskFormat::documents) note_tables(files, sink.notes);
  for (const fs::path& file : files) {
    sink.has_rows = false;
    read_file(task, file, labelled, sink);
    if (sink.left == 0) break;
    require_input(sink.has_rows, "{}: there is no example in it", printable_path(file));
  }
  return sink.notes;
}

void for_each_example(const TaskConfig& task, const ExampleSource& source, Labelled labelled,
                      SkippedRows& skipped, const ExampleUse& use) {
  std::int64_t number = 0;
  bool taken = false;  // whether a bad row is an example of this source
  const auto use_taken = [&](Example&& example) {
    if (!source.takes(number++)) return;
    taken = true;
    use(std::move(example));
    taken = false;
  };
  skipped.notes =
      read_examples(task, source.patterns, labelled, use_taken, [&](const BadRow& error) {
        if (task.bad_rows != BadRows::skip) throw;
        const bool counts = std::exchange(taken, false) || source.counts_unreadable;
        if (counts && skipped.count++ == 0) skipped.first = error.what();
      });
}

}  // namespace nystrom
