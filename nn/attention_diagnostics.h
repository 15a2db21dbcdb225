// Measures of the quality of a layer's approximation. The inputs come from
// RunContext::observe_attention, one sequence at a time and without padding.
#pragma once

#include "nn/nystrom.h"

namespace nystrom {

/// The matrix [1, h, n, n] that `method` applies to a batch of one, computed with unit vectors as
/// values. O(n²) memory.
Tensor attention_matrix(const AttentionMethod& method, const AttentionInputs& inputs);

/// The relative error |x − y| / |y| for |x − y| and |y|: 0 where both are 0, as of a head whose
/// values are 0.
double relative_error(double difference, double size);

/// The relative error |x − y| / |y| (Frobenius) of each head: x, y [1, h, n, d] → h numbers.
std::vector<double> relative_errors(const Tensor& x, const Tensor& y);

/// The residual |A Z A − A| / |A| of each matrix, for Z after 0 … `iterations` steps of the
/// iterative inverse: [1, h, m, m] → [iterations + 1][h]. It is 0 for an inverse. If A has almost
/// rank one, as near initialisation, it is almost 0 even before the first step.
std::vector<std::vector<double>> inverse_residuals(const Tensor& matrices, std::int64_t iterations);

/// The entropy −Σ p log p of each query's attention, in nats, averaged over the queries: [1, h, n,
/// n] → h numbers. The maximum, log n, means uniform attention.
std::vector<double> attention_entropies(const Tensor& matrix);

}  // namespace nystrom
