// Examples that are whole files, alone or in folders. A folder's name is the label of every file
// below it.
#include <algorithm>
#include <map>
#include <set>

#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "core/check.h"
#include "data/tasks/example_files.h"
#include "data/text/line_reader.h"
#include "data/text/match_files.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

/// A file that is one example.
struct WholeFile {
  fs::path path;
  std::optional<std::string> label;
  bool named = false;  // whether its path is its id
};

/// A file's path as it is, for JSON; of a name that is not UTF-8, with escapes.
std::string name_of(const fs::path& file) {
  return is_valid_utf8(file.native()) ? file.string() : printable_path(file);
}

void read_whole_files(const std::vector<WholeFile>& files, ExampleSink& sink) {
  auto next = files.begin();
  std::set<std::string> told;  // other forms that files look like
  sink.take_all([&]() -> std::optional<Example> {
    if (next == files.end()) return std::nullopt;
    const WholeFile& file = *next++;
    Example example;
    example.file = std::make_shared<std::string>(printable_path(file.path));
    example.line = 1;
    example.text = without_crlf(read_whole(file.path, max_row_bytes));
    check_text(example.text, *example.file);
    const std::string form = table_format_of(file.path) ? "" : other_form(example.text);
    if (!form.empty() && told.insert(form).second)
      sink.notes.push_back(*example.file + ": " + form);
    if (file.named) example.id = name_of(file.path);
    example.whole_file = file.named;
    example.label = file.label;
    example.labelled = file.label.has_value();
    return example;
  });
}

/// Adds a note about names in a folder, if there are any.
void add_note(const fs::path& folder, const char* what, const std::vector<std::string>& names,
              std::vector<std::string>& notes) {
  if (names.empty()) return;
  notes.push_back(fmt::format(
      "{}: {}: '{}'{}", printable_path(folder), what, printable(std::ranges::min(names)),
      names.size() > 1 ? fmt::format(" and {} more", names.size() - 1) : ""));
}

/// The entries of a folder beside the folders of its labels. Hidden files are nobody's examples.
std::vector<std::string> left_out(const fs::path& folder, const std::vector<std::string>& labels) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with('.') &&
        !(entry.is_directory() && std::ranges::find(labels, name) != labels.end()))
      names.push_back(name);
  }
  return names;
}

/// Throws an InputError if links lead to one file from the folders of two labels. Links to one file
/// in the folder of a label are copies of a text, as in the cache of the Hugging Face hub.
void require_one_label(const std::vector<WholeFile>& files) {
  std::map<fs::path, const WholeFile*> known;
  for (const WholeFile& file : files) {
    std::error_code dangling;
    const fs::path path = fs::canonical(file.path, dangling);
    if (dangling) continue;  // who reads it says so
    const WholeFile* const first = known.emplace(path, &file).first->second;
    require_input(first->label == file.label,
                  "{} and {} are one file, which would have two labels; remove one of the links",
                  printable_path(first->path), printable_path(file.path));
  }
}

}  // namespace

void note_tables(const std::vector<fs::path>& files, std::vector<std::string>& notes) {
  const auto is_named_table = [](const fs::path& file) {
    return table_format_of(file).has_value();
  };
  const auto first = std::ranges::find_if(files, is_named_table);
  if (first == files.end()) return;
  const auto more = std::count_if(first + 1, files.end(), is_named_table);
  notes.push_back(fmt::format(
      "{}{}: a table is one text here, with all its braces, keys and commas; to read its "
      "rows, leave --document out, or for a model of folders set task.format",
      printable_path(*first), more > 0 ? fmt::format(" and {} more", more) : ""));
}

void read_document(const fs::path& file, ExampleSink& sink) {
  read_whole_files({{.path = file, .label = std::nullopt, .named = true}}, sink);
}

void read_folders(const TaskConfig& task, const fs::path& folder, Labelled labelled,
                  ExampleSink& sink) {
  constexpr const char* expected = "expected one a label, such as pos and neg";
  std::vector<std::string> labels = task.labels;
  if (labels.empty())
    for (const auto& entry : fs::directory_iterator(folder))
      if (const std::string name = entry.path().filename().string();
          entry.is_directory() && !name.starts_with('.')) {
        require_input(labelled != Labelled::required || is_valid_utf8(name),
                      "{}: the folder's name is a label and no UTF-8; rename it",
                      printable_path(entry.path()));
        labels.push_back(name);
      }
  require_input(!labels.empty(), "{}: there are no folders in it; {}", printable_path(folder),
                expected);
  std::ranges::sort(labels);
  std::vector<WholeFile> files;
  std::vector<fs::path> read;
  std::vector<std::string> empty;
  for (const std::string& label : labels) {
    const fs::path inner = folder / label;
    require_input(fs::is_directory(inner), "{}: there is no folder '{}' in it; {}",
                  printable_path(folder), printable(label), expected);
    const std::vector<fs::path> found = files_below(inner);
    if (found.empty()) empty.push_back(label);
    std::ranges::copy(found, std::back_inserter(read));
    for (const fs::path& file : found)
      files.push_back({file, labelled == Labelled::required ? std::optional(label) : std::nullopt});
  }
  if (labelled == Labelled::required) require_one_label(files);
  read_whole_files(files, sink);
  add_note(folder, "only the files in folders of labels are read; left out",
           left_out(folder, labels), sink.notes);
  add_note(folder, "folders of labels without a file", empty, sink.notes);
  note_tables(read, sink.notes);
}

}  // namespace nystrom
