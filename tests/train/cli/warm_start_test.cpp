// Folders of BERT's family in every command: a public encoder is used as it is, and trained on.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/fixtures.h"
#include "tests/support/golden.h"
#include "tests/support/program_test.h"
#include "tests/support/tiny_checkpoint.h"
#include "train/state/hf_config.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

/// Thirty pieces, as many as the fixtures have: those of the tiny lines, and letters.
std::string bert_vocabulary() {
  std::string text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (const char* word : {"the", "sea", "was", "calm", "and", "old", "ships", "sailed", "home",
                           "under", "pale", "stars", "while", "men", "sang"})
    text += std::string(word) + "\n";
  for (char letter = 'a'; letter <= 'j'; ++letter) text += std::string(1, letter) + "\n";
  return text;
}

/// Letters, of which the words consist.
std::string roberta_vocabulary() {
  nlohmann::json pieces = {{"<s>", 0}, {"<pad>", 1}, {"</s>", 2}, {"<unk>", 3}, {"\u0120", 4}};
  for (char letter = 'a'; letter <= 'x'; ++letter)
    pieces[std::string(1, letter)] = 5 + letter - 'a';
  pieces["<mask>"] = 29;
  return pieces.dump();
}

class WarmStartCommands : public ProgramTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    const fs::path model = folder_ / "model";
    fs::copy(fixture_folder() / "architectures" / GetParam(), model);
    if (robertas()) {
      write_bytes(model / "vocab.json", roberta_vocabulary());
      write_bytes(model / "merges.txt", "#version: 0.2\n");
    } else {
      write_bytes(model / "vocab.txt", bert_vocabulary());
    }
    write_lines(folder_ / "text.txt", tiny_lines(60, 1));
    std::string rows = "label\tsentence\n";
    for (const std::string& line : tiny_lines(24, 2))
      rows += std::string(line.find("sea") == line.npos ? "land" : "water") + "\t" + line + "\n";
    write_bytes(folder_ / "rows.tsv", rows);
  }
  bool robertas() const { return std::string(GetParam()).starts_with("roberta"); }
  std::string run(const std::string& arguments, Caller caller = Caller::here()) {
    return ProgramTest::run(arguments + " --threads 1 --quiet", caller).out;
  }
  void write_run(const std::string& name, const std::string& sections,
                 const std::string& from = "model") {
    write_bytes(folder_ / (name + ".yaml"), "model: {from: " + from + "}\nrun_dir: " + name +
                                                "\nlogging: {tensorboard: false}\n" + sections);
  }
};

TEST_P(WarmStartCommands, TakeItAsItIs) {
  expect_says(run("info model"), "NystromformerForMaskedLM");
  expect_says(run("evaluate model --text text.txt --set data.documents=lines"), "loss");
  const std::string mask = robertas() ? "<mask>" : "[MASK]";
  EXPECT_FALSE(run("predict model 'a " + mask + " b'").empty());
  run("forward model --input model/batch.safetensors --output out.safetensors --dtype f64");
  const auto got = read_tensors(folder_ / "out.safetensors"),
             expected = read_tensors(folder_ / "model/expected.safetensors");
  EXPECT_LE(max_difference(got.at("logits"), expected.at("logits")),
            1e-9 * largest(expected.at("logits")));
}

TEST_P(WarmStartCommands, PretrainAndExport) {
  write_run("more",
            "data: {train: [text.txt], documents: lines, validation_fraction: 0.2, "
            "sequence_length: 9}\n"
            "training: {dtype: f32, steps: 2, batch_size: 4, micro_batch_size: 4}\n");
  run("pretrain more.yaml");
  run("export more exported --onnx f32 --verify --text text.txt");
  EXPECT_EQ(ModelFolder(folder_ / "exported").architecture,
            ModelFolder(folder_ / "model").architecture);
  run("extend more longer --length 30");
  run("evaluate longer --text text.txt");
}

TEST_P(WarmStartCommands, FinetuneAndPredict) {
  write_run("task",
            "task: {kind: classification, train: [rows.tsv], validation: [rows.tsv], "
            "columns: {text: sentence, label: label}}\ndata: {sequence_length: 9}\n"
            "training: {dtype: f32, steps: 2, batch_size: 4, micro_batch_size: 4}\n");
  run("finetune task.yaml");
  EXPECT_FALSE(run("predict task 'the sea'").empty());
  expect_says(run("evaluate task --file rows.tsv"), "accuracy");
}

/// From a folder to a classifier of texts that are longer than the parent's.
TEST_P(WarmStartCommands, ConvertHealFinetuneAndPredict) {
  write_lines(folder_ / "held.txt", tiny_lines(30, 5));
  run("convert model turned --landmarks 4 --conv 5 --length 30 --keep-exact 1 --text text.txt");
  const std::string training =
      "training: {dtype: f32, steps: 2, batch_size: 4, micro_batch_size: 4}\n";
  write_bytes(folder_ / "healing.yaml", run("config warm-start"));
  run("pretrain healing.yaml --set run_dir=healed --set model.from=turned "
      "--set 'data={train: [text.txt], validation: [held.txt], sequence_length: 27, "
      "length_schedule: {0: 9, 2: 27}}' --set 'distillation={teacher: model, until_step: 2}' "
      "--set 'training={dtype: f32, steps: 4, batch_size: 4, micro_batch_size: 4}' "
      "--set schedule.warmup_steps=1 --set 'logging={every: 1, tensorboard: false}'");
  EXPECT_EQ(metric("healed", "distillation_logits").size(), 2U);
  run("export healed exported --onnx f32 --verify --text text.txt");
  expect_says(run("info exported --json"), R"("layers":{"1":"softmax"})");
  write_run("task",
            "task: {kind: classification, train: [rows.tsv], validation: [rows.tsv], "
            "columns: {text: sentence, label: label}}\ndata: {sequence_length: 30}\n" +
                training,
            "healed");
  run("finetune task.yaml");
  EXPECT_FALSE(run("predict task 'the sea'").empty());
}

INSTANTIATE_TEST_SUITE_P(Parents, WarmStartCommands,
                         ::testing::Values("bert_mlm_gamma_beta", "roberta_mlm", "distilbert_mlm",
                                           "electra_generator"),
                         [](const auto& it) { return std::string(it.param); });

}  // namespace
}  // namespace nystrom::testing
