#include "data/shards/shards.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <tuple>

#include "core/base/file_io.h"
#include "core/base/lru_cache.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/hdf5/hdf5.h"
#include "data/shards/shard_index.h"

namespace nystrom {
namespace {

/// A shard whose arrays agree with the index.
struct Shard {
  Hdf5Array ids, starts;
};

using Chunk = std::vector<std::byte>;

/// The most shards that are open at a time. Each holds a descriptor, and some memory.
std::int64_t max_open_shards() {
  constexpr rlim_t most = 1024;
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  return static_cast<std::int64_t>(std::clamp<rlim_t>(descriptors.rlim_cur / 4, 1, most));
}

/// The sum of `part` over all shards before each shard, and over all shards at the end.
std::vector<std::int64_t> bases(const std::vector<ShardEntry>& shards,
                                std::int64_t ShardEntry::*part) {
  std::vector<std::int64_t> sums{0};
  for (const ShardEntry& shard : shards) sums.push_back(sums.back() + shard.*part);
  return sums;
}

template <class T, class F>
void for_each_of(const std::byte* bytes, std::int64_t begin, std::int64_t end, const F& f) {
  for (std::int64_t i = begin; i < end; ++i) {
    T value;
    std::memcpy(&value, bytes + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    f(static_cast<std::uint64_t>(value));
  }
}

/// Calls f with elements begin … end − 1.
template <class F>
void for_each(const Chunk& chunk, StoredInteger type, std::int64_t begin, std::int64_t end,
              const F& f) {
  switch (type) {
    case StoredInteger::u8: return for_each_of<std::uint8_t>(chunk.data(), begin, end, f);
    case StoredInteger::u16: return for_each_of<std::uint16_t>(chunk.data(), begin, end, f);
    case StoredInteger::u32: return for_each_of<std::uint32_t>(chunk.data(), begin, end, f);
    case StoredInteger::u64: return for_each_of<std::uint64_t>(chunk.data(), begin, end, f);
  }
}

std::int64_t count_of(const Chunk& chunk, StoredInteger type) {
  return static_cast<std::int64_t>(chunk.size()) / size_of(type);
}

/// An array of one axis with every chunk written.
Hdf5Array open_array(const Hdf5File& file, const char* name, StoredInteger type,
                     const std::string& where) {
  // Chunks are kept by ShardCache.
  std::optional<Hdf5Array> array = file.find(name, 0);
  require_input(array.has_value(), "{}: has no array {}", where, name);
  require_input(array->type() == name_of(type), "{}: array {} holds {}; {} expected", where, name,
                array->type(), name_of(type));
  require_input(array->shape().size() == 1, "{}: array {} has {} axes; 1 expected", where, name,
                array->shape().size());
  require_input(!array->has_fragile_filters(), "{}: array {} has filters that no shard has", where,
                name);
  require_input(array->chunk_rows() > 0 && array->is_complete(),
                "{}: array {} lacks chunks: the file is damaged", where, name);
  return std::move(*array);
}

/// The file of a shard, which has the size that the index says.
InputFile open_file(const std::filesystem::path& folder, const ShardEntry& entry) {
  InputFile file = InputFile::open_inside(folder, entry.name);
  require_input(file.size() == entry.bytes,
                "{}: has {} bytes, the index says {}: it is cut short or another file",
                printable_path(folder / entry.name), file.size(), entry.bytes);
  return file;
}

std::shared_ptr<const Shard> open_shard(const std::filesystem::path& folder,
                                        const TokenSetInfo& info, const ShardEntry& entry) {
  const std::string where = printable_path(folder / entry.name);
  const Hdf5File file(std::make_shared<const InputFile>(open_file(folder, entry)));
  auto shard = std::make_shared<const Shard>(
      Shard{open_array(file, tokens_array, token_type(info.vocab_size), where),
            open_array(file, documents_array, StoredInteger::u64, where)});
  const Hdf5Array metadata = open_array(file, metadata_array, StoredInteger::u8, where);
  const std::int64_t bytes = metadata.shape()[0];
  require_input(bytes <= max_metadata_bytes, "{}: metadata of {} bytes; at most {} are read", where,
                bytes, max_metadata_bytes);
  std::string text(static_cast<std::size_t>(bytes), '\0');
  metadata.read(0, StoredInteger::u8, std::as_writable_bytes(std::span(text)));
  check_shard_metadata(text, where + ": metadata", info, entry);
  for (const auto& [array, count] :
       {std::pair(&shard->ids, entry.tokens), std::pair(&shard->starts, entry.documents)}) {
    require_input(array->shape()[0] == count, "{}: array {} has {} rows, the index says {}", where,
                  array->name(), array->shape()[0], count);
  }
  return shard;
}

}  // namespace

class ShardCache {
 public:
  using ShardKey = std::pair<std::size_t, std::size_t>;       // data set, shard
  using ChunkKey = std::tuple<ShardKey, bool, std::int64_t>;  // shard, whether of ids, chunk

