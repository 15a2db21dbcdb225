// ListOps: nested operations on lists of digits, with their value as the label (Nangia & Bowman,
// NAACL 2018). Long Range Arena uses long ones (Tay et al., ICLR 2021).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>

namespace nystrom {

/// The value, 0 to 9, of an expression such as "[MAX 2 9 [MIN 4 7 ] 0 ]". Operators are [MIN, [MAX,
/// [FIRST, [LAST, [SM (the sum modulo 10) and [MED. [MED is the median; for an even number of
/// arguments it is the mean of the middle two, rounded down. White space separates symbols.
/// Parentheses "(" and ")" show the tree and are ignored. Throws an InputError "word 5: …" for
/// invalid expressions.
int evaluate_listops(std::string_view source);

/// The options of ListOpsGenerator.
struct ListOpsOptions {
  std::int64_t max_depth = 10;  ///< a single digit has depth 1
  std::int64_t max_arguments = 10;
  /// The length in symbols without parentheses is greater than min_length and less than max_length.
  std::int64_t min_length = 500, max_length = 2000;
  std::int64_t seed = 0;
};

/// An expression and its value.
struct ListOpsSample {
  std::string source;
  int target = 0;
};

/// Draws expressions from the distribution of Long Range Arena's script. A node above max_depth is
/// a list with probability 1/4, else a digit. A list has one of the operators [MIN, [MAX, [MED, [SM
/// and 2 to max_arguments arguments, all with equal probability. Expressions of other lengths and
/// duplicates are discarded. The same options give the same samples.
class ListOpsGenerator {
 public:
  /// Throws an InputError for options that no expression satisfies.
  explicit ListOpsGenerator(const ListOpsOptions& options);

  /// The next sample. Its target is computed during generation, and must equal evaluate_listops of
  /// its source (Error otherwise). Throws an InputError when a million expressions in a row are
  /// discarded.
  ListOpsSample next();

 private:
  /// A random number in 0 … choices − 1.
  std::int64_t draw(std::int64_t choices);
  /// Appends an expression and adds its symbols to `length`. Returns its value, or −1 when it
  /// becomes too long.
  int grow(std::int64_t depth, std::string& source, std::int64_t& length);

  ListOpsOptions options_;
  std::uint64_t drawn_ = 0;
  std::unordered_set<std::string> digests_;
};

}  // namespace nystrom
