// Decimal numbers as Hugging Face's tokenizers read them.
#pragma once

#include <string_view>

namespace nystrom {

/// The value of a JSON number as serde_json reads it by default: digits as an integer of 64 bits
/// (further ones are dropped), multiplied or divided once by a power of ten. One in seven numbers
/// of 16 digits differs from the nearest double by its last bit, which decides where two ways to
/// cut a word have nearly the same score. `text` must be a JSON number.
double read_rounded_number(std::string_view text);

}  // namespace nystrom
