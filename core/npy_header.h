// The header of a NumPy file (.npy), formats 1.0 to 3.0.
#pragma once

#include "core/safetensors_header.h"

namespace nystrom {

/// The array of an open file, without a name: f16, f32 or f64 in C order, at its place in the file.
/// Throws an InputError, without the name of the file, for what is no npy file, for arrays of other
/// types or orders, where it says how NumPy writes those that are read, and for a file that is
/// shorter or longer than its array.
StoredTensor read_npy_header(const InputFile& file);

}  // namespace nystrom
