#include "data/tokenizers/pipeline/word_models.h"

#include "core/base/json_part.h"
#include "core/base/printable.h"
#include "core/check.h"

namespace nystrom {
void refuse_unknown(const std::string& unknown) {
  throw InputError(
      fmt::format("the text holds what is no piece of the tokenizer, whose vocabulary lacks the "
                  "unknown token '{}'",
                  printable(unknown)));
}

std::unique_ptr<WordModel> read_word_model(const JsonPart& part) {
  // Older files do not name the type. It follows from their members.
  const bool has_merges = part.value().is_object() && part.value().contains("merges");
  const bool has_list = part.value().is_object() && part.value().contains("vocab") &&
                        part.value()["vocab"].is_array();
  const std::string type = part.text_or("type", has_merges ? "BPE"
                                                : has_list ? "Unigram"
                                                           : "WordPiece");
  if (type == "Unigram") return read_unigram(part);
  if (type == "WordPiece") return read_wordpiece(part);
  if (type == "BPE") return read_bpe(part);
  part.fail(
      fmt::format("models of type '{}' are not supported; known are BPE, Unigram and WordPiece",
                  printable(type)));
}

}  // namespace nystrom
