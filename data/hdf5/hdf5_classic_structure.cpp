// "HDF5 File Format Specification Version 3.0" describes the layout of every block. Comments of
// functions give its section numbers.
#include <algorithm>
#include <bit>
#include <optional>
#include <set>

#include "core/base/printable.h"
#include "data/hdf5/hdf5_block.h"
#include "data/hdf5/hdf5_classic.h"

namespace nystrom {
namespace {

constexpr std::uint64_t max_nodes = std::uint64_t{1} << 20;  // nodes of one B-tree
constexpr std::size_t max_links = 1024, max_header_blocks = 64, max_rank = 8;
constexpr std::int64_t max_header_bytes = std::int64_t{64} << 10,
                       max_heap_bytes = std::int64_t{1} << 20;
constexpr std::int64_t max_ratio = 1000;  // declared bytes to stored bytes

struct Group {
  std::uint64_t tree, heap;
};

/// II.A "Superblock version 0": the address of the root group's header.
std::uint64_t read_superblock(const InputFile& file) {
  const std::string name = printable_path(file.path());
  require_input(file.size() >= 96, "{}: not an HDF5 file: {} bytes are too few", name, file.size());
  const Block block = read_block(file, 0, 96, "superblock", false);
  Cursor cursor = block.cursor();
  require_input(cursor.text(8) == "\x89HDF\r\n\x1a\n", "{}: not an HDF5 file", name);
  const std::uint64_t version = cursor.number(1);
  require_input(version == 0,
                "{}: HDF5 superblock of version {}; only 0 is read, which h5py writes by default "
                "(libver='earliest')",
                name, version);
  cursor.take(4);
  cursor.expect(1, 8, "size of offsets");
  cursor.expect(1, 8, "size of lengths");
  cursor.take(9);
  cursor.expect(8, 0, "base address");
  cursor.take(8);
  const std::uint64_t end = cursor.number(8);
  require_input(end <= static_cast<std::uint64_t>(file.size()),
                "{}: the file has {} bytes, its superblock says {}: it is cut short", name,
                file.size(), end);
  cursor.take(16);  // driver information, offset of the root's name
  return cursor.number(8);
}

struct Message {
  unsigned type;
  std::span<const std::byte> body;
};

struct Header {
  std::string where;
  std::vector<Block> blocks;
  std::vector<Message> messages;
};

void read_messages(const Block& block, Cursor cursor, Header& header,
                   std::vector<std::pair<std::uint64_t, std::uint64_t>>& more) {
  while (cursor.left() >= 8) {
    const auto type = static_cast<unsigned>(cursor.number(2));
    const auto size = static_cast<std::size_t>(cursor.number(2));
    const bool shared = (cursor.number(1) & 2) != 0;
    cursor.take(3);
    const auto body = cursor.take(size);
    require_input(!shared, "{}: shared header messages are not read", block.where);
    if (type == 0x10) {  // IV.A.2.q "The Object Header Continuation Message"
      Cursor place(body, block.where);
      const std::uint64_t address = place.number(8);
      more.emplace_back(address, place.number(8));
    } else {
      header.messages.push_back({type, body});
    }
  }
}

/// IV.A.1.a "Version 1 Data Object Header Prefix".
Header read_header(const InputFile& file, std::uint64_t address, const std::string& what) {
  Header header;
  const Block prefix = read_block(file, address, 16, what, false);
  header.where = prefix.where;
  Cursor cursor = prefix.cursor();
  cursor.expect(1, 1, "version of the object header");
  cursor.take(7);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places{{address + 16, cursor.number(4)}};
  header.blocks.reserve(max_header_blocks);  // no reallocation: messages point into them
  for (std::size_t i = 0; i < places.size(); ++i) {
    require_input(
        i < max_header_blocks && places[i].second <= static_cast<std::uint64_t>(max_header_bytes),
        "{}: its header is too large", header.where);
    header.blocks.push_back(read_block(file, places[i].first,
                                       static_cast<std::int64_t>(places[i].second), what, false));
    read_messages(header.blocks.back(), header.blocks.back().cursor(), header, places);
  }
  return header;
}

/// III.A.1 "Version 1 B-trees": calls leaf(key's cursor, child) for each child of the lowest level,
/// in order.
class TreeWalk {
 public:
  TreeWalk(const InputFile& file, std::uint64_t type, std::size_t key_bytes, std::string what)
      : file_(file), type_(type), key_bytes_(key_bytes), what_(std::move(what)) {}

