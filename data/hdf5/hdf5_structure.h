// The structure of the HDF5 files that hdf5.h reads: superblock 3, one group, arrays with fixed
// array indexes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/hdf5/hdf5.h"

namespace nystrom {

/// All arrays of the file. Their positions are checked against its size. Throws an InputError for
/// everything that the writer does not produce.
std::vector<Hdf5Array> read_hdf5_structure(const InputFile& file);

/// Bob Jenkins' lookup3, the checksum of HDF5's blocks.
std::uint32_t hdf5_block_checksum(std::span<const std::byte> bytes);
/// HDF5's variant of Fletcher's checksum, which the filter fletcher32 adds to chunks.
std::uint32_t hdf5_fletcher32(std::span<const std::byte> bytes);

}  // namespace nystrom
