// A vocabulary: pieces by id and ids by piece.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/pipeline/string_map.h"

namespace nystrom {

class JsonPart;

/// Limit for the size of a vocabulary; larger ones are rejected.
inline constexpr std::size_t max_pieces = std::size_t{1} << 24;
inline constexpr std::size_t max_piece_bytes = 1024;

/// Throws an InputError at `where` for a longer piece.
void require_piece_size(const std::string& piece, const JsonPart& where);

/// Const members may be called from several threads.
class Vocabulary {
 public:
  /// Reads an object from piece to id. Throws an InputError when an id is not a non-negative
  /// integer, appears twice, or is much larger than the number of pieces, and for a piece that is
  /// too long. Ids may have gaps.
  static Vocabulary read(const JsonPart& part);

  /// Adds a piece. `id` may lie beyond the last one; ids between them have no piece. Returns false
  /// when the id or the piece is already in use.
  bool add(std::string piece, std::int32_t id);

  /// The largest id plus 1.
  std::int32_t size() const { return static_cast<std::int32_t>(pieces_.size()); }
  /// The number of pieces; less than size() when ids have gaps.
  std::int32_t count() const { return static_cast<std::int32_t>(ids_.size()); }
  /// Whether an id has a piece.
  bool has(std::int32_t id) const { return id < size() && taken_[static_cast<std::size_t>(id)]; }
  /// The piece of an id below size(); empty for an id without a piece.
  const std::string& piece(std::int32_t id) const { return pieces_[static_cast<std::size_t>(id)]; }
  /// The id of a piece, or nothing.
  std::optional<std::int32_t> find(std::string_view piece) const;

 private:
  std::vector<std::string> pieces_;
  std::vector<bool> taken_;
  StringMap<std::int32_t> ids_;
};

}  // namespace nystrom
