// Arbitrary files whose names select their format: tables, CoNLL, SQuAD, a folder for each label,
// CIFAR-10's batches, Pathfinder's PNG images. Only InputError may be thrown, reading ends, and all
// images of a file have one size.
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "data/tasks/examples.h"
#include "tests/fuzz/input_files.h"

namespace {

using namespace nystrom;

void read(const TaskConfig& task, const std::string& place, Labelled labelled) {
  std::size_t pixels = 0;
  SkippedRows skipped;
  for_each_example(task, {place}, labelled, skipped, [&](const Example& example) {
    if (!is_valid_utf8(example.text)) std::abort();
    if (pixels > 0 && example.pixels.size() != pixels) std::abort();
    pixels = example.pixels.size();
  });
  if (describe_unreadable({place}, skipped).find('\n') != std::string::npos) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  static nystrom::testing::InputFolder folder{
      "pos/1.txt",      "neg/1.txt",  "neg/.hidden", "empty/", "a.tsv",   "a.csv",
      "a.csv.gz",       "a.jsonl",    "a.json",      "a.txt",  "a.conll", "a.bin",
      "metadata/a.npy", "imgs/1.png", "imgs/2.png",  "a.xyz"};
  folder.fill({reinterpret_cast<const char*>(data), size});
  std::vector<std::string> places{folder.path(), folder.path() / "empty",
                                  folder.path() / "metadata/a.npy"};
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    if (entry.is_regular_file()) places.push_back(entry.path());
  for (const TaskKind kind : {TaskKind::classification, TaskKind::tokens, TaskKind::questions}) {
    TaskConfig task;
    task.kind = kind;
    task.bad_rows = BadRows::skip;
    task = resolve_task(task);
    for (const std::string& place : places) {
      for (const Labelled labelled : {Labelled::required, Labelled::optional}) {
        try {
          read(task, place, labelled);
        } catch (const InputError&) {
        }
      }
    }
  }
  return 0;
}
