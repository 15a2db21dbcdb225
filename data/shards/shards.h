// Token data sets: a folder of HDF5 shards and an index. "Token shards" in docs/formats.md
// describes the format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace nystrom {

/// The tokenizer, vocabulary and special ids of a data set's tokens.
struct TokenSetInfo {
  std::string tokenizer;  ///< a hash of the tokenizer
  std::int64_t vocab_size = 0;
  SpecialIds special{};
};

/// All special ids of a tokenizer. Only unk may be absent.
std::vector<std::int64_t> ids_of(const SpecialIds& special);

inline constexpr std::int64_t default_shard_tokens = std::int64_t{64} << 20;
inline constexpr std::int64_t default_cache_bytes = std::int64_t{32} << 20;

/// Writes a data set into a folder, document by document, with one or two chunks in memory. Each
/// shard gets its final name when it is complete. The index is written last, so a folder without it
/// is incomplete. The same documents give the same bytes.
class ShardWriter {
 public:
  /// Creates the folder, and removes shards that an interrupted run left there. Throws an
  /// InputError when the folder holds a finished data set.
  ShardWriter(std::filesystem::path folder, TokenSetInfo info,
              std::int64_t shard_tokens = default_shard_tokens);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// Begins a new document. Documents without tokens are ignored.
  void begin_document();
  /// Appends tokens to the document. Ids must be below the vocabulary's size.
  void append(std::span<const std::uint32_t> ids);
  /// Writes the rest and the index. `statistics` is a JSON object about the sources, which is
  /// stored unchanged. Throws an InputError when there are no tokens.
  void finish(const std::string& statistics = "{}");

  /// The numbers so far.
  std::int64_t tokens() const;
  std::int64_t documents() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The parts of shards that data sets keep in memory: decompressed chunks and open files.
class ShardCache;

/// A cache for the data sets that are opened with it. It keeps at most `chunk_bytes` of chunks, and
/// at most a quarter of the files that the process may have open.
std::shared_ptr<ShardCache> make_shard_cache(std::int64_t chunk_bytes = default_cache_bytes);

/// A finished data set. Thread-safe: threads share its cache.
class TokenDataset {
 public:
  /// Opens a data set. Checks the index, and the existence and size of every shard. Content is
  /// checked when it is first read: checksums, ids below the vocabulary's size, documents in order.
  /// Throws an InputError for every fault, now or at that read, which ends in `remedy`: how to make
  /// the data set anew. Data sets that are read together share one `cache`.
  static TokenDataset open(const std::filesystem::path& folder, const std::string& remedy = "",
                           std::shared_ptr<ShardCache> cache = make_shard_cache());

  const TokenSetInfo& info() const;
  /// The statistics passed to ShardWriter::finish, as JSON.
  const std::string& statistics() const;
  /// Throws the InputError of statistics that their reader does not understand.
  [[noreturn]] void refuse_statistics() const;
  /// A checksum of the tokens and documents, by the index.
  std::string checksum() const;
  std::int64_t tokens() const;
  std::int64_t documents() const;

  /// Tokens first … first + count − 1 of the whole data set.
  std::vector<std::uint32_t> read(std::int64_t first, std::int64_t count) const;
  /// The positions where documents first … first + count − 1 start, strictly increasing. Each
  /// document ends where the next starts; the last ends at tokens().
  std::vector<std::int64_t> document_starts(std::int64_t first, std::int64_t count) const;
  /// Reads and checks everything: checksums of all files against the index, all ids, all documents.
  /// Throws an InputError for the first fault.
  void verify() const;

 private:
  struct State;
  explicit TokenDataset(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace nystrom
