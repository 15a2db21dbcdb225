// Conversion of decimal numbers as in Hugging Face's tokenizers.
#pragma once

#include <string_view>

namespace nystrom {

/// Returns the value of a JSON number as serde_json reads it by default. The digits become an
/// integer of 64 bits, and further digits are dropped. One multiplication or division by a power of
/// ten follows.
///
/// One in seven numbers of 16 digits differs from the nearest double in its last bit. That bit
/// decides between segmentations with nearly equal scores. `text` must be a JSON number.
double read_rounded_number(std::string_view text);

}  // namespace nystrom
