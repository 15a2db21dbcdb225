// The structure of the one form of HDF5 files that is read here: superblock 3, one group, arrays
// indexed by fixed arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/hdf5/hdf5.h"

namespace nystrom {

/// All arrays of the file, their places checked against its size. InputError for everything that
/// the writer does not make.
std::vector<Hdf5Array> read_hdf5_structure(const InputFile& file);

/// Bob Jenkins' lookup3, with which HDF5 protects its blocks.
std::uint32_t hdf5_block_checksum(std::span<const std::byte> bytes);
/// HDF5's form of Fletcher's checksum, with which the filter fletcher32 protects chunks.
std::uint32_t hdf5_fletcher32(std::span<const std::byte> bytes);

}  // namespace nystrom
