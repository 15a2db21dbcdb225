// Normalization of text for a SentencePiece model: the steps of Hugging Face's AlbertTokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nystrom {

struct NormalizerOptions {
  bool lower_case = true;
  bool keep_accents = false;
  friend bool operator==(const NormalizerOptions&, const NormalizerOptions&) = default;
};

/// Normalized text and its origin. `origin` has an entry for each byte: the offset in the source of
/// the character that produced it. It is empty unless requested.
struct NormalText {
  std::string text;
  std::vector<std::uint32_t> origin;
};

/// Normalizes `text`, which must be valid UTF-8. Throws an Error for 4 GiB or more. The steps are:
/// - White space of every kind and U+2581, SentencePiece's space, become single spaces. Spaces at
///   both ends are removed.
/// - `` and '' become ".
/// - Unless accents are kept, the text becomes NFKD without characters of a non-zero combining
///   class.
/// - Lower case is applied to each character by itself. Σ becomes σ at the end of a word too, as in
///   Hugging Face's tokenizer.json.
NormalText normalize(std::string_view text, const NormalizerOptions& options,
                     bool with_origin = false);

/// Returns the code points that keep_accents = false removes, as inclusive ranges in order. The
/// regular expression of a tokenizer.json needs them.
std::vector<std::pair<char32_t, char32_t>> accent_ranges();
/// Returns the white space of normalize() as inclusive ranges in order, for the same use.
std::vector<std::pair<char32_t, char32_t>> white_space_ranges();

}  // namespace nystrom
