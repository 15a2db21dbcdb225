#include "data/hdf5/hdf5_classic.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/hdf5/hdf5_structure.h"

namespace nystrom {
namespace {

template <class T>
void convert(const std::byte* bytes, std::span<double> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
}

template <class Small, class Medium, class Large, class Largest>
void convert_integers(std::int64_t width, const std::byte* bytes, std::span<double> values) {
  switch (width) {
    case 1: return convert<Small>(bytes, values);
    case 2: return convert<Medium>(bytes, values);
    case 4: return convert<Large>(bytes, values);
    default: return convert<Largest>(bytes, values);
  }
}

void convert(const ClassicArray& array, const std::byte* bytes, std::span<double> values) {
  switch (array.kind) {
    case StoredNumber::floating:
      return array.element_bytes == 4 ? convert<float>(bytes, values)
                                      : convert<double>(bytes, values);
    case StoredNumber::signed_integer:
      return convert_integers<std::int8_t, std::int16_t, std::int32_t, std::int64_t>(
          array.element_bytes, bytes, values);
    case StoredNumber::unsigned_integer:
      return convert_integers<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>(
          array.element_bytes, bytes, values);
  }
}

}  // namespace

std::int64_t ClassicArray::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

std::string ClassicArray::type() const {
  const char letter = kind == StoredNumber::floating         ? 'f'
                      : kind == StoredNumber::signed_integer ? 'i'
                                                             : 'u';
  return letter + std::to_string(8 * element_bytes);
}

ClassicHdf5File::ClassicHdf5File(InputFile file)
    : file_(std::move(file)), arrays_(read_classic_structure(file_)) {}

const ClassicArray* ClassicHdf5File::find(const std::string& name) const {
  const auto found = std::ranges::find(arrays_, name, &ClassicArray::name);
  return found == arrays_.end() ? nullptr : &*found;
}

ClassicHdf5File::Bytes ClassicHdf5File::read_chunk(const ClassicArray& array,
                                                   const ClassicArray::Chunk& place) const {
  const auto where = [&] {
    return fmt::format("{}: {}: a chunk", printable_path(path()), printable(array.name));
  };
  std::int64_t whole = array.element_bytes;
  for (const std::int64_t size : array.chunk_shape) whole *= size;
  Bytes bytes(static_cast<std::size_t>(place.bytes));
  file_.read(bytes, place.address);
  for (auto filter = array.filters.rbegin(); filter != array.filters.rend(); ++filter) {
    if (*filter == 3) {
      std::uint32_t checksum = 0;
      require_input(bytes.size() >= 4, "{} is too short: the file is damaged", where());
      std::memcpy(&checksum, bytes.data() + bytes.size() - 4, 4);
      bytes.resize(bytes.size() - 4);
      require_input(hdf5_fletcher32(bytes) == checksum,
                    "{} does not fit its checksum: the file is damaged", where());
    } else if (*filter == 1) {
      // The decompressed data may include a checksum of 4 bytes.
      Bytes unpacked(static_cast<std::size_t>(whole) + 4);
      uLongf length = unpacked.size();
      const int result = ::uncompress(reinterpret_cast<Bytef*>(unpacked.data()), &length,
                                      reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
      require_input(result == Z_OK, "{} cannot be unpacked: the file is damaged", where());
      unpacked.resize(length);
      bytes = std::move(unpacked);
    } else {
      Bytes elements(bytes.size());
      const auto width = static_cast<std::size_t>(array.element_bytes),
                 count = bytes.size() / width;
      for (std::size_t i = 0; i < count; ++i)
        for (std::size_t plane = 0; plane < width; ++plane)
          elements[i * width + plane] = bytes[plane * count + i];
      std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(count * width), bytes.end(),
                elements.begin() + static_cast<std::ptrdiff_t>(count * width));
      bytes = std::move(elements);
    }
  }
  require_input(static_cast<std::int64_t>(bytes.size()) == whole,
                "{} has {} bytes, expected {}: the file is damaged", where(), bytes.size(), whole);
  return bytes;
}

std::shared_ptr<const ClassicHdf5File::Bytes> ClassicHdf5File::chunk(const ClassicArray& array,
                                                                     std::size_t index) const {
  const ClassicArray::Chunk& place = array.chunks[index];
  {
    const std::lock_guard lock(mutex_);
    if (auto known = cache_.find(place.address)) return known;
  }
  auto bytes = std::make_shared<const Bytes>(read_chunk(array, place));
  const std::lock_guard lock(mutex_);
  cache_.insert(place.address, bytes, static_cast<std::int64_t>(bytes->size()));
  return bytes;
}

void ClassicHdf5File::read(const ClassicArray& array, std::int64_t first,
                           std::span<double> values) const {
  const auto count = static_cast<std::int64_t>(values.size());
  require(first >= 0 && count <= array.elements() - first,
          "ClassicHdf5File: {} has no {} elements from {} on", array.name, count, first);
  if (array.chunk_shape.empty()) {
    Bytes bytes(static_cast<std::size_t>(count * array.element_bytes));
    file_.read(bytes, array.address + first * array.element_bytes);
    return convert(array, bytes.data(), values);
  }
  // Runs along the last axis within one chunk.
  const std::size_t rank = array.shape.size();
  std::vector<std::int64_t> at(rank), corner(rank);
  for (std::int64_t done = 0; done < count;) {
    std::int64_t rest = first + done;
    for (std::size_t axis = rank; axis-- > 0;) {
      at[axis] = rest % array.shape[axis];
      rest /= array.shape[axis];
      corner[axis] = at[axis] / array.chunk_shape[axis] * array.chunk_shape[axis];
    }
    const auto found =
        std::ranges::lower_bound(array.chunks, corner, {}, &ClassicArray::Chunk::first);
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < rank; ++axis)
      offset = offset * array.chunk_shape[axis] + at[axis] - corner[axis];
    const std::int64_t run =
        std::min({count - done, array.shape[rank - 1] - at[rank - 1],
                  corner[rank - 1] + array.chunk_shape[rank - 1] - at[rank - 1]});
    const auto bytes = chunk(array, static_cast<std::size_t>(found - array.chunks.begin()));
    convert(array, bytes->data() + offset * array.element_bytes,
            values.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(run)));
    done += run;
  }
}

}  // namespace nystrom
