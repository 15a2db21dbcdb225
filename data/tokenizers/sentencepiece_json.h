// The tokenizer.json of SentencePiece models: those with ALBERT's special tokens, which this
// program trains too, and those of XLM-RoBERTa and CamemBERT, sentencepiece.bpe.model. The ids of
// these are not those of the file: special tokens stand in front.
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
/// as the options say, and then what the model's charsmap makes of them. Pieces that join a comma
/// to the digit before it are used in need only ("12,345" becomes 12 , 345): 100 is subtracted from
/// their scores. All control pieces are special tokens.
///
/// Throws an InputError that begins with `source` for a BPE model, for one that lacks [CLS], [SEP],
/// <pad> or [MASK], and for one that Hugging Face's tokenizers cannot reproduce: with an unused
/// piece, or a user-defined one that the normalizer changes.
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

/// Returns the tokenizer.json of a model that was trained on text of this normalizer, unigram or
/// BPE. Throws an InputError when it lacks one of ALBERT's special tokens.
std::string trained_tokenizer_json(SentencePieceModel model, const TrainedNormalizer& options);

/// Whether the piece ends in a digit of any script and a comma.
bool joins_comma_to_digit(std::string_view piece);

/// Whether the model has RoBERTa's special pieces: <unk>, <s> and </s> come first.
bool has_roberta_pieces(const SentencePieceModel& model);

/// Returns the tokenizer.json that transformers makes of a model that has_roberta_pieces. Its ids
/// are <s>, <pad>, </s>, <unk>, the pieces from the fourth on, <mask>. Those of CamemBERT are
/// <s>NOTUSED, <pad>, </s>NOTUSED, <unk>, <unk>NOTUSED, the pieces from the second on, <mask>.
/// Throws an InputError that begins with `source` for a BPE model.
std::string roberta_tokenizer_json(const SentencePieceModel& model, bool is_camembert,
                                   const std::string& source);

/// The digits of `bytes` to the base 64, as JSON files hold a charsmap.
std::string base64(std::string_view bytes);

}  // namespace nystrom
