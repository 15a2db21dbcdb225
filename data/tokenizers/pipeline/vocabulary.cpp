#include "data/tokenizers/pipeline/vocabulary.h"

#include <algorithm>

#include "core/base/json_part.h"
#include "core/base/printable.h"
#include "core/check.h"

namespace nystrom {

void require_piece_size(const std::string& piece, const JsonPart& where) {
  if (piece.size() > max_piece_bytes)
    where.fail(fmt::format("the piece '{}' has {} bytes, expected at most {}", printable(piece, 40),
                           piece.size(), max_piece_bytes));
}

Vocabulary Vocabulary::read(const JsonPart& part) {
  if (!part.value().is_object()) part.fail("expected an object from pieces to ids");
  Vocabulary vocabulary;
  // A file with larger ids is a mistake: gaps can only be filled by added tokens that the file
  // names.
  const std::size_t largest = std::min(max_pieces, 2 * part.value().size() + 1000);
  for (const auto& [piece, value] : part.value().items()) {
    require_piece_size(piece, part);
    const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() < largest;
    if (!fits)
      part.fail(fmt::format("the id of '{}' is {}, expected 0 to {}", printable(piece),
                            printable(value.dump(), 60), largest - 1));
    const auto id = value.get<std::int32_t>();
    if (!vocabulary.add(piece, id))
      part.fail(fmt::format("id {} belongs to '{}' and to '{}'", id,
                            printable(vocabulary.piece(id)), printable(piece)));
  }
  if (vocabulary.size() == 0) part.fail("the vocabulary is empty");
  return vocabulary;
}

bool Vocabulary::add(std::string piece, std::int32_t id) {
  const auto index = static_cast<std::size_t>(id);
  if (index < taken_.size() && taken_[index]) return false;
  if (!ids_.emplace(piece, id).second) return false;
  if (index >= pieces_.size()) {
    pieces_.resize(index + 1);
    taken_.resize(index + 1, false);
  }
  pieces_[index] = std::move(piece);
  taken_[index] = true;
  return true;
}

std::optional<std::int32_t> Vocabulary::find(std::string_view piece) const {
  const auto found = ids_.find(piece);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

}  // namespace nystrom
