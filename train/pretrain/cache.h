// The cache that runs share (data.cache): tokenizers and token shards, which any run makes anew
// when they are gone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace nystrom {

/// While alive, an entry of the cache counts as in use, and its last use is when this was made. A
/// cache that cannot be written is used all the same.
class CacheUse {
 public:
  explicit CacheUse(const std::filesystem::path& entry);
  ~CacheUse();
  CacheUse(const CacheUse&) = delete;
  CacheUse& operator=(const CacheUse&) = delete;

 private:
  int descriptor_;
};

/// A tokenizer, a data set, or what a killed process left of one.
struct CacheEntry {
  std::filesystem::path path;
  std::int64_t bytes = 0;
  std::filesystem::file_time_type last_use;
  bool in_use = false;  ///< by a run on this machine, or being made
};

/// What the cache at `folder` holds, the last used first; other files and folders in it are passed
/// over. InputError when it cannot be read.
std::vector<CacheEntry> cache_entries(const std::filesystem::path& folder);

/// Removes the entries that nothing uses, and returns them. InputError when one cannot be removed.
std::vector<CacheEntry> prune_cache(const std::filesystem::path& folder);

}  // namespace nystrom
