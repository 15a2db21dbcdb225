// The folders of models that a run names: each of their files is opened once.
#include <gtest/gtest.h>

#include "data/tokenizers/builtin_tokenizer.h"
#include "tests/faults/file_operations.h"
#include "tests/support/models.h"
#include "tests/support/temporary_folder.h"
#include "train/loop/run_spec.h"

namespace nystrom::testing {
namespace {

void write_model(const std::filesystem::path& folder, const ModelConfig& config) {
  write_bytes(folder / "config.json", hf_config_text(config));
  write_safetensors(folder / "model.safetensors", weight_tensors(*make_model(config, DType::f32)));
  write_tokenizer(*make_builtin_tokenizer(BuiltinTokenizer::bytes), folder, 9);
}

/// An error of the options themselves, which a check tells beside all others, and one of the files.
TEST(OpenedOnce, TheFolderOfStartBesideAnError) {
  const TemporaryFolder folder;
  ModelConfig start = masked_lm_config();
  start.vocab_size = make_builtin_tokenizer(BuiltinTokenizer::bytes)->vocab_size();
  start.pad_token_id = 0;
  write_model(folder / "start", start);
  const std::string yaml = fmt::format("model: {{from: {}}}\ndata: {{train: [absent.txt]}}\n",
                                       (folder / "start").string());
  for (const std::string& wrong : {std::string(), std::string("seed: -1\n")}) {
    const FileRecorder files(folder.path(), Exchange::possible);
    ResolutionErrors errors("run.yaml");
    RunSpec spec = read_run({"run.yaml", yaml + wrong}, {}, errors);
    if (errors.empty()) resolve(std::move(spec), RunKind::pretraining, errors);
    EXPECT_FALSE(errors.empty());
    EXPECT_EQ(files.opened("start/config.json"), 1) << wrong;
  }
}

TEST(OpenedOnce, TheFoldersOfStartAndTeacher) {
  const TemporaryFolder folder;
  ModelConfig start = masked_lm_config();
  start.vocab_size = make_builtin_tokenizer(BuiltinTokenizer::bytes)->vocab_size();
  start.pad_token_id = 0;
  ModelConfig teacher = start;
  teacher.attention.kind = AttentionKind::softmax;
  teacher.attention.conv_kernel_size.reset();
  write_model(folder / "start", start);
  write_model(folder / "teacher", teacher);
  write_bytes(folder / "text.txt", "the sea\n");
  const auto place = [&](const char* name) { return (folder / name).string(); };
  const ConfigText yaml = {
      "run.yaml", fmt::format("run_dir: {}\nmodel: {{from: {}}}\ndistillation: {{teacher: {}}}\n"
                              "data: {{train: [{}], cache: {}}}\n",
                              place("run"), place("start"), place("teacher"), place("text.txt"),
                              place("cache"))};

  const FileRecorder files(folder.path(), Exchange::possible);
  const RunSpec spec = resolve(yaml, {}, RunKind::pretraining);
  Model model(spec.options.model);
  model.parameters().allocate(DType::f32, StoreMode::training);
  initialise_from(model, *spec.start, 1, false);
  load_model(*spec.teacher, DType::f32, StoreMode::inference);
  for (const std::string name : {"start/config.json", "start/model.safetensors",
                                 "teacher/config.json", "teacher/model.safetensors"})
    EXPECT_EQ(files.opened(name), 1) << name;
}

}  // namespace
}  // namespace nystrom::testing
