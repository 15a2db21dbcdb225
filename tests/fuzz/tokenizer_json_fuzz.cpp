// Arbitrary bytes as a tokenizer.json and, after a zero byte, a text. Only InputError may be
// thrown. An accepted tokenizer must give ids of its vocabulary with offsets inside the text.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "data/tokenizers/pipeline/tokenizer_files.h"

namespace {

void use(const nystrom::Tokenizer& tokenizer, std::string_view text, nystrom::SpecialNames names) {
  const auto tokens = tokenizer.encode_with_offsets(text, names);
  std::vector<std::int32_t> ids;
  for (const auto& [id, begin, end, word] : tokens) {
    if (id < 0 || id >= tokenizer.vocab_size() || begin > end || end > text.size()) std::abort();
    ids.push_back(id);
  }
  if (tokenizer.encode(text, names) != ids) std::abort();
  for (const std::int32_t id : tokenizer.wrap(ids, ids).ids)
    if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
  tokenizer.decode(ids);
  tokenizer.decode(ids, false);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(bytes.find('\0'), size);
  const std::string_view text =
      end < size
          ? bytes.substr(end + 1)
          : "The 12,345 [MASK] caf\xC3\xA9s (ABC) \xE6\x9D\xB1\xE4\xBA\xAC \xEF\xBC\xA1 it's";
  try {
    const auto tokenizer = nystrom::tokenizer_of_json(bytes.substr(0, end));
    use(*tokenizer, text, nystrom::SpecialNames::tokens);
    use(*tokenizer, text, nystrom::SpecialNames::text);
  } catch (const nystrom::InputError&) {
  }
  return 0;
}
