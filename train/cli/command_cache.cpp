// nystrom cache: list or prune the cache of tokenizers and token shards.
#include <fmt/chrono.h>

#include <nlohmann/json.hpp>

#include "core/base/printable.h"
#include "core/check.h"
#include "train/cli/commands.h"
#include "train/config/config.h"
#include "train/loop/run_memory.h"
#include "train/objectives/cache.h"

namespace nystrom {
namespace {

struct CacheOptions {
  CommonOptions common;
  std::string folder = RunConfig{}.data.cache;
  bool prune = false;
};

/// A time in UTC: "2026-03-01T12:00:00Z".
std::string time_text(std::filesystem::file_time_type time) {
  const auto system = std::chrono::file_clock::to_sys(time);
  const std::time_t seconds = std::chrono::system_clock::to_time_t(
      std::chrono::time_point_cast<std::chrono::seconds>(system));
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(seconds));
}

void run(const CacheOptions& options, Device, Log&) {
  const std::vector<CacheEntry> entries =
      options.prune ? prune_cache(options.folder) : cache_entries(options.folder);
  std::int64_t bytes = 0;
  auto list = nlohmann::ordered_json::array();
  for (const CacheEntry& entry : entries) {
    bytes += entry.bytes;
    const std::string name = entry.path.filename().string(), used = time_text(entry.last_use);
    if (options.common.json)
      list.push_back(
          {{"name", name}, {"bytes", entry.bytes}, {"last_use", used}, {"in_use", entry.in_use}});
    else
      fmt::print("{:>10}  {}  {}{}\n", memory_text(static_cast<double>(entry.bytes)), used, name,
                 entry.in_use ? "  (in use)" : "");
  }
  if (options.common.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"folder", json_path(options.folder)},
                                              {options.prune ? "removed" : "entries", list}}
                           .dump());
    return;
  }
  fmt::print("{}: {} entries, {}{}\n", printable_path(options.folder), entries.size(),
             memory_text(static_cast<double>(bytes)),
             options.prune ? " removed" : "; --prune removes those that are not in use");
}

}  // namespace

Command add_cache_command(CLI::App& app) {
  auto options = std::make_shared<CacheOptions>();
  auto* command =
      app.add_subcommand("cache", "List or prune the cache of tokenizers and token shards");
  command->footer(
      "A run that resumes rebuilds its entries from the same text. Entries in use by a run on this "
      "machine are kept.\n\n"
      "Examples:\n  nystrom cache\n  nystrom cache runs/cache --prune");
  command->add_option("FOLDER", options->folder, "the folder of data.cache")->capture_default_str();
  command->add_flag("--prune", options->prune, "remove what no running command uses");
  options->common.add_to(
      *command, {.set = false, .device = false, .threads = false, .json = "one JSON object"});
  return alone(command, options, run);
}

}  // namespace nystrom
