#include "core/npy_header.h"

#include <algorithm>
#include <regex>
#include <string>

#include "core/base/printable.h"
#include "core/base/words.h"
#include "core/check.h"

namespace nystrom {
namespace {

// Enough of a file's beginning to hold its header.
constexpr std::int64_t max_npy_header = 4096;

constexpr const char* remedy =
    "np.save(FILE, np.ascontiguousarray(ARRAY, dtype=np.float32)) writes one that is read";

std::vector<std::int64_t> numbers_in(std::string_view text) {
  std::vector<std::int64_t> numbers;
  for (const std::string_view word : words_between(text, ", "))
    numbers.push_back(number_of<std::int64_t>(word).value_or(0));  // they are digits
  return numbers;
}

/// The entry of an array in `head`, the beginning of its file.
StoredTensor parse(std::string_view head) {
  require_input(head.size() > 12 && head.starts_with("\x93NUMPY"), "is no npy file");
  const int version = head[6];
  require_input(version >= 1 && version <= 3, "is npy format {}; formats 1 to 3 are read",
                static_cast<unsigned char>(head[6]));
  const std::size_t begin = version == 1 ? 10 : 12;
  std::size_t length = 0;
  for (std::size_t i = begin; i > 8; --i)
    length = 256 * length + static_cast<unsigned char>(head[i - 1]);
  require_input(length <= head.size() - begin,
                "its header of {} bytes is cut short, or longer than {} bytes", length,
                max_npy_header);
  std::string text(head.substr(begin, length));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  // Each text matches in one way only, or a search would try all of them.
  static const std::regex form(
      R"(\{'descr': '([^']{1,40})', 'fortran_order': (True|False), 'shape': )"
      R"(\(((?:\d{1,12}(?:, ?\d{1,12}){0,7},?)?)\),? ?\})");
  std::smatch found;
  require_input(std::regex_match(text, found, form),
                "expected an array of numbers; its header is {}; {}", printable(text, 100), remedy);
  const std::string type = found[1];
  const bool known = type == "<f2" || type == "<f4" || type == "<f8";
  require_input(known && found[2] == "False",
                "expected <f2, <f4 or <f8 in C order, got {} in {} order; {}", printable(type),
                found[2] == "True" ? "Fortran" : "C", remedy);
  StoredTensor array;
  array.dtype = type == "<f2" ? DType::f16 : type == "<f4" ? DType::f32 : DType::f64;
  array.shape = Shape(numbers_in(found[3].str()));
  array.begin = static_cast<std::int64_t>(begin + length);
  return array;
}

}  // namespace

StoredTensor read_npy_header(const InputFile& file) {
  StoredTensor array = parse(file.text(0, std::min(file.size(), max_npy_header)));
  const std::int64_t room = file.size() - array.begin;
  std::int64_t bytes = size_of(array.dtype);
  bool overflow = false;
  for (const std::int64_t size : array.shape)
    overflow = overflow || __builtin_mul_overflow(bytes, size, &bytes);
  require_input(!overflow && bytes <= room,
                "{} numbers do not fit into its {} bytes: it is cut short", array.shape,
                file.size());
  require_input(bytes == room,
                "{} bytes follow its {} numbers: np.save was called more than once; save one array "
                "a file",
                room - bytes, array.shape);
  array.end = file.size();
  return array;
}

}  // namespace nystrom
