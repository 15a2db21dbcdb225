// Examples that are whole files, alone or in folders. A folder's name is the label of every file
// below it.
#include <algorithm>

#include "core/base/printable.h"
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
  std::string id;
};

class WholeFiles : public ExampleReader {
 public:
  explicit WholeFiles(std::vector<WholeFile> files) : files_(std::move(files)) {}

  std::optional<Example> next() override {
    if (next_ == files_.size()) return std::nullopt;
    const WholeFile& file = files_[next_++];
    Example example;
    example.file = std::make_shared<std::string>(printable_path(file.path));
    example.line = 1;
    example.text = read_whole(file.path, max_row_bytes);
    check_text(example.text, *example.file);
    example.id = file.id;
    example.label = file.label;
    example.labelled = file.label.has_value();
    return example;
  }

 private:
  std::vector<WholeFile> files_;
  std::size_t next_ = 0;
};

bool hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

}  // namespace

std::unique_ptr<ExampleReader> open_document(const fs::path& file) {
  return std::make_unique<WholeFiles>(
      std::vector<WholeFile>{{file, std::nullopt, printable_path(file)}});
}

std::unique_ptr<ExampleReader> open_folders(const TaskConfig& task, const fs::path& folder,
                                            Labelled labelled) {
  constexpr const char* expected = "expected one a label, such as pos and neg";
  std::vector<std::string> labels = task.labels;
  if (labels.empty())
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.is_directory() && !hidden(entry.path()))
        labels.push_back(entry.path().filename().string());
  require_input(!labels.empty(), "{}: there are no folders in it; {}", printable_path(folder),
                expected);
  std::ranges::sort(labels);
  std::vector<WholeFile> files;
  for (const std::string& label : labels) {
    const fs::path inner = folder / label;
    require_input(fs::is_directory(inner), "{}: there is no folder '{}' in it; {}",
                  printable_path(folder), printable(label), expected);
    for (const fs::path& file : files_below(inner))
      files.push_back(
          {file, labelled == Labelled::required ? std::optional(label) : std::nullopt, ""});
  }
  return std::make_unique<WholeFiles>(std::move(files));
}

}  // namespace nystrom
