// The header of a NumPy file (.npy), formats 1.0 to 3.0.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace nystrom {

/// The array of a file.
struct NpyHeader {
  DType dtype = DType::f32;         ///< f16, f32 or f64
  std::vector<std::int64_t> shape;  ///< in C order; sizes beyond 10^12 are refused
  std::int64_t begin = 0;           ///< the place of its first byte
};

/// Enough of a file's beginning to hold its header.
inline constexpr std::int64_t max_npy_header = 4096;

/// Parses the header in `head`, the first max_npy_header bytes of a file or all of a shorter one.
/// Throws an InputError, without the name of the file, for what is no npy file and for arrays of
/// other types or orders; it says how NumPy writes those that are read.
NpyHeader parse_npy_header(std::string_view head);

}  // namespace nystrom
