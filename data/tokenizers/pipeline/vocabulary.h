// Pieces by id, and ids by piece.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/pipeline/string_map.h"

namespace nystrom {

class JsonPart;

/// A vocabulary of more pieces is refused.
inline constexpr std::size_t max_pieces = std::size_t{1} << 24;

class Vocabulary {
 public:
  /// An object from piece to id. InputError when an id is no whole number from 0 on or stands
  /// twice. Ids may be left out.
  static Vocabulary read(const JsonPart& part);

  /// Adds a piece; `id` may lie behind the last: what is between stays empty. False when the id or
  /// the piece is taken.
  bool add(std::string piece, std::int32_t id);

  /// The largest id, and 1.
  std::int32_t size() const { return static_cast<std::int32_t>(pieces_.size()); }
  /// Of pieces: less than size() where ids are left out.
  std::int32_t count() const { return static_cast<std::int32_t>(ids_.size()); }
  /// Whether an id below size() has a piece.
  bool has(std::int32_t id) const { return id < size() && taken_[static_cast<std::size_t>(id)]; }
  /// Empty for an id that is left out.
  const std::string& piece(std::int32_t id) const { return pieces_[static_cast<std::size_t>(id)]; }
  std::optional<std::int32_t> find(std::string_view piece) const;

 private:
  std::vector<std::string> pieces_;
  std::vector<bool> taken_;
  StringMap<std::int32_t> ids_;
};

}  // namespace nystrom