  explicit ShardCache(std::int64_t chunk_bytes) : chunks(chunk_bytes) {}

  std::mutex mutex;  // protects everything below
  std::size_t data_sets = 0;
  LruCache<ShardKey, Shard> shards{max_open_shards()};
  LruCache<ChunkKey, Chunk> chunks;
};

std::shared_ptr<ShardCache> make_shard_cache(std::int64_t chunk_bytes) {
  return std::make_shared<ShardCache>(chunk_bytes);
}

struct TokenDataset::State {
  std::filesystem::path folder;
  std::string remedy;
  ShardIndex index;
  std::vector<std::int64_t> token_bases, document_bases;
  std::shared_ptr<ShardCache> cache;
  std::size_t number_in_cache;

  State(std::filesystem::path place, std::string advice, ShardIndex read,
        std::shared_ptr<ShardCache> shared)
      : folder(std::move(place)),
        remedy(std::move(advice)),
        index(std::move(read)),
        token_bases(bases(index.shards, &ShardEntry::tokens)),
        document_bases(bases(index.shards, &ShardEntry::documents)),
        cache(std::move(shared)) {
    const std::lock_guard lock(cache->mutex);
    number_in_cache = cache->data_sets++;
  }

  std::string where(std::size_t number) const {
    return printable_path(folder / index.shards[number].name);
  }

  StoredInteger type_of(bool of_ids) const {
    return of_ids ? token_type(index.info.vocab_size) : StoredInteger::u64;
  }

  std::shared_ptr<const Shard> shard(std::size_t number) {
    const ShardCache::ShardKey key{number_in_cache, number};
    {
      const std::lock_guard lock(cache->mutex);
      if (auto found = cache->shards.find(key)) return found;
    }
    // Read without the lock: if two threads read the same chunk, one result is dropped.
    auto shard = open_shard(folder, index.info, index.shards[number]);
    const std::lock_guard lock(cache->mutex);
    cache->shards.insert(key, shard, 1);
    return shard;
  }

  std::shared_ptr<const Chunk> chunk(std::size_t number, const Shard& shard, bool of_ids,
                                     std::int64_t place) {
    const ShardCache::ChunkKey key{{number_in_cache, number}, of_ids, place};
    {
      const std::lock_guard lock(cache->mutex);
      if (auto found = cache->chunks.find(key)) return found;
    }
    const Hdf5Array& array = of_ids ? shard.ids : shard.starts;
    const StoredInteger type = type_of(of_ids);
    const std::int64_t first = place * array.chunk_rows(),
                       rows = std::min(array.chunk_rows(), array.shape()[0] - first);
    auto chunk = std::make_shared<Chunk>(static_cast<std::size_t>(rows * size_of(type)));
    array.read(first, type, *chunk);
    if (of_ids) {
      check_ids(*chunk, number);
    } else {
      check_starts(*chunk, number);
    }
    const std::lock_guard lock(cache->mutex);
    cache->chunks.insert(key, chunk, static_cast<std::int64_t>(chunk->size()));
    return chunk;
  }

  void check_ids(const Chunk& chunk, std::size_t number) const {
    const StoredInteger type = token_type(index.info.vocab_size);
    std::uint64_t largest = 0;
    for_each(chunk, type, 0, count_of(chunk, type),
             [&](std::uint64_t id) { largest = std::max(largest, id); });
    require_input(largest < static_cast<std::uint64_t>(index.info.vocab_size),
                  "{}: token id {} is outside of the vocabulary of {}", where(number), largest,
                  index.info.vocab_size);
  }

  void check_starts(const Chunk& chunk, std::size_t number) const {
    const auto tokens = static_cast<std::uint64_t>(index.shards[number].tokens);
    std::uint64_t least = 0;
    for_each(chunk, StoredInteger::u64, 0, count_of(chunk, StoredInteger::u64),
             [&](std::uint64_t start) {
               if (start < least)
                 throw InputError(fmt::format("{}: a document starts at {}, the one before at {}",
                                              where(number), start, least - 1));
               if (start >= tokens)
                 throw InputError(fmt::format("{}: a document starts at {} of {} tokens",
                                              where(number), start, tokens));
               least = start + 1;
             });
  }

