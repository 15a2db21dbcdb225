#include "data/tokenizers/encoding.h"

#include <algorithm>

#include "core/base/utf8.h"

namespace nystrom {
namespace {

/// The characters of bytes of a text, whose numbers mostly increase.
class Characters {
 public:
  explicit Characters(std::string_view text) : text_(text) {}

  /// The number of characters that begin in front of byte `end`.
  std::int64_t before(std::size_t end) {
    if (end < place_) place_ = count_ = 0;
    for (; place_ < end; ++place_) count_ += !is_utf8_continuation(text_[place_]);
    return count_;
  }
  /// The number of the character that byte `place` belongs to.
  std::int64_t at(std::size_t place) {
    const bool inside = place < text_.size() && is_utf8_continuation(text_[place]);
    return before(place) - inside;
  }

 private:
  std::string_view text_;
  std::size_t place_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace

Encoding encode_with_places(const Tokenizer& tokenizer, std::string_view text, bool special,
                            SpecialNames names) {
  Encoding result;
  Characters begins(text), ends(text);
  for (const Token& token : tokenizer.encode_with_offsets(text, names)) {
    result.ids.push_back(token.id);
    result.offsets.emplace_back(begins.at(token.begin), ends.before(token.end));
  }
  result.type_ids.resize(result.ids.size());
  if (!special) return result;
  // An id that no vocabulary has shows how many special tokens stand in front of a text.
  const std::int32_t stand_in = no_id;
  const std::vector<std::int32_t> around = tokenizer.wrap(std::span(&stand_in, 1)).ids;
  const auto before = std::ranges::find(around, stand_in) - around.begin();
  WrappedIds wrapped = tokenizer.wrap(result.ids);
  result.ids = std::move(wrapped.ids);
  result.type_ids = std::move(wrapped.type_ids);
  result.offsets.insert(result.offsets.begin(), static_cast<std::size_t>(before), {0, 0});
  result.offsets.resize(result.ids.size());
  return result;
}

}  // namespace nystrom
