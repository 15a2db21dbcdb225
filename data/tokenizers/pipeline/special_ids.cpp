// The special tokens of a vocabulary, and the template that puts them around a text.
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/pipeline_tokenizer.h"

namespace nystrom {
namespace {

std::int32_t first_of(const Vocabulary& vocabulary, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto id = vocabulary.find(name)) return *id;
  return no_id;
}

}  // namespace

void find_special_ids(TokenizerParts& parts, const TokenizerSettings& settings) {
  const Vocabulary& vocabulary = parts.vocabulary;
  const auto choose = [&](Role::Index role, std::optional<std::int32_t> known,
                          std::initializer_list<const char*> usual) {
    const auto id = vocabulary.find(settings.name_of(role));
    if (const auto& name = settings.names[role]) {
      require_input(id.has_value(), "{}: '{}' is no piece of the vocabulary", name->place,
                    printable(name->token));
      return *id;
    }
    return known ? *known : id ? *id : first_of(vocabulary, usual);
  };
  parts.special = {
      .cls = choose(Role::cls, parts.post_processor.cls, {"[CLS]", "<s>"}),
      .sep = choose(Role::sep, parts.post_processor.sep, {"[SEP]", "</s>"}),
      .pad = choose(Role::pad, std::nullopt, {"[PAD]", "<pad>"}),
      .mask = choose(Role::mask, std::nullopt, {"[MASK]", "<mask>"}),
      .unk = choose(Role::unk, parts.model->unknown(), {"[UNK]", "<unk>", "<|endoftext|>"})};
  parts.names = {vocabulary.find(settings.name_of(Role::bos)).value_or(no_id),
                 vocabulary.find(settings.name_of(Role::eos)).value_or(no_id),
                 parts.special.unk,
                 parts.special.sep,
                 parts.special.pad,
                 parts.special.cls,
                 parts.special.mask};
  parts.settings = settings;
  parts.token_types = settings.token_types.value_or(settings.its_class == nullptr ||
                                                    settings.its_class->token_types);
  if (!parts.post_processor.is_plain() || parts.special.cls == no_id || parts.special.sep == no_id)
    return;
  const PostProcessor made = PostProcessor::bert(parts.special.cls, parts.special.sep);
  parts.post_processor.single = made.single;
  parts.post_processor.pair = made.pair;
  parts.has_own_template = true;
}

}  // namespace nystrom
