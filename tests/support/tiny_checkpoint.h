// A masked language model with a few hundred weights and a tokenizer, as a folder that every
// command opens.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tokenizers/sentencepiece_train.h"
#include "data/tokenizers/tokenizer_folder.h"
#include "tests/support/models.h"
#include "tests/support/temporary_folder.h"
#include "train/state/hf_config.h"
#include "train/state/model_folder.h"

namespace nystrom::testing {

/// Lines of three to ten random words from a list of fifteen. They depend only on the seed.
inline std::vector<std::string> tiny_lines(int count, std::uint32_t seed) {
  const char* words[] = {"the",  "sea",   "was",  "calm",  "and",   "old", "ships", "sailed",
                         "home", "under", "pale", "stars", "while", "men", "sang"};
  const auto draw = [&](std::uint32_t range) {
    return ((seed = seed * 1664525u + 1013904223u) >> 16) % range;
  };
  std::vector<std::string> lines;
  for (int i = 0; i < count; ++i) {
    std::string line;
    for (std::uint32_t left = 3 + draw(8); left > 0; --left)
      line += std::string(words[draw(15)]) + (left > 1 ? " " : "");
    lines.push_back(line);
  }
  return lines;
}

inline void write_lines(const std::filesystem::path& path, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  write_bytes(path, text);
}

inline ModelConfig tiny_masked_lm() {
  ModelConfig config = tiny_config();
  config.vocab_size = 36;
  config.max_position_embeddings = 24;
  config.segment_means_seq_len = 24;
  config.pad_token_id = 0;
  config.head = Head::masked_lm;
  return config;
}

/// One with exact attention and without convolution, as parents of conversions are.
inline ModelConfig tiny_exact_lm() {
  ModelConfig config = tiny_masked_lm();
  config.attention.kind = AttentionKind::softmax;
  config.attention.conv_kernel_size.reset();
  return config;
}

/// Writes a tokenizer into a new folder.
inline void write_tiny_tokenizer(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  write_lines(folder / "text.txt", tiny_lines(200, 1));
  TextReader reader({folder / "text.txt"}, Documents::lines);
  SentencePieceTraining options;
  options.vocab_size = 36;
  write_tokenizer(*train_sentencepiece(reader, options).tokenizer, folder, 24);
  std::filesystem::remove(folder / "text.txt");
}

/// A checkpoint in a folder and its content.
struct TinyCheckpoint {
  std::unique_ptr<Tokenizer> owned;
  const Tokenizer& tokenizer;
  std::unique_ptr<Model> model;

  explicit TinyCheckpoint(const std::filesystem::path& folder,
                          const ModelConfig& config = tiny_masked_lm())
      : owned((write_tiny_tokenizer(folder), open_tokenizer(folder))),
        tokenizer(*owned),
        model(make_model(config, DType::f32)) {
    write_bytes(folder / "config.json", hf_config_text(config));
    write_safetensors(folder / "model.safetensors", weight_tensors(*model));
  }
};

}  // namespace nystrom::testing
