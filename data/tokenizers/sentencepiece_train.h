// Training of tokenizers by SentencePiece.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "data/text/text.h"
#include "data/tokenizers/sentencepiece_json.h"
#include "data/tokenizers/sentencepiece_scan.h"
#include "data/tokenizers/tokenizer.h"

namespace nystrom {

/// The smallest vocab_size that may be asked for.
inline constexpr std::int64_t min_vocab_size = 16;

struct SentencePieceTraining {
  SentencePieceModel::Kind kind = SentencePieceModel::Kind::unigram;
  std::int64_t vocab_size = 30000;
  bool shrink = false;  ///< a smaller text gives as many pieces as it supports, and no error
  TrainedNormalizer normalizer;
  std::uint64_t seed = 0;  ///< seed of the sample when the text is too long
  /// Size of the sample that the trainer reads. It is spread evenly over the whole text.
  std::int64_t max_bytes = std::int64_t{8} << 20;
  /// Limit for the different words of the sample. Few languages reach it within max_bytes.
  std::int64_t max_words = 300'000;
  double character_coverage = 0.9995;           ///< share of all characters that the pieces cover
  std::function<bool(const TextPiece&)> takes;  ///< selects pieces, in order; empty: all
};

/// A tokenizer, and the sizes of the text that training used.
struct SentencePieceTrained {
  std::unique_ptr<Tokenizer> tokenizer;
  std::int64_t read_bytes = 0;   ///< size of the text
  std::int64_t taken_bytes = 0;  ///< size of the normalized sample that the trainer read
};

/// Reads `text` to its end and trains a tokenizer. Pieces 0 to 4 are <pad>, <unk>, [CLS], [SEP] and
/// [MASK].
///
/// The result is deterministic: the same text and options give the same pieces on every machine
/// with the same version of SentencePiece.
///
/// Memory is bounded. The trainer needs about 25 times max_bytes for unigram and 5 times for BPE,
/// and about 300 bytes for each different word.
///
/// Throws an InputError without text, or with too little text for vocab_size, which then names the
/// size that the text supports. `poll` is called
/// every few milliseconds; an exception from it ends the call. The library's thread cannot be
/// stopped and continues: the program must then exit soon, without destroying static objects.
SentencePieceTrained train_sentencepiece(
    TextReader& text, const SentencePieceTraining& options,
    const std::function<void()>& poll = [] {});

}  // namespace nystrom
