#include "data/text/match_files.h"

#include <fnmatch.h>
#include <locale.h>  // NOLINT: newlocale is POSIX's
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "core/base/ascii.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/text/table_cells.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

using FileNames = std::vector<std::string>;

/// The entries of a folder that is "" or ends with '/', without hidden ones, sorted by bytes.
std::vector<fs::directory_entry> entries_of(const std::string& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, error), end;
       !error && entry != end; entry.increment(error))
    if (!entry->path().filename().native().starts_with('.')) entries.push_back(*entry);
  require_input(!error, "{}: this folder cannot be listed: {}", printable(folder), error.message());
  std::ranges::sort(entries, {}, [](const auto& entry) { return entry.path().native(); });
  return entries;
}

bool is_folder(const std::string& name) {
  std::error_code error;
  return fs::is_directory(name, error);
}

/// A folder and all folders below it. Each ends with '/'; the current folder is "". Links are
/// entered after all folders, so that a folder keeps its own name where it has one.
FileNames folders_below(const std::string& top) {
  FileNames folders, links = {top};
  std::set<std::pair<dev_t, ino_t>> entered;
  const std::function<void(const std::string&)> enter = [&](const std::string& folder) {
    struct stat status {};
    if (::stat(folder.empty() ? "." : folder.c_str(), &status) != 0 ||
        !entered.emplace(status.st_dev, status.st_ino).second)
      return;
    folders.push_back(folder);
    for (const fs::directory_entry& entry : entries_of(folder)) {
      const std::string inner = folder + entry.path().filename().string() + '/';
      if (!is_folder(inner)) continue;
      entry.is_symlink() ? links.push_back(inner) : enter(inner);
    }
  };
  for (std::size_t i = 0; i < links.size(); ++i) enter(std::string(links[i]));
  return folders;
}

/// Whether a shell pattern matches a name by its characters in UTF-8, whatever the caller's locale
/// is: Python sets one, the program does not. A name that is no UTF-8 is matched by bytes.
bool matches(const std::string& pattern, const std::string& name) {
  static const locale_t utf8 = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t{});
  const locale_t before = ::uselocale(utf8);
  const bool found = ::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0;
  ::uselocale(before);
  return found;
}

/// Adds the names below `base` that the parts of a pattern match. `base` is "" or ends with '/'.
void add_matches(const std::string& base, std::span<const std::string> parts, FileNames& names) {
  const std::string name = base + parts[0];
  const bool last = parts.size() == 1;
  std::error_code error;
  if (parts[0].empty() || fs::symlink_status(name, error).type() != fs::file_type::not_found) {
    if (last)
      names.push_back(name);
    else if (is_folder(name.empty() ? "/" : name))
      add_matches(name + '/', parts.subspan(1), names);
    return;
  }
  if (parts[0] == "**") {
    const std::string any = "*";
    FileNames found;
    for (const std::string& folder : folders_below(base))
      add_matches(folder, last ? std::span(&any, 1) : parts.subspan(1), found);
    std::ranges::copy_if(found, std::back_inserter(names), std::not_fn(is_folder));
    return;
  }
  if (parts[0].find_first_of("*?[\\") == std::string::npos) return;
  for (const fs::directory_entry& entry : entries_of(base)) {
    const std::string found = entry.path().filename().string();
    if (!matches(parts[0], found)) continue;
    if (last)
      names.push_back(base + found);
    else if (is_folder(base + found))
      add_matches(base + found + '/', parts.subspan(1), names);
  }
}

/// Throws an InputError if two names are those of one file, as by a link: it would count twice.
/// Hard links, as programs make them that save space, are files of their own.
void require_different(std::span<const fs::path> files) {
  std::map<fs::path, fs::path> names;
  for (const fs::path& file : files) {
    std::error_code nameless;  // the file of a pipe
    const fs::path path = fs::canonical(file, nameless);
    if (nameless) continue;
    const auto [other, fresh] = names.emplace(path, file);
    require_input(fresh, "{} and {} are one file, which would count twice; name it once",
                  printable_path(other->second), printable_path(file));
  }
}

}  // namespace

std::vector<fs::path> match_files(std::span<const std::string> patterns) {
  std::set<std::string> all;
  for (const std::string& pattern : patterns) {
    require_input(!pattern.empty() && pattern.find('\0') == pattern.npos,
                  "a file pattern is empty or holds a NUL byte");
    FileNames names;
    add_matches("", split_cells(pattern, '/'), names);
    require_input(!names.empty(),
                  "'{}' matches no file; relative names start at the current folder {}",
                  printable(pattern), printable_path(fs::current_path()));
    for (const std::string& name : names) {
      require_input(!is_folder(name),
                    "'{0}' is a folder; name the files in it, as in '{0}/*.txt', or all below it: "
                    "'{0}/**'",
                    printable(name));
      all.insert(name);
    }
  }
  const std::vector<fs::path> files(all.begin(), all.end());
  require_different(files);
  return files;
}

std::vector<fs::path> files_below(const fs::path& folder) {
  FileNames names;
  const std::string base = folder.string(), any_depth = "**";
  add_matches(base.ends_with('/') ? base : base + '/', std::span(&any_depth, 1), names);
  std::ranges::sort(names);
  return {names.begin(), names.end()};
}

std::string last_ending(const fs::path& file) { return ascii_lower(file.extension().string()); }

std::string name_ending(const fs::path& file) {
  const std::string last = last_ending(file);
  return last == ".gz" || last == ".zst" ? last_ending(file.stem()) : last;
}

}  // namespace nystrom
