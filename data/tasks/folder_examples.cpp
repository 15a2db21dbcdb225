// Examples that are whole files, alone or in folders. A folder's name is the label of every file
// below it.
#include <algorithm>

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

class WholeFiles : public ExampleReader {
 public:
  explicit WholeFiles(std::vector<WholeFile> files, std::string note = "")
      : files_(std::move(files)), note_(std::move(note)) {}

  std::optional<Example> next() override {
    if (next_ == files_.size()) return std::nullopt;
    const WholeFile& file = files_[next_++];
    Example example;
    example.file = std::make_shared<std::string>(printable_path(file.path));
    example.line = 1;
    example.text = without_crlf(read_whole(file.path, max_row_bytes));
    check_text(example.text, *example.file);
    if (file.named) example.id = name_of(file.path);
    example.whole_file = file.named;
    example.label = file.label;
    example.labelled = file.label.has_value();
    return example;
  }

  std::vector<std::string> notes() const override {
    return note_.empty() ? std::vector<std::string>() : std::vector{note_};
  }

 private:
  std::vector<WholeFile> files_;
  std::string note_;
  std::size_t next_ = 0;
};

/// What a folder holds beside the folders of its labels, for the user; empty if nothing. Hidden
/// files are nobody's examples.
std::string left_out(const fs::path& folder, const std::vector<std::string>& labels) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with('.') &&
        !(entry.is_directory() && std::ranges::find(labels, name) != labels.end()))
      names.push_back(name);
  }
  if (names.empty()) return "";
  return fmt::format("{}: only the files in folders of labels are read; left out: '{}'{}",
                     printable_path(folder), printable(std::ranges::min(names)),
                     names.size() > 1 ? fmt::format(" and {} more", names.size() - 1) : "");
}

}  // namespace

std::unique_ptr<ExampleReader> open_document(const fs::path& file) {
  return std::make_unique<WholeFiles>(
      std::vector<WholeFile>{{.path = file, .label = std::nullopt, .named = true}});
}

std::unique_ptr<ExampleReader> open_folders(const TaskConfig& task, const fs::path& folder,
                                            Labelled labelled) {
  constexpr const char* expected = "expected one a label, such as pos and neg";
  std::vector<std::string> labels = task.labels;
  if (labels.empty())
    for (const auto& entry : fs::directory_iterator(folder))
      if (const std::string name = entry.path().filename().string();
          entry.is_directory() && !name.starts_with('.'))
        labels.push_back(name);
  require_input(!labels.empty(), "{}: there are no folders in it; {}", printable_path(folder),
                expected);
  std::ranges::sort(labels);
  std::vector<WholeFile> files;
  for (const std::string& label : labels) {
    const fs::path inner = folder / label;
    require_input(fs::is_directory(inner), "{}: there is no folder '{}' in it; {}",
                  printable_path(folder), printable(label), expected);
    for (const fs::path& file : files_below(inner))
      files.push_back({file, labelled == Labelled::required ? std::optional(label) : std::nullopt});
  }
  return std::make_unique<WholeFiles>(std::move(files), left_out(folder, labels));
}

}  // namespace nystrom
