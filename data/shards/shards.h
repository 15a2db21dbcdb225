// Token data sets: a folder of HDF5 shards and an index. The format is docs/formats.md, "Token
// shards".
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace nystrom {

/// What the tokens of a data set mean.
struct TokenSetInfo {
  std::string tokenizer;  ///< a hash of the tokenizer that made them
  std::int64_t vocab_size = 0;
  SpecialIds special{};
};

/// All of them; of a tokenizer that has all but, perhaps, unk.
std::vector<std::int64_t> ids_of(const SpecialIds& special);

inline constexpr std::int64_t default_shard_tokens = std::int64_t{64} << 20;
inline constexpr std::int64_t default_cache_bytes = std::int64_t{32} << 20;

/// Writes a data set into a folder, document by document, with a chunk or two in memory. Each shard
/// appears whole, under its final name; the index comes last, so that a folder without it is known
/// to be incomplete. The same documents give the same bytes.
class ShardWriter {
 public:
  /// Creates the folder and removes the shards that an interrupted run left there. InputError when
  /// it holds a finished data set.
  ShardWriter(std::filesystem::path folder, TokenSetInfo info,
              std::int64_t shard_tokens = default_shard_tokens);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// What is appended from here on is a new document. One without tokens is none.
  void begin_document();
  /// More tokens of the document; ids below the vocabulary's size.
  void append(std::span<const std::uint32_t> ids);
  /// Writes what remains and the index; `statistics` is a JSON object about the sources, kept as it
  /// is. InputError when there was no token.
  void finish(const std::string& statistics = "{}");

  std::int64_t tokens() const;
  std::int64_t documents() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A finished data set. Safe to use from several threads: they share one cache of unpacked chunks.
class TokenDataset {
 public:
  /// Checks the index, and that every shard is there in its size. Shards are checked further when
  /// first read, and their chunks as they are: checksums, ids below the vocabulary's size,
  /// documents in order. InputError for all that is wrong, then or now.
  static TokenDataset open(const std::filesystem::path& folder,
                           std::int64_t cache_bytes = default_cache_bytes);
  TokenDataset(TokenDataset&&) noexcept;
  ~TokenDataset();

  const TokenSetInfo& info() const;
  /// The statistics given to ShardWriter::finish, as JSON.
  const std::string& statistics() const;
  std::int64_t tokens() const;
  std::int64_t documents() const;

  /// Tokens first … first + count − 1 of the whole data set.
  std::vector<std::uint32_t> read(std::int64_t first, std::int64_t count) const;
  /// Where documents first … first + count − 1 start, strictly rising. Each ends where the next
  /// starts, the last at tokens().
  std::vector<std::int64_t> document_starts(std::int64_t first, std::int64_t count) const;
  /// Reads everything: checksums of all files against the index, all ids, all documents.
  void verify() const;

  /// Bytes held by the cache now.
  std::int64_t cached_bytes() const;

 private:
  struct State;
  explicit TokenDataset(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace nystrom
