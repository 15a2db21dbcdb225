// Readers of single files, private to data/tasks: one function for each format.
#pragma once

#include <filesystem>

#include "data/tasks/examples.h"
#include "data/text/table_reader.h"

namespace nystrom {

class JsonPart;

/// Takes the examples of files for read_examples.
struct ExampleSink {
  const ExampleUse& use;
  const BadRowUse& bad;
  std::int64_t left;                 ///< how many examples are still to be read
  std::vector<std::string> notes{};  ///< what a user should know of how the files are read
  bool has_rows = false;             ///< whether the file has given an example or a bad row

  /// Uses the example that `read` gives, or its BadRow. Returns false when it gives none, and when
  /// no more are to be read.
  template <class Read>
  bool take(const Read& read) {
    if (left <= 0) return false;
    try {
      std::optional<Example> example = read();
      if (!example) return false;
      has_rows = true;
      --left;
      use(std::move(*example));
    } catch (const BadRow& error) {
      has_rows = true;
      bad(error);
    }
    return true;
  }
  /// Uses the examples that `next` gives until it gives none. After a BadRow it is called again.
  template <class Next>
  void take_all(const Next& next) {
    while (take(next)) continue;
  }
};

/// Whether a format is that of tables: these come first, in the order of TableFormat.
inline bool is_table(TaskFormat format) { return format <= TaskFormat::json; }
static_assert(TaskFormat::tsv == TaskFormat{static_cast<int>(TableFormat::tsv)} &&
              TaskFormat::json == TaskFormat{static_cast<int>(TableFormat::json)});
/// The form of a table that task.format names; TSV for formats that are no tables.
inline TableFormat table_format(TaskFormat format) {
  return is_table(format) ? static_cast<TableFormat>(format) : TableFormat::tsv;
}
/// The columns that are named, each behind its option: {"text", "sentence"}.
std::vector<std::pair<std::string, std::string>> given_columns(TaskColumns columns);
/// Tells each column the option that names it.
void name_options(const TaskColumns& columns, std::vector<WantedColumn>& wanted);
/// Reads a TSV, CSV or JSON Lines file.
void read_table(const TaskConfig& task, const std::filesystem::path& file, TaskFormat format,
                Labelled labelled, ExampleSink& sink);
/// Reads a CoNLL file.
void read_conll(const TaskConfig& task, const std::filesystem::path& file, Labelled labelled,
                ExampleSink& sink);
/// Reads a SQuAD file.
void read_squad(const TaskConfig& task, const std::filesystem::path& file, Labelled labelled,
                ExampleSink& sink);
/// Gives a question its answers: objects with text and answer_start, or one object with a list of
/// each. Offsets in files count characters. Throws an InputError that begins with the example's
/// place or that of the part, also for no answer without task.no_answer, and where `impossible`,
/// the text of is_impossible, says the contrary.
void read_answers(const TaskConfig& task, const JsonPart& answers,
                  const std::optional<std::string>& impossible, Example& example);
/// Reads a folder that has a subfolder for each label.
void read_folders(const TaskConfig& task, const std::filesystem::path& folder, Labelled labelled,
                  ExampleSink& sink);
/// Reads a file that is one text without a label. Its name is the example's id.
void read_document(const std::filesystem::path& file, ExampleSink& sink);
/// Notes those of the files that are tables by their names, and are read as one text each.
void note_tables(const std::vector<std::filesystem::path>& files, std::vector<std::string>& notes);
/// Reads a file with a text in each line and no labels. For tokens the texts are split into words.
void read_lines(const TaskConfig& task, const std::filesystem::path& file, ExampleSink& sink);

/// Throws a BadRow unless the label of a word is an entity tag, or task.metric says that labels are
/// not entities.
void check_tag(const TaskConfig& task, std::string_view tag, const std::string& place);

// ---- Images: the grey value of each pixel, 0 to 255, row by row, in the formats of Long Range
// Arena (Tay et al., ICLR 2021): CIFAR-10 (Krizhevsky 2009) and Pathfinder (Linsley et al., NeurIPS
// 2018).

/// The labels of CIFAR-10 in the order of their numbers: airplane, automobile, …
std::vector<std::string> cifar10_classes();

/// Reads a binary batch of CIFAR-10 (data_batch_1.bin, test_batch.bin), which may be compressed.
/// Each image is a byte for its class and 1024 bytes each of red, green and blue. Throws a BadRow
/// "file: image 7 …" (from 0) for a class beyond 9, and an InputError for a file of another size.
void read_cifar10(const std::filesystem::path& file, Labelled labelled, ExampleSink& sink);

/// Reads a metadata file of Pathfinder (metadata/0.npy, which is text). Each line is an image,
/// "imgs/0 sample_0.png 0 1 …": folder, file and, as the fourth word, the label 0 or 1. Images are
/// below the parent of `file`'s folder and have one size. Throws a BadRow "file:line: …" for a line
/// without these words and for an unreadable image.
void read_pathfinder(const std::filesystem::path& file, Labelled labelled, ExampleSink& sink);

/// The grey value of a colour, by TensorFlow's rgb_to_grayscale: floor(255.5 / 255 · (0.2989 red +
/// 0.5870 green + 0.1140 blue)). A grey colour keeps its value.
std::uint8_t grey(std::uint8_t red, std::uint8_t green, std::uint8_t blue);

}  // namespace nystrom
