// The hidden states of a batch that a model's heads and vectors read: some rows, and rows pooled
// for each sequence. `hidden` is [r, c], or [b, n, c] of a dense batch.
#pragma once

#include <utility>
#include <vector>

#include "nn/encoder.h"

namespace nystrom {

/// The rows of the first positions of all sequences.
std::vector<std::int64_t> first_rows(const Ragged& batch);
/// The rows of the last tokens of all sequences; of those without tokens the first position.
std::vector<std::int64_t> last_tokens(const Ragged& batch);
/// The rows of all features in a batch that has a class token in front of each sequence.
std::vector<std::int64_t> behind_class_tokens(const Ragged& batch);
/// The rows that a pooling reads.
ChosenRows read_by(SentencePooling pooling, const Ragged& batch);

/// These rows of `hidden`, [p, c].
Var rows_at(const Var& hidden, const std::vector<std::int64_t>& rows);
/// The rows that are tokens, and those of each sequence.
std::pair<Var, std::vector<RowRange>> rows_of_tokens(const Var& hidden, const Ragged& batch);

/// The mean of the tokens of each sequence, [b, c], in the type of `hidden`. Zeros for one without
/// tokens.
Var mean_token(const Var& hidden, const Ragged& batch);
/// One vector a sequence, [b, c], in the accumulate type. For cls and lasttoken `hidden` holds the
/// rows of read_by. `landmarks` is the number of segments of SentencePooling::landmarks.
Var pool(const Var& hidden, const Ragged& batch, SentencePooling pooling, std::int64_t landmarks);

}  // namespace nystrom
