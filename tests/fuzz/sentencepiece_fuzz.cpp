// Arbitrary bytes as a SentencePiece model. Only InputError may be thrown, and accepted models must
// encode text.
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "data/tokenizers/pipeline/tokenizer_files.h"
#include "data/tokenizers/sentencepiece_json.h"
#include "data/tokenizers/sentencepiece_scan.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto model = nystrom::scan_sentencepiece(bytes, "fuzz.model");
    nystrom::find_replacement(model.charsmap, "A\xE1\x84\x80\xE1\x85\xA1",
                              nystrom::CharsmapKey::longest);
    const auto tokenizer =
        nystrom::tokenizer_of_json(nystrom::albert_tokenizer_json(model, {}, "fuzz.model"));
    const std::string_view text =
        "The 12,345 caf\xC3\xA9s [MASK] ``ABC'' \xE6\x9D\xB1\xE4\xBA\xAC \xEF\xBC\xA1 abc";
    std::vector<std::int32_t> ids;
    for (const auto& [id, begin, end, word] :
         tokenizer->encode_with_offsets(text, nystrom::SpecialNames::tokens)) {
      if (id < 0 || id >= tokenizer->vocab_size() || begin > end || end > text.size()) std::abort();
      if (!tokenizer->find(tokenizer->piece(id)) || tokenizer->definition().empty()) std::abort();
      tokenizer->surface(id);
      ids.push_back(id);
    }
    if (tokenizer->encode(text, nystrom::SpecialNames::tokens) != ids) std::abort();
    tokenizer->decode(ids);
  } catch (const nystrom::InputError&) {
  }
  return 0;
}
