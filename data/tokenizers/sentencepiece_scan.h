// A SentencePiece model file looked through before the library sees it, which takes much on trust.
// Also what of it others need to know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nystrom {

inline constexpr std::size_t max_sentencepiece_bytes = std::size_t{64} << 20;
inline constexpr std::size_t max_piece_bytes = 1024;
inline constexpr std::size_t max_charsmap_bytes = std::size_t{4} << 20;

/// One entry of the vocabulary.
struct SentencePiece {
  enum class Type { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5 };

  std::string text;
  float score = 0;
  Type type = Type::normal;
  std::size_t score_offset =
      0;  ///< of the score's four bytes in the file; 0 when the file leaves the score out
};

/// What a scanned model says.
struct SentencePieceModel {
  enum class Kind { unigram = 1, bpe = 2 };

  std::vector<SentencePiece> pieces;  ///< by id
  Kind kind = Kind::unigram;
  std::string charsmap;  ///< compiled normalisation rules: a double-array trie and the strings it
                         ///< leads to; may be empty
};

/// Scans the bytes of a model file; InputError "source: byte 17: …" for anything that is not a
/// model as the trainer writes them: lengths inside their parent, known fields in their own wire
/// type and once, pieces unique, valid UTF-8, 1 to 1024 bytes, without NUL, finite scores, no
/// control piece of one character, no normal or user-defined piece that goes beyond a word, exactly
/// one unknown piece and at least one normal one, a charsmap whose every walk stays inside it,
/// unigram or BPE, no byte fallback, and words marked by a space in front. Time and memory are
/// linear in the size.
SentencePieceModel scan_sentencepiece(std::string_view bytes, const std::string& source);

/// A charsmap proven safe to walk.
class Charsmap {
 public:
  /// InputError when a walk could leave the trie or the strings, go round in circles, or pass more
  /// than 32 keys on one path.
  static void check(std::string_view charsmap, const std::string& source);

  /// What the charsmap (checked, maybe empty) makes of the start of `text`: the replacement of the
  /// longest key there; `text`'s own first character when no key begins it.
  static std::string replacement(std::string_view charsmap, std::string_view text);
  /// The replacement of the shortest key that `text` begins with; nothing when there is none. The
  /// view is into `charsmap`.
  static std::optional<std::string_view> shortest(std::string_view charsmap, std::string_view text);
};

}  // namespace nystrom
