// "HDF5 File Format Specification Version 3.0" describes the layout of every block. Comments of
// functions give its section numbers.
#include "data/hdf5/hdf5_structure.h"

#include <bit>
#include <optional>
#include <set>

#include "core/base/printable.h"
#include "data/hdf5/hdf5_block.h"

namespace nystrom {
namespace {

constexpr std::int64_t max_rows = std::int64_t{1} << 40;
constexpr std::int64_t max_ratio = 1000;  // declared bytes to stored bytes
constexpr std::int64_t max_header_bytes = std::int64_t{64} << 10;

/// II.B "Superblock version 3": the address of the root group's header.
std::uint64_t read_superblock(const InputFile& file) {
  const std::string name = printable_path(file.path());
  require_input(file.size() >= 48, "{}: not an HDF5 file: {} bytes are too few", name, file.size());
  const Block start = read_block(file, 0, 9, "superblock", false);
  Cursor head = start.cursor();
  require_input(head.text(8) == "\x89HDF\r\n\x1a\n", "{}: not an HDF5 file", name);
  head.expect(1, 3, "version");
  const Block block = read_block(file, 0, 48, "superblock", true);
  Cursor cursor = block.cursor();
  cursor.take(9);
  cursor.expect(1, 8, "size of offsets");
  cursor.expect(1, 8, "size of lengths");
  require_input(cursor.number(1) == 0, "{}: the file was not closed by its writer", name);
  cursor.expect(8, 0, "base address");
  require_input(cursor.number(8) == undefined_hdf5_address,
                "{}: superblock extensions are not read", name);
  const std::uint64_t end = cursor.number(8);
  require_input(end == static_cast<std::uint64_t>(file.size()),
                "{}: the file has {} bytes, its superblock says {}: it is cut short or damaged",
                name, file.size(), end);
  return cursor.number(8);
}

struct Message {
  unsigned type;
  std::span<const std::byte> body;
};

/// An object header. Its messages point into it.
struct Header {
  Block block;
  std::vector<Message> messages;
};

/// IV.A.1.b "Version 2 Data Object Header Prefix".
Header read_header(const InputFile& file, std::uint64_t address, const std::string& what) {
  const Block prefix = read_block(file, address, 6, what, false);
  Cursor start = prefix.cursor();
  start.signature("OHDR");
  start.expect(1, 2, "version of the object header");
  const std::uint64_t flags = start.number(1);
  require_input(flags <= 3, "{}: object header flags {:#x} are not read", prefix.where, flags);
  const std::int64_t width = std::int64_t{1} << flags;
  const Block size_block = read_block(file, address + 6, width, what, false);
  const std::uint64_t size = size_block.cursor().number(static_cast<std::size_t>(width));
  require_input(size <= max_header_bytes, "{}: an object header of {} bytes; at most {} are read",
                prefix.where, size, max_header_bytes);
  Header header{
      read_block(file, address, 6 + width + static_cast<std::int64_t>(size) + 4, what, true), {}};
  Cursor cursor = header.block.cursor();
  cursor.take(static_cast<std::size_t>(6 + width));
  while (cursor.left() >= 4) {
    const auto type = static_cast<unsigned>(cursor.number(1));
    const auto length = static_cast<std::size_t>(cursor.number(2));
    require_input((cursor.number(1) & 2) == 0, "{}: shared header messages are not read",
                  header.block.where);
    header.messages.push_back({type, cursor.take(length)});
  }
  return header;
}

[[noreturn]] void refuse_message(unsigned type, const std::string& where) {
  switch (type) {
    case 0x01: throw InputError(where + ": a dataspace inside a group: the file is damaged");
    case 0x07: throw InputError(where + ": external storage is not read");
    case 0x0c:
    case 0x15: throw InputError(where + ": attributes are not read");
    case 0x10: throw InputError(where + ": an object header in several blocks is not read");
    case 0x16: throw InputError(where + ": objects with several links are not read");
    case 0x11: throw InputError(where + ": groups inside the file are not read");
    default:
      throw InputError(fmt::format("{}: header messages of type {:#x} are not read", where, type));
  }
}

struct Link {
  std::string name;
  std::uint64_t address;
};

/// IV.A.2.g "The Link Message".
Link read_link(Cursor cursor) {
  cursor.expect(1, 1, "version of a link");
  const std::uint64_t flags = cursor.number(1);
  const std::uint64_t kind = flags & 8 ? cursor.number(1) : 0;
  if (flags & 4) cursor.take(8);   // creation order
  if (flags & 16) cursor.take(1);  // character set
  const auto length = static_cast<std::size_t>(cursor.number(std::size_t{1} << (flags & 3)));
  const std::string name = cursor.text(length);
  require_input(kind != 1, "{}: {} is a soft link; only arrays are read", cursor.where(),
                printable(name));
  require_input(kind != 64, "{}: {} is an external link; only arrays are read", cursor.where(),
                printable(name));
  require_input(kind == 0, "{}: {} is a link of unknown kind {}", cursor.where(), printable(name),
                kind);
  return {name, cursor.number(8)};
}

std::vector<Link> read_root(const InputFile& file) {
  const Header header = read_header(file, read_superblock(file), "root group");
  const std::string& where = header.block.where;
  std::vector<Link> links;
  std::set<std::string> names;
  for (const Message& message : header.messages) {
    Cursor cursor(message.body, where);
    switch (message.type) {
      case 0x00:
      case 0x0a: break;  // free space, sizes expected of groups
      case 0x02: {       // IV.A.2.c "The Link Info Message"
        cursor.expect(1, 0, "version of the link information");
        if (cursor.number(1) & 1) cursor.take(8);
        require_input(cursor.number(8) == undefined_hdf5_address,
                      "{}: links outside of the group's header are not read", where);
        break;
      }
      case 0x06: {
        links.push_back(read_link(cursor));
        const std::string& name = links.back().name;
        require_input(names.insert(name).second, "{}: {} appears twice", where, printable(name));
        require_input(links.size() <= max_hdf5_arrays, "{}: more than {} links", where,
                      max_hdf5_arrays);
        break;
      }
      default: refuse_message(message.type, where);
    }
  }
  return links;
}

/// IV.A.2.b "The Dataspace Message": the number of rows.
std::int64_t read_dataspace(Cursor cursor) {
  cursor.expect(1, 2, "version of the dataspace");
  const std::uint64_t rank = cursor.number(1);
  require_input(rank == 1, "{}: rank {}; only arrays of rank 1 are read", cursor.where(), rank);
  cursor.number(1);
  cursor.expect(1, 1, "kind of the dataspace");
  const std::uint64_t rows = cursor.number(8);
  require_input(rows <= max_rows, "{}: {} rows; at most {} are read", cursor.where(), rows,
                max_rows);
  return static_cast<std::int64_t>(rows);
}

/// IV.A.2.d "The Datatype Message".
StoredInteger read_datatype(Cursor cursor) {
  static constexpr const char* classes[] = {
      "integers",   "floating-point numbers", "times",           "strings",
      "bit fields", "opaque values",          "compound values", "references",
      "enums",      "variable-length values", "arrays"};
  const std::uint64_t kind = cursor.number(1) & 15;
  require_input(kind < std::size(classes), "{}: elements of unknown class {}", cursor.where(),
                kind);
  require_input(kind == 0, "{}: the elements are {}; only unsigned integers are read",
                cursor.where(), classes[kind]);
  const std::uint64_t bits = cursor.number(3), size = cursor.number(4), offset = cursor.number(2),
                      precision = cursor.number(2);
  require_input((bits & 8) == 0, "{}: the elements are signed; only unsigned integers are read",
                cursor.where());
  require_input((bits & 1) == 0,
                "{}: the elements are big-endian; only little-endian integers are read",
                cursor.where());
  require_input(
      std::has_single_bit(size) && size <= 8 && offset == 0 && precision == 8 * size,
      "{}: elements of {} bits at bit {} of {} bytes; 8, 16, 32 or 64 whole bits expected",
      cursor.where(), precision, offset, size);
  return static_cast<StoredInteger>(std::countr_zero(size));
}

/// IV.A.2.l "The Data Storage - Filter Pipeline Message". Returns the element size that the bytes
/// are shuffled by.
std::uint64_t read_pipeline(Cursor cursor) {
  static constexpr const char* names[] = {"shuffle", "deflate", "fletcher32"};
  static constexpr std::uint64_t expected[] = {2, 1, 3};
  cursor.expect(1, 2, "version of the filters");
  cursor.expect(1, std::size(expected), "number of filters");
  std::uint64_t shuffled = 0;
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    const std::uint64_t id = cursor.number(2);
    require_input(id == expected[i], "{}: filter {} is number {}; only {} is read there",
                  cursor.where(), i, id, names[i]);
    cursor.number(2);
    const std::uint64_t values = cursor.number(2);
    for (std::uint64_t k = 0; k < values; ++k) {
      const std::uint64_t value = cursor.number(4);
      if (i == 0 && k == 0) shuffled = value;
    }
  }
  return shuffled;
}

/// IV.A.2.i "The Data Layout Message", version 4.
ChunkLayout read_layout(Cursor cursor) {
  static constexpr const char* indexes[] = {
      "no index",      "a single chunk",      "an implicit index",
      "a fixed array", "an extensible array", "a B-tree"};
  const std::uint64_t version = cursor.number(1), kind = cursor.number(1);
  require_input(kind != 3, "{}: virtual storage is not read", cursor.where());
  require_input(kind == 2, "{}: storage is not in chunks", cursor.where());
  require_input(version == 4, "{}: version of the storage is {}; only 4 is read", cursor.where(),
                version);
  const std::uint64_t flags = cursor.number(1);
  cursor.expect(1, 2, "dimensions of a chunk");
  const auto width = static_cast<std::size_t>(cursor.number(1));
  require_input(width >= 1 && width <= 8, "{}: chunk sizes of {} bytes", cursor.where(), width);
  const std::uint64_t rows = cursor.number(width), element_bytes = cursor.number(width),
                      index = cursor.number(1);
  require_input(index == 3, "{}: the chunks are indexed by {}; only a fixed array is read",
                cursor.where(), index < std::size(indexes) ? indexes[index] : "something unknown");
  require_input(flags == 0, "{}: flags {:#x} of the storage are not read", cursor.where(), flags);
  cursor.number(1);  // repeated in the index
  return {rows, element_bytes, cursor.number(8)};
}

/// The content of the header's messages. Each message must occur once.
struct Description {
  std::optional<std::int64_t> rows;
  std::optional<StoredInteger> type;
  std::optional<std::uint64_t> shuffled;
  std::optional<ChunkLayout> layout;
};

Description read_description(const Header& header) {
  const std::string& where = header.block.where;
  Description description;
  const auto keep = [&](auto& place, auto value) {
    require_input(!place, "{}: a header message appears twice", where);
    place = value;
  };
  // External storage first, so that the error names it.
  for (const Message& message : header.messages) {
    if (message.type == 0x07) refuse_message(message.type, where);
  }
  for (const Message& message : header.messages) {
    const Cursor cursor(message.body, where);
    switch (message.type) {
      case 0x00:
      case 0x05:
        // Free space, and the fill value. No fill value is used, because every chunk must exist.
        break;
      case 0x01: keep(description.rows, read_dataspace(cursor)); break;
      case 0x03: keep(description.type, read_datatype(cursor)); break;
      case 0x08: keep(description.layout, read_layout(cursor)); break;
      case 0x0b: keep(description.shuffled, read_pipeline(cursor)); break;
      default: refuse_message(message.type, where);
    }
  }
  return description;
}

Hdf5Array read_array(const InputFile& file, const Link& link) {
  const std::string what = "array " + printable(link.name);
  const Header header = read_header(file, link.address, what);
  const std::string& where = header.block.where;
  for (const Message& message : header.messages) {
    require_input(message.type != 0x02, "{} is a group; only arrays are read", where);
  }
  const Description part = read_description(header);
  require_input(part.rows && part.type && part.layout, "{}: its header is incomplete", where);
  require_input(part.shuffled.has_value(),
                "{}: has no filters; shuffle, deflate and fletcher32 expected", where);
  Hdf5Array array{link.name, *part.type, *part.rows, 1, {}};
  const auto element = static_cast<std::uint64_t>(size_of(array.type));
  require_input(part.layout->element_bytes == element && *part.shuffled == element,
                "{}: elements of {} bytes stored as {} and shuffled by {}", where, element,
                part.layout->element_bytes, *part.shuffled);
  require_input(part.layout->rows >= 1 &&
                    part.layout->rows <= static_cast<std::uint64_t>(max_hdf5_chunk_bytes) / element,
                "{}: chunks of {} rows; 1 to {} are read", where, part.layout->rows,
                static_cast<std::uint64_t>(max_hdf5_chunk_bytes) / element);
  array.chunk_rows = static_cast<std::int64_t>(part.layout->rows);
  if (array.rows == 0) return array;
  array.chunks = read_chunk_index(file, *part.layout, array, what);
  std::int64_t stored = 0;
  for (const auto& chunk : array.chunks) stored += chunk.bytes;
  require_input(stored <= file.size(), "{}: its chunks overlap", where);
  const std::int64_t declared = array.rows * size_of(array.type);
  require_input(declared <= max_ratio * stored,
                "{}: declares {} bytes and stores {}; at most {} times as many are read", where,
                declared, stored, max_ratio);
  return array;
}

}  // namespace

std::vector<Hdf5Array> read_hdf5_structure(const InputFile& file) {
  std::vector<Hdf5Array> arrays;
  for (const Link& link : read_root(file)) arrays.push_back(read_array(file, link));
  return arrays;
}

}  // namespace nystrom
