// HostileModel SentencePiece models, each with its exact message, and valid ones.
#include "data/tokenizers/sentencepiece_scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/data/tokenizers/sentencepiece_bytes.h"
#include "tests/support/fixtures.h"
#include "tests/support/temporary_folder.h"  // before nystrom::testing is opened

namespace nystrom {
namespace {

using testing::bytes_field;
using testing::charsmap;
using testing::float_field;
using testing::number_field;
using testing::one_key_trie;
using testing::piece;
using testing::smallest_model;
using testing::unit;
using testing::varint;
using testing::with_charsmap;

struct HostileModel {
  std::string bytes;
  const char* message;
};

std::string scan_error(const std::string& bytes) {
  return input_error([&] { scan_sentencepiece(bytes, "m"); });
}

TEST(SentencePieceScan, AlbertsModel) {
  const auto bytes = read_bytes(testing::fixture_folder() / "tokenizers/albert/spiece.model");
  const SentencePieceModel model = scan_sentencepiece(bytes, "albert");
  ASSERT_EQ(model.pieces.size(), 30000u);
  EXPECT_EQ(model.kind, SentencePieceModel::Kind::unigram);
  EXPECT_EQ(model.pieces[1].type, SentencePiece::Type::unknown);
  EXPECT_EQ(model.pieces[4].text, "[MASK]");
  EXPECT_EQ(model.pieces[4].type, SentencePiece::Type::control);
  EXPECT_EQ(model.pieces[5].type, SentencePiece::Type::user_defined);
  EXPECT_EQ(model.charsmap.size(), 237539u);
}

TEST(SentencePieceScan, EveryTruncationOfAModelIsRefusedOrSmaller) {
  const std::string bytes = with_charsmap(charsmap(one_key_trie(), std::string("a\0", 2)));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::string message = scan_error(bytes.substr(0, size));
    // A file that ends between two fields is a valid model.
    if (message == "no error") {
      EXPECT_EQ(size, smallest_model().size());
    }
  }
}

TEST(SentencePieceScan, SmallestModels) {
  EXPECT_EQ(scan_sentencepiece(smallest_model(), "m").pieces.size(), 2u);
  const auto model =
      scan_sentencepiece(with_charsmap(charsmap(one_key_trie(), std::string("xyz\0", 4))) +
                             bytes_field(2, number_field(3, 2)),
                         "m");
  EXPECT_EQ(model.kind, SentencePieceModel::Kind::bpe);
  EXPECT_EQ(find_replacement(model.charsmap, "ABC", CharsmapKey::longest), "xyz");
  EXPECT_EQ(find_replacement(model.charsmap, "BC", CharsmapKey::longest), std::nullopt);
  EXPECT_EQ(find_replacement("", "ABC", CharsmapKey::longest), std::nullopt);
  // Unknown fields of every wire type are skipped, as in protocol buffers.
  EXPECT_EQ(scan_error(smallest_model() + number_field(900, 7) + bytes_field(901, "x") +
                       float_field(902, 1) + varint(903 << 3 | 1) + "12345678"),
            "no error");
}

const HostileModel hostile_messages[] = {
    {"", "m: the file is empty; expected a SentencePiece model"},
    {"\x0A", "m: byte 1: a number runs past the end of its message"},
    {"\x0A\x05", "m: byte 0: a field of 5 bytes has only 0 left in its message"},
    {std::string("\x0A") + varint(~std::uint64_t{0}),
     "m: byte 0: a field of 18446744073709551615 bytes has only 0 left in its message"},
    {"\x0A" + std::string(10, '\xFF'), "m: byte 1: a number has more than 64 bits"},
    {std::string("\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02", 11),
     "m: byte 1: a number has more than 64 bits"},
    {std::string("\x00\x00", 2), "m: byte 0: field number 0 is out of range"},
    {varint(std::uint64_t{1} << 35), "m: byte 0: field number 4294967296 is out of range"},
    {"\x0B", "m: byte 0: wire type 3 is unknown"},
    {"\x0F", "m: byte 0: wire type 7 is unknown"},
    {"\x0D"
     "123",
     "m: byte 0: a number runs past the end of its message"},
    {"\x09"
     "1234567",
     "m: byte 0: a number runs past the end of its message"},
    {number_field(1, 3), "m: byte 1: pieces has wire type 0, expected 2"},
    {number_field(2, 3), "m: byte 1: trainer_spec has wire type 0, expected 2"},
    {bytes_field(1,
                 "\x0A\x09"
                 "abc"),
     "m: byte 2: a field of 9 bytes has only 3 left in its message"},
};

const HostileModel hostile_pieces[] = {
    {bytes_field(1, number_field(1, 5)), "m: byte 3: piece has wire type 0, expected 2"},
    {bytes_field(1, bytes_field(1, "a") + number_field(2, 5)),
     "m: byte 6: score has wire type 0, expected 5"},
    {bytes_field(1, bytes_field(1, "a") + bytes_field(3, "5")),
     "m: byte 7: type has wire type 2, expected 0"},
    {bytes_field(1, bytes_field(1, "a") + bytes_field(1, "b")), "m: byte 7: piece appears twice"},
    {bytes_field(1, bytes_field(1, "a") + float_field(2, 1) + float_field(2, 1)),
     "m: byte 11: score appears twice"},
    {bytes_field(1, float_field(2, 1)), "m: byte 2: piece 0 has no text"},
    {piece(""), "m: byte 4: piece 0 has 0 bytes, expected 1 to 1024"},
    {piece(std::string(1025, 'a')), "m: byte 6: piece 0 has 1025 bytes, expected 1 to 1024"},
    {piece("a\xFF"), "m: byte 4: piece 0 is not valid UTF-8: 'a\\xff'"},
    {piece(std::string("a\0b", 3)), "m: byte 4: piece 0 holds a NUL byte"},
    {smallest_model() + piece("abcd"), "m: byte 35: piece 2 appears twice: 'abcd'"},
    {piece("a", std::numeric_limits<float>::quiet_NaN()),
     "m: byte 6: the score of piece 0 is not finite"},
    {piece("a", -std::numeric_limits<float>::infinity()),
     "m: byte 6: the score of piece 0 is not finite"},
    {piece("<0x00>", 0, 6),
     "m: byte 16: piece 0 is a byte; models with byte fallback are not supported"},
    {piece("a", 0, 0), "m: byte 11: piece 0 has type 0, expected 1 to 5"},
    {piece("a", 0, 7), "m: byte 11: piece 0 has type 7, expected 1 to 5"},
    {piece("\xC3\xA9", 0, 3),
     "m: byte 2: piece 0 is a control piece of one character, '\xC3\xA9', which text may hold"},
    {piece("of\xE2\x96\x81the"),
     "m: byte 2: piece 0 is of several words, 'of\xE2\x96\x81the'; only models that are trained "
     "with split_by_whitespace are supported"},
    {piece("a\xE2\x96\x81"),
     "m: byte 2: piece 0 is of several words, 'a\xE2\x96\x81'; only models that are trained with "
     "split_by_whitespace are supported"},
    {piece("New York", 0, 4),
     "m: byte 2: piece 0 is of several words, 'New York'; only models that are trained with "
     "split_by_whitespace are supported"},
    {piece("a"), "m: 0 pieces are of type unknown, expected exactly 1"},
    {smallest_model() + piece("b", 0, 2), "m: 2 pieces are of type unknown, expected exactly 1"},
    {piece("<unk>", 0, 2) + piece("[CLS]", 0, 3),
     "m: none of the 2 pieces is a normal one; the vocabulary is empty"},
};

std::string with_trainer(const std::string& fields) {
  return smallest_model() + bytes_field(2, fields);
}
std::string with_normalizer(const std::string& fields) {
  return smallest_model() + bytes_field(3, fields);
}

const HostileModel hostile_settings[] = {
    {with_trainer(number_field(3, 3)),
     "m: byte 34: model_type 3 is not supported; expected 1 (unigram) or 2 (BPE)"},
    {with_trainer(bytes_field(3, "2")), "m: byte 35: model_type has wire type 2, expected 0"},
    {with_trainer(number_field(24, 1)),
     "m: byte 35: treat_whitespace_as_suffix is not supported; words must be marked in front"},
    {with_trainer(number_field(35, 1)), "m: byte 35: byte_fallback is not supported"},
    {with_trainer("") + bytes_field(2, ""), "m: byte 35: trainer_spec appears twice"},
    {with_normalizer(number_field(3, 0)),
     "m: byte 34: add_dummy_prefix is off; only models that mark the first word too are supported"},
    {with_normalizer(number_field(4, 0)),
     "m: byte 34: remove_extra_whitespaces is off; only models that join spaces are supported"},
    {with_normalizer(number_field(5, 0)),
     "m: byte 34: escape_whitespaces is off; only models that write a space as U+2581 are "
     "supported"},
    {with_normalizer("") + bytes_field(3, ""), "m: byte 35: normalizer_spec appears twice"},
    {smallest_model() + bytes_field(4, "self-test data"), "no error"},
    {smallest_model() + bytes_field(5, bytes_field(2, "rules")),
     "m: byte 35: rules for changing decoded text are not supported"},
};

std::vector<std::uint32_t> changed(std::size_t index, std::uint32_t value) {
  auto units = one_key_trie();
  units[index] = value;
  return units;
}

const std::string nul(1, '\0');

const HostileModel hostile_charsmaps[] = {
    {"1234", "the charsmap has 4 bytes, too few for its own header"},
    {std::string("\x08\0\0\0"
                 "12345678",
                 12),
     "the charsmap's trie has 8 bytes, expected a multiple of 4 below 8"},
    {std::string("\x06\0\0\0"
                 "1234567",
                 11),
     "the charsmap's trie has 6 bytes, expected a multiple of 4 below 7"},
    {std::string("\0\0\0\0"
                 "1234567",
                 11),
     "the charsmap's trie has 0 bytes, expected a multiple of 4 below 7"},
    {std::string((4 << 20) + 1, 'x'), "the charsmap has 4194305 bytes, expected at most 4194304"},
    {charsmap(one_key_trie(), "abc"), "the charsmap's strings do not end in NUL"},
    {charsmap(one_key_trie(), "\xFF" + nul),
     "the charsmap's strings are not valid UTF-8 at byte 0"},
    {charsmap(one_key_trie(), std::string(257, 'a') + nul),
     "the charsmap holds a string of 257 bytes, expected at most 256"},
    {charsmap({unit(256, 0)}, nul), "the charsmap's trie leads to unit 511 of 1"},
    {charsmap(changed(0, unit(700, 0)), nul), "no error"},
    {charsmap(changed(0, unit(800, 0)), nul), "the charsmap's trie leads to unit 1023 of 768"},
    {charsmap(changed(0, unit(800, 0) | 1 << 9), nul),
     "the charsmap's trie leads to unit 205055 of 768"},
    {charsmap(changed(256 ^ 'A', unit((256 ^ 'A') ^ 1024, 'A', true)), nul),
     "the charsmap's trie leads to unit 1279 of 768"},
    {charsmap(changed(256 ^ 'A', unit((256 ^ 'A') ^ 256, 'A')), nul), "no error"},  // a circle
    {charsmap(changed(512, testing::leaf_flag | 2), "a" + nul),
     "the charsmap leads to byte 2 of strings of 2 bytes"},
    {charsmap(changed(512, testing::leaf_flag | 0x7FFFFFFF), "a" + nul),
     "the charsmap leads to byte 2147483647 of strings of 2 bytes"},
    {charsmap(changed(512, testing::leaf_flag | 1), "\xC3\xA9" + nul),
     "the charsmap leads into a character at byte 1 of its strings"},
};

TEST(SentencePieceScan, HostileMessages) {
  for (const HostileModel& each : hostile_messages) EXPECT_EQ(scan_error(each.bytes), each.message);
}

TEST(SentencePieceScan, HostilePieces) {
  for (const HostileModel& each : hostile_pieces) EXPECT_EQ(scan_error(each.bytes), each.message);
}

TEST(SentencePieceScan, HostileSettings) {
  for (const HostileModel& each : hostile_settings) EXPECT_EQ(scan_error(each.bytes), each.message);
}

TEST(SentencePieceScan, HostileCharsmaps) {
  for (const HostileModel& each : hostile_charsmaps) {
    const std::string message = scan_error(with_charsmap(each.bytes));
    const std::string expected = each.message;
    EXPECT_TRUE(message == expected || message.ends_with(": " + expected))
        << message << "\nexpected " << expected;
  }
}

}  // namespace
}  // namespace nystrom
