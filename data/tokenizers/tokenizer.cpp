#include "data/tokenizers/tokenizer.h"

#include <algorithm>

#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/check.h"

namespace nystrom {

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, SpecialNames names) const {
  const std::vector<Token> tokens = encode_with_offsets(text, names);
  std::vector<std::int32_t> ids;
  ids.reserve(tokens.size());
  for (const Token& token : tokens) ids.push_back(token.id);
  return ids;
}

bool Tokenizer::is_special(std::int32_t id) const { return special().has(id); }

void require_pairs(const Tokenizer& tokenizer) {
  constexpr std::int32_t first = -1, second = -2;
  const WrappedIds pair = tokenizer.wrap(std::span(&first, 1), std::span(&second, 1));
  require_input(std::ranges::find(pair.ids, second) != pair.ids.end(),
                "the tokenizer's template for two texts, post_processor.pair of its "
                "tokenizer.json, leaves the second out; expected both, A and B");
}

void require_masked_lm_tokens(const Tokenizer& tokenizer) {
  const SpecialIds& ids = tokenizer.special();
  const WrappedIds around = tokenizer.wrap(std::span(&ids.mask, 1));
  const bool alone = ids.cls == no_id && ids.sep == no_id && ids.pad != no_id &&
                     around.ids == std::vector{ids.mask};
  if (ids.mask != no_id && alone) return;
  const std::pair<const char*, std::int32_t> needed[] = {
      {"cls", ids.cls}, {"sep", ids.sep}, {"pad", ids.pad}, {"mask", ids.mask}};
  for (const auto& [name, id] : needed) {
    require_input(id != no_id,
                  "the tokenizer has no {0} token; masked language models need cls, sep, pad and "
                  "mask: name it as {0}_token in "
                  "tokenizer_config.json",
                  name);
  }
  const std::vector<std::int32_t> expected = {ids.cls, ids.mask, ids.sep};
  const auto pieces = [&](const std::vector<std::int32_t>& list) {
    std::string text;
    for (const std::int32_t id : list) text += (text.empty() ? "" : " ") + tokenizer.piece(id);
    return printable(text);
  };
  require_input(around.ids == expected,
                "the tokenizer makes '{}' of a text; masked language models are trained on '{}': "
                "give it that template, or other names as "
                "cls_token and sep_token in tokenizer_config.json",
                pieces(around.ids), pieces(expected));
}

void require_distinct_special_tokens(const Tokenizer& tokenizer) {
  const SpecialIds& ids = tokenizer.special();
  const std::pair<const char*, std::int32_t> roles[] = {
      {"cls", ids.cls}, {"sep", ids.sep}, {"unk", ids.unk}, {"mask", ids.mask}, {"pad", ids.pad}};
  for (const auto& [later, id] : roles)
    for (const auto& [role, other] : roles) {
      if (role == later) break;
      if (id == no_id || id != other) continue;
      throw InputError(
          fmt::format("the tokenizer has '{0}' as its {1} and as its {2} token; pretraining needs "
                      "two: name another {2}_token in its special_tokens_map.json",
                      printable(tokenizer.piece(id)), role, later));
    }
}

void require_plain_prompt(const Tokenizer& tokenizer, std::string_view prompt) {
  require_input(
      tokenizer.encode(prompt) == tokenizer.encode(prompt, SpecialNames::tokens),
      "the prompt '{}' holds the name of a special token, which other programs take for the token "
      "and nystrom for text; choose another, or none: "
      "--set 'model.embedding.query_prompt=\"\"', or document_prompt",
      printable(prompt, 80));
}

void write_tokenizer(const Tokenizer& tokenizer, const std::filesystem::path& folder,
                     std::int64_t max_length, bool token_types) {
  for (const TokenizerFile& each : tokenizer.files(max_length, token_types))
    write_text_file(folder / each.name, each.content);
}

}  // namespace nystrom
