// Documents read from files. Every kind of bad text has its exact count and report. Documents of
// any size are read in pieces, compressed or not.
#include "data/text/text.h"
#include "data/text/match_files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <clocale>
#include <filesystem>
#include <numeric>

#include "core/base/utf8.h"
#include "core/rng.h"
#include "data/text/byte_source.h"
#include "tests/support/gzip.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

struct Document {
  std::string text;
  std::int64_t pieces;
};

struct Read {
  std::vector<Document> documents;
  TextStatistics statistics;
};

Read read_all(TextReader& reader) {
  Read result;
  bool inside = false;
  while (const auto piece = reader.next()) {
    if (!inside) result.documents.push_back({"", 0});
    result.documents.back().text += piece->text;
    ++result.documents.back().pieces;
    inside = piece->continues;
  }
  EXPECT_FALSE(inside);
  result.statistics = reader.statistics();
  return result;
}

Read read_files(std::vector<std::filesystem::path> files, Documents documents,
                std::size_t piece_bytes = TextReader::default_piece_bytes) {
  TextReader reader(std::move(files), documents, piece_bytes);
  return read_all(reader);
}

using Texts = std::vector<std::string>;

Texts texts_of(const Read& read) {
  Texts texts;
  for (const Document& document : read.documents) texts.push_back(document.text);
  return texts;
}

std::string zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

// ---- UTF-8 --------------------------------------------------------------------------------------

TEST(Utf8, ValidPrefix) {
  const std::pair<std::string, std::size_t> cases[] = {
      {"", 0},
      {"plain and longer than eight bytes", 33},
      {"\xC3\xA9", 2},
      {"\xE2\x96\x81", 3},
      {"\xF0\x9F\x99\x82", 4},
      {"12345678\xFF", 8},
      {"a\x80", 1},                 // a continuation byte without a lead byte
      {"\xC3", 0},                  // truncated
      {"ab\xE2\x96", 2},            // truncated
      {"\xC0\x80", 0},              // NUL as two bytes
      {"\xC1\xBF", 0},              // overlong
      {"\xE0\x9F\xBF", 0},          // overlong
      {"\xF0\x8F\xBF\xBF", 0},      // overlong
      {"\xED\xA0\x80", 0},          // a surrogate
      {"\xF4\x90\x80\x80", 0},      // beyond U+10FFFF
      {"\xF5\x80\x80\x80", 0},      // beyond U+10FFFF
      {"ok\xE2\x28\xA1", 2},        // an invalid second byte
      {"\xF4\x8F\xBF\xBF end", 8},  // U+10FFFF
      {"\xED\x9F\xBF\xEE\x80\x80", 6},
  };
  for (const auto& [text, valid] : cases)
    EXPECT_EQ(valid_utf8_prefix(text), valid) << ::testing::PrintToString(text);
}

