// The pre-tokenizers of a tokenizer.json: the split of text into words.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/pipeline/aligned_text.h"

namespace nystrom {

class JsonPart;

/// A text and its words. Words are not empty, in order, and do not overlap. Removed text may lie
/// between them.
struct Words {
  AlignedText text;
  std::vector<ByteRange> ranges;

  std::string_view operator[](std::size_t i) const {
    return std::string_view(text.text()).substr(ranges[i].begin, ranges[i].size());
  }
};

struct PreTokenizer {
  /// Splits each word further. Throws an InputError when the text grows beyond AlignedText's limit,
  /// or a regular expression exceeds its limits. Several threads may call it at the same time.
  std::function<void(Words&)> apply;
  std::string space_mark{};  ///< put into pieces for the space before a word ("▁"), or empty
  bool byte_level = false;   ///< pieces consist of byte-level characters, with spaces
};

/// Creates the pre-tokenizer that a part of a tokenizer.json describes. Throws an InputError for an
/// unknown type or a wrong value.
PreTokenizer read_pre_tokenizer(const JsonPart& part);

/// Where a Metaspace puts its mark in front: "always", "first" or "never". Throws an InputError for
/// another value, and where the older `add_prefix_space` says otherwise.
std::string read_prepend_scheme(const JsonPart& metaspace);

}  // namespace nystrom
