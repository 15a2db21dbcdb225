// Safetensors files with false content. Each is rejected with a message that says where the problem
// is.
#include <gtest/gtest.h>

#include "core/base/protobuf.h"
#include "tests/support/named.h"
#include "tests/support/temporary_folder.h"
#include "train/state/safetensors.h"

namespace nystrom {
namespace {

std::string length_prefix(std::uint64_t length) { return protobuf::little_endian(length); }

std::string file_of(const std::string& header, const std::string& data = "") {
  return length_prefix(header.size()) + header + data;
}

/// A header with one tensor "a"; its parts are JSON.
std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

/// A header with two tensors "a" and "b" of one byte each, and these offsets.
std::string pair(const std::string& a, const std::string& b) {
  return R"({"a":{"dtype":"U8","shape":[1],"data_offsets":)" + a +
         R"(},"b":{"dtype":"U8","shape":[1],"data_offsets":)" + b + "}}";
}

/// A header with one tensor "a" of one byte, and this text as its checksums.
std::string with_integrity(const std::string& escaped) {
  return R"({"__metadata__":{"nystrom.integrity":")" + escaped +
         R"("},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
}

const std::string good_sum(32, '0');

struct HostileCase : testing::Named {
  std::string bytes;
  std::string message;  // after the file's name
};

std::vector<HostileCase> frame_cases() {
  return {
      {"Empty", "", "not a safetensors file: 0 bytes, shorter than the 8 of its header length"},
      {"SevenBytes", "1234567",
       "not a safetensors file: 7 bytes, shorter than the 8 of its header length"},
      {"HeaderLengthOfAllOnes", length_prefix(~0ull) + "{}",
       "not a safetensors file, or damaged: a header of 18446744073709551615 bytes; at most "
       "100000000 are read"},
      {"HeaderLengthAboveTheCap", length_prefix(100'000'001),
       "not a safetensors file, or damaged: a header of 100000001 bytes; at most 100000000 are "
       "read"},
      {"HeaderLongerThanTheFile", length_prefix(3) + "{}",
       "the header of 3 bytes does not fit into the file of 10: it is cut short"},
      {"NoHeader", length_prefix(0), "not a safetensors file: the header does not start with {"},
      {"SpaceInFront", file_of(" {}"), "not a safetensors file: the header does not start with {"},
      {"ByteOrderMark", file_of("\xef\xbb\xbf{}"),
       "not a safetensors file: the header does not start with {"},
      {"AnArray", file_of("[]"), "not a safetensors file: the header does not start with {"},
      {"NewlineBehindTheHeader", file_of("{}\n"), "the header does not end with } and spaces"},
      {"TextBehindTheHeader", file_of("{} x"), "the header does not end with } and spaces"},
      {"NulBehindTheHeader", file_of(std::string("{}\0}", 4)), "header:1:3: a NUL byte"},
      {"SecondObject", file_of("{}{}"),
       "header:1:3: syntax error while parsing value - unexpected '{'; expected end of input"},
      {"TensorWithoutParts", file_of(R"({"a":{}})"), "header: a: 'data_offsets' is missing"},
      {"Comment", file_of("{/**/}"),
       "header:1:2: syntax error while parsing object key - invalid literal; last read: '{/'; "
       "expected string literal"},
      {"TrailingComma", file_of("{\"__metadata__\":{},}"),
       "header:1:20: syntax error while parsing object key - unexpected '}'; expected string "
       "literal"},
      {"InvalidUtf8", file_of("{\"__metadata__\":{\"k\":\"\xff\"}}"),
       "header:1:23: syntax error while parsing value - invalid string: ill-formed UTF-8 byte; "
       "last read: '\"\\xff'"},
      {"SurrogateInUtf8", file_of("{\"__metadata__\":{\"\xed\xa0\x80\":\"\"}}"),
       "header:1:20: syntax error while parsing object key - invalid string: ill-formed UTF-8 "
       "byte; last read: '\"\\xed\\xa0'; expected string literal"},
      {"LoneSurrogateEscape", file_of(R"({"__metadata__":{"k":"\ud800"}})"),
       "header:1:29: syntax error while parsing value - invalid string: surrogate U+D800..U+DBFF "
       "must be followed by U+DC00..U+DFFF; last read: '\"\\ud800\"'"},
  };
}

