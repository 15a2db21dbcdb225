// ListOps: nested operations on lists of digits, whose value is the label (Nangia & Bowman, NAACL
// 2018), and the long ones of Long Range Arena (Tay et al., ICLR 2021).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>

namespace nystrom {

/// The value, 0 to 9, of an expression such as "[MAX 2 9 [MIN 4 7 ] 0 ]": [MIN, [MAX, [MED (the
/// median, of an even number the mean of the two in the middle without its fraction), [SM (the sum
/// modulo 10), [FIRST, [LAST. White space separates the symbols; "(" and ")", which only show the
/// tree, are passed over. InputError "word 5: …" for what is no expression.
int evaluate_listops(std::string_view source);

struct ListOpsOptions {
  std::int64_t max_depth = 10;  ///< a digit alone has depth 1
  std::int64_t max_arguments = 10;
  std::int64_t min_length = 500,
               max_length =
                   2000;  ///< symbols, the parentheses not counted: more than min, fewer than max
  std::uint64_t seed = 0;
};

struct ListOpsSample {
  std::string source;
  int target = 0;
};

/// The distribution of Long Range Arena's script: a node above max_depth is a list with probability
/// 1/4, else a digit; a list has one of the operators [MIN, [MAX, [MED, [SM and 2 to max_arguments
/// arguments, all alike likely; expressions of other lengths, and those that were there before, are
/// thrown away. The same options give the same samples.
class ListOpsGenerator {
 public:
  /// InputError for options that no expression can meet.
  explicit ListOpsGenerator(const ListOpsOptions& options);

  /// The next sample. Its target, computed on the way, is what evaluate_listops says of its source
  /// (Error otherwise). InputError when a million expressions in a row are thrown away.
  ListOpsSample next();

 private:
  /// An expression as it grows.
  struct Draft {
    std::string source;
    std::int64_t length = 0;
  };

  /// One of 0 … choices − 1.
  std::int64_t draw(std::int64_t choices);
  /// Appends an expression; its value, or −1 as soon as the draft is too long.
  int grow(std::int64_t depth, Draft& draft);

  ListOpsOptions options_;
  std::uint64_t drawn_ = 0;
  std::unordered_set<std::string> digests_;
};

}  // namespace nystrom
