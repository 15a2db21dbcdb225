// A text as tokens with their places, as Hugging Face's tokenizers give them.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace nystrom {

/// The tokens of a text. All lists have an entry for each token.
struct Encoding {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> type_ids;  ///< as WrappedIds has them
  /// The token's characters in its text, in code points; the end is exclusive. (0, 0) for a special
  /// token that the text does not hold.
  std::vector<std::pair<std::int64_t, std::int64_t>> offsets;
};

/// The number of tokens of two texts, of `first` and `second` tokens, that fit into `room`
/// together. It follows "longest first" of Hugging Face's tokenizers.
std::pair<std::int64_t, std::int64_t> longest_first(std::int64_t first, std::int64_t second,
                                                    std::int64_t room);

/// Encodes a text. `special`: with the special tokens of the model around it. Throws an InputError
/// unless the text is UTF-8.
Encoding encode_with_places(const Tokenizer& tokenizer, std::string_view text, bool special,
                            SpecialNames names = SpecialNames::text);

}  // namespace nystrom
