// ListOps: nested operations on lists of digits, with their value as the label (Nangia & Bowman,
// NAACL 2018). Long Range Arena uses long ones (Tay et al., ICLR 2021).
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>

namespace nystrom {

/// The options of ListOpsGenerator.
struct ListOpsOptions {
  std::int64_t max_depth = 10;  ///< a single digit has depth 1
  std::int64_t max_arguments = 10;
  /// The length in symbols without parentheses is greater than min_length and less than max_length.
  std::int64_t min_length = 500, max_length = 2000;
  std::int64_t seed = 0;
};

/// An expression such as "( ( ( [MAX 2 ) 9 ) ] )" and its value, 0 to 9. Parentheses show the tree.
struct ListOpsSample {
  std::string source;
  int target = 0;
};

/// Draws expressions from the distribution of Long Range Arena's script. A node above max_depth is
/// a list with probability 1/4, else a digit. A list has one of the operators [MIN, [MAX, [MED (the
/// median, or the mean of the middle two, rounded down), [SM (the sum modulo 10) and 2 to
/// max_arguments arguments, all with equal probability. Expressions of other lengths and duplicates
/// are discarded. The same options give the same samples.
class ListOpsGenerator {
 public:
  /// Throws an InputError for options that no expression satisfies.
  explicit ListOpsGenerator(const ListOpsOptions& options);

  /// The next sample. Throws an InputError when a million expressions in a row are discarded.
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
