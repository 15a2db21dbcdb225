// The filters that chunks of HDF5 files are packed with.
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/hdf5/hdf5_library.h"

namespace nystrom {
namespace {

constexpr H5Z_filter_t lzf = 32000;  // as registered with the HDF Group
constexpr std::size_t checksum_bytes = 4;

/// Unpacks LZF: runs of bytes, and references to bytes before. Without `unpacked` it only counts.
/// Returns the number of bytes, 0 for damaged input.
std::size_t unpack_lzf(std::span<const std::byte> packed, std::byte* unpacked, std::size_t room) {
  const auto byte = [&](std::size_t at) { return std::to_integer<unsigned>(packed[at]); };
  std::size_t at = 0, done = 0;
  while (at < packed.size()) {
    const unsigned control = byte(at++);
    if (control < 32) {
      const std::size_t length = control + 1;
      if (length > packed.size() - at || length > room - done) return 0;
      if (unpacked != nullptr) std::memcpy(unpacked + done, packed.data() + at, length);
      at += length;
      done += length;
      continue;
    }
    std::size_t length = (control >> 5) + 2;
    if (length == 9 && at < packed.size()) length += byte(at++);
    if (at == packed.size()) return 0;
    const std::size_t distance = ((control & 31) << 8 | byte(at++)) + 1;
    if (distance > done || length > room - done) return 0;
    if (unpacked != nullptr)
      for (std::size_t i = done; i < done + length; ++i) unpacked[i] = unpacked[i - distance];
    done += length;
  }
  return done;
}

/// The room that LZF needs for a chunk of `chunk_bytes`, to which other filters may have added.
std::size_t lzf_room(std::size_t chunk_bytes, std::size_t packed_bytes) {
  constexpr std::size_t ratio = 88;  // 3 bytes give at most 264
  return std::min(chunk_bytes + 64, ratio * packed_bytes);
}

/// The filter of h5py's compression="lzf", which the library itself lacks. Its third parameter is
/// the size of a chunk.
std::size_t lzf_filter(unsigned flags, std::size_t parameters, const unsigned* values,
                       std::size_t bytes, std::size_t* capacity, void** buffer) {
  if ((flags & H5Z_FLAG_REVERSE) == 0 || parameters < 3) return 0;
  const std::size_t room = lzf_room(values[2], bytes);
  auto* unpacked = static_cast<std::byte*>(H5allocate_memory(room, false));
  if (unpacked == nullptr) return 0;
  const std::size_t size =
      unpack_lzf({static_cast<const std::byte*>(*buffer), bytes}, unpacked, room);
  if (size == 0) {
    H5free_memory(unpacked);
    return 0;
  }
  H5free_memory(*buffer);
  *buffer = unpacked;
  *capacity = room;
  return size;
}

/// The number of bytes that a zlib stream unpacks to, or more than `enough`; 0 for a damaged one.
std::size_t gzip_bytes(std::span<const std::byte> packed, std::size_t enough) {
  z_stream stream{};
  if (::inflateInit(&stream) != Z_OK) throw Error("zlib cannot start");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());  // below 2^32, as in the file
  Bytef scratch[1 << 15];
  int result = Z_OK;
  while (result == Z_OK && stream.total_out <= enough) {
    stream.next_out = scratch;
    stream.avail_out = sizeof(scratch);
    result = ::inflate(&stream, Z_NO_FLUSH);
  }
  ::inflateEnd(&stream);
  return result == Z_OK || result == Z_STREAM_END ? stream.total_out : 0;
}

bool is_fragile(H5Z_filter_t filter) {
  return filter == H5Z_FILTER_SZIP || filter == H5Z_FILTER_NBIT || filter == H5Z_FILTER_SCALEOFFSET;
}

}  // namespace

bool register_lzf() {
  const H5Z_class2_t filter{H5Z_CLASS_T_VERS, lzf, 0, 1, "lzf", nullptr, nullptr, lzf_filter};
  return H5Zregister(&filter) >= 0;
}

std::vector<Filter> filters_of(hid_t creation, const std::string& where) {
  std::vector<Filter> filters;
  for (int i = 0; i < H5Pget_nfilters(creation); ++i) {
    unsigned flags = 0, values[8] = {};
    std::size_t count = std::size(values);
    char name[64] = "";
    const H5Z_filter_t filter = H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &count,
                                               values, sizeof(name), name, nullptr);
    require_input(filter >= 0 && H5Zfilter_avail(filter) > 0,
                  "{}: packed with filter {} ({}), which is not built in; write it with "
                  "compression='gzip'",
                  where, filter, name[0] != '\0' ? printable(name) : "without a name");
    filters.push_back({filter, {values, values + std::size(values)}});
  }
  return filters;
}

bool has_fragile(std::span<const Filter> filters) {
  return std::ranges::any_of(filters, is_fragile, &Filter::id);
}

std::size_t unpacked_bytes(std::span<const Filter> filters, std::span<const std::byte> stored,
                           std::uint32_t skipped, std::size_t chunk_bytes) {
  std::size_t bytes = stored.size();
  const std::size_t enough = chunk_bytes + checksum_bytes * filters.size();
  bool as_stored = true;  // these bytes are the first of `stored`
  for (std::size_t i = filters.size(); i-- > 0;) {
    if ((skipped >> i & 1) != 0) continue;
    const auto& [id, parameters] = filters[i];
    const std::span input = stored.first(as_stored ? bytes : 0);
    const std::size_t declared = std::size_t{parameters[2]} * parameters[4];  // elements, size
    if (id == H5Z_FILTER_FLETCHER32) {
      bytes -= std::min(bytes, checksum_bytes);
      continue;
    }
    if (id == H5Z_FILTER_DEFLATE) bytes = gzip_bytes(input, enough);
    if (id == lzf) bytes = unpack_lzf(input, nullptr, lzf_room(chunk_bytes, input.size()));
    if (id == H5Z_FILTER_SCALEOFFSET) bytes = declared;
    if (id == H5Z_FILTER_NBIT && parameters[1] == 0) bytes = declared;
    if (id == H5Z_FILTER_SZIP) {  // begins with the size
      std::uint32_t size = 0;
      if (input.size() >= sizeof(size)) std::memcpy(&size, input.data(), sizeof(size));
      bytes = size;
    }
    as_stored = false;
  }
  return bytes;
}

}  // namespace nystrom
