// Token data sets for tests.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "core/rng.h"
#include "data/shards/shards.h"

namespace nystrom::testing {

inline TokenSetInfo small_info(std::int64_t vocab_size = 1000) {
  return {"0123456789abcdef", vocab_size, {.cls = 2, .sep = 3, .pad = 0, .mask = 4, .unk = 1}};
}

using TokenLists = std::vector<std::vector<std::uint32_t>>;

/// Documents of these lengths with ordinary ids. They depend only on the seed.
inline TokenLists documents_of(const std::vector<std::size_t>& lengths, std::uint64_t seed = 1,
                               std::uint32_t vocab_size = 1000) {
  TokenLists documents;
  for (const std::size_t length : lengths) {
    std::vector<std::uint32_t>& document = documents.emplace_back(length);
    for (std::uint32_t& id : document)
      id = 5 + static_cast<std::uint32_t>(mix64(seed++) % (vocab_size - 5));
  }
  return documents;
}

inline void write_set(const std::filesystem::path& folder, const TokenLists& documents,
                      std::int64_t shard_tokens = default_shard_tokens,
                      const TokenSetInfo& info = small_info(),
                      const std::string& statistics = "{}") {
  ShardWriter writer(folder, info, shard_tokens);
  for (const auto& document : documents) {
    writer.begin_document();
    writer.append(document);
  }
  writer.finish(statistics);
}

inline std::shared_ptr<const TokenDataset> open_set(const std::filesystem::path& folder) {
  return std::make_shared<const TokenDataset>(TokenDataset::open(folder));
}

}  // namespace nystrom::testing
