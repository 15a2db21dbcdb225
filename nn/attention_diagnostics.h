// How good a layer's approximation is, from what its attention gets
// (RunContext::observe_attention): one sequence at a time.
#pragma once

#include "nn/nystrom.h"

namespace nystrom {

/// The attention matrix that `method` applies to a batch of one, [1, h, n, n]: what it makes of the
/// unit vectors as values. O(n²) memory.
Tensor attention_matrix(const AttentionMethod& method, const AttentionInputs& inputs);

/// |x − y| / |y| (Frobenius) of each head, over the tokens of a batch of one: x, y [1, h, n, d] → h
/// numbers.
std::vector<double> relative_errors(const Tensor& x, const Tensor& y, const SequenceMask& mask);

/// |A Z A − A| / |A| of each matrix, for Z after 0 … `iterations` steps of the iterative inverse:
/// [1, h, m, m] → [iterations + 1][h]. An inverse gives 0; but so does, nearly, no step at all
/// where A is almost of rank one, as near initialisation.
std::vector<std::vector<double>> inverse_residuals(const Tensor& matrices, std::int64_t iterations);

/// −Σ p log p of each query's attention, in nats, mean over the tokens of a batch of one: matrix
/// [1, h, n, n] → h numbers. The logarithm of the number of tokens would mean: all alike.
std::vector<double> attention_entropies(const Tensor& matrix, const SequenceMask& mask);

}  // namespace nystrom
