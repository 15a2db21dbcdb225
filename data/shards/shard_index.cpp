#include "data/shards/shard_index.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"

namespace nystrom {
namespace {

using nlohmann::json;

constexpr const char* format_name = "nystrom token shards";
constexpr std::int64_t format_version = 1;
constexpr std::int64_t max_count = std::int64_t{1} << 48;
constexpr std::int64_t max_vocab_size = std::int64_t{1} << 24;  // masking tables have this size

/// A JSON object in which every key must be read.
class Object {
 public:
  Object(const json& value, std::string where) : value_(value), where_(std::move(where)) {
    require_input(value.is_object(), "{}: not a JSON object", where_);
  }

  const json& part(const char* key) {
    require_input(value_.contains(key), "{}: key \"{}\" is missing", where_, key);
    asked_.insert(key);
    return value_[key];
  }
  std::string text(const char* key) {
    const json& value = part(key);
    require_input(value.is_string(), "{}: \"{}\" is no text", where_, key);
    return value;
  }
  std::int64_t integer(const char* key, std::int64_t least, std::int64_t most) {
    const json& value = part(key);
    const bool whole = value.is_number_unsigned() &&
                       value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most);
    require_input(whole && value.get<std::int64_t>() >= least,
                  "{}: \"{}\" is {}; expected {} to {}", where_, key, printable(value.dump()),
                  least, most);
    return value.get<std::int64_t>();
  }
  /// Throws for a key that was not read.
  void finish() const {
    for (const auto& [key, value] : value_.items())
      require_input(asked_.contains(key), "{}: unknown key \"{}\"", where_, printable(key));
  }
  const std::string& where() const { return where_; }

 private:
  const json& value_;
  std::string where_;
  std::set<std::string> asked_;
};

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

TokenSetInfo read_info(Object& object) {
  const std::string format = object.text("format");
  require_input(format == format_name, "{}: format \"{}\"; only \"{}\" is read", object.where(),
                printable(format), format_name);
  const std::int64_t version = object.integer("version", 1, max_count);
  require_input(version == format_version,
                "{}: version {}; only {} is read by this program: write the data set anew",
                object.where(), version, format_version);
  TokenSetInfo info;
  info.tokenizer = object.text("tokenizer");
  info.vocab_size = object.integer("vocab_size", 1, max_vocab_size);
  Object ids(object.part("special_ids"), object.where() + ": special_ids");
  const auto id = [&](const char* role) {
    return static_cast<std::int32_t>(ids.integer(role, 0, info.vocab_size - 1));
  };
  const auto absent_or = [&](const char* role) {
    return ids.part(role).is_null() ? no_id : id(role);
  };
  info.special = {.cls = absent_or("cls"),
                  .sep = absent_or("sep"),
                  .pad = id("pad"),
                  .mask = id("mask"),
                  .unk = absent_or("unk")};
  ids.finish();
  check_info(info, object.where());
  return info;
}

ShardEntry read_entry(const json& value, std::size_t number, const std::string& where) {
  Object object(value, fmt::format("{}: shard {}", where, number));
  ShardEntry entry{object.text("name"), object.integer("tokens", 1, max_count), 0,
                   object.integer("bytes", 1, max_count), object.text("xxh3_128")};
  entry.documents = object.integer("documents", 0, entry.tokens);
  object.finish();
  const std::string name = shard_name(number);
  require_input(entry.name == name, "{}: the name is \"{}\"; expected \"{}\"", object.where(),
                printable(entry.name), name);
  const bool hexadecimal =
      entry.checksum.find_first_not_of("0123456789abcdef") == std::string::npos;
  require_input(hexadecimal && entry.checksum.size() == 32,
                "{}: \"xxh3_128\" is not 32 hexadecimal digits", object.where());
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
  Object object(value, where);
  ShardIndex index{read_info(object), {}, {}};
  require_input(object.part("statistics").is_object(), "{}: \"statistics\" is not a JSON object",
                where);
  index.statistics = object.part("statistics").dump();
  const json& shards = object.part("shards");
  require_input(shards.is_array() && !shards.empty(), "{}: \"shards\" is not a list of shards",
                where);
  for (const json& shard : shards)
    index.shards.push_back(read_entry(shard, index.shards.size(), where));
  for (const auto& [key, part] :
       {std::pair("tokens", &ShardEntry::tokens), std::pair("documents", &ShardEntry::documents)}) {
    const std::int64_t declared = object.integer(key, 1, max_count),
                       sum = total(index.shards, part);
    require_input(declared == sum, "{}: \"{}\" is {}; those of the shards are {}", where, key,
                  declared, sum);
  }
  object.finish();
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
