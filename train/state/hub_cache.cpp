#include "train/state/hub_cache.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>

#include "core/base/file_io.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// A path of the environment, in which ~ stands for the home folder.
fs::path place(const std::string& text) {
  return text == "~" || text.starts_with("~/") ? fs::path(variable("HOME") + text.substr(1))
                                               : fs::path(text);
}

}  // namespace

fs::path hub_cache() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const std::string cache = variable(name); !cache.empty()) return place(cache);
  if (const std::string home = variable("HF_HOME"); !home.empty()) return place(home) / "hub";
  const std::string caches = variable("XDG_CACHE_HOME");
  return place(caches.empty() ? "~/.cache" : caches) / "huggingface" / "hub";
}

bool is_hub_name(const std::string& name) {
  const auto is_word = [](std::string_view word) {
    const auto is_part = [](unsigned char c) {
      return std::isalnum(c) || c == '-' || c == '_' || c == '.';
    };
    return !word.empty() && word.size() <= 96 &&
           std::isalnum(static_cast<unsigned char>(word[0])) && std::ranges::all_of(word, is_part);
  };
  const std::size_t slash = name.find('/');
  return slash == name.npos ? is_word(name)
                            : is_word(name.substr(0, slash)) && is_word(name.substr(slash + 1));
}

std::optional<fs::path> main_snapshot(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / "refs" / "main", ignored)) return std::nullopt;
  const std::string commit = read_text_file(folder / "refs" / "main");
  const fs::path snapshot = folder / "snapshots" / commit.substr(0, commit.find_first_of("/ \r\n"));
  if (commit.starts_with('.') || snapshot.filename().empty() ||
      !fs::is_directory(snapshot, ignored))
    return std::nullopt;
  return snapshot;
}

std::optional<fs::path> find_in_hub_cache(const std::string& name) {
  if (!is_hub_name(name)) return std::nullopt;
  std::string folder = "models--" + name;
  if (const std::size_t slash = folder.find('/'); slash != folder.npos)
    folder.replace(slash, 1, "--");
  return main_snapshot(hub_cache() / folder);
}

}  // namespace nystrom
