// The HDF5 library, as far as the reader and the writer of HDF5 files share it.
#pragma once

#include <hdf5.h>

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "data/hdf5/hdf5.h"

namespace nystrom {

/// A lock to hold while the library runs, because not all of its builds are thread-safe. The first
/// one also sets the library up: no plugins, no work at exit, and h5py's filter LZF. Each forgets
/// read_error().
[[nodiscard]] std::unique_lock<std::mutex> lock_library();

/// An identifier of the library, closed with its owner, who holds the lock.
class Id {
 public:
  using Close = herr_t (*)(hid_t);

  Id() = default;
  Id(hid_t id, Close closing) : id_(id), close_(closing) {}
  Id(Id&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Id& operator=(Id&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Id() { close(); }

  hid_t get() const { return id_; }
  bool valid() const { return id_ >= 0; }
  /// Closes now. Returns false on failure, as on a full disk.
  bool close() { return id_ < 0 || close_(std::exchange(id_, -1)) >= 0; }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// The library's name of a type.
hid_t library_type(StoredInteger type);

/// A filter that the chunks of an array are packed with.
struct Filter {
  H5Z_filter_t id;
  std::vector<unsigned> parameters;
};

/// Gives the library h5py's filter LZF. Returns whether it took it.
bool register_lzf();
/// The filters of an array's chunks, in the order of packing. Throws an InputError for a filter
/// that is missing; `where` names the array.
std::vector<Filter> filters_of(hid_t creation, const std::string& where);
/// Whether there is scale-offset, n-bit or szip. The library's code for them fails on some damaged
/// data.
bool has_fragile(std::span<const Filter> filters);
/// How many bytes a stored chunk unpacks to, as far as that can be told from its bytes. Numbers
/// above `chunk_bytes` are not exact. A set bit of `skipped` says that a filter was left out.
std::size_t unpacked_bytes(std::span<const Filter> filters, std::span<const std::byte> stored,
                           std::uint32_t skipped, std::size_t chunk_bytes);

/// How the library opens a file that it reads through `input`, which stays open with the file. The
/// file is read anew although it is open already. The caller holds the lock, and `input` until
/// then.
Id access_through(const std::shared_ptr<const InputFile>& input);

/// The error of InputFile within the library in this thread since the last lock: the cause where
/// one of its functions failed.
std::exception_ptr& read_error();

/// Why the library's last function failed: the system's reason, else the library's innermost one.
std::string library_reason();

}  // namespace nystrom
