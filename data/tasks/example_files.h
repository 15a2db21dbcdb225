// Readers of single files, private to data/tasks: one function for each format.
#pragma once

#include <filesystem>
#include <memory>

#include <nlohmann/json_fwd.hpp>

#include "data/tasks/examples.h"
#include "data/text/table_reader.h"

namespace nystrom {

/// The form of a table that task.format names; TSV for formats that are no tables.
TableFormat table_format(TaskFormat format);
/// Opens a TSV, CSV or JSON Lines file.
std::unique_ptr<ExampleReader> open_table(const TaskConfig& task, const std::filesystem::path& file,
                                          TaskFormat format, Labelled labelled);
/// Opens a CoNLL file.
std::unique_ptr<ExampleReader> open_conll(const TaskConfig& task, const std::filesystem::path& file,
                                          Labelled labelled);
/// Opens a SQuAD file.
std::unique_ptr<ExampleReader> open_squad(const TaskConfig& task, const std::filesystem::path& file,
                                          Labelled labelled);
/// Gives a question its answers: objects with text and answer_start, or one object with a list of
/// each. Offsets in files count characters. Throws an InputError that begins with the example's
/// place, also for no answer without task.no_answer.
void read_answers(const TaskConfig& task, const nlohmann::json& answers, Example& example);
/// Opens a folder that has a subfolder for each label.
std::unique_ptr<ExampleReader> open_folders(const TaskConfig& task,
                                            const std::filesystem::path& folder, Labelled labelled);
/// Opens a file that is one text without a label. Its name is the example's id.
std::unique_ptr<ExampleReader> open_document(const std::filesystem::path& file);
/// Opens a file with a text in each line and no labels. For tokens the texts are split into words.
std::unique_ptr<ExampleReader> open_lines(const TaskConfig& task,
                                          const std::filesystem::path& file);

/// Throws a BadRow unless the label of a word is an entity tag, or task.metric says that labels are
/// not entities.
void check_tag(const TaskConfig& task, std::string_view tag, const std::string& place);

}  // namespace nystrom
