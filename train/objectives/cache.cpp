#include "train/objectives/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "core/base/new_folder.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "train/state/checkpoint.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

/// Whether `name` is that of an entry, or of one that is written or removed.
bool is_entry_name(std::string_view name) {
  name = temporary_target(name).value_or(name);
  for (const std::string_view kind : {"tokenizer-", "tokens-", "rows-"})
    if (name.starts_with(kind) && is_nonce(name.substr(kind.size()))) return true;
  return false;
}

/// Whether a file of an entry is one that a run writes there, or a part of one.
bool is_own_file(const fs::path& file) {
  const std::string name = file.filename().string();
  if (name.starts_with('.')) return true;  // of a file system or a desktop
  const std::string own(temporary_target(name).value_or(name));
  const std::string ending = fs::path(own).extension().string();
  return own == "tokenizer.json" || own == "tokenizer_config.json" || own == tokenizer_key_file ||
         own == "index.json" || (own.starts_with("tokens-") && ending == ".h5") ||
         own == "rows.jsonl" || (own.starts_with("rows-") && ending == ".jsonl");
}

/// The bytes of a folder that holds own files alone, directly or in folders; nothing for others.
std::optional<std::int64_t> bytes_of_own(const fs::path& folder) {
  std::int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code vanished;
    const fs::file_type type = entry->symlink_status(vanished).type();
    if (vanished || type == fs::file_type::directory) continue;
    if (type != fs::file_type::regular || !is_own_file(entry->path())) return std::nullopt;
    if (const auto size = entry->file_size(vanished); !vanished)
      bytes += static_cast<std::int64_t>(size);
  }
  return bytes;
}

}  // namespace

CacheUse::CacheUse(const fs::path& entry)
    : descriptor_(::open(entry.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)) {
  if (!descriptor_.is_open()) return;
  ::flock(descriptor_.get(), LOCK_SH);  // waits briefly if cache_entries or prune_cache has it
  ::futimens(descriptor_.get(), nullptr);
}

std::string cache_name(const std::string& key) { return text_checksum(key).substr(0, 16); }

std::string tokenizer_key(const Tokenizer& tokenizer) { return cache_name(tokenizer.definition()); }

std::string remedy_for(const fs::path& entry) {
  return fmt::format("remove the folder {}, and the next start makes it anew",
                     printable_path(entry));
}

void make_entry(const fs::path& entry, const std::function<void(const fs::path&)>& fill) {
  std::optional<NewFolder> made;
  with_context("data.cache", [&] { made.emplace(entry); });
  fill(made->path());
  try {
    made->commit();
  } catch (const InputError&) {
    if (!fs::exists(entry))
      throw;  // otherwise another process has created the same folder in the meantime
  }
}

std::vector<CacheEntry> cache_entries(const fs::path& folder) {
  require_input(fs::is_directory(folder),
                "{}: no such folder; name the one that data.cache of your runs names",
                printable_path(folder));
  std::vector<CacheEntry> entries;
  for (const fs::path& path : folder_entries(folder)) {
    std::error_code vanished;
    if (fs::symlink_status(path, vanished).type() != fs::file_type::directory ||
        !is_entry_name(path.filename().string()))
      continue;
    const std::optional<std::int64_t> bytes = bytes_of_own(path);
    if (!bytes) continue;
    CacheEntry entry{path, *bytes, fs::last_write_time(path, vanished)};
    // This exclusive lock fails while a run uses the entry (shared lock) or creates it.
    entry.in_use = !lock_folder(entry.path).is_open();
    if (!vanished) entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const CacheEntry& a, const CacheEntry& b) { return a.last_use > b.last_use; });
  return entries;
}

std::vector<CacheEntry> prune_cache(const fs::path& folder) {
  std::vector<CacheEntry> removed;
  for (CacheEntry& entry : cache_entries(folder)) {
    const Descriptor lock = lock_folder(entry.path);
    if (!lock.is_open()) continue;
    std::error_code error;
    fs::path trash = entry.path;
    if (!temporary_target(trash.filename().string()))
      trash = temporary_name(trash);  // a partly removed entry must not look complete
    fs::rename(entry.path, trash, error);
    if (!error) fs::remove_all(trash, error);
    require_input(!error, "{}: cannot remove: {}", printable_path(entry.path), error.message());
    removed.push_back(std::move(entry));
  }
  return removed;
}

}  // namespace nystrom
