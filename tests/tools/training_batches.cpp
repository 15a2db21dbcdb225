// What a fresh `nystrom pretrain` starts from and sees, for training the same elsewhere
// (bench/compare_training.py):
//   training_batches CONFIG STEPS FOLDER [KEY=VALUE…]     overrides as of --set
// writes config.json and model.safetensors (the first weights, f32) and batches.safetensors: for
// each step S = 1 … STEPS input_ids.S and labels.S, [b, n] i64, and where something is padded
// attention_mask.S, [b, n] u8.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/file_io.h"
#include "core/check.h"
#include "train/checkpoint/model_folder.h"
#include "train/config/config_io.h"
#include "train/formats/hf_config.h"
#include "train/formats/safetensors.h"
#include "train/pretrain/corpus.h"
#include "train/pretrain/evaluation.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

void write_model(const RunConfig& config, const fs::path& folder) {
  Model model(config.model);
  model.parameters().allocate(DType::f32, StoreMode::inference);
  model.parameters().initialise(static_cast<std::uint64_t>(config.seed),
                                config.model.initializer_range);
  std::vector<NamedTensor> weights;
  for (const Parameter& parameter : model.parameters().parameters()) {
    weights.push_back({parameter.name(), model.parameters().master(parameter.name())});
  }
  write_text_file(folder / "config.json", hf_config_text(config.model));
  write_safetensors(folder / "model.safetensors", weights);
}

void write_batches(const RunConfig& config, const Corpus& corpus, std::int64_t steps,
                   const fs::path& file) {
  // Whole steps: micro-batches are the same rows.
  const std::int64_t rows = config.training.batch_size;
  Loader loader(masked_samples(corpus.train, *corpus.tokenizer, config), {rows, rows});
  std::vector<NamedTensor> tensors;
  for (std::int64_t step = 1; step <= steps; ++step) {
    const Batch batch = loader.next().front();
    tensors.push_back({fmt::format("input_ids.{}", step), batch.input.input_ids});
    tensors.push_back({fmt::format("labels.{}", step), batch.labels});
    if (batch.input.attention_mask.defined())
      tensors.push_back({fmt::format("attention_mask.{}", step), batch.input.attention_mask});
  }
  write_safetensors(file, tensors);
}

void run(const std::string& yaml, std::int64_t steps, const fs::path& folder, Overrides overrides) {
  RunConfig config = read_config(yaml, start_defaults, overrides);
  const auto wrong = messages_of(validate_pretraining(config));
  require_input(wrong.empty(), "{}", fmt::join(wrong, "\n"));
  Log log;
  Communicator alone;
  const Corpus corpus = prepare_corpus(config, log, alone);
  config = fit_model_to_tokenizer(config, *corpus.tokenizer);
  fs::create_directories(folder);
  write_model(config, folder);
  write_batches(config, corpus, steps, folder / "batches.safetensors");
}

}  // namespace
}  // namespace nystrom

int main(int count, char** arguments) {
  if (count < 4) {
    std::fprintf(stderr, "usage: training_batches CONFIG STEPS FOLDER [KEY=VALUE...]\n");
    return 2;
  }
  try {
    const std::vector<std::string> overrides(arguments + 4, arguments + count);
    nystrom::run(arguments[1], std::stoll(arguments[2]), arguments[3], overrides);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
