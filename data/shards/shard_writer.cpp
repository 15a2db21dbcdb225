#include <cstring>
#include <optional>

#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/hdf5/hdf5.h"
#include "data/shards/shard_index.h"
#include "data/shards/shards.h"

namespace nystrom {
namespace {

// Small chunks are cheap to decompress for one sample; large ones compress well.
constexpr std::int64_t chunk_rows = 16384;

/// Collects values for an array, and writes whole chunks.
class Column {
 public:
  Column(const char* name, StoredInteger type) : name_(name), type_(type) {}

  void push(std::uint64_t value, Hdf5Writer& file) {
    const std::size_t end = bytes_.size();
    bytes_.resize(end + static_cast<std::size_t>(size_of(type_)));
    std::memcpy(bytes_.data() + end, &value,
                static_cast<std::size_t>(size_of(type_)));  // little-endian: the low bytes
    if (static_cast<std::int64_t>(bytes_.size()) == chunk_rows * size_of(type_)) flush(file);
  }
  void flush(Hdf5Writer& file) {
    file.append(name_, bytes_);
    bytes_.clear();
  }
  void add_to(Hdf5Writer& file, std::int64_t max_rows) const {
    file.add(name_, type_, chunk_rows, max_rows);
  }

 private:
  const char* name_;
  StoredInteger type_;
  std::vector<std::byte> bytes_;
};

/// Whether `name` is that of some shard.
bool is_shard_name(std::string_view name) {
  constexpr std::string_view begin = "tokens-", end = ".h5";
  if (!name.starts_with(begin) || !name.ends_with(end)) return false;
  name = name.substr(begin.size(), name.size() - begin.size() - end.size());
  return name.size() >= 5 && name.find_first_not_of("0123456789") == name.npos;
}

/// Removes shards that an interrupted run left, complete or not.
void remove_leftovers(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const auto unfinished = temporary_target(name);
    const bool own = is_shard_name(unfinished.value_or(name)) || unfinished == index_file;
    if (own && entry.symlink_status().type() == std::filesystem::file_type::regular)
      std::filesystem::remove(entry.path());
  }
}

}  // namespace

struct ShardWriter::State {
  std::filesystem::path folder;
  std::int64_t shard_tokens;
  ShardIndex index;
  Column ids, starts;
  std::optional<Hdf5Writer> file;  // the current shard
  ShardEntry shard;
  bool document_begins = false;
  std::int64_t tokens = 0, documents = 0;

  State(std::filesystem::path place, TokenSetInfo info, std::int64_t most)
      : folder(std::move(place)),
        shard_tokens(most),
        index{std::move(info), {}, {}},
        ids(tokens_array, token_type(index.info.vocab_size)),
        starts(documents_array, StoredInteger::u64) {}

  void open_shard() {
    shard = {shard_name(index.shards.size()), 0, 0, 0, ""};
    file.emplace(folder / shard.name);
    ids.add_to(*file, shard_tokens);
    starts.add_to(*file, shard_tokens);
    file->add(metadata_array, StoredInteger::u8, 4096, max_metadata_bytes);
  }

  void close_shard() {
    ids.flush(*file);
    starts.flush(*file);
    const std::string metadata = shard_metadata(index.info, shard.tokens, shard.documents);
    file->append(metadata_array, std::as_bytes(std::span(metadata)));
    file->commit();
    file.reset();
    const std::filesystem::path path = folder / shard.name;
    shard.bytes = InputFile::open(path).size();
    shard.checksum = file_checksum(path);
    index.shards.push_back(shard);
  }
};

ShardWriter::ShardWriter(std::filesystem::path folder, TokenSetInfo info,
                         std::int64_t shard_tokens) {
  require(shard_tokens > 0, "ShardWriter: shards of {} tokens", shard_tokens);
  check_info(info, printable_path(folder));
  try {
    std::filesystem::create_directories(folder);
    require_input(!std::filesystem::exists(folder / index_file),
                  "{}: holds a finished data set; remove the folder to write it anew",
                  printable_path(folder));
    remove_leftovers(folder);
  } catch (const std::filesystem::filesystem_error& error) {
    throw InputError(fmt::format("{}: cannot make the folder ready: {}", printable_path(folder),
                                 error.code().message()));
  }
  state_ = std::make_unique<State>(std::move(folder), std::move(info), shard_tokens);
}

ShardWriter::~ShardWriter() = default;

std::int64_t ShardWriter::tokens() const { return state_->tokens; }
std::int64_t ShardWriter::documents() const { return state_->documents; }

void ShardWriter::begin_document() { state_->document_begins = true; }

void ShardWriter::append(std::span<const std::uint32_t> ids) {
  State& s = *state_;
  require(s.documents > 0 || s.document_begins, "ShardWriter: append before begin_document");
  for (const std::uint32_t id : ids) {
    require(id < s.index.info.vocab_size, "ShardWriter: id {} is outside of the vocabulary of {}",
            id, s.index.info.vocab_size);
    if (!s.file) s.open_shard();
    if (s.document_begins) {
      s.starts.push(static_cast<std::uint64_t>(s.shard.tokens), *s.file);
      ++s.shard.documents;
      ++s.documents;
      s.document_begins = false;
    }
    s.ids.push(id, *s.file);
    ++s.shard.tokens;
    ++s.tokens;
    if (s.shard.tokens == s.shard_tokens) s.close_shard();
  }
}

void ShardWriter::finish(const std::string& statistics) {
  State& s = *state_;
  if (s.file) s.close_shard();
  require_input(!s.index.shards.empty(), "{}: the data set would be empty: no document has a token",
                printable_path(s.folder));
  s.index.statistics = statistics;
  write_text_file(s.folder / index_file, index_text(s.index));
}

}  // namespace nystrom
