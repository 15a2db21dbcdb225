#include "data/shards/shard_index.h"

#include <set>

#include "core/base/json.h"
#include "core/base/json_part.h"
#include "core/base/printable.h"
#include "core/check.h"

namespace nystrom {
namespace {

using nlohmann::json;

constexpr const char* format_name = "nystrom token shards";
constexpr std::int64_t format_version = 1;
constexpr std::int64_t max_count = std::int64_t{1} << 48;
constexpr std::int64_t max_vocab_size = std::int64_t{1} << 24;  // masking tables have this size

json info_json(const TokenSetInfo& info) {
  const SpecialIds& special = info.special;
  const auto id = [](std::int32_t token) { return token == no_id ? json() : json(token); };
  return {{"format", format_name},
          {"version", format_version},
          {"tokenizer", info.tokenizer},
          {"vocab_size", info.vocab_size},
          {"special_ids",
           {{"pad", special.pad},
            {"unk", id(special.unk)},
            {"cls", id(special.cls)},
            {"sep", id(special.sep)},
            {"mask", special.mask}}}};
}

TokenSetInfo read_info(const JsonPart& part) {
  const std::string format = part["format"].text();
  require_input(format == format_name, "{}: format \"{}\"; only \"{}\" is read", part.where(),
                printable(format), format_name);
  const std::int64_t version = part["version"].integer(1, max_count);
  require_input(version == format_version, "{}: version {}; only {} is read by this program",
                part.where(), version, format_version);
  TokenSetInfo info;
  info.tokenizer = part["tokenizer"].text();
  info.vocab_size = part["vocab_size"].integer(1, max_vocab_size);
  const JsonPart ids = part["special_ids"];
  ids.refuse_others({"cls", "sep", "pad", "mask", "unk"});
  const auto id = [&](const char* role) {
    return static_cast<std::int32_t>(ids[role].integer(0, info.vocab_size - 1));
  };
  const auto absent_or = [&](const char* role) {
    return ids[role].value().is_null() ? no_id : id(role);
  };
  info.special = {.cls = absent_or("cls"),
                  .sep = absent_or("sep"),
                  .pad = id("pad"),
                  .mask = id("mask"),
                  .unk = absent_or("unk")};
  check_info(info, part.where());
  return info;
}

ShardEntry read_entry(const JsonPart& part, std::size_t number) {
  part.refuse_others({"name", "tokens", "documents", "bytes", "xxh3_128"});
  const std::int64_t tokens = part["tokens"].integer(1, max_count);
  const ShardEntry entry{part["name"].text(), tokens, part["documents"].integer(0, tokens),
                         part["bytes"].integer(1, max_count), part["xxh3_128"].text()};
  if (const std::string name = shard_name(number); entry.name != name)
    part["name"].fail(fmt::format("got '{}', expected '{}'", printable(entry.name), name));
  const bool hexadecimal =
      entry.checksum.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!hexadecimal || entry.checksum.size() != 32)
    part["xxh3_128"].fail(
        fmt::format("got '{}', expected 32 hexadecimal digits", printable(entry.checksum, 40)));
  return entry;
}

std::int64_t total(const std::vector<ShardEntry>& shards, std::int64_t ShardEntry::*part) {
  std::int64_t sum = 0;
  for (const ShardEntry& shard : shards) sum += shard.*part;
  return sum;
}

}  // namespace

std::vector<std::int64_t> ids_of(const SpecialIds& special) {
  std::vector<std::int64_t> ids{special.cls, special.sep, special.pad, special.mask, special.unk};
  std::erase(ids, no_id);
  return ids;
}

std::string shard_name(std::size_t number) { return fmt::format("tokens-{:05}.h5", number); }

StoredInteger token_type(std::int64_t vocab_size) {
  return vocab_size <= 65536 ? StoredInteger::u16 : StoredInteger::u32;
}

void check_info(const TokenSetInfo& info, const std::string& where) {
  require_input(info.vocab_size >= 1 && info.vocab_size <= max_vocab_size,
                "{}: a vocabulary of {} ids; 1 to {} expected", where, info.vocab_size,
                max_vocab_size);
  const std::vector<std::int64_t> ids = ids_of(info.special);
  for (const std::int64_t id : ids) {
    require_input(id >= 0 && id < info.vocab_size,
                  "{}: special id {} is outside of the vocabulary of {}", where, id,
                  info.vocab_size);
  }
  require_input(std::set(ids.begin(), ids.end()).size() == ids.size(),
                "{}: two special ids are the same", where);
  require_input((info.special.cls == no_id) == (info.special.sep == no_id),
                "{}: it has one of the special ids cls and sep, expected both or none", where);
}

std::string index_text(const ShardIndex& index) {
  json value = info_json(index.info);
  value["statistics"] = parse_json(index.statistics, "statistics");
  value["tokens"] = total(index.shards, &ShardEntry::tokens);
  value["documents"] = total(index.shards, &ShardEntry::documents);
  value["shards"] = json::array();
  for (const ShardEntry& shard : index.shards) {
    value["shards"].push_back({{"name", shard.name},
                               {"tokens", shard.tokens},
                               {"documents", shard.documents},
                               {"bytes", shard.bytes},
                               {"xxh3_128", shard.checksum}});
  }
  return value.dump(2) + "\n";
}

ShardIndex parse_index(std::string_view text, const std::string& where) {
  const json value = parse_json(text, where);
  const JsonPart file(value, where);
  ShardIndex index{read_info(file), {}, {}};  // first: another version may have other keys
  file.refuse_others({"format", "version", "tokenizer", "vocab_size", "special_ids", "statistics",
                      "tokens", "documents", "shards"});
  file["statistics"].members();  // throws unless it is an object
  index.statistics = file["statistics"].value().dump();
  for (const JsonPart& shard : file["shards"].elements())
    index.shards.push_back(read_entry(shard, index.shards.size()));
  if (index.shards.empty()) file["shards"].fail("it is empty, expected a shard");
  for (const auto& [key, part] :
       {std::pair("tokens", &ShardEntry::tokens), std::pair("documents", &ShardEntry::documents)}) {
    const std::int64_t declared = file[key].integer(1, max_count), sum = total(index.shards, part);
    require_input(declared == sum, "{}: \"{}\" is {}; those of the shards are {}", where, key,
                  declared, sum);
  }
  require_input(index.shards.front().documents > 0, "{}: no document starts in the first shard",
                where);
  return index;
}

std::string shard_metadata(const TokenSetInfo& info, std::int64_t tokens, std::int64_t documents) {
  json value = info_json(info);
  value["tokens"] = tokens;
  value["documents"] = documents;
  return value.dump();
}

void check_shard_metadata(std::string_view text, const std::string& where, const TokenSetInfo& info,
                          const ShardEntry& entry) {
  const json value = parse_json(text, where),
             expected = parse_json(shard_metadata(info, entry.tokens, entry.documents), where);
  require_input(value.is_object(), "{}: not a JSON object", where);
  for (const auto& [key, part] : expected.items()) {
    require_input(value.contains(key), "{}: key \"{}\" is missing", where, key);
    require_input(value[key] == part,
                  "{}: \"{}\" is {}; the index says {}: the shard belongs to another data set",
                  where, key, printable(value[key].dump()), printable(part.dump()));
  }
  require_input(value.size() == expected.size(), "{}: unknown keys", where);
}

}  // namespace nystrom
