// The JSON of token data sets: index.json, and the metadata that each shard repeats of it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/hdf5/hdf5.h"
#include "data/shards/shards.h"

namespace nystrom {

/// Names in a shard.
inline constexpr const char* tokens_array = "tokens";
inline constexpr const char* documents_array = "documents";
inline constexpr const char* metadata_array = "metadata";
inline constexpr const char* index_file = "index.json";

/// A line of the index.
struct ShardEntry {
  std::string name;
  std::int64_t tokens = 0;
  std::int64_t documents = 0;  ///< that start in it
  std::int64_t bytes = 0;
  std::string checksum;  ///< XXH3-128 of the file
};

struct ShardIndex {
  TokenSetInfo info;
  std::string statistics;  ///< a JSON object
  std::vector<ShardEntry> shards;
};

/// "tokens-00007.h5"
std::string shard_name(std::size_t number);
/// The type in which ids of this vocabulary are stored.
StoredInteger token_type(std::int64_t vocab_size);
/// Throws InputError, starting with `where`, when a special id is outside of the vocabulary, or two
/// roles share one.
void check_info(const TokenSetInfo& info, const std::string& where);

/// index.json as text, and back with every part checked; `where` names the file in messages.
std::string index_text(const ShardIndex& index);
ShardIndex parse_index(std::string_view text, const std::string& where);

/// What a shard says of itself: a JSON object that repeats its part of the index.
std::string shard_metadata(const TokenSetInfo& info, std::int64_t tokens, std::int64_t documents);
/// InputError naming the first key in which `text` differs from shard_metadata of the same.
void check_shard_metadata(std::string_view text, const std::string& where, const TokenSetInfo& info,
                          const ShardEntry& entry);

}  // namespace nystrom
