// The cache (data.cache) holds tokenizers, token shards and rows that Python was given, for all
// runs. A run recreates the entries that are missing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/base/file_io.h"
#include "data/tokenizers/tokenizer.h"

namespace nystrom {

/// Marks a cache entry as in use during this object's lifetime, with a shared lock. The constructor
/// sets the entry's last use to now. A read-only cache is not an error.
class CacheUse {
 public:
  explicit CacheUse(const std::filesystem::path& entry);

 private:
  Descriptor descriptor_;
};

// Part of the name of a data set in the cache. Raise it if the format of the statistics changes.
inline constexpr int statistics_version = 4;

// Part of the names of tokenizers and data sets in the cache. Raise it with every change in data/
// that changes the ids of any text or the tokenizer trained on any text. Such changes concern
// normalization, word splitting, models, added tokens, reading of text or the trainer.
inline constexpr int text_version = 9;

/// The 16 hexadecimal digits that name an entry whose content `key` determines.
std::string cache_name(const std::string& key);

/// The part of a key that stands for a tokenizer.
std::string tokenizer_key(const Tokenizer& tokenizer);

/// The file of a tokenizer's entry that holds its tokenizer_key, by which damage is known.
inline constexpr const char* tokenizer_key_file = "tokenizer_key";

/// Creates `entry` atomically with the content that `fill` writes into the folder it is given.
/// Another process may have created it in the meantime.
void make_entry(const std::filesystem::path& entry,
                const std::function<void(const std::filesystem::path&)>& fill);

/// The remedy for an entry that cannot be read.
std::string remedy_for(const std::filesystem::path& entry);

/// A tokenizer, a data set or rows in the cache, or an incomplete one that a killed process left.
struct CacheEntry {
  std::filesystem::path path;
  std::int64_t bytes = 0;
  std::filesystem::file_time_type last_use;
  bool in_use = false;  ///< a run on this machine uses or creates the entry
};

/// The entries of the cache at `folder`, the most recently used first. Entries are folders named
/// "tokenizer-", "tokens-" or "rows-" and 16 hexadecimal digits, with no files but those that a run
/// writes; other files and folders are ignored. Throws an InputError if the folder cannot be read.
std::vector<CacheEntry> cache_entries(const std::filesystem::path& folder);

/// Removes the entries that are not in use, and returns them. Throws an InputError if an entry
/// cannot be removed.
std::vector<CacheEntry> prune_cache(const std::filesystem::path& folder);

}  // namespace nystrom