std::vector<HostileCase> key_cases() {
  const std::string entry = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  return {
      {"DuplicateTensor", file_of("{" + entry + "," + entry + "}", "x"),
       "header:1:56: key \"a\" appears twice"},
      {"DuplicateMetadata", file_of(R"({"__metadata__":{},"__metadata__":{}})"),
       "header:1:33: key \"__metadata__\" appears twice"},
      {"DuplicateMetadataKey", file_of(R"({"__metadata__":{"k":"1","k":"2"}})"),
       "header:1:28: key \"k\" appears twice"},
      {"DuplicateDtype",
       file_of(R"({"a":{"dtype":"U8","dtype":"F32","shape":[1],"data_offsets":[0,1]}})", "x"),
       "header:1:26: key \"dtype\" appears twice"},
      {"DuplicateKeyByEscape", file_of(R"({"__metadata__":{"k":"1","\u006b":"2"}})"),
       "header:1:33: key \"k\" appears twice"},
      {"UnknownField",
       file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", "x"),
       "header: a: 'x' is unknown, expected dtype, shape, data_offsets"},
      {"MissingDtype", file_of(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", "x"),
       "header: a: 'dtype' is missing"},
      {"MissingShape", file_of(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", "x"),
       "header: a: 'shape' is missing"},
      {"MissingOffsets", file_of(R"({"a":{"dtype":"U8","shape":[1]}})", "x"),
       "header: a: 'data_offsets' is missing"},
      {"NameWithSlash", file_of(R"({"../a":{}})"),
       "tensor name \"../a\" is not 1 to 256 of A-Z a-z 0-9 . _ -"},
      {"NameWithEscapeByte", file_of(R"({"\u001b[2J":{}})"),
       "tensor name \"\\x1b[2J\" is not 1 to 256 of A-Z a-z 0-9 . _ -"},
      {"MetadataKeyWithEscapeByte", file_of(R"({"__metadata__":{"\u001b[2J":5}})"),
       "header: __metadata__.\\x1b[2J: got 5, expected a text"},
      {"EmptyName", file_of(R"({"":{}})"), "tensor name \"\" is not 1 to 256 of A-Z a-z 0-9 . _ -"},
      {"LongName", file_of("{\"" + std::string(257, 'n') + "\":{}}"),
       "tensor name \"" + std::string(160, 'n') + "…\" is not 1 to 256 of A-Z a-z 0-9 . _ -"},
      {"TensorIsANumber", file_of(R"({"a":1})"), "header: a: got 1, expected an object"},
      {"TensorIsAnArray", file_of(R"({"a":[]})"), "header: a: got a list, expected an object"},
      {"MetadataHoldsANumber", file_of(R"({"__metadata__":{"k":1}})"),
       "header: __metadata__.k: got 1, expected a text"},
      {"MetadataHoldsAnObject", file_of(R"({"__metadata__":{"k":{}}})"),
       "header: __metadata__.k: got an object, expected a text"},
  };
}

std::vector<HostileCase> value_cases() {
  return {
      {"DtypeIsANumber", file_of(tensor("1", "[1]", "[0,1]"), "x"),
       "header: a.dtype: got 1, expected a text"},
      {"DtypeIsAnArray", file_of(tensor("[]", "[1]", "[0,1]"), "x"),
       "header: a.dtype: got a list, expected a text"},
      {"DtypeUnknown", file_of(tensor("\"F33\"", "[1]", "[0,1]"), "x"),
       "header: a.dtype: F33 is unknown; read are F64, F32, BF16, F16, I64, I32, U8 and BOOL"},
      {"DtypeNotSupported", file_of(tensor("\"F8_E4M3\"", "[1]", "[0,1]"), "x"),
       "header: a.dtype: F8_E4M3 is not supported; read are F64, F32, BF16, F16, I64, I32, U8 and "
       "BOOL"},
      {"ShapeIsANumber", file_of(tensor("\"U8\"", "1", "[0,1]"), "x"),
       "header: a.shape: got 1, expected a list"},
      {"ShapeIsAnObject", file_of(tensor("\"U8\"", "{}", "[0,1]"), "x"),
       "header: a.shape: got an object, expected a list"},
      {"ShapeNegative", file_of(tensor("\"U8\"", "[-1]", "[0,1]"), "x"),
       "header: a.shape[0]: got -1, expected a whole number from 0 to 9223372036854775807"},
      {"ShapeFraction", file_of(tensor("\"U8\"", "[1.0]", "[0,1]"), "x"),
       "header: a.shape[0]: got 1.0, expected a whole number from 0 to 9223372036854775807"},
      {"ShapeExponent", file_of(tensor("\"U8\"", "[1e0]", "[0,1]"), "x"),
       "header: a.shape[0]: got 1.0, expected a whole number from 0 to 9223372036854775807"},
      {"ShapeAbove64Bits", file_of(tensor("\"U8\"", "[18446744073709551616]", "[0,1]"), "x"),
       "header: a.shape[0]: got 1.8446744073709552e+19, expected a whole number from 0 to "
       "9223372036854775807"},
      {"ShapeAbove63Bits", file_of(tensor("\"U8\"", "[9223372036854775808]", "[0,1]"), "x"),
       "header: a.shape[0]: got 9223372036854775808, expected a whole number from 0 to "
       "9223372036854775807"},
      {"ShapeNested", file_of(tensor("\"U8\"", "[[1]]", "[0,1]"), "x"),
       "header: a.shape[0]: got a list, expected a whole number from 0 to 9223372036854775807"},
      {"ShapeOfStrings", file_of(tensor("\"U8\"", "[\"\"]", "[0,1]"), "x"),
       "header: a.shape[0]: got \"\", expected a whole number from 0 to 9223372036854775807"},
      {"RankNine", file_of(tensor("\"U8\"", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), "x"),
       "header: a.shape: got 9 numbers, expected up to 8"},
      {"ProductOverflows", file_of(tensor("\"F64\"", "[4294967296,4294967296]", "[0,0]")),
       "tensor a: shape [4294967296, 4294967296] has more bytes than any file"},
      {"BytesOverflow", file_of(tensor("\"F64\"", "[2305843009213693952]", "[0,0]")),
       "tensor a: shape [2305843009213693952] has more bytes than any file"},
      {"EmptyWithHugeAxes", file_of(tensor("\"U8\"", "[0,4294967296,4294967296]", "[0,0]")),
       "tensor a: shape [0, 4294967296, 4294967296] has more bytes than any file"},
      {"OneOffset", file_of(tensor("\"U8\"", "[1]", "[1]"), "x"),
       "header: a.data_offsets: got 1 numbers, expected 2"},
      {"ThreeOffsets", file_of(tensor("\"U8\"", "[1]", "[0,1,2]"), "x"),
       "header: a.data_offsets: got 3 numbers, expected 2"},
      {"NegativeOffset", file_of(tensor("\"U8\"", "[1]", "[-1,0]"), "x"),
       "header: a.data_offsets[0]: got -1, expected a whole number from 0 to 9223372036854775807"},
      {"OffsetsBackwards", file_of(tensor("\"U8\"", "[1]", "[1,0]"), "x"),
       "tensor a: data_offsets [1, 0] run backwards"},
      {"SizeMismatch", file_of(tensor("\"F32\"", "[1]", "[0,3]"), "xyz"),
       "tensor a: F32 [1] needs 4 bytes, but data_offsets [0, 3] hold 3"},
      {"BeyondTheFile", file_of(tensor("\"U8\"", "[2]", "[0,2]"), "x"),
       "tensor a ends at byte 2 of the data, but the file has only 1: it is cut short"},
      {"StartsLate", file_of(tensor("\"U8\"", "[1]", "[1,2]"), "xy"),
       "bytes 0 to 1 of the data, before tensor a, belong to no tensor"},
      {"Trailer", file_of(tensor("\"U8\"", "[1]", "[0,1]"), "xy"),
       "1 bytes after the last tensor belong to no tensor"},
      {"DataWithoutTensors", file_of("{}", "x"),
       "1 bytes after the last tensor belong to no tensor"},
      {"Hole", file_of(pair("[0,1]", "[2,3]"), "xyz"),
       "bytes 1 to 2 of the data, before tensor b, belong to no tensor"},
      {"Overlap", file_of(pair("[0,1]", "[0,1]"), "xy"),
       "tensor b starts at byte 0 of the data, inside the tensor before, which ends at 1"},
  };
}

std::vector<HostileCase> integrity_cases() {
  const std::string sum = "\\\"" + good_sum + "\\\"";
  return {
      {"IntegrityIsNotJson", file_of(with_integrity("{"), "x"),
       "nystrom.integrity:1:1: syntax error while parsing object key - unexpected end of input; "
       "expected string literal"},
      {"IntegrityIsAnArray", file_of(with_integrity("[]"), "x"),
       "nystrom.integrity: got a list, expected an object"},
      {"IntegrityIsANumber", file_of(with_integrity("1"), "x"),
       "nystrom.integrity: got 1, expected an object"},
      {"ChecksumTooShort", file_of(with_integrity(R"({\"a\":\"00\"})"), "x"),
       "nystrom.integrity: a: expected 32 hexadecimal digits"},
      {"ChecksumInCapitals",
       file_of(with_integrity(R"({\"a\":\")" + std::string(32, 'A') + R"(\"})"), "x"),
       "nystrom.integrity: a: expected 32 hexadecimal digits"},
      {"ChecksumIsNull", file_of(with_integrity(R"({\"a\":null})"), "x"),
       "nystrom.integrity: a: got null, expected a text"},
      {"ChecksumMissing", file_of(with_integrity("{}"), "x"),
       "nystrom.integrity has no checksum of tensor a"},
      {"ChecksumOfAnUnknownTensor",
       file_of(with_integrity("{\\\"a\\\":" + sum + ",\\\"b\\\":" + sum + "}"), "x"),
       "nystrom.integrity has a checksum of b, which is not in the file"},
      {"TooManyChecksums",
       file_of(
           with_integrity("{\\\"a\\\":" + sum + ",\\\"b\\\":" + sum + ",\\\"c\\\":" + sum + "}"),
           "x"),
       "nystrom.integrity has a checksum of b, which is not in the file"},
      {"ChecksumTwice",
       file_of(with_integrity("{\\\"a\\\":" + sum + ",\\\"a\\\":" + sum + "}"), "x"),
       "nystrom.integrity:1:43: key \"a\" appears twice"},
      {"ChecksumWrong", file_of(with_integrity("{\\\"a\\\":" + sum + "}"), "x"),
       "tensor a is damaged: its checksum is not that in nystrom.integrity"},
      {"HeaderChecksumWrong",
       file_of(with_integrity("{\\\"__metadata__\\\":" + sum + ",\\\"a\\\":" + sum + "}"), "x"),
       "the header is damaged: its checksum is not that in nystrom.integrity"},
      {"IntegrityKeyDamaged", file_of(R"({"__metadata__":{"nystrom.intogrity":"{}"}})"),
       "metadata key \"nystrom.intogrity\" is unknown; the only one with such a name is "
       "nystrom.integrity"},
  };
}

class SafetensorsHostile : public ::testing::TestWithParam<HostileCase> {};

TEST_P(SafetensorsHostile, IsRefusedWithTheReason) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "file";
  write_bytes(path, GetParam().bytes);
  const std::string message = input_error([&] {
    const auto file = TensorFile::open(path);
    for (const StoredTensor& stored : file.tensors()) file.read(stored.name);
  });
  EXPECT_EQ(message, path.string() + ": " + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(Frame, SafetensorsHostile, ::testing::ValuesIn(frame_cases()),
                         testing::case_name);
INSTANTIATE_TEST_SUITE_P(Keys, SafetensorsHostile, ::testing::ValuesIn(key_cases()),
                         testing::case_name);
INSTANTIATE_TEST_SUITE_P(Values, SafetensorsHostile, ::testing::ValuesIn(value_cases()),
                         testing::case_name);
INSTANTIATE_TEST_SUITE_P(Integrity, SafetensorsHostile, ::testing::ValuesIn(integrity_cases()),
                         testing::case_name);

}  // namespace
}  // namespace nystrom
