#include "data/tokenizers/pipeline/special_ids.h"

#include "core/base/printable.h"
#include "core/check.h"

namespace nystrom {
namespace {

using Name = std::optional<TokenizerSettings::Name>;

std::int32_t first_of(const Vocabulary& vocabulary, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto id = vocabulary.find(name)) return *id;
  return no_id;
}

}  // namespace

void find_special_ids(TokenizerParts& parts, const TokenizerSettings& settings) {
  const Vocabulary& vocabulary = parts.vocabulary;
  const auto choose = [&](const Name& name, std::optional<std::int32_t> known,
                          std::initializer_list<const char*> usual) {
    if (!name) return known ? *known : first_of(vocabulary, usual);
    const auto id = vocabulary.find(name->token);
    require_input(id.has_value(), "{}: '{}' is no piece of the vocabulary", name->place,
                  printable(name->token));
    return *id;
  };
  parts.special = {
      .cls = choose(settings.cls, parts.post_processor.cls, {"[CLS]", "<s>"}),
      .sep = choose(settings.sep, parts.post_processor.sep, {"[SEP]", "</s>"}),
      .pad = choose(settings.pad, std::nullopt, {"[PAD]", "<pad>"}),
      .mask = choose(settings.mask, std::nullopt, {"[MASK]", "<mask>"}),
      .unk = choose(settings.unk, parts.model->unknown(), {"[UNK]", "<unk>", "<|endoftext|>"})};
  if (!parts.post_processor.is_plain() || parts.special.cls == no_id || parts.special.sep == no_id)
    return;
  const PostProcessor made = PostProcessor::bert(parts.special.cls, parts.special.sep);
  parts.post_processor.single = made.single;
  parts.post_processor.pair = made.pair;
  parts.made_template = true;
}

}  // namespace nystrom
