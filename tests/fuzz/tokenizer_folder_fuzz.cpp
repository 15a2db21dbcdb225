// Arbitrary files as a tokenizer folder with settings: vocab.txt, vocab.json and merges.txt,
// a SentencePiece model, or others. Only InputError may be thrown, and an accepted tokenizer must
// give ids of its vocabulary.
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "data/tokenizers/tokenizer_folder.h"
#include "tests/fuzz/input_files.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  static nystrom::testing::InputFolder folder{"tokenizer.json",
                                              "vocab.txt",
                                              "vocab.json",
                                              "merges.txt",
                                              "spiece.model",
                                              "tokenizer.model",
                                              "tokenizer_config.json",
                                              "special_tokens_map.json",
                                              "added_tokens.json",
                                              "config.json",
                                              "vocab.bin",
                                              "sentencepiece.bpe.model"};
  folder.fill({reinterpret_cast<const char*>(data), size});
  for (const char* place : {"", "vocab.txt", "vocab.bin", "tokenizer.model"}) {
    try {
      const auto tokenizer = nystrom::open_tokenizer(folder.path() / place);
      const auto ids = tokenizer->encode(
          "The 12,345 [MASK] caf\xC3\xA9s (ABC) \xE6\x9D\xB1\xE4\xBA\xAC \xEF\xBC\xA1 it's");
      for (const std::int32_t id : ids)
        if (id < 0 || id >= tokenizer->vocab_size()) std::abort();
      tokenizer->decode(ids);
      tokenizer->files(512);
      if (!nystrom::has_tokenizer(folder.path())) std::abort();
    } catch (const nystrom::InputError&) {
    }
  }
  return 0;
}
