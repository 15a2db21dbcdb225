// Singular values of a matrix, for studies of attention.
#pragma once

#include <cstdint>
#include <vector>

namespace nystrom {

/// The singular values of a matrix [n, n] in f64, the largest first, with errors of about 1e-16
/// times the largest.
std::vector<double> singular_values(const double* matrix, std::int64_t n);

}  // namespace nystrom