TEST(Utf8, CodePointsBackAndForth) {
  for (const char32_t code_point :
       {0x24u, 0xA2u, 0x7FFu, 0x800u, 0x20ACu, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    std::string text;
    append_utf8(text, code_point);
    EXPECT_TRUE(is_valid_utf8(text));
    std::size_t position = 0;
    EXPECT_EQ(next_code_point(text, position), code_point);
    EXPECT_EQ(position, text.size());
  }
}

// ---- Finding files ------------------------------------------------------------------------------

class MatchFiles : public FolderTest {
 protected:
  void make(const Texts& names) const {
    for (const std::string& name : names) write_bytes(folder_ / name, "x");
  }
  /// The names in the folder that patterns in it match.
  Texts matches(Texts patterns) const {
    for (std::string& pattern : patterns) pattern = (folder_ / pattern).string();
    Texts found;
    for (const auto& file : match_files(patterns))
      found.push_back(file.lexically_relative(folder_.path()).string());
    return found;
  }
};

TEST_F(MatchFiles, SortedAndEachOnce) {
  make({"b.txt", "a.txt", "A.txt", "c.md"});
  EXPECT_EQ(matches({"*.txt", "b.txt", "[c]*"}), (Texts{"A.txt", "a.txt", "b.txt", "c.md"}));
}

TEST_F(MatchFiles, AnyDepth) {
  make({"a.txt", "in/b.txt", "in/c.md", "in/deep/d.txt", "in/[x]/e.txt", ".hidden/f.txt",
        "other/g.txt"});
  std::filesystem::create_directory_symlink(folder_.path(), folder_ / "in" / "loop");
  EXPECT_EQ(matches({"**/*.txt"}),
            (Texts{"a.txt", "in/[x]/e.txt", "in/b.txt", "in/deep/d.txt", "other/g.txt"}));
  EXPECT_EQ(matches({"in/**"}), (Texts{"in/[x]/e.txt", "in/b.txt", "in/c.md", "in/deep/d.txt",
                                       "in/loop/a.txt", "in/loop/other/g.txt"}));
  EXPECT_EQ(matches({"i*/**/deep/*"}), (Texts{"in/deep/d.txt"}));
  EXPECT_EQ(matches({"**/deep/**"}), (Texts{"in/deep/d.txt"}));
}

TEST_F(MatchFiles, WildcardsMeanCharactersInAnyLocale) {
  make({"a.txt", "ä.txt", "漢.txt", "b\xe4.txt"});
  for (const char* locale : {"C", "C.UTF-8"}) {
    const std::string before = std::setlocale(LC_CTYPE, nullptr);
    std::setlocale(LC_CTYPE, locale);
    EXPECT_EQ(matches({"?.txt"}), (Texts{"a.txt", "ä.txt", "漢.txt"})) << locale;
    EXPECT_EQ(matches({"[aä].txt"}), (Texts{"a.txt", "ä.txt"})) << locale;
    EXPECT_EQ(matches({"[!a].txt"}), (Texts{"ä.txt", "漢.txt"})) << locale;
    EXPECT_EQ(matches({"*.txt"}), (Texts{"a.txt", "b\xe4.txt", "ä.txt", "漢.txt"})) << locale;
    std::setlocale(LC_CTYPE, before.c_str());
  }
}

TEST_F(MatchFiles, ANameAsItStandsWins) {
  make({"a[1].txt", "a1.txt", "what?", "whatx", "b*.txt", "bc.txt", "d[2]/e.txt", "d2/e.txt",
        "{f}.txt"});
  for (const char* name : {"a[1].txt", "what?", "b*.txt", "d[2]/e.txt", "{f}.txt"})
    EXPECT_EQ(matches({name}), Texts{name});
  EXPECT_EQ(matches({"d[2]/*"}), Texts{"d[2]/e.txt"});
}

TEST_F(MatchFiles, LinksToFoldersAreEnteredOnce) {
  make({"tree/z/a.txt", "elsewhere/deep/b.txt"});
  namespace fs = std::filesystem;
  fs::create_directory_symlink(folder_ / "elsewhere", folder_ / "tree/link");
  fs::create_directory_symlink(folder_ / "elsewhere", folder_ / "tree/again");
  fs::create_directory_symlink("../z", folder_ / "tree/z/own");
  fs::create_directory_symlink(folder_ / "tree", folder_ / "elsewhere/loop");
  fs::create_directory_symlink("z", folder_ / "tree/first");
  EXPECT_EQ(files_below(folder_ / "tree"),
            (std::vector<fs::path>{folder_ / "tree/again/deep/b.txt", folder_ / "tree/z/a.txt"}));
  EXPECT_EQ(matches({"tree/**/*.txt"}), (Texts{"tree/again/deep/b.txt", "tree/z/a.txt"}));
}

TEST_F(MatchFiles, Errors) {
  const auto error = [&](const std::string& pattern) {
    return error_in_dir([&] { match_files(std::span(&pattern, 1)); });
  };
  EXPECT_EQ(error(folder_ / "*.zst"),
            "'DIR/*.zst' matches no file; relative names start at the current folder " +
                std::filesystem::current_path().string());
  EXPECT_EQ(
      error(folder_.path()),
      "'DIR' is a folder; name the files in it, as in 'DIR/*.txt', or all below it: 'DIR/**'");
  EXPECT_EQ(error(""), "a file pattern is empty or holds a NUL byte");
}

// ---- Content of files ---------------------------------------------------------------------------

struct Hostile {
  const char* name;
  std::string bytes;
  Texts files;                                           // documents when each file is a document
  Texts lines;                                           // documents when each line is a document
  std::string files_left_out = "", lines_left_out = "";  // "1 empty @2": its first in line 2
};

const Hostile hostile_texts[] = {
    {"plain", "one\ntwo\n", {"one\ntwo\n"}, {"one", "two"}},
    {"no_last_line_end", "one\ntwo", {"one\ntwo"}, {"one", "two"}},
    {"empty", "", {}, {}, "1 empty @1", "1 empty @1"},
    {"only_white_space", " \n\t\r\n", {}, {}, "1 empty @1", "2 empty @1"},
    {"blank_lines", "a\n\n\nb\n", {"a\n\n\nb\n"}, {"a", "b"}, "", "2 empty @2"},
    {"byte_order_mark", "\xEF\xBB\xBFone\n", {"one\n"}, {"one"}},
    {"byte_order_marks_of_joined_files",
     "\xEF\xBB\xBFone\n\xEF\xBB\xBF\xEF\xBB\xBFtwo\n",
     {"one\ntwo\n"},
     {"one", "two"}},
    {"only_byte_order_mark", "\xEF\xBB\xBF", {}, {}, "1 empty @1", "1 empty @1"},
    {"crlf", "one\r\ntwo\r\n", {"one\ntwo\n"}, {"one", "two"}},
    {"lone_cr", "one\rtwo\n", {"one\rtwo\n"}, {"one\rtwo"}},
    {"bad_utf8", "one\ntw\xFFo\nthree\n", {}, {"one", "three"}, "1 not UTF-8 @2", "1 not UTF-8 @2"},
    {"cut_utf8", "one\ntwo\xE2\x96", {}, {"one"}, "1 not UTF-8 @2", "1 not UTF-8 @2"},
    {"utf16",
     std::string("\xFF\xFEo\0n\0", 6),
     {},
     {},
     "1 not UTF-8 @1; the file is UTF-16: convert it, as with iconv -f UTF-16 -t UTF-8",
     "1 not UTF-8 @1; the file is UTF-16: convert it, as with iconv -f UTF-16 -t UTF-8"},
    {"nul",
     std::string("one\nt\0wo\n\0\nthree\n", 17),
     {},
     {"one", "three"},
     "1 with NUL bytes @2",
     "2 with NUL bytes @2"},
    {"latin1", "caf\xE9\nna\xEFve\nok\n", {}, {"ok"}, "1 not UTF-8 @1", "2 not UTF-8 @1"},
};

using TextReaderTest = FolderTest;

TEST_F(TextReaderTest, HostileTexts) {
  for (const Hostile& each : hostile_texts) {
    const auto file = folder_ / each.name;
    write_bytes(file, each.bytes);
    // Large pieces and small ones (four bytes) give the same documents. The small ones use the code
    // for long documents.
    for (const std::size_t piece_bytes : {TextReader::default_piece_bytes, std::size_t{4}}) {
      const auto check = [&](Documents kind, const Texts& expected, std::string left_out) {
        const Read read = read_files({file}, kind, piece_bytes);
        if (const std::size_t place = left_out.find('@'); place != left_out.npos)
          left_out = fmt::format("; left out: {}(first: {}:{})", left_out.substr(0, place),
                                 file.string(), left_out.substr(place + 1));
        const std::string all = std::accumulate(expected.begin(), expected.end(), std::string());
        const std::string report =
            fmt::format("1 files, {} bytes, {} documents{}", all.size(), expected.size(), left_out);
        EXPECT_EQ(texts_of(read), expected) << each.name << ' ' << piece_bytes;
        EXPECT_EQ(read.statistics.summary(), report) << each.name << ' ' << piece_bytes;
      };
      // White space longer than a piece is not recognized as empty.
      if (piece_bytes == 4 && std::string(each.name) == "only_white_space") continue;
      check(Documents::files, each.files, each.files_left_out);
      check(Documents::lines, each.lines, each.lines_left_out);
    }
  }
}

TEST_F(TextReaderTest, LongDocumentsComeInPiecesCutAtSpaces) {
  write_bytes(folder_ / "a", "aaa bb cccc\nshort\n");
  TextReader reader({folder_ / "a"}, Documents::lines, 8);
  std::vector<std::pair<std::string, bool>> pieces;
  while (const auto piece = reader.next()) pieces.emplace_back(piece->text, piece->continues);
  const std::vector<std::pair<std::string, bool>> expected = {
      {"aaa bb", true}, {" cccc", false}, {"short", false}};
  EXPECT_EQ(pieces, expected);
  EXPECT_EQ(reader.statistics().documents, 2);
}

TEST_F(TextReaderTest, BlankLinesSeparateDocuments) {
  write_bytes(folder_ / "a",
              "\r\n \none\nmore of it\r\n\r\n  \t\n\n two \n\nthree three three\n\n  \n ");
  write_bytes(folder_ / "b", "four");
  for (const std::size_t piece_bytes : {4, 5, 6, 7, 8, 9, 11, 13, 17, 1000}) {
    const Read read =
        read_files({folder_ / "a", folder_ / "b"}, Documents::blank_lines, piece_bytes);
    EXPECT_EQ(texts_of(read), (Texts{"one\nmore of it", " two ", "three three three", "four"}))
        << piece_bytes;
    EXPECT_EQ(read.statistics.summary(), "2 files, 40 bytes, 4 documents") << piece_bytes;
  }
  TextReader lines({folder_ / "a"}, Documents::blank_lines);
  std::vector<std::int64_t> begins;
  while (const auto piece = lines.next()) begins.push_back(piece->line);
  EXPECT_EQ(begins, (std::vector<std::int64_t>{3, 8, 10}));
}

TEST_F(TextReaderTest, ABlankLineOverTwoBlocksSeparatesDocuments) {
  for (const std::size_t before : {3, 60, 98}) {
    const std::string first(read_block_bytes - before, 'a');
    write_bytes(folder_ / "a", first + "\n\n" + std::string(100, ' ') + "\nb\n\nc\n\nd");
    EXPECT_EQ(texts_of(read_files({folder_ / "a"}, Documents::blank_lines, read_block_bytes)),
              (Texts{first, "b", "c", "d"}))
        << before;
  }
}

TEST_F(TextReaderTest, AFileOfBlankLinesIsOneEmptyDocument) {
  write_bytes(folder_ / "a", "\n \n\n");
  const Read read = read_files({folder_ / "a"}, Documents::blank_lines);
  EXPECT_EQ(read.statistics[SkipReason::empty].count, 1);
}

TEST_F(TextReaderTest, UnreadableBytesAreCountedAndBlankOnesAreNot) {
  write_bytes(folder_ / "a", std::string(30, 'x') + "\n" + std::string(9, 'y') + "\xFF\n   \n");
  const std::string bad = std::string(999, 'z') + std::string(1, '\0');
  for (const std::size_t piece_bytes : {std::size_t{8}, TextReader::default_piece_bytes}) {
    const Read read = read_files({folder_ / "a"}, Documents::lines, piece_bytes);
    EXPECT_DOUBLE_EQ(read.statistics.unreadable_share(), 0.25) << piece_bytes;
    write_bytes(folder_ / "b", bad);
    EXPECT_DOUBLE_EQ(
        read_files({folder_ / "b"}, Documents::files, piece_bytes).statistics.unreadable_share(),
        1);
  }
}

TEST_F(TextReaderTest, CharactersAreNeverCut) {
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text += i % 3 == 0 ? "\xF0\x9F\x99\x82" : i % 3 == 1 ? "\xE2\x96\x88" : "\xC3\xA9";
  write_bytes(folder_ / "a", text);
  for (const std::size_t piece_bytes : {4, 5, 6, 7, 64}) {
    TextReader reader({folder_ / "a"}, Documents::files, piece_bytes);
    std::string joined;
    while (const auto piece = reader.next()) {
      EXPECT_TRUE(is_valid_utf8(piece->text));
      EXPECT_LE(piece->text.size(), piece_bytes);
      joined += piece->text;
    }
    EXPECT_EQ(joined, text);
  }
}

TEST_F(TextReaderTest, NoPartOfALongBadDocumentIsHandedOut) {
  const std::string words(3000, 'w');
  write_bytes(folder_ / "a", "first\n" + words + "\xFF" + words + "\n" + words + "\n" + words +
                                 std::string(1, '\0') + "\nlast\n");
  const Read read = read_files({folder_ / "a"}, Documents::lines, 100);
  EXPECT_EQ(texts_of(read), (Texts{"first", words, "last"}));
  EXPECT_EQ(read.documents[1].pieces, 30);
  EXPECT_EQ(read.statistics[SkipReason::invalid_utf8].first, (folder_ / "a").string() + ":2");
  EXPECT_EQ(read.statistics[SkipReason::nul_byte].first, (folder_ / "a").string() + ":4");
  EXPECT_EQ(read.statistics[SkipReason::invalid_utf8].count, 1);
  EXPECT_EQ(read.statistics[SkipReason::nul_byte].count, 1);
}

TEST_F(TextReaderTest, ALongBadDocumentRejectsNoneOfTheNextFile) {
  write_bytes(folder_ / "a", "bad\xFF words");
  write_bytes(folder_ / "b", "good words");
  EXPECT_EQ(texts_of(read_files({folder_ / "a", folder_ / "b"}, Documents::files, 4)),
            Texts{"good words"});
}

TEST_F(TextReaderTest, LineEndsAcrossBlocks) {
  // The block size is 256 KiB. CR and LF fall on both sides of a block's end, and a lone CR before
  // it.
  for (const int shift : {-2, -1, 0, 1}) {
    const std::string head(static_cast<std::size_t>((1 << 18) + shift), 'x');
    write_bytes(folder_ / "a", head + "\r\nnext\rone\r\n");
    EXPECT_EQ(texts_of(read_files({folder_ / "a"}, Documents::lines)), (Texts{head, "next\rone"}))
        << shift;
  }
}

TEST_F(TextReaderTest, ByteOrderMarksAcrossBlocks) {
  for (const int shift : {-4, -3, -2, -1, 0}) {
    const std::string head(static_cast<std::size_t>((1 << 18) + shift), 'x');
    write_bytes(folder_ / "a", head + "\n\xEF\xBB\xBFnext\n");
    EXPECT_EQ(texts_of(read_files({folder_ / "a"}, Documents::lines)), (Texts{head, "next"}))
        << shift;
    EXPECT_EQ(texts_of(read_files({folder_ / "a"}, Documents::files)), (Texts{head + "\nnext\n"}))
        << shift;
  }
}

TEST_F(TextReaderTest, VanishedFilesAreCounted) {
  write_bytes(folder_ / "a", "here\n");
  const Read read = read_files({folder_ / "gone", folder_ / "a"}, Documents::lines);
  EXPECT_EQ(texts_of(read), Texts{"here"});
  EXPECT_EQ(read.statistics.summary(),
            "1 files, 4 bytes, 1 documents; left out: 1 files that vanished (first: " +
                (folder_ / "gone").string() + ")");
}

// ---- Compressed files ---------------------------------------------------------------------------

TEST_F(TextReaderTest, Compressed) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "line " + std::to_string(i * 7919 % 100003) + "\n";
  write_bytes(folder_ / "a.gz", gzip(text));
  write_bytes(folder_ / "b.gz", gzip("first\n") + gzip("second\n") + gzip(""));
  write_bytes(folder_ / "c.zst", zstd(text));
  write_bytes(folder_ / "d.zst", zstd("first\n") + zstd("second\n"));
  for (const char* name : {"a.gz", "c.zst"})
    EXPECT_EQ(texts_of(read_files({folder_ / name}, Documents::files, 1 << 22)), Texts{text})
        << name;
  for (const char* name : {"b.gz", "d.zst"})
    EXPECT_EQ(texts_of(read_files({folder_ / name}, Documents::lines)), (Texts{"first", "second"}));
}

