// Arbitrary bytes as a file of examples; the first byte selects the format. Only InputError may be
// thrown, reading ends, and every example is valid UTF-8 that can be encoded.
#include <cstdlib>
#include <string>

#include "core/base/utf8.h"
#include "data/tasks/encoder.h"
#include "tests/data/tasks/letter_tokenizer.h"
#include "tests/fuzz/input_files.h"

namespace {

using namespace nystrom;

TaskConfig task_of(unsigned char choice) {
  static constexpr TaskKind kinds[] = {TaskKind::classification, TaskKind::regression,
                                       TaskKind::tokens, TaskKind::questions, TaskKind::choice};
  TaskConfig task;
  task.kind = kinds[choice % 5];
  const auto formats = formats_of(*task.kind);
  task.format = formats[choice / 5 % formats.size()];
  task.header = choice / 25 % 2 == 0;
  const bool others = choice / 50 % 2 == 1;  // columns by number, a list of choices with names
  if (task.kind == TaskKind::choice)
    task.columns.choices =
        others ? std::vector<std::string>{"3"} : std::vector<std::string>{"3", "4"};
  if (task.kind == TaskKind::choice && others) task.labels = {"no", "yes"};
  if (task.kind == TaskKind::tokens && others) {
    task.columns.text = "1";
    task.columns.label = "2";
  }
  if (!*task.header) {
    task.columns.text = "1";
    task.columns.label = "2";
  }
  task.no_answer = true;
  return resolve_task(task);
}

void read(const TaskConfig& task, const std::string& file, std::size_t size, Labelled labelled) {
  const LetterTokenizer tokenizer;
  const TaskEncoder encoder(task, LabelSet({"0", "1", "O", "B-X"}), tokenizer, 300);
  EncodingCounts counts;
  std::size_t failures = 0;
  const auto use = [&](const Example& example) {
    if (!is_valid_utf8(example.text) || (example.pair && !is_valid_utf8(*example.pair)))
      std::abort();
    for (const EncodedSample& sample : encoder.encode(example, counts))
      if (sample.length() > 300 || sample.end < sample.start) std::abort();
  };
  read_examples(task, {file}, labelled, use, [&](const BadRow&) {
    if (++failures > size) std::abort();  // the reader makes no progress
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  const nystrom::testing::MemoryFile memory({reinterpret_cast<const char*>(data + 1), size - 1});
  const TaskConfig task = task_of(data[0]);
  for (const Labelled labelled : {Labelled::required, Labelled::optional}) {
    try {
      if (task.format != TaskFormat::folders) read(task, memory.path(), size, labelled);
    } catch (const InputError&) {
    }
  }
  return 0;
}
