// A text for pretraining: 300 lines of twelve random words. A small run on it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"

namespace nystrom::testing {

inline void write_small_text(const std::filesystem::path& path) {
  std::ofstream text(path);
  const char* words[] = {"the",  "sea",   "was",  "calm",  "and",   "old", "ships", "sailed",
                         "home", "under", "pale", "stars", "while", "men", "sang"};
  std::uint32_t state = 1;
  for (int line = 0; line < 300; ++line) {
    for (int word = 0; word < 12; ++word)
      text << words[((state = state * 1664525u + 1013904223u) >> 16) % 15] << ' ';
    text << '\n';
  }
}

/// Writes the text, and run.yaml: a model 16 wide of 32 tokens with these options of attention, and
/// the other sections `rest`.
inline void write_small_run(const TemporaryFolder& folder, const std::string& rest,
                            const std::string& attention = "num_landmarks: 4, conv_kernel_size: 5",
                            int layers = 1) {
  write_small_text(folder / "text.txt");
  write_bytes(folder / "run.yaml",
              "model: {hidden_size: 16, num_hidden_layers: " + std::to_string(layers) +
                  ", num_attention_heads: 2, intermediate_size: 32, max_position_embeddings: 32, "
                  "attention: {" +
                  attention +
                  "}}\ntokenizer: {train: {vocab_size: 32}}\n"
                  "data: {train: [text.txt], validation_fraction: 0.1, documents: lines, "
                  "sequence_length: 32, cache: cache}\n" +
                  rest);
}

}  // namespace nystrom::testing