TEST_F(TextReaderTest, DamagedCompressedFilesAreErrors) {
  const std::string text(5000, 't'), gz = gzip(text + "1"), zst = zstd(text + "2");
  const auto error = [&](const std::string& name, const std::string& bytes) {
    write_bytes(folder_ / name, bytes);
    return error_in_dir([&] { read_files({folder_ / name}, Documents::files); });
  };
  const std::string truncated =
      "the compressed data ends in the middle; the file is truncated: copy it again";
  EXPECT_EQ(error("a.gz", ""), "DIR/a.gz: " + truncated);
  EXPECT_EQ(error("a.zst", ""), "DIR/a.zst: " + truncated);
  for (std::size_t size = 1; size < gz.size(); ++size)
    EXPECT_EQ(error("a.gz", gz.substr(0, size)), "DIR/a.gz: " + truncated) << size;
  for (std::size_t size = 4; size < zst.size(); ++size)
    EXPECT_EQ(error("a.zst", zst.substr(0, size)), "DIR/a.zst: " + truncated) << size;
  std::string damaged = gz;
  damaged[damaged.size() - 6] ^= 1;
  EXPECT_EQ(
      error("a.gz", damaged),
      "DIR/a.gz: not valid gzip data (incorrect data check); unpack it by hand or make it anew");
  EXPECT_EQ(
      error("a.gz", gz + "trailing"),
      "DIR/a.gz: not valid gzip data (incorrect header check); unpack it by hand or make it anew");
  EXPECT_EQ(
      error("a.gz", "plain text"),
      "DIR/a.gz: not valid gzip data (incorrect header check); unpack it by hand or make it anew");
  EXPECT_EQ(error("a.zst", "plain text"),
            "DIR/a.zst: not valid zstd data (Unknown frame descriptor); unpack it by hand or make "
            "it anew");
}

