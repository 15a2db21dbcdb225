// The SentencePiece models of XLM-RoBERTa and CamemBERT, sentencepiece.bpe.model. Their ids are not
// those of the file: special tokens stand in front.
#pragma once

#include <string>
#include <string_view>

#include "data/tokenizers/sentencepiece_scan.h"

namespace nystrom {

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
