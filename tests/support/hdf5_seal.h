// Corrects the checksums of an edited HDF5 file, so that tests reach the code after the checksum
// tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "data/hdf5/hdf5_structure.h"

namespace nystrom::testing {

template <class T>
T number_at(const std::string& bytes, std::size_t at) {
  T value{};
  if (at <= bytes.size() && sizeof(T) <= bytes.size() - at)
    std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

/// Writes `value` at offset `at`. Does nothing when it does not fit.
template <class T>
void put_number(std::string& bytes, std::size_t at, T value) {
  if (at <= bytes.size() && sizeof(T) <= bytes.size() - at)
    std::memcpy(bytes.data() + at, &value, sizeof(T));
}

/// Writes the checksum of a block or a chunk after bytes[begin, begin + count).
inline void seal(std::string& bytes, std::size_t begin, std::size_t count, bool chunk = false) {
  if (begin > bytes.size() || count > bytes.size() - begin || bytes.size() - begin - count < 4)
    return;
  const auto part = std::as_bytes(std::span(bytes)).subspan(begin, count);
  put_number(bytes, begin + count, chunk ? hdf5_fletcher32(part) : hdf5_block_checksum(part));
}

/// Corrects the checksums of the chunks that `count` entries name, starting at `begin`.
inline void seal_chunks(std::string& bytes, std::size_t begin, std::size_t count,
                        std::size_t entry) {
  for (std::size_t i = 0; i < count && begin < bytes.size(); ++i, begin += entry) {
    const std::uint64_t kept = entry == 20 ? ~0ull : (1ull << (8 * (entry - 12))) - 1;
    const std::uint64_t size = number_at<std::uint64_t>(bytes, begin + 8) & kept;
    if (size >= 4) seal(bytes, number_at<std::uint64_t>(bytes, begin), size - 4, true);
  }
}

/// Corrects the index whose header starts at `at`: its entries, paged or not, and their chunks.
inline void seal_index(std::string& bytes, std::size_t at) {
  const std::size_t entry = number_at<std::uint8_t>(bytes, at + 6),
                    page_bits = number_at<std::uint8_t>(bytes, at + 7);
  const std::size_t count = number_at<std::uint64_t>(bytes, at + 8),
                    place = number_at<std::uint64_t>(bytes, at + 16);
  seal(bytes, at, 24);
  if (entry < 13 || entry > 20 || page_bits > 24 || place > bytes.size() ||
      count > bytes.size() / entry)
    return;
  const std::size_t page = std::size_t{1} << page_bits;
  if (count <= page) {
    seal_chunks(bytes, place + 14, count, entry);
    seal(bytes, place, 14 + count * entry);
    return;
  }
  const std::size_t prefix = 14 + ((count + page - 1) / page + 7) / 8;
  seal(bytes, place, prefix);
  for (std::size_t first = 0, begin = place + prefix + 4; first < count && begin < bytes.size();
       first += page) {
    const std::size_t entries = std::min(page, count - first);
    seal_chunks(bytes, begin, entries, entry);
    seal(bytes, begin, entries * entry);
    begin += entries * entry + 4;
  }
}

/// Corrects all blocks that have a signature.
inline void seal_all(std::string& bytes) {
  for (auto at = bytes.find("FAHD"); at != std::string::npos; at = bytes.find("FAHD", at + 1))
    seal_index(bytes, at);
  for (auto at = bytes.find("OHDR"); at != std::string::npos; at = bytes.find("OHDR", at + 1)) {
    const std::size_t width = std::size_t{1} << (number_at<std::uint8_t>(bytes, at + 5) & 3);
    const std::uint64_t size =
        number_at<std::uint64_t>(bytes, at + 6) & (width == 8 ? ~0ull : (1ull << (8 * width)) - 1);
    if (size < bytes.size()) seal(bytes, at, 6 + width + size);
  }
  seal(bytes, 0, 44);
}

}  // namespace nystrom::testing
