#include "data/tokenizers/encoding.h"

#include <algorithm>

#include "core/base/utf8.h"

namespace nystrom {

std::pair<std::int64_t, std::int64_t> longest_first(std::int64_t first, std::int64_t second,
                                                    std::int64_t room) {
  if (first + second <= room) return {first, second};
  const std::int64_t half = room / 2, shorter = std::min(first, second);
  const std::int64_t kept_shorter = std::min(shorter, half), kept_longer = room - kept_shorter;
  return first <= second ? std::pair{kept_shorter, kept_longer}
                         : std::pair{kept_longer, kept_shorter};
}

Encoding encode_with_places(const Tokenizer& tokenizer, std::string_view text, bool special,
                            SpecialNames names) {
  Encoding result;
  std::vector<std::uint32_t> before(text.size() + 1);  // characters that begin in front of a byte
  for (std::size_t i = 0; i < text.size(); ++i)
    before[i + 1] = before[i] + !is_utf8_continuation(text[i]);
  for (const Token& token : tokenizer.encode_with_offsets(text, names)) {
    const bool inside = token.begin < text.size() && is_utf8_continuation(text[token.begin]);
    result.ids.push_back(token.id);
    result.offsets.emplace_back(before[token.begin] - inside, before[token.end]);
  }
  result.type_ids.resize(result.ids.size());
  if (!special) return result;
  // An id that no vocabulary has shows how many special tokens stand in front of a text.
  const std::int32_t stand_in = no_id;
  const std::vector<std::int32_t> around = tokenizer.wrap(std::span(&stand_in, 1)).ids;
  const auto in_front = std::ranges::find(around, stand_in) - around.begin();
  WrappedIds wrapped = tokenizer.wrap(result.ids);
  result.ids = std::move(wrapped.ids);
  result.type_ids = std::move(wrapped.type_ids);
  result.offsets.insert(result.offsets.begin(), static_cast<std::size_t>(in_front), {0, 0});
  result.offsets.resize(result.ids.size());
  return result;
}

}  // namespace nystrom
