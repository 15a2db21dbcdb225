#include "data/hdf5/hdf5.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/hdf5/hdf5_structure.h"

namespace nystrom {
namespace {

static_assert(std::endian::native == std::endian::little,
              "stored integers are used as they lie in the file");

/// Reverses the filter shuffle, which stores the first bytes of all elements, then all second
/// bytes, and so on.
template <std::size_t width>
void unshuffle(const std::byte* planes, std::size_t count, std::byte* elements) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t plane = 0; plane < width; ++plane)
      elements[i * width + plane] = planes[plane * count + i];
  }
}

std::vector<std::byte> unshuffle(const std::vector<std::byte>& bytes, StoredInteger type) {
  std::vector<std::byte> result(bytes.size());
  const std::size_t count = bytes.size() / static_cast<std::size_t>(size_of(type));
  switch (type) {
    case StoredInteger::u8: return bytes;
    case StoredInteger::u16: unshuffle<2>(bytes.data(), count, result.data()); break;
    case StoredInteger::u32: unshuffle<4>(bytes.data(), count, result.data()); break;
    case StoredInteger::u64: unshuffle<8>(bytes.data(), count, result.data()); break;
  }
  return result;
}

std::uint32_t rotate(std::uint32_t x, int k) { return std::rotl(x, k); }

}  // namespace

std::int64_t size_of(StoredInteger type) { return std::int64_t{1} << static_cast<int>(type); }

const char* name_of(StoredInteger type) {
  static constexpr const char* names[] = {"u8", "u16", "u32", "u64"};
  return names[static_cast<int>(type)];
}

std::uint32_t hdf5_block_checksum(std::span<const std::byte> bytes) {
  std::uint32_t state[3];
  std::fill(std::begin(state), std::end(state),
            0xdeadbeefu + static_cast<std::uint32_t>(bytes.size()));
  auto& [a, b, c] = state;
  const auto add = [&](std::span<const std::byte> part) {
    for (std::size_t i = 0; i < part.size(); ++i)
      state[i / 4] += std::to_integer<std::uint32_t>(part[i]) << (8 * (i % 4));
  };
  while (bytes.size() > 12) {
    add(bytes.first(12));
    a -= c, a ^= rotate(c, 4), c += b;
    b -= a, b ^= rotate(a, 6), a += c;
    c -= b, c ^= rotate(b, 8), b += a;
    a -= c, a ^= rotate(c, 16), c += b;
    b -= a, b ^= rotate(a, 19), a += c;
    c -= b, c ^= rotate(b, 4), b += a;
    bytes = bytes.subspan(12);
  }
  if (bytes.empty()) return c;
  add(bytes);
  c ^= b, c -= rotate(b, 14);
  a ^= c, a -= rotate(c, 11);
  b ^= a, b -= rotate(a, 25);
  c ^= b, c -= rotate(b, 16);
  a ^= c, a -= rotate(c, 4);
  b ^= a, b -= rotate(a, 14);
  c ^= b, c -= rotate(b, 24);
  return c;
}

std::uint32_t hdf5_fletcher32(std::span<const std::byte> bytes) {
  constexpr std::size_t block_words = 360;  // the sums cannot overflow within a block
  const auto fold = [](std::uint32_t sum) { return (sum & 0xffff) + (sum >> 16); };
  const auto* next = reinterpret_cast<const unsigned char*>(bytes.data());
  std::uint32_t first = 0, second = 0;
  for (std::size_t words = bytes.size() / 2; words > 0;) {
    const std::size_t block = std::min(words, block_words);
    for (std::size_t i = 0; i < block; ++i, next += 2) {
      first += static_cast<std::uint32_t>(next[0] << 8 | next[1]);
      second += first;
    }
    first = fold(first);
    second = fold(second);
    words -= block;
  }
  if (bytes.size() % 2 == 1) {
    first += static_cast<std::uint32_t>(*next << 8);
    second += first;
    first = fold(first);
    second = fold(second);
  }
  return fold(second) << 16 | fold(first);
}

Hdf5File::Hdf5File(InputFile file) : file_(std::move(file)), arrays_(read_hdf5_structure(file_)) {}

const Hdf5Array& Hdf5File::array(const std::string& name, StoredInteger type) const {
  const auto found = std::find_if(arrays_.begin(), arrays_.end(),
                                  [&](const Hdf5Array& array) { return array.name == name; });
  require_input(found != arrays_.end(), "{}: has no array {}", printable_path(path()), name);
  require_input(found->type == type, "{}: array {} holds {}; {} expected", printable_path(path()),
                name, name_of(found->type), name_of(type));
  return *found;
}

std::vector<std::byte> Hdf5File::read_chunk(const Hdf5Array& array, std::int64_t index) const {
  require(index >= 0 && index < static_cast<std::int64_t>(array.chunks.size()),
          "Hdf5File: array {} has no chunk {}", array.name, index);
  const Hdf5Array::Chunk place = array.chunks[static_cast<std::size_t>(index)];
  const auto where = [&] {
    return fmt::format("{}: array {}, chunk {}", printable_path(path()), printable(array.name),
                       index);
  };
  std::vector<std::byte> stored(static_cast<std::size_t>(place.bytes));
  file_.read(stored, place.address);
  std::uint32_t checksum;
  std::memcpy(&checksum, stored.data() + stored.size() - 4, 4);
  stored.resize(stored.size() - 4);
  if (hdf5_fletcher32(stored) != checksum)
    throw InputError(where() + " does not fit its checksum: the file is damaged");
  std::vector<std::byte> shuffled(static_cast<std::size_t>(array.chunk_bytes()));
  uLongf length = shuffled.size();
  const int result = ::uncompress(reinterpret_cast<Bytef*>(shuffled.data()), &length,
                                  reinterpret_cast<const Bytef*>(stored.data()), stored.size());
  if (result == Z_MEM_ERROR) throw Error("out of memory while reading " + where());
  if (result != Z_OK || length != shuffled.size())
    throw InputError(where() + " cannot be unpacked: the file is damaged");
  std::vector<std::byte> rows = unshuffle(shuffled, array.type);
  const std::int64_t count = std::min(array.chunk_rows, array.rows - index * array.chunk_rows);
  rows.resize(static_cast<std::size_t>(count * size_of(array.type)));
  return rows;
}

void Hdf5File::read(const Hdf5Array& array, std::int64_t first, std::span<std::byte> values) const {
  const std::int64_t width = size_of(array.type),
                     count = static_cast<std::int64_t>(values.size()) / width;
  require(first >= 0 && first <= array.rows && count <= array.rows - first &&
              count * width == static_cast<std::int64_t>(values.size()),
          "Hdf5File: array {} has no {} rows from {} on", array.name, count, first);
  while (!values.empty()) {
    const std::int64_t index = first / array.chunk_rows, skip = first % array.chunk_rows;
    const std::vector<std::byte> chunk = read_chunk(array, index);
    const auto part = std::span(chunk).subspan(static_cast<std::size_t>(skip * width));
    const std::size_t bytes = std::min(part.size(), values.size());
    std::memcpy(values.data(), part.data(), bytes);
    values = values.subspan(bytes);
    first += static_cast<std::int64_t>(bytes) / width;
  }
}

}  // namespace nystrom