TEST_F(TextReaderTest, BombsAreLeftOut) {
  write_bytes(folder_ / "bomb.gz", gzip(std::string(4 << 20, 'b')));
  write_bytes(folder_ / "bomb.zst", zstd(std::string(4 << 20, 'b')));
  // A high ratio is accepted within a megabyte, and in a part of a file.
  write_bytes(folder_ / "small.zst", zstd(std::string(1 << 19, 's')));
  std::string mixed(2 << 20, 'm');
  for (std::uint64_t i = 0; i < 30'000; ++i) mixed += std::to_string(mix64(i));
  write_bytes(folder_ / "mixed.gz", gzip(mixed));
  const Read read = read_files(
      {folder_ / "bomb.gz", folder_ / "bomb.zst", folder_ / "mixed.gz", folder_ / "small.zst"},
      Documents::files);
  EXPECT_EQ(texts_of(read), (Texts{mixed, std::string(1 << 19, 's')}));
  EXPECT_EQ(read.statistics[SkipReason::decompression_bomb].count, 2);
  const std::string& first = read.statistics[SkipReason::decompression_bomb].first;
  EXPECT_TRUE(first.starts_with((folder_ / "bomb.gz").string() + ": ")) << first;
  EXPECT_TRUE(first.ends_with("if you trust the file, unpack it by hand and name the result"));
}

TEST_F(TextReaderTest, RefusesLinesThatEndInCrAlone) {
  write_bytes(folder_ / "a.txt", "one\rtwo\r");
  write_bytes(folder_ / "end.txt", "one\r");
  write_bytes(folder_ / "inside.txt", "one\rtwo\nthree\n");
  for (const Documents form : {Documents::files, Documents::lines, Documents::blank_lines}) {
    EXPECT_EQ(
        error_in_dir([&] { read_files({folder_ / "a.txt"}, form); }),
        "DIR/a.txt: its lines end in CR alone; convert it, as with tr '\\r' '\\n' < old > new");
    EXPECT_EQ(read_files({folder_ / "end.txt", folder_ / "inside.txt"}, form).statistics.files, 2);
  }
}

TEST_F(TextReaderTest, TheLastDocumentEndsAsTheOthers) {
  for (const std::string end : {"", "\n", "\n\n", "\n \n"}) {
    write_bytes(folder_ / "a.txt", "ab\ncd\n\nef\ngh" + end);
    EXPECT_EQ(texts_of(read_files({folder_ / "a.txt"}, Documents::blank_lines)),
              (Texts{"ab\ncd", "ef\ngh"}))
        << end;
  }
}

TEST_F(TextReaderTest, SaysThatAFileIsCompressed) {
  write_bytes(folder_ / "a.txt", gzip("one\ntwo\n"));
  const Read read = read_files({folder_ / "a.txt"}, Documents::lines);
  EXPECT_EQ(read.statistics[SkipReason::invalid_utf8].first,
            (folder_ / "a.txt").string() + ":1; the file is gzip data: unpack it");
}

}  // namespace
}  // namespace nystrom
