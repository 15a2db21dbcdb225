// Training of SentencePiece models with ALBERT's special tokens, for SentencePieceTokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "data/text/text.h"
#include "data/tokenizers/normalizer.h"
#include "data/tokenizers/sentencepiece_scan.h"

namespace nystrom {

struct SentencePieceTraining {
  SentencePieceModel::Kind kind = SentencePieceModel::Kind::unigram;
  std::int64_t vocab_size = 30000;
  NormalizerOptions normalizer;
  std::uint64_t seed = 0;  ///< decides which text is taken when there is too much
  std::int64_t max_bytes = std::int64_t{8}
                           << 20;  ///< of text that the trainer sees, spread evenly over all of it
  std::int64_t max_words =
      300'000;  ///< different ones in that text; few languages have so many in max_bytes
  double character_coverage = 0.9995;       ///< share of the characters met that become pieces
  std::function<bool(std::int64_t)> takes;  ///< documents by number, in order; empty: all
};

/// What training took.
struct SentencePieceTrained {
  std::int64_t read_bytes = 0;   ///< of normal text
  std::int64_t taken_bytes = 0;  ///< of these the trainer saw
};

/// Reads `text` to its end, trains and writes the model to `file`, whole or not at all. Pieces 0 to
/// 4 are <pad>, <unk>, [CLS], [SEP] and [MASK]. The same text and options give the same file on any
/// machine with the same SentencePiece. Memory is bounded: the trainer needs about 25 times
/// max_bytes for unigram, 5 times for BPE, and then about 300 bytes for each different word.
/// InputError when there is no text, or too little of it for vocab_size. `poll` is called every few
/// milliseconds; what it throws ends the call, while the library's thread, which nothing can stop,
/// goes on: the program must end soon, without tearing down what is static.
SentencePieceTrained train_sentencepiece(
    TextReader& text, const SentencePieceTraining& options, const std::filesystem::path& file,
    const std::function<void()>& poll = [] {});

}  // namespace nystrom
