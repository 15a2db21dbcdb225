// The JSON of token data sets: index.json, and the metadata in each shard, which repeats a part of
// it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/hdf5/hdf5.h"
#include "data/shards/shards.h"

namespace nystrom {

/// Names of the arrays in a shard, and of the index.
inline constexpr const char* tokens_array = "tokens";
inline constexpr const char* documents_array = "documents";
inline constexpr const char* metadata_array = "metadata";
inline constexpr const char* index_file = "index.json";
inline constexpr std::int64_t max_metadata_bytes = std::int64_t{1} << 20;

/// A shard in the index.
struct ShardEntry {
  std::string name;
  std::int64_t tokens = 0;
  std::int64_t documents = 0;  ///< documents that start in it
  std::int64_t bytes = 0;
  std::string checksum;  ///< XXH3-128 of the file
};

/// The content of index.json.
struct ShardIndex {
  TokenSetInfo info;
  std::string statistics;  ///< a JSON object
  std::vector<ShardEntry> shards;
};

/// "tokens-00007.h5".
std::string shard_name(std::size_t number);
/// The integer type that stores the ids of a vocabulary.
StoredInteger token_type(std::int64_t vocab_size);
/// Throws an InputError that starts with `where` when a special id is outside the vocabulary, or
/// when two roles have the same id.
void check_info(const TokenSetInfo& info, const std::string& where);

/// The text of index.json.
std::string index_text(const ShardIndex& index);
/// Parses index.json and checks every part. `where` names the file in messages.
ShardIndex parse_index(std::string_view text, const std::string& where);

/// The metadata of a shard: a JSON object that repeats its part of the index.
std::string shard_metadata(const TokenSetInfo& info, std::int64_t tokens, std::int64_t documents);
/// Throws an InputError that names the first key in which `text` differs from the shard_metadata of
/// `info` and `entry`.
void check_shard_metadata(std::string_view text, const std::string& where, const TokenSetInfo& info,
                          const ShardEntry& entry);

}  // namespace nystrom