  /// Calls f(value, token base of the shard) for elements first … first + count − 1 of the ids or
  /// starts of all shards.
  template <class F>
  void visit(bool of_ids, std::int64_t first, std::int64_t count, const F& f) {
    const std::vector<std::int64_t>& base = of_ids ? token_bases : document_bases;
    require(first >= 0 && count >= 0 && first <= base.back() && count <= base.back() - first,
            "TokenDataset: {} from {} on, of {}", count, first, base.back());
    while (count > 0) {
      const auto number = static_cast<std::size_t>(
          std::upper_bound(base.begin(), base.end(), first) - base.begin() - 1);
      const auto source = shard(number);
      const Hdf5Array& array = of_ids ? source->ids : source->starts;
      const StoredInteger type = type_of(of_ids);
      const std::int64_t local = first - base[number];
      const auto part = chunk(number, *source, of_ids, local / array.chunk_rows());
      const std::int64_t begin = local % array.chunk_rows(),
                         end = std::min(count_of(*part, type), begin + count);
      for_each(*part, type, begin, end, [&, token_base = token_bases[number]](std::uint64_t value) {
        f(value, token_base);
      });
      first += end - begin;
      count -= end - begin;
    }
  }
};

TokenDataset TokenDataset::open(const std::filesystem::path& folder, const std::string& remedy,
                                std::shared_ptr<ShardCache> cache) {
  return with_remedy(remedy, [&] {
    std::error_code error;  // a path without access counts as absent
    require_input(std::filesystem::is_directory(folder, error), "{}: not a folder",
                  printable_path(folder));
    const std::filesystem::path path = folder / index_file;
    require_input(std::filesystem::exists(path, error),
                  "{}: has no {}: the data set was not written to its end", printable_path(folder),
                  index_file);
    ShardIndex index = parse_index(read_text_file(path), printable_path(path));
    for (const ShardEntry& shard : index.shards) open_file(folder, shard);
    return TokenDataset(
        std::make_shared<State>(folder, remedy, std::move(index), std::move(cache)));
  });
}

const TokenSetInfo& TokenDataset::info() const { return state_->index.info; }
const std::string& TokenDataset::statistics() const { return state_->index.statistics; }
void TokenDataset::refuse_statistics() const {
  const std::string& remedy = state_->remedy;
  throw InputError(
      fmt::format("{}: its statistics are not those of a text: the file is damaged{}{}",
                  printable_path(state_->folder / index_file), remedy.empty() ? "" : "; ", remedy));
}
std::int64_t TokenDataset::tokens() const { return state_->token_bases.back(); }
std::int64_t TokenDataset::documents() const { return state_->document_bases.back(); }

std::string TokenDataset::checksum() const {
  return text_checksum(index_text({info(), "{}", state_->index.shards}));
}

std::vector<std::uint32_t> TokenDataset::read(std::int64_t first, std::int64_t count) const {
  std::vector<std::uint32_t> ids;
  ids.reserve(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
  with_remedy(state_->remedy, [&] {
    state_->visit(true, first, count, [&](std::uint64_t id, std::int64_t) {
      ids.push_back(static_cast<std::uint32_t>(id));
    });
  });
  return ids;
}

std::vector<std::int64_t> TokenDataset::document_starts(std::int64_t first,
                                                        std::int64_t count) const {
  std::vector<std::int64_t> starts;
  with_remedy(state_->remedy, [&] {
    state_->visit(false, first, count, [&](std::uint64_t start, std::int64_t base) {
      const std::int64_t place = static_cast<std::int64_t>(start) + base;
      // Chunks check themselves; this checks the order across them.
      const bool rises = starts.empty() ? first != 0 || place == 0 : place > starts.back();
      require_input(rises, "{}: document {} starts at {}, out of order",
                    printable_path(state_->folder),
                    first + static_cast<std::int64_t>(starts.size()), place);
      starts.push_back(place);
    });
  });
  return starts;
}

void TokenDataset::verify() const {
  const auto check_file = [&](const ShardEntry& shard) {
    const std::filesystem::path file = state_->folder / shard.name;
    require_input(file_checksum(file) == shard.checksum,
                  "{}: does not fit the checksum in the index: the file is damaged",
                  printable_path(file));
  };
  for (const ShardEntry& shard : state_->index.shards)
    with_remedy(state_->remedy, [&] { check_file(shard); });
  constexpr std::int64_t block = 65536;
  for (std::int64_t at = 0; at < tokens(); at += block) read(at, std::min(block, tokens() - at));
  // Blocks overlap by one, so that neighbours in different blocks are compared too.
  for (std::int64_t at = 0; at < documents(); at += block)
    document_starts(at, std::min(block + 1, documents() - at));
}

}  // namespace nystrom
