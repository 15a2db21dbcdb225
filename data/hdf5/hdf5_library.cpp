#include "data/hdf5/hdf5_library.h"

#include <bit>
#include <string_view>

namespace nystrom {
namespace {

static_assert(std::endian::native == std::endian::little,
              "stored integers are used as they lie in the file");

/// The library would close at exit what it believes to be open: after a write to a full disk that
/// is memory which it freed (HDF5 1.10). Only before its first use can this be turned off.
[[maybe_unused]] const bool nothing_at_exit = H5dont_atexit() >= 0;

bool set_up() {
  H5dont_atexit();
  H5PLset_loading_state(0);
  return register_lzf();
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

std::unique_lock<std::mutex> lock_library() {
  static auto* const mutex = new std::mutex;  // never destroyed: threads may run at exit
  std::unique_lock lock(*mutex);
  static const bool ready = set_up();
  static_cast<void>(ready);
  read_error() = nullptr;
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // no output by the library in this thread
  return lock;
}

std::int64_t size_of(StoredInteger type) { return std::int64_t{1} << static_cast<int>(type); }

const char* name_of(StoredInteger type) {
  static constexpr const char* names[] = {"u8", "u16", "u32", "u64"};
  return names[static_cast<int>(type)];
}

hid_t library_type(StoredInteger type) {
  const hid_t types[] = {H5T_STD_U8LE, H5T_STD_U16LE, H5T_STD_U32LE, H5T_STD_U64LE};
  return types[static_cast<int>(type)];
}

std::string library_reason() {
  Reasons reasons;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, add_reason, &reasons);
  return reasons.system.empty() ? reasons.innermost : reasons.system;
}

}  // namespace nystrom