  template <class Leaf>
  void walk(std::uint64_t address, const Leaf& leaf,
            std::optional<std::uint64_t> expected_level = std::nullopt) {
    require_input(++nodes_ <= max_nodes, "{}: its index has more than {} nodes", what_, max_nodes);
    const Block head = read_block(file_, address, 24, what_, false);
    Cursor start = head.cursor();
    start.signature("TREE");
    start.expect(1, type_, "kind of the tree");
    const std::uint64_t level = start.number(1), entries = start.number(2);
    require_input(level <= 16 && (!expected_level || level == *expected_level),
                  "{}: a node of level {}: the file is damaged", head.where, level);
    const Block body = read_block(
        file_, address + 24, static_cast<std::int64_t>(entries * (key_bytes_ + 8)), what_, false);
    Cursor cursor = body.cursor();
    for (std::uint64_t i = 0; i < entries; ++i) {
      const Cursor key(cursor.take(key_bytes_), body.where);
      const std::uint64_t child = cursor.number(8);
      if (level == 0)
        leaf(key, child);
      else
        walk(child, leaf, level - 1);
    }
  }

 private:
  const InputFile& file_;
  std::uint64_t type_;
  std::size_t key_bytes_;
  std::string what_;
  std::uint64_t nodes_ = 0;
};

struct Link {
  std::string name;
  std::uint64_t address;
};

/// III.D "Local Heaps": the bytes that hold names.
Block read_heap(const InputFile& file, std::uint64_t address) {
  const Block head = read_block(file, address, 32, "names of the root group", false);
  Cursor cursor = head.cursor();
  cursor.signature("HEAP");
  cursor.expect(1, 0, "version of the heap");
  cursor.take(3);
  const std::uint64_t size = cursor.number(8);
  cursor.take(8);
  require_input(size <= static_cast<std::uint64_t>(max_heap_bytes), "{}: {} bytes are too many",
                head.where, size);
  return read_block(file, cursor.number(8), static_cast<std::int64_t>(size),
                    "names of the root group", false);
}

std::string name_at(const Block& heap, std::uint64_t offset) {
  require_input(offset < heap.bytes.size(), "{}: a name lies outside of them: the file is damaged",
                heap.where);
  const auto* begin = reinterpret_cast<const char*>(heap.bytes.data()) + offset;
  const std::string_view rest(begin, heap.bytes.size() - offset);
  const std::size_t end = rest.find('\0');
  require_input(end != rest.npos, "{}: a name has no end: the file is damaged", heap.where);
  return std::string(rest.substr(0, end));
}

/// III.B "Symbol Table Nodes".
void read_symbols(const InputFile& file, std::uint64_t address, const Block& heap,
                  std::vector<Link>& links) {
  const Block head = read_block(file, address, 8, "root group", false);
  Cursor start = head.cursor();
  start.signature("SNOD");
  start.expect(1, 1, "version of the symbol table");
  start.take(1);
  const std::uint64_t count = start.number(2);
  require_input(links.size() + count <= max_links, "{}: more than {} links", head.where, max_links);
  const Block body =
      read_block(file, address + 8, static_cast<std::int64_t>(count * 40), "root group", false);
  Cursor cursor = body.cursor();
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string name = name_at(heap, cursor.number(8));
    const std::uint64_t place = cursor.number(8), cache = cursor.number(4);
    cursor.take(20);
    require_input(cache != 2, "{}: {} is a soft link; only arrays are read", body.where,
                  printable(name));
    links.push_back({name, place});
  }
}

std::vector<Link> read_root(const InputFile& file) {
  const Header header = read_header(file, read_superblock(file), "root group");
  std::optional<Group> group;
  for (const Message& message : header.messages) {
    Cursor cursor(message.body, header.where);
    if (message.type != 0x11) continue;  // IV.A.2.r "The Symbol Table Message"
    const std::uint64_t tree = cursor.number(8);
    group = Group{tree, cursor.number(8)};
  }
  require_input(
      group.has_value(),
      "{}: has no symbol table; only groups of that kind are read, as h5py writes by default",
      header.where);
  const Block heap = read_heap(file, group->heap);
  std::vector<Link> links;
  TreeWalk(file, 0, 8, heap.where).walk(group->tree, [&](const Cursor&, std::uint64_t child) {
    read_symbols(file, child, heap, links);
  });
  return links;
}

/// IV.A.2.b "The Dataspace Message".
std::vector<std::int64_t> read_dataspace(Cursor cursor) {
  const std::uint64_t version = cursor.number(1), rank = cursor.number(1);
  require_input(version == 1 || version == 2,
                "{}: version of the dataspace is {}; 1 and 2 are read", cursor.where(), version);
  cursor.number(1);
  if (version == 1) cursor.take(5);
  if (version == 2) cursor.expect(1, 1, "kind of the dataspace");
  require_input(rank >= 1 && rank <= max_rank, "{}: rank {}; arrays of rank 1 to {} are read",
                cursor.where(), rank, max_rank);
  std::vector<std::int64_t> shape;
  std::uint64_t elements = 1;
  for (std::uint64_t axis = 0; axis < rank; ++axis) {
    const std::uint64_t size = cursor.number(8);
    require_input(
        size == 0 || elements <= (std::uint64_t{1} << 48) / std::max<std::uint64_t>(size, 1),
        "{}: its shape is too large", cursor.where());
    elements *= std::max<std::uint64_t>(size, 1);
    shape.push_back(static_cast<std::int64_t>(size));
  }
  return shape;
}

/// IV.A.2.d "The Datatype Message".
void read_datatype(Cursor cursor, ClassicArray& array) {
  static constexpr const char* classes[] = {
      "integers",   "floating-point numbers", "times",           "strings",
      "bit fields", "opaque values",          "compound values", "references",
      "enums",      "variable-length values", "arrays"};
  const std::uint64_t kind = cursor.number(1) & 15;
  require_input(kind < std::size(classes), "{}: elements of unknown class {}", cursor.where(),
                kind);
  require_input(kind <= 1,
                "{}: the elements are {}; only integers and floating-point numbers are read",
                cursor.where(), classes[kind]);
  const std::uint64_t bits = cursor.number(3), size = cursor.number(4), offset = cursor.number(2),
                      precision = cursor.number(2);
  require_input((bits & 0x41) == 0,
                "{}: the elements are big-endian; only little-endian numbers are read",
                cursor.where());
  require_input(
      std::has_single_bit(size) && size <= 8 && offset == 0 && precision == 8 * size,
      "{}: elements of {} bits at bit {} of {} bytes; 8, 16, 32 or 64 whole bits expected",
      cursor.where(), precision, offset, size);
  array.element_bytes = static_cast<std::int64_t>(size);
  array.kind = kind == 1    ? StoredNumber::floating
               : (bits & 8) ? StoredNumber::signed_integer
                            : StoredNumber::unsigned_integer;
  if (kind == 0) return;
  const std::uint64_t layout = cursor.number(4),
                      bias = cursor.number(4);  // exponent and mantissa: position and size
  const bool f32 = size == 4 && layout == 0x17000817 && bias == 127,
             f64 = size == 8 && layout == 0x34000B34 && bias == 1023;
  require_input(
      f32 || f64,
      "{}: floating-point numbers of {} bytes in a form of their own; f32 and f64 are read",
      cursor.where(), size);
}

/// IV.A.2.l "The Data Storage - Filter Pipeline Message", version 1.
std::vector<unsigned> read_filters(Cursor cursor) {
  cursor.expect(1, 1, "version of the filters");
  const std::uint64_t count = cursor.number(1);
  cursor.take(6);
  std::vector<unsigned> filters;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto id = static_cast<unsigned>(cursor.number(2));
    const auto name_bytes = static_cast<std::size_t>(cursor.number(2));
    cursor.take(2);
    const auto values = static_cast<std::size_t>(cursor.number(2));
    const std::string name = cursor.text(name_bytes);
    cursor.take(4 * (values + values % 2));
    require_input(id >= 1 && id <= 3,
                  "{}: packed with filter {} ({}); only gzip, shuffle and fletcher32 are read",
                  cursor.where(), id, printable(name.substr(0, name.find('\0'))));
    require_input(std::ranges::find(filters, id) == filters.end(), "{}: filter {} is applied twice",
                  cursor.where(), id);
    filters.push_back(id);
  }
  return filters;
}

