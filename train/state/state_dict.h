// State dicts of PyTorch (torch.save), in the zip form and in the form of before PyTorch 1.6.
// Nothing in them is executed.
#pragma once

#include <string_view>
#include <vector>

#include "core/base/file_io.h"
#include "core/safetensors_header.h"

namespace nystrom {

/// The tensors of a state dict, whose positions count from the beginning of the file. Entries that
/// are numbers, strings or None are left out. Throws an InputError for anything that is not a state
/// dict of plain tensors: other functions and operations in its pickle (parse_pickle), nested
/// dicts, duplicate or invalid names, other types, compressed or encrypted entries, big-endian
/// files, and tensors that exceed or repeat their storage.
std::vector<StoredTensor> read_state_dict(const InputFile& file);

}  // namespace nystrom
