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

/// The example that a whole file is, without a label.
Example whole_file(const fs::path& file) {
  Example example;
  example.file = std::make_shared<std::string>(printable_path(file));
  example.line = 1;
  example.text = read_whole(file, max_row_bytes);
  check_text(example.text, *example.file);
  return example;
}

class DocumentExample : public ExampleReader {
 public:
  explicit DocumentExample(fs::path file) : file_(std::move(file)) {}

  std::optional<Example> next() override {
    if (std::exchange(done_, true)) return std::nullopt;
    Example example = whole_file(file_);
    example.id = *example.file;
    return example;
  }

 private:
  fs::path file_;
  bool done_ = false;
};

constexpr std::string_view label_folders_example = "expected one a label, such as pos and neg";

class FolderExamples : public ExampleReader {
 public:
  FolderExamples(const TaskConfig& task, const fs::path& folder, Labelled labelled)
      : labelled_(labelled) {
    std::vector<std::string> labels = task.labels;
    if (labels.empty())
      for (const auto& entry : fs::directory_iterator(folder))
        if (entry.is_directory() && !hidden(entry.path()))
          labels.push_back(entry.path().filename().string());
    require_input(!labels.empty(), "{}: there are no folders in it; {}", printable_path(folder),
                  label_folders_example);
    std::sort(labels.begin(), labels.end());
    for (const std::string& label : labels) {
      const fs::path inner = folder / label;
      require_input(fs::is_directory(inner), "{}: there is no folder '{}' in it; {}",
                    printable_path(folder), printable(label), label_folders_example);
      for (fs::path& file : files_below(inner)) files_.push_back({std::move(file), label});
    }
  }

  std::optional<Example> next() override {
    if (next_ == files_.size()) return std::nullopt;
    const auto& [file, label] = files_[next_++];
    Example example = whole_file(file);
    example.labelled = labelled_ == Labelled::required;
    if (example.labelled) example.label = label;
    return example;
  }

 private:
  static bool hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

  struct LabelledFile {
    fs::path file;
    std::string label;
  };
  Labelled labelled_;
  std::vector<LabelledFile> files_;
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<ExampleReader> open_document(const fs::path& file) {
  return std::make_unique<DocumentExample>(file);
}

std::unique_ptr<ExampleReader> open_folders(const TaskConfig& task, const fs::path& folder,
                                            Labelled labelled) {
  return std::make_unique<FolderExamples>(task, folder, labelled);
}

}  // namespace nystrom