/// III.A.1, keys of chunks: the position of each chunk.
void read_chunks(const InputFile& file, std::uint64_t tree, ClassicArray& array,
                 const std::string& what) {
  std::int64_t expected = 1, chunk_bytes = array.element_bytes;
  for (std::size_t axis = 0; axis < array.shape.size(); ++axis) {
    const std::int64_t size = array.chunk_shape[axis];
    require_input(size >= 1 && size <= max_classic_chunk_bytes / chunk_bytes,
                  "{}: chunks of more than {} bytes, or of none", what, max_classic_chunk_bytes);
    chunk_bytes *= size;
    expected *= (array.shape[axis] + size - 1) / size;
  }
  if (expected == 0) return;
  const auto file_bytes = static_cast<std::uint64_t>(file.size());
  const std::size_t key_bytes = 8 + 8 * (array.shape.size() + 1);
  const auto incomplete = [&](auto count) {
    return fmt::format("{}: it has {} of {} chunks; it was not written as a whole", what, count,
                       expected);
  };
  require_input(tree != undefined_hdf5_address, "{}: nothing was written into it", what);
  if (static_cast<std::uint64_t>(expected) > file_bytes / key_bytes)
    throw InputError(incomplete("too few"));
  std::int64_t stored = 0;
  TreeWalk(file, 1, key_bytes, what).walk(tree, [&](Cursor key, std::uint64_t address) {
    require_input(static_cast<std::int64_t>(array.chunks.size()) < expected,
                  "{}: it has more than its {} chunks: the file is damaged", what, expected);
    ClassicArray::Chunk chunk{
        {}, static_cast<std::int64_t>(address), static_cast<std::int64_t>(key.number(4))};
    require_input(key.number(4) == 0, "{}: a chunk without its filters", what);
    const auto bytes = static_cast<std::uint64_t>(chunk.bytes);
    require_input(bytes <= file_bytes && address <= file_bytes - bytes,
                  "{}: a chunk lies outside of the file", what);
    require_input(!array.filters.empty() || chunk.bytes == chunk_bytes,
                  "{}: a chunk of {} bytes, expected {}", what, bytes, chunk_bytes);
    for (std::size_t axis = 0; axis < array.shape.size(); ++axis) {
      const std::uint64_t first = key.number(8);
      require_input(first < static_cast<std::uint64_t>(array.shape[axis]) &&
                        first % static_cast<std::uint64_t>(array.chunk_shape[axis]) == 0,
                    "{}: a chunk out of place: the file is damaged", what);
      chunk.first.push_back(static_cast<std::int64_t>(first));
    }
    stored += chunk.bytes;
    require_input(static_cast<std::uint64_t>(stored) <= file_bytes, "{}: its chunks overlap", what);
    array.chunks.push_back(std::move(chunk));
  });
  std::ranges::sort(array.chunks, {}, &ClassicArray::Chunk::first);
  const auto twice = std::ranges::adjacent_find(array.chunks, {}, &ClassicArray::Chunk::first);
  if (static_cast<std::int64_t>(array.chunks.size()) < expected || twice != array.chunks.end())
    throw InputError(incomplete(array.chunks.size()));
  require_input(expected <= max_ratio * std::max<std::int64_t>(stored, 1) / chunk_bytes + 1,
                "{}: declares {} bytes and stores {}; at most {} times as many are read", what,
                expected * chunk_bytes, stored, max_ratio);
}

