// Arbitrary bytes as a SentencePiece model: only InputError may come out, and the library must be able to load and use what is accepted.
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/error.h"
#include "data/sentencepiece_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto model = nystrom::scan_sentencepiece(bytes, "fuzz.model");
    nystrom::Charsmap::replacement(model.charsmap, "A\xE1\x84\x80\xE1\x85\xA1");
    const auto tokenizer = nystrom::SentencePieceTokenizer::parse(bytes, "fuzz.model");
    const auto ids = tokenizer.encode("The 12,345 caf\xC3\xA9s (ABC) \xE6\x9D\xB1\xE4\xBA\xAC \xEF\xBC\xA1 abc");
    tokenizer.decode(ids);
  } catch (const nystrom::InputError&) {
  }
  return 0;
}
