#include "data/hdf5/hdf5_library.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

namespace nystrom {
namespace {

static_assert(std::endian::native == std::endian::little,
              "stored integers are used as they lie in the file");

/// The library would close at exit what it believes to be open: after a write to a full disk that
/// is memory which it freed (HDF5 1.10). Only before its first use can this be turned off.
[[maybe_unused]] const bool nothing_at_exit = H5dont_atexit() >= 0;

/// Unpacks LZF: runs of bytes, and references to bytes before. Returns the number of bytes, 0 for
/// damaged input.
std::size_t unpack_lzf(const unsigned char* packed, std::size_t bytes, unsigned char* unpacked,
                       std::size_t room) {
  std::size_t at = 0, done = 0;
  while (at < bytes) {
    const unsigned control = packed[at++];
    if (control < 32) {
      const std::size_t length = control + 1;
      if (length > bytes - at || length > room - done) return 0;
      std::memcpy(unpacked + done, packed + at, length);
      at += length;
      done += length;
      continue;
    }
    std::size_t length = (control >> 5) + 2;
    if (length == 9 && at < bytes) length += packed[at++];
    if (at == bytes) return 0;
    const std::size_t distance = ((control & 31) << 8 | packed[at++]) + 1;
    if (distance > done || length > room - done) return 0;
    for (; length > 0; --length, ++done) unpacked[done] = unpacked[done - distance];
  }
  return done;
}

/// The filter of h5py's compression="lzf", which the library itself lacks. Its third parameter is
/// the size of a chunk.
std::size_t lzf_filter(unsigned flags, std::size_t parameters, const unsigned* values,
                       std::size_t bytes, std::size_t* capacity, void** buffer) {
  if ((flags & H5Z_FLAG_REVERSE) == 0 || parameters < 3) return 0;
  constexpr std::size_t most = 88;  // 3 bytes give at most 264
  const std::size_t room = std::min<std::size_t>(values[2], most * bytes);
  auto* unpacked = static_cast<unsigned char*>(H5allocate_memory(room, false));
  if (unpacked == nullptr) return 0;
  const std::size_t size =
      unpack_lzf(static_cast<const unsigned char*>(*buffer), bytes, unpacked, room);
  if (size == 0) {
    H5free_memory(unpacked);
    return 0;
  }
  H5free_memory(*buffer);
  *buffer = unpacked;
  *capacity = room;
  return size;
}

bool set_up() {
  H5dont_atexit();
  H5PLset_loading_state(0);
  const H5Z_class2_t lzf{H5Z_CLASS_T_VERS, 32000, 0, 1, "lzf", nullptr, nullptr, lzf_filter};
  return H5Zregister(&lzf) >= 0;
}

std::mutex& library_mutex() {
  static auto* const instance = new std::mutex;
  return *instance;
}

/// Of the library's error stack: the innermost entry, and the first with the system's message: "…,
/// error message = 'No space left on device', …".
struct Reasons {
  std::string innermost, system;
};

herr_t add_reason(unsigned, const H5E_error2_t* entry, void* result) {
  auto& reasons = *static_cast<Reasons*>(result);
  const std::string_view text = entry->desc == nullptr ? "" : entry->desc,
                         mark = "error message = '";
  if (reasons.innermost.empty()) reasons.innermost = text;
  const auto begin = text.find(mark);
  if (begin == std::string_view::npos || !reasons.system.empty()) return 0;
  const auto tail = text.substr(begin + mark.size());
  reasons.system = tail.substr(0, tail.find('\''));
  return 0;
}

}  // namespace

LibraryLock::LibraryLock() : lock_(library_mutex()) {
  static const bool ready = set_up();
  static_cast<void>(ready);
  read_error() = nullptr;
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // no output by the library in this thread
}

std::int64_t size_of(StoredInteger type) { return std::int64_t{1} << static_cast<int>(type); }

const char* name_of(StoredInteger type) {
  static constexpr const char* names[] = {"u8", "u16", "u32", "u64"};
  return names[static_cast<int>(type)];
}

hid_t library_type(StoredInteger type) {
  switch (type) {
    case StoredInteger::u8: return H5T_STD_U8LE;
    case StoredInteger::u16: return H5T_STD_U16LE;
    case StoredInteger::u32: return H5T_STD_U32LE;
    case StoredInteger::u64: return H5T_STD_U64LE;
  }
  return -1;
}

std::string library_reason() {
  Reasons reasons;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, add_reason, &reasons);
  return reasons.system.empty() ? reasons.innermost : reasons.system;
}

}  // namespace nystrom