/// IV.A.2.i "The Data Layout Message", version 3.
void read_layout(const InputFile& file, Cursor cursor, ClassicArray& array) {
  const std::uint64_t version = cursor.number(1), kind = cursor.number(1);
  require_input(version == 3, "{}: version of the storage is {}; only 3 is read", cursor.where(),
                version);
  require_input(kind == 1 || kind == 2, "{}: {} storage is not read", cursor.where(),
                kind == 0 ? "compact" : "virtual");
  const std::string what = cursor.where();
  if (kind == 1) {
    const std::uint64_t address = cursor.number(8), bytes = cursor.number(8),
                        size = static_cast<std::uint64_t>(file.size());
    const auto needed = static_cast<std::uint64_t>(array.elements() * array.element_bytes);
    if (needed == 0) return;
    require_input(address != undefined_hdf5_address, "{}: nothing was written into it", what);
    require_input(bytes >= needed && needed <= size && address <= size - needed,
                  "{}: its {} bytes lie outside of the file of {}: it is cut short or damaged",
                  what, needed, size);
    array.address = static_cast<std::int64_t>(address);
    return;
  }
  const std::uint64_t rank = cursor.number(1);
  require_input(rank == array.shape.size() + 1, "{}: chunks of rank {} in an array of rank {}",
                what, rank - 1, array.shape.size());
  const std::uint64_t tree = cursor.number(8);
  for (std::size_t axis = 0; axis < array.shape.size(); ++axis)
    array.chunk_shape.push_back(static_cast<std::int64_t>(cursor.number(4)));
  cursor.expect(4, static_cast<std::uint64_t>(array.element_bytes), "bytes of an element");
  read_chunks(file, tree, array, what);
}

