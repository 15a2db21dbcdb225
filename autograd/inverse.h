// How Nyström attention inverts its landmark matrix.
#pragma once

namespace nystrom {

/// The inverse of the landmark matrix: by iteration, by SVD, or none.
enum class Inverse { iterative, exact, identity };

}  // namespace nystrom
