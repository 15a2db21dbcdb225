// Shared parts of the tests of fine-tuning: a tokenizer, a toy task, and runs of the program.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tests/support/program_test.h"
#include "tests/support/tiny_checkpoint.h"

namespace nystrom::testing {

namespace fs = std::filesystem;
using nlohmann::json;

/// Settings of every toy task on text: a model with one layer, trained from scratch.
inline const std::string tiny_model =
    "model: {hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 32, "
    "max_position_embeddings: 32, initializer_range: 0.1, hidden_dropout_prob: 0.0, attention: "
    "{num_landmarks: 8, conv_kernel_size: 3}}\n"
    "tokenizer: {path: tokenizer}\n"
    "data: {sequence_length: 32}\n"
    "run_dir: run\n"
    "optimizer: {learning_rate: 3.0e-3}\n"
    "logging: {tensorboard: false}\n"
    "training: {dtype: f32, batch_size: 16, micro_batch_size: 8, ";

inline std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

/// Draws random words of a list: if none is given, of one without those that decide labels.
class Words {
 public:
  explicit Words(std::uint32_t seed,
                 std::vector<std::string> list = {"the", "was", "calm", "and", "old", "sailed",
                                                  "home", "under", "pale", "while", "sang"})
      : random_(seed), list_(std::move(list)) {}
  std::vector<std::string> words(std::size_t least, std::size_t most) {
    std::vector<std::string> result;
    for (std::size_t left = least + below(most - least + 1); left > 0; --left)
      result.push_back(list_[below(list_.size())]);
    return result;
  }
  std::string text(std::size_t least, std::size_t most) { return joined(words(least, most)); }
  std::size_t below(std::size_t n) { return random_() % n; }

 private:
  std::minstd_rand random_;
  std::vector<std::string> list_;
};

class FinetuneTest : public ProgramTest {
 protected:
  void SetUp() override { write_tiny_tokenizer(folder_ / "tokenizer"); }

  /// Writes texts that contain either "sea" or "men".
  void write_classification(const std::string& name, int count, std::uint32_t seed) {
    Words words(seed);
    std::string text = "label\tsentence\n";
    for (int i = 0; i < count; ++i) {
      auto line = words.words(2, 9);
      const bool sea = words.below(2) == 0;
      line.insert(line.begin() + static_cast<std::ptrdiff_t>(words.below(line.size())),
                  sea ? "sea" : "men");
      text += std::string(sea ? "water" : "people") + "\t" + joined(line) + "\n";
    }
    write_bytes(folder_ / name, text);
  }

  /// Configures a classification run with the length `extent`, such as "epochs: 3".
  void configure_classification(const std::string& extent = "epochs: 6") {
    write_classification("train.tsv", 192, 1);
    write_classification("dev.tsv", 48, 2);
    write_task_run(extent,
                   "kind: classification, train: [train.tsv], validation: [dev.tsv], columns: "
                   "{text: sentence, label: label}");
  }
  /// Writes the configuration of a toy of that length, with these options of its task.
  void write_task_run(const std::string& extent, const std::string& task) {
    write_bytes(folder_ / "run.yaml", tiny_model + extent + "}\ntask: {" + task + "}\n");
  }

  void train(Caller caller = Caller::here()) { run("finetune run.yaml --threads 1", caller); }
  double measured(const std::string& metric, const std::string& file,
                  Caller caller = Caller::here()) {
    run("evaluate run --quiet --json --threads 1 --file " + file, caller);
    return json::parse(last_.out).at(metric).get<double>();
  }
  json predicted(const std::string& arguments, Caller caller = Caller::here()) {
    run("predict run --quiet --json --threads 1 " + arguments, caller);
    json lines = json::array();
    std::istringstream text(last_.out);
    for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
    return lines;
  }
};

}  // namespace nystrom::testing