/// An array; nothing for a group.
std::optional<ClassicArray> read_array(const InputFile& file, const Link& link) {
  const Header header = read_header(file, link.address, printable(link.name));
  const auto find = [&](unsigned type) -> const Message* {
    const auto found = std::ranges::find(header.messages, type, &Message::type);
    return found == header.messages.end() ? nullptr : &*found;
  };
  if (find(0x11)) return std::nullopt;
  require_input(!find(0x07), "{}: external storage is not read", header.where);
  const Message *space = find(0x01), *type = find(0x03), *layout = find(0x08),
                *filters = find(0x0b);
  require_input(space && type && layout, "{}: its header is incomplete", header.where);
  ClassicArray array;
  array.name = link.name;
  array.shape = read_dataspace(Cursor(space->body, header.where));
  read_datatype(Cursor(type->body, header.where), array);
  if (filters) array.filters = read_filters(Cursor(filters->body, header.where));
  read_layout(file, Cursor(layout->body, header.where), array);
  return array;
}

}  // namespace

std::vector<ClassicArray> read_classic_structure(const InputFile& file) {
  std::vector<ClassicArray> arrays;
  std::set<std::string> names;
  for (const Link& link : read_root(file)) {
    auto array = read_array(file, link);
    if (!array) continue;
    require_input(names.insert(link.name).second, "{}: {} appears twice",
                  printable_path(file.path()), printable(link.name));
    arrays.push_back(std::move(*array));
  }
  return arrays;
}

}  // namespace nystrom
