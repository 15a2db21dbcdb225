// The index of chunks: "HDF5 File Format Specification Version 3.0", VII.C "The Fixed Array Index".
#include <algorithm>

#include "core/base/printable.h"
#include "data/hdf5/hdf5_block.h"
#include "data/hdf5/hdf5_structure.h"

namespace nystrom {
namespace {

constexpr std::int64_t max_index_bytes = std::int64_t{256} << 20;

/// The header of a fixed array.
struct FixedArray {
  std::uint64_t entry_bytes, page_entries, entries, block_address;
};

FixedArray read_fixed_array(const InputFile& file, std::uint64_t address, const std::string& what) {
  const Block block = read_block(file, address, 28, what, true);
  Cursor cursor = block.cursor();
  cursor.signature("FAHD");
  cursor.expect(1, 0, "version of the chunk index");
  cursor.expect(1, 1, "client of the chunk index");
  FixedArray index{};
  index.entry_bytes = cursor.number(1);
  const std::uint64_t page_bits = cursor.number(1);
  index.entries = cursor.number(8);
  index.block_address = cursor.number(8);
  require_input(index.entry_bytes >= 13 && index.entry_bytes <= 20 && page_bits <= 24,
                "{}: entries of {} bytes in pages of 2^{}", block.where, index.entry_bytes,
                page_bits);
  require_input(index.entries <= static_cast<std::uint64_t>(max_index_bytes) / index.entry_bytes,
                "{}: {} entries are too many", block.where, index.entries);
  index.page_entries = std::uint64_t{1} << page_bits;
  return index;
}

/// One entry of the index: the position of a chunk.
Hdf5Array::Chunk read_entry(Cursor& cursor, std::uint64_t entry_bytes, const InputFile& file,
                            std::int64_t chunk_bytes) {
  const auto size = static_cast<std::uint64_t>(file.size());
  const std::uint64_t address = cursor.number(8),
                      stored = cursor.number(static_cast<std::size_t>(entry_bytes - 12));
  require_input(address != undefined_hdf5_address, "{}: a chunk is missing", cursor.where());
  require_input(stored <= size && address <= size - stored, "{}: a chunk lies outside of the file",
                cursor.where());
  // zlib adds 5 bytes to 16 KiB of incompressible data.
  require_input(
      stored > 4 && stored <= static_cast<std::uint64_t>(chunk_bytes + chunk_bytes / 512 + 64),
      "{}: a chunk of {} stored bytes", cursor.where(), stored);
  require_input(cursor.number(4) == 0, "{}: a chunk without its filters", cursor.where());
  return {static_cast<std::int64_t>(address), static_cast<std::int64_t>(stored)};
}

}  // namespace

Block read_block(const InputFile& file, std::uint64_t address, std::int64_t count,
                 const std::string& what, bool checksummed) {
  Block block{{}, fmt::format("{}: {}", printable_path(file.path()), what)};
  const auto size = static_cast<std::uint64_t>(file.size());
  require_input(address <= size && static_cast<std::uint64_t>(count) <= size - address,
                "{} lies outside of the file of {} bytes: it is cut short or damaged", block.where,
                size);
  block.bytes.resize(static_cast<std::size_t>(count));
  file.read(block.bytes, static_cast<std::int64_t>(address));
  if (!checksummed) return block;
  const auto body = std::span(block.bytes).first(block.bytes.size() - 4);
  Cursor stored(std::span(block.bytes).last(4), block.where);
  require_input(stored.number(4) == hdf5_block_checksum(body),
                "{} does not fit its checksum: the file is damaged", block.where);
  block.bytes.resize(body.size());
  return block;
}

std::vector<Hdf5Array::Chunk> read_chunk_index(const InputFile& file, const ChunkLayout& layout,
                                               const Hdf5Array& array, const std::string& what) {
  require_input(layout.index_address != undefined_hdf5_address, "{}: {}: no row was written",
                printable_path(file.path()), what);
  const FixedArray index = read_fixed_array(file, layout.index_address, what + ", chunk index");
  const auto count =
      static_cast<std::uint64_t>((array.rows + array.chunk_rows - 1) / array.chunk_rows);
  const std::string name = what + ", chunk list";
  const std::uint64_t pages = index.entries > index.page_entries
                                  ? (index.entries + index.page_entries - 1) / index.page_entries
                                  : 0;
  const std::uint64_t prefix = 14 + (pages + 7) / 8, whole = index.entries * index.entry_bytes;
  const Block block =
      read_block(file, index.block_address,
                 static_cast<std::int64_t>(prefix + (pages == 0 ? whole : 0) + 4), name, true);
  Cursor cursor = block.cursor();
  cursor.signature("FADB");
  cursor.expect(1, 0, "version of the chunk list");
  cursor.expect(1, 1, "client of the chunk list");
  require_input(cursor.number(8) == layout.index_address && count <= index.entries,
                "{} does not belong to its index: the file is damaged", block.where);
  std::vector<Hdf5Array::Chunk> chunks;
  if (pages == 0) {
    while (chunks.size() < count)
      chunks.push_back(read_entry(cursor, index.entry_bytes, file, array.chunk_bytes()));
    return chunks;
  }
  // Consecutive pages, each with a checksum. The last one is shorter.
  for (std::uint64_t address = index.block_address + prefix + 4; chunks.size() < count;) {
    const std::uint64_t entries = std::min(index.page_entries, index.entries - chunks.size());
    const auto bytes = static_cast<std::int64_t>(entries * index.entry_bytes + 4);
    const Block page = read_block(file, address, bytes, name, true);
    Cursor entry = page.cursor();
    for (std::uint64_t i = 0; i < entries && chunks.size() < count; ++i) {
      chunks.push_back(read_entry(entry, index.entry_bytes, file, array.chunk_bytes()));
    }
    address += static_cast<std::uint64_t>(bytes);
  }
  return chunks;
}

}  // namespace nystrom
