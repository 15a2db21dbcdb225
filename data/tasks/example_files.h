// The readers of single files, private to data/tasks: one function a form.
#pragma once

#include <filesystem>
#include <memory>

#include "data/tasks/examples.h"

namespace nystrom {

std::unique_ptr<ExampleReader> open_table(const TaskConfig& task, const std::filesystem::path& file,
                                          TaskFormat format, Labelled labelled);
std::unique_ptr<ExampleReader> open_conll(const TaskConfig& task, const std::filesystem::path& file,
                                          Labelled labelled);
std::unique_ptr<ExampleReader> open_squad(const TaskConfig& task, const std::filesystem::path& file,
                                          Labelled labelled);
std::unique_ptr<ExampleReader> open_folders(const TaskConfig& task,
                                            const std::filesystem::path& folder, Labelled labelled);
/// Texts without labels; for tokens they are split into words.
std::unique_ptr<ExampleReader> open_lines(const TaskConfig& task,
                                          const std::filesystem::path& file);

/// BadRow unless the label of a word is one of entities, or task.metric says that labels are
/// something else.
void check_tag(const TaskConfig& task, std::string_view tag, const std::string& place);

}  // namespace nystrom
