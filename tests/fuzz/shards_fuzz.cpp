// Arbitrary files as a data set: an index and a shard. Only InputError may be thrown. An accepted
// data set must have its stated number of ids and documents, with ids inside the vocabulary.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/base/error.h"
#include "data/shards/shard_index.h"
#include "data/shards/shards.h"
#include "tests/fuzz/hdf5_flaws.h"
#include "tests/fuzz/input_files.h"

namespace {

void read(const std::filesystem::path& folder) {
  const auto dataset = nystrom::TokenDataset::open(folder);
  // An index may claim more than any file contains; reading detects it.
  const std::int64_t tokens = std::min<std::int64_t>(dataset.tokens(), 1 << 16);
  const std::int64_t documents = std::min<std::int64_t>(dataset.documents(), 1 << 16);
  try {
    const auto ids = dataset.read(0, tokens);
    if (static_cast<std::int64_t>(ids.size()) != tokens) std::abort();
    if (std::ranges::any_of(ids, [&](std::uint32_t id) { return id >= dataset.info().vocab_size; }))
      std::abort();
    if (static_cast<std::int64_t>(dataset.document_starts(0, documents).size()) != documents)
      std::abort();
  } catch (const nystrom::InputError&) {
  }
  dataset.verify();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  static nystrom::testing::InputFolder folder{"index.json", "tokens-00000.h5", "tokens-00001.h5"};
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  folder.fill(input);
  try {
    read(folder.path());
  } catch (const nystrom::InputError&) {
  }
  try {
    const auto index = nystrom::parse_index(input, "index.json");
    if (nystrom::index_text(nystrom::parse_index(nystrom::index_text(index), "written")) !=
        nystrom::index_text(index))
      std::abort();
    nystrom::check_shard_metadata(index.statistics, "metadata", index.info, index.shards[0]);
  } catch (const nystrom::InputError&) {
  }
  return 0;
}
