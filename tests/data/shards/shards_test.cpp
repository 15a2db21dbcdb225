#include "data/shards/shards.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

#include "data/hdf5/hdf5.h"
#include "data/shards/shard_index.h"
#include "tests/data/tokenizers/token_sets.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"

namespace nystrom::testing {
namespace {

std::vector<std::uint32_t> joined(const TokenLists& documents) {
  std::vector<std::uint32_t> all;
  for (const auto& document : documents) all.insert(all.end(), document.begin(), document.end());
  return all;
}

std::vector<std::int64_t> starts_of(const TokenLists& documents) {
  std::vector<std::int64_t> starts;
  std::int64_t at = 0;
  for (const auto& document : documents) {
    if (!document.empty()) starts.push_back(at);
    at += static_cast<std::int64_t>(document.size());
  }
  return starts;
}

using Shards = FolderTest;

TEST_F(Shards, GivesBackDocumentsForEverySizeOfShard) {
  const TokenLists documents = documents_of({3, 1, 0, 40000, 7, 20000, 1, 1, 0});
  const auto all = joined(documents);
  for (const std::int64_t shard_tokens : {1'000'000, 20000, 16384, 9999, 333}) {
    const auto place = folder_ / std::to_string(shard_tokens);
    write_set(place, documents, shard_tokens, small_info(), R"({"files":3})");
    const TokenDataset set = TokenDataset::open(place);
    EXPECT_EQ(set.tokens(), 60013);
    EXPECT_EQ(set.documents(), 7);
    EXPECT_EQ(set.info().tokenizer, "0123456789abcdef");
    EXPECT_EQ(set.info().vocab_size, 1000);
    EXPECT_EQ(ids_of(set.info().special), (std::vector<std::int64_t>{2, 3, 0, 4, 1}));
    EXPECT_EQ(set.statistics(), R"({"files":3})");
    EXPECT_EQ(set.read(0, set.tokens()), all);
    EXPECT_EQ(set.document_starts(0, set.documents()), starts_of(documents));
    EXPECT_NO_THROW(set.verify());
    for (const auto& [first, count] : {std::pair(0, 1), std::pair(16383, 2), std::pair(9998, 20003),
                                       std::pair(60012, 1), std::pair(60013, 0)}) {
      EXPECT_EQ(set.read(first, count),
                std::vector(all.begin() + first, all.begin() + first + count));
    }
    EXPECT_THROW(set.read(60013, 1), Error);
    EXPECT_THROW(set.read(-1, 1), Error);
    EXPECT_THROW(set.document_starts(0, 8), Error);
  }
}

TEST_F(Shards, LargeVocabulariesTakeFourBytes) {
  for (const std::uint32_t vocab_size : {65536u, 65537u, 500000u}) {
    const auto place = folder_ / std::to_string(vocab_size);
    const TokenLists documents{{5, vocab_size - 1, 6}};
    write_set(place, documents, 10, small_info(vocab_size));
    EXPECT_EQ(TokenDataset::open(place).read(0, 3), documents[0]);
    const Hdf5File file(
        std::make_shared<const InputFile>(InputFile::open(place / "tokens-00000.h5")));
    EXPECT_EQ(file.find("tokens", 0)->type(), vocab_size == 65536 ? "u16" : "u32");
  }
}

TEST_F(Shards, SameDocumentsSameBytes) {
  for (const char* name : {"a", "b"}) write_set(folder_ / name, documents_of({100, 200, 300}), 250);
  for (const char* name : {"index.json", "tokens-00000.h5", "tokens-00001.h5", "tokens-00002.h5"}) {
    EXPECT_EQ(read_bytes(folder_ / "a" / name), read_bytes(folder_ / "b" / name)) << name;
  }
}

TEST_F(Shards, SeveralThreadsReadTheSame) {
  const TokenLists documents = documents_of(std::vector<std::size_t>(300, 777));
  write_set(folder_ / "x", documents, 50000);
  const auto all = joined(documents);
  // The cache holds two chunks, so threads evict each other's chunks.
  const TokenDataset set = TokenDataset::open(folder_ / "x", "", make_shard_cache(70000));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 200; ++i) {
        const auto first = static_cast<std::int64_t>(mix64(1000 * t + i) % (all.size() - 512));
        wrong +=
            set.read(first, 512) != std::vector(all.begin() + first, all.begin() + first + 512);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Shards, ManyDataSetsShareTheOpenFiles) {
  constexpr std::uint32_t count = 100;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  {
    const auto cache = make_shard_cache();
    std::vector<TokenDataset> sets;
    for (std::uint32_t i = 0; i < count; ++i) {
      write_set(folder_ / std::to_string(i), {{5 + i, 6, 7}}, 10);
      sets.push_back(TokenDataset::open(folder_ / std::to_string(i), "", cache));
    }
    for (int round = 0; round < 2; ++round)
      for (std::uint32_t i = 0; i < count; ++i) EXPECT_EQ(sets[i].read(0, 1)[0], 5 + i);
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(Shards, AKilledWriterLeavesNothingThatLooksWhole) {
  const TokenLists documents = documents_of(std::vector<std::size_t>(200, 500));
  for (int round = 0; round < 10; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      while (true) {
        std::filesystem::remove(folder_ / "index.json");
        write_set(folder_.path(), documents, 7000);
      }
    }
    usleep(static_cast<useconds_t>(2000 + mix64(static_cast<std::uint64_t>(round)) % 30000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    if (std::filesystem::exists(folder_ / "index.json")) {
      const TokenDataset set = TokenDataset::open(folder_.path());
      set.verify();
      EXPECT_EQ(set.tokens(), 100000);
      std::filesystem::remove(folder_ / "index.json");
    } else {
      EXPECT_EQ(error_in_dir([&] { TokenDataset::open(folder_.path()); }),
                "DIR: has no index.json: the data set was not written to its end");
    }
    write_set(folder_.path(), documents, 7000);
    // Temporary files of the killed process are gone.
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 16);
    std::filesystem::remove(folder_ / "index.json");
  }
}

TEST_F(Shards, RefusesToWriteWhatIsNoDataSet) {
  const auto error = [&](const std::string& name, const TokenLists& documents,
                         const TokenSetInfo& info = small_info()) {
    return error_in_dir([&] { write_set(folder_ / name, documents, 10, info); });
  };
  EXPECT_EQ(error("x", {{}, {}}), "DIR/x: the data set would be empty: no document has a token");
  EXPECT_EQ(error("x", {{5}}), "no error");
  EXPECT_EQ(error("x", {{5}}),
            "DIR/x: holds a finished data set; remove the folder to write it anew");
  TokenSetInfo info = small_info(10);
  info.special.mask = 10;
  EXPECT_EQ(error("y", {{5}}, info), "DIR/y: special id 10 is outside of the vocabulary of 10");
  info.special.mask = 3;
  EXPECT_EQ(error("y", {{5}}, info), "DIR/y: two special ids are the same");
  EXPECT_THROW(write_set(folder_ / "z", {{10}}, 10, small_info(10)), Error);
  write_bytes(folder_ / "file", "");
  EXPECT_EQ(error("file/x", {{5}}), "DIR/file/x: cannot make the folder ready: Not a directory");
}

/// Writes a shard without ShardWriter, which would never write such content.
void write_shard(const std::filesystem::path& folder, const std::vector<std::uint16_t>& ids,
                 const std::vector<std::uint64_t>& starts, std::int64_t documents,
                 const std::function<std::string(std::string)>& edit_metadata = nullptr) {
  std::filesystem::create_directories(folder);
  const auto tokens = static_cast<std::int64_t>(ids.size());
  const std::string metadata = shard_metadata(small_info(), tokens, documents);
  const std::string text = edit_metadata ? edit_metadata(metadata) : metadata;
  {
    Hdf5Writer file(folder / "tokens-00000.h5");
    file.add("tokens", StoredInteger::u16, 4, 100);
    file.append("tokens", std::as_bytes(std::span(ids)));
    file.add("documents", StoredInteger::u64, 2, 100);
    file.append("documents", std::as_bytes(std::span(starts)));
    file.add("metadata", StoredInteger::u8, 100, 1000);
    file.append("metadata", std::as_bytes(std::span(text)));
    file.commit();
  }
  const auto path = folder / "tokens-00000.h5";
  const ShardEntry entry{"tokens-00000.h5", tokens, documents,
                         static_cast<std::int64_t>(std::filesystem::file_size(path)),
                         file_checksum(path)};
  write_bytes(folder / "index.json", index_text({small_info(), "{}", {entry}}));
}

std::string verify_error(const std::filesystem::path& folder) {
  const std::string message = input_error([&] { TokenDataset::open(folder).verify(); });
  const std::string name = folder.string();
  return message.starts_with(name) ? message.substr(name.size()) : message;
}

TEST_F(Shards, DamageThatIsFoundLateIsToldWithTheRemedyToo) {
  const std::filesystem::path folder = folder_ / "x";
  write_set(folder, {{5, 6, 7}}, 10);
  const TokenDataset set = TokenDataset::open(folder, "make it anew");
  std::filesystem::resize_file(folder / "tokens-00000.h5", 100);
  EXPECT_TRUE(input_error([&] { set.read(0, 3); }).ends_with("; make it anew"));
}

TEST_F(Shards, RefusesContentThatContradictsItself) {
  const std::vector<std::uint16_t> ids{5, 6, 7, 8, 9, 10};
  const std::string shard = "/tokens-00000.h5: ";
  using Edit = std::function<std::string(std::string)>;
  const auto error = [&](const std::vector<std::uint16_t>& tokens,
                         const std::vector<std::uint64_t>& document_starts, std::int64_t documents,
                         const Edit& edit_metadata = nullptr) {
    write_shard(folder_.path(), tokens, document_starts, documents, edit_metadata);
    return verify_error(folder_.path());
  };
  EXPECT_EQ(error(ids, {0, 2, 4}, 3), "no error");
  EXPECT_EQ(error({5, 6, 7, 8, 1000}, {0}, 1),
            shard + "token id 1000 is outside of the vocabulary of 1000");
  EXPECT_EQ(error(ids, {0, 0}, 2), shard + "a document starts at 0, the one before at 0");
  EXPECT_EQ(error(ids, {0, 3, 2, 4}, 4), ": document 2 starts at 2, out of order");
  EXPECT_EQ(error(ids, {1, 3}, 2), ": document 0 starts at 1, out of order");
  EXPECT_EQ(error(ids, {0, 6}, 2), shard + "a document starts at 6 of 6 tokens");
  EXPECT_EQ(error(ids, {0, ~0ull}, 2),
            shard + "a document starts at 18446744073709551615 of 6 tokens");
  EXPECT_EQ(error(ids, {0, 3, 4}, 2), shard + "array documents has 3 rows, the index says 2");
  const auto replace = [](std::string from, std::string to) {
    return [=](std::string text) { return text.replace(text.find(from), from.size(), to); };
  };
  EXPECT_EQ(
      error(ids, {0}, 1, replace(R"("tokens":6)", R"("tokens":7)")),
      shard +
          R"(metadata: "tokens" is 7; the index says 6: the shard belongs to another data set)");
  EXPECT_EQ(
      error(ids, {0}, 1, replace("0123456789", "9876543210")),
      shard + R"(metadata: "tokenizer" is "9876543210abcdef"; the index says "0123456789abcdef": )"
              "the shard belongs to another data set");
  EXPECT_EQ(error(ids, {0}, 1, replace(R"("version":1,)", "")).substr(0, 100),
            "/tokens-00000.h5: metadata: key \"version\" is missing");
  EXPECT_EQ(error(ids, {0}, 1, replace(R"("version":1)", R"("version":1,"extra":1)")),
            shard + "metadata: unknown keys");
  EXPECT_EQ(error(ids, {0}, 1, replace("{", "[")).substr(0, 40),
            "/tokens-00000.h5: metadata:1:13: syntax ");
}

TEST_F(Shards, RefusesFilesOfAnotherFormThanTheIndexSays) {
  write_set(folder_ / "x", documents_of({100, 200, 300}), 250);
  const auto index = folder_ / "x" / "index.json", shard = folder_ / "x" / "tokens-00001.h5";
  const std::string bytes = read_bytes(shard), text = read_bytes(index);
  const auto verify = [&] { return verify_error(folder_ / "x"); };
  EXPECT_EQ(verify(), "no error");
  write_bytes(shard, bytes.substr(0, bytes.size() - 1));
  EXPECT_EQ(verify(), "/tokens-00001.h5: has " + std::to_string(bytes.size() - 1) +
                          " bytes, the index says " + std::to_string(bytes.size()) +
                          ": it is cut short or another file");
  std::string flipped = bytes;
  flipped[bytes.size() / 2] ^= 1;
  write_bytes(shard, flipped);
  EXPECT_EQ(verify(),
            "/tokens-00001.h5: does not fit the checksum in the index: the file is damaged");
  std::filesystem::remove(shard);
  EXPECT_EQ(verify(), "/tokens-00001.h5: cannot open: No such file or directory");
  std::filesystem::create_symlink("tokens-00000.h5", shard);
  EXPECT_EQ(verify(),
            "/tokens-00001.h5: is a symbolic link, which is not followed here; put the file in its "
            "place");
  std::filesystem::remove(shard);
  write_bytes(shard, bytes);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string edited = text;
    write_bytes(index, edited.replace(edited.find(from), from.size(), to));
    return verify();
  };
  const std::string name = "/index.json: ";
  EXPECT_EQ(with(R"("version": 1)", R"("version": 2)"),
            name + "version 2; only 1 is read by this program");
  EXPECT_EQ(with(R"("version": 1)", R"("version": 2, "merges": 3)"),
            name + "version 2; only 1 is read by this program");
  EXPECT_EQ(with("nystrom token shards", "else"),
            name + R"(format "else"; only "nystrom token shards" is read)");
  EXPECT_EQ(with("tokens-00001.h5", "../tokens.h5"),
            name + "shards[1].name: got '../tokens.h5', expected 'tokens-00001.h5'");
  EXPECT_EQ(with(R"("tokens": 600)", R"("tokens": 601)"),
            name + R"("tokens" is 601; those of the shards are 600)");
  EXPECT_EQ(with(R"("tokens": 600)", R"("tokens": -1)"),
            name + "tokens: got -1, expected a whole number from 1 to 281474976710656");
  EXPECT_EQ(with(R"("tokens": 600)", R"("tokens": 6e2)"),
            name + "tokens: got 600.0, expected a whole number from 1 to 281474976710656");
  const std::string keys =
      "expected format, version, tokenizer, vocab_size, special_ids, statistics, tokens, "
      "documents, shards";
  EXPECT_EQ(with(R"("documents": 3,)", ""), name + "'documents' is missing");
  EXPECT_EQ(with(R"("documents": 3)", R"("document": 3)"), name + "'document' is unknown, " + keys);
  EXPECT_EQ(with(R"("cls": 2)", R"("cls": 1000)"),
            name + "special_ids.cls: got 1000, expected a whole number from 0 to 999");
  EXPECT_EQ(with(R"("cls": 2)", R"("cls": 3)"), name + "two special ids are the same");
  EXPECT_EQ(with(R"("cls": 2)", R"("cls": null)"),
            name + "it has one of the special ids cls and sep, expected both or none");
  EXPECT_EQ(with(R"("vocab_size": 1000)", R"("vocab_size": 999)"),
            R"(/tokens-00000.h5: metadata: "vocab_size" is 1000; the index says 999: )"
            "the shard belongs to another data set");
  EXPECT_EQ(with(R"("statistics": {})", R"("statistics": [])"),
            name + "statistics: got a list, expected an object");
  EXPECT_EQ(with("xxh3_128\": \"", "xxh3_128\": \"?"),
            name + "shards[0].xxh3_128: got '?" + text.substr(text.find("xxh3_128") + 12, 32) +
                "', expected 32 hexadecimal digits");
  EXPECT_EQ(with("{", "{\"more\": 1,"), name + "'more' is unknown, " + keys);
}

/// The resident memory of this process in bytes.
std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

/// Token `i` of document `d`. Few different bytes make writing quick.
std::uint32_t id_at(std::int64_t d, std::size_t i) {
  return 5 + static_cast<std::uint32_t>(i % 7 + static_cast<std::size_t>(d)) % 29995;
}

TEST_F(Shards, FiftyMillionTokensStayOnDisk) {
  constexpr std::int64_t documents = 50'000, length = 1000;
  const std::int64_t before = resident_bytes();
  std::vector<std::uint32_t> document(length);
  {
    ShardWriter writer(folder_ / "x", small_info(30000), 20'000'000);
    for (std::int64_t d = 0; d < documents; ++d) {
      for (std::size_t i = 0; i < length; ++i) document[i] = id_at(d, i);
      writer.begin_document();
      writer.append(document);
    }
    if (!sanitized) {
      EXPECT_LT(resident_bytes() - before, std::int64_t{16} << 20);
    }
    writer.finish();
  }
  const TokenDataset set =
      TokenDataset::open(folder_ / "x", "", make_shard_cache(std::int64_t{8} << 20));
  EXPECT_EQ(set.tokens(), documents * length);
  set.verify();
  for (std::uint64_t i = 0; i < 500; ++i) {
    const auto d = static_cast<std::int64_t>(mix64(i) % documents);
    EXPECT_EQ(set.document_starts(d, 1)[0], d * length);
    EXPECT_EQ(set.read(d * length + 7, 1)[0], id_at(d, 7));
  }
  if (!sanitized) {
    EXPECT_LT(resident_bytes() - before, std::int64_t{48} << 20);
  }
}

}  // namespace
}  // namespace nystrom::testing
