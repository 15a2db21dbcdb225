// A SentencePiece model file: its checks, and the parts that other files need.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/pipeline/vocabulary.h"  // max_piece_bytes

namespace nystrom {

inline constexpr std::size_t max_charsmap_bytes = std::size_t{4} << 20;

/// One entry of the vocabulary.
struct SentencePiece {
  enum class Type { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5 };

  std::string text;
  float score = 0;
  Type type = Type::normal;
};

/// The content of a scanned model.
struct SentencePieceModel {
  enum class Kind { unigram = 1, bpe = 2 };

  std::vector<SentencePiece> pieces;  ///< indexed by id
  Kind kind = Kind::unigram;
  /// The compiled normalization rules: a double-array trie and its replacement strings. May be
  /// empty.
  std::string charsmap;
};

/// Scans the bytes of a model file. Throws an InputError "source: byte 17: …" unless the file is a
/// model as the trainer writes it:
/// - Every length stays inside its parent. Known fields have their own wire type and appear once.
/// - Pieces are unique, valid UTF-8, 1 to 1024 bytes long and without NUL. Their scores are finite.
/// - No control piece is a single character. No normal or user-defined piece crosses a word
///   boundary.
/// - There is exactly one unknown piece and at least one normal piece.
/// - Every walk through the charsmap stays inside it.
/// - The model is unigram or BPE, without byte fallback. A space in front marks a word.
///
/// Time and memory are linear in the size of the file.
SentencePieceModel scan_sentencepiece(std::string_view bytes, const std::string& source);

/// Throws an InputError when a walk could leave the trie or the strings.
void check_charsmap(std::string_view charsmap, const std::string& source);
enum class CharsmapKey { shortest, longest };
/// The replacement of the shortest or longest key that is a prefix of `text`, in `charsmap`;
/// nothing without such a key. `charsmap` must have passed check_charsmap; it may be empty.
std::optional<std::string_view> find_replacement(std::string_view charsmap, std::string_view text,
                                                 CharsmapKey which);

}  // namespace nystrom
