// The filters that chunks of HDF5 files are packed with.
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nystrom {

/// Gives the library h5py's filter LZF. Returns whether it took it.
bool register_lzf();

/// The filters of an array's chunks, in the order of packing.
class Filters {
 public:
  /// Throws an InputError for a filter that is missing; `where` names the array.
  Filters(hid_t creation, const std::string& where);

  bool empty() const { return filters_.empty(); }
  /// Whether there is scale-offset, n-bit or szip. The library's code for them fails on some
  /// damaged data.
  bool has_fragile() const;
  /// How many bytes a stored chunk unpacks to, as far as that can be told from its bytes. Numbers
  /// above `chunk_bytes` are not exact. A set bit of `skipped` says that a filter was left out.
  std::size_t unpacked_bytes(std::span<const std::byte> stored, std::uint32_t skipped,
                             std::size_t chunk_bytes) const;

 private:
  struct Filter {
    H5Z_filter_t id;
    std::vector<unsigned> parameters;
  };
  std::vector<Filter> filters_;
};

}  // namespace nystrom
