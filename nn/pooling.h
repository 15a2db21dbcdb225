// The hidden states of a batch that a model's heads and vectors read: rows of some positions,
// and rows pooled for each sequence. `hidden` is [r, c], or [b, n, c] of a dense batch.
#pragma once

#include <utility>
#include <vector>

#include "nn/encoder.h"

namespace nystrom {

/// The first positions of all sequences in the flattened [b · n].
std::vector<std::int64_t> first_positions(const Ragged& batch);
/// The last tokens of all sequences; of those without tokens the first position.
std::vector<std::int64_t> last_tokens(const Ragged& batch);
/// The positions of all features in a batch that has a class token in front of each sequence.
std::vector<std::int64_t> behind_class_tokens(const Ragged& batch);
/// The positions that a pooling reads; nothing: all rows.
ReadPositions read_by(SentencePooling pooling, const Ragged& batch);

/// The rows of `hidden` at some positions, [p, c].
Var rows_at(const Var& hidden, const Ragged& batch, const std::vector<std::int64_t>& positions);
/// The rows that are tokens, and those of each sequence.
std::pair<Var, std::vector<RowRange>> rows_of_tokens(const Var& hidden, const Ragged& batch);

/// The mean of the tokens of each sequence, [b, c], in the type of `hidden`. Zeros for one without
/// tokens.
Var mean_token(const Var& hidden, const Ragged& batch);
/// One vector a sequence, [b, c], in the accumulate type. For cls and lasttoken `hidden` holds the
/// rows of read_by. `landmarks` is the number of segments of SentencePooling::landmarks.
Var pool(const Var& hidden, const Ragged& batch, SentencePooling pooling, std::int64_t landmarks);

}  // namespace nystrom
