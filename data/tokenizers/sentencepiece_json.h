// The tokenizer.json of SentencePiece models with ALBERT's special tokens: those of ALBERT, and
// those that this program trains.
#pragma once

#include <string>
#include <string_view>

#include "data/tokenizers/pipeline/normalizers.h"
#include "data/tokenizers/sentencepiece_scan.h"

namespace nystrom {

/// The options of ALBERT's normalizer, as in tokenizer_config.json.
struct AlbertOptions {
  bool lower_case = true;
  bool keep_accents = false;
};

/// Returns the tokenizer.json of a spiece.model. Texts become lower case and NFKD without accents,
/// as the options say, and then what the model's charsmap makes of them. No piece joins a comma to
/// the digit before it ("12,345" becomes 12 , 345): unigram models subtract 100 from the scores of
/// such pieces.
///
/// All control pieces are special tokens.
///
/// Throws an InputError that begins with `source` when the model lacks one of [CLS], [SEP], <pad>,
/// [MASK], or has an unused piece, or Hugging Face's tokenizers cannot reproduce it: with a
/// user-defined piece that the normalizer changes, or a BPE model with a user-defined piece of
/// several characters and a normal piece that its own merges do not produce.
std::string albert_tokenizer_json(SentencePieceModel model, const AlbertOptions& options,
                                  const std::string& source);

/// The normalizer of a trained tokenizer. The text becomes NFKC, with single spaces (U+200B is one
/// too), without control characters and marks of direction. Lower case is applied to each character
/// by itself.
struct TrainedNormalizer {
  bool lower_case = true;
  bool strip_accents = false;  ///< removes the combining marks of NFKD: é, ü, で become e, u, て
};

/// Creates it, for the trainer's text.
TextNormalizer trained_normalizer(const TrainedNormalizer& options);

/// Returns the tokenizer.json of a model that was trained on text of this normalizer. Throws like
/// albert_tokenizer_json.
std::string trained_tokenizer_json(SentencePieceModel model, const TrainedNormalizer& options);

/// Whether the piece ends in a digit of any script and a comma.
bool joins_comma_to_digit(std::string_view piece);

}  // namespace nystrom
