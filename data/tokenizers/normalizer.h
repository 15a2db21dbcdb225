// What happens to text before a SentencePiece model sees it: the steps of Hugging Face's
// AlbertTokenizer.
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

/// Normal text, and for each of its bytes where the character that it comes from begins in the
/// source (empty unless asked for).
struct NormalText {
  std::string text;
  std::vector<std::uint32_t> origin;
};

/// White space of every kind (and U+2581, SentencePiece's own space) becomes single spaces, none at
/// the ends; `` and '' become "; unless accents are kept, NFKD without the characters of a
/// combining class; lower case, character by character (Σ becomes σ at the end of a word too, as in
/// Hugging Face's tokenizer.json). `text` must be valid UTF-8 of less than 4 GiB.
NormalText normalize(std::string_view text, const NormalizerOptions& options,
                     bool with_origin = false);

/// Code points that keep_accents = false removes, as inclusive ranges in order: for the regular
/// expression of a tokenizer.json.
std::vector<std::pair<char32_t, char32_t>> accent_ranges();
/// The white space above as inclusive ranges in order, likewise.
std::vector<std::pair<char32_t, char32_t>> white_space_ranges();

}  // namespace nystrom
