// Writes the initial weights and the batches of a new `nystrom pretrain`, for the same training in
// another program (bench/compare_training.py).
//   training_batches CONFIG STEPS FOLDER [KEY=VALUE…]     overrides as in --set
// The files are config.json, model.safetensors (the first weights in f32) and batches.safetensors.
// For each step S = 1 … STEPS the batches are input_ids.S and labels.S, [b, n] i64,
// padded behind, and attention_mask.S, [b, n] u8.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/file_io.h"
#include "core/check.h"
#include "train/config/validation.h"
#include "train/objectives/corpus.h"
#include "train/objectives/evaluation.h"
#include "train/state/hf_config.h"
#include "train/state/safetensors.h"

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

/// Rows of sequences with these offsets as [b, n], with `padding` behind the shorter ones.
template <class T>
Tensor padded(const std::vector<T>& rows, const std::vector<std::int64_t>& offsets, T padding) {
  std::int64_t longest = 0;
  for (std::size_t i = 1; i < offsets.size(); ++i)
    longest = std::max(longest, offsets[i] - offsets[i - 1]);
  std::vector<T> numbers;
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    numbers.insert(numbers.end(), rows.begin() + offsets[i - 1], rows.begin() + offsets[i]);
    numbers.resize(i * static_cast<std::size_t>(longest), padding);
  }
  return Tensor::from(numbers, {std::ssize(offsets) - 1, longest});
}

std::vector<std::int64_t> numbers_of(const Tensor& x) {
  return {x.data<std::int64_t>(), x.data<std::int64_t>() + x.numel()};
}

void write_batches(const RunConfig& config, const Corpus& corpus, std::int64_t steps,
                   const fs::path& file) {
  // One micro-batch is a whole step: the rows are the same.
  const std::int64_t rows = config.training.batch_size;
  const std::int64_t pad = corpus.train[0].tokens->info().special.pad;
  Loader loader(masked_sources(corpus.train, *corpus.tokenizer, config), {rows, rows});
  std::vector<NamedTensor> tensors;
  for (std::int64_t step = 1; step <= steps; ++step) {
    const Batch batch = loader.next().front();
    const std::vector<std::int64_t>& offsets = batch.input.offsets;
    const std::vector<std::uint8_t> ones(static_cast<std::size_t>(batch.tokens), 1);
    tensors.push_back({fmt::format("input_ids.{}", step),
                       padded(numbers_of(batch.input.input_ids), offsets, pad)});
    tensors.push_back(
        {fmt::format("labels.{}", step), padded(numbers_of(batch.labels), offsets, ignore_index)});
    tensors.push_back(
        {fmt::format("attention_mask.{}", step), padded(ones, offsets, std::uint8_t{0})});
  }
  write_safetensors(file, tensors);
}

void run(const std::string& yaml, std::int64_t steps, const fs::path& folder, Overrides overrides) {
  RunSpec spec = read_run(config_file(yaml), overrides);
  require_none(validate_pretraining(spec.options));
  Log log;
  Communicator alone;
  const Corpus corpus = prepare_corpus(spec, log, alone);
  const RunConfig config = with_tokenizer(std::move(spec), corpus.tokenizer).options;
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
