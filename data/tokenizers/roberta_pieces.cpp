#include "data/tokenizers/roberta_pieces.h"

#include "core/check.h"
#include "data/tokenizers/pipeline/added_tokens.h"
#include "data/tokenizers/pipeline/part_json.h"
#include "data/tokenizers/pipeline/post_processors.h"
#include "data/tokenizers/pipeline/vocabulary.h"

namespace nystrom {
namespace {

using Json = nlohmann::json;
using Type = SentencePiece::Type;

/// Pieces with their scores, indexed by id.
using Scores = std::vector<std::pair<std::string, double>>;

Scores in_order(const SentencePieceModel& model, bool is_camembert) {
  Scores scores = is_camembert ? Scores{{"<s>NOTUSED", 0},
                                        {"<pad>", 0},
                                        {"</s>NOTUSED", 0},
                                        {"<unk>", 0},
                                        {"<unk>NOTUSED", -100}}
                               : Scores{{"<s>", 0}, {"<pad>", 0}, {"</s>", 0}, {"<unk>", 0}};
  for (std::size_t i = is_camembert ? 1 : 3; i < model.pieces.size(); ++i)
    scores.emplace_back(model.pieces[i].text, model.pieces[i].score);
  scores.emplace_back("<mask>", 0);
  return scores;
}

/// Special tokens, and pieces that the text itself may not cut.
Json added_tokens(const SentencePieceModel& model, const Scores& scores, bool is_camembert) {
  const std::size_t shift = is_camembert ? 4 : 1,
                    front = is_camembert ? 7 : 4;  // up to <unk> or the model's own </s>
  Json added = Json::array();
  for (std::size_t id = 0; id < scores.size(); ++id) {
    const bool in_model = id >= shift && id - shift < model.pieces.size();
    const Type type = in_model ? model.pieces[id - shift].type : Type::normal;
    const bool mask = id + 1 == scores.size();
    const bool control = id < front || mask || type == Type::control;
    if (!control && type != Type::user_defined) continue;
    added.push_back(added_token_json({.content = scores[id].first,
                                      .id = static_cast<std::int32_t>(id),
                                      .special = control,
                                      .lstrip = mask}));
  }
  return added;
}

Json normalizer(const SentencePieceModel& model) {
  Json steps = Json::array();
  if (!model.charsmap.empty())
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", base64(model.charsmap)}});
  steps.push_back({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}});
  steps.push_back(
      {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", "\xE2\x96\x81"}});
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

Json post_processor(const Scores& scores) {
  Vocabulary vocabulary;
  for (const auto& [text, score] : scores) vocabulary.add(text, vocabulary.size());
  const auto id = [&](const char* name) { return vocabulary.find(name).value(); };
  return post_processor_json(PostProcessor::roberta(id("<s>"), id("</s>")), vocabulary);
}

}  // namespace

bool has_roberta_pieces(const SentencePieceModel& model) {
  const auto& pieces = model.pieces;
  return pieces.size() >= 3 && pieces[0].text == "<unk>" && pieces[1].text == "<s>" &&
         pieces[2].text == "</s>";
}

std::string roberta_tokenizer_json(const SentencePieceModel& model, bool is_camembert,
                                   const std::string& source) {
  require_input(model.kind == SentencePieceModel::Kind::unigram,
                "{}: is a BPE model; XLM-RoBERTa and CamemBERT have unigram models", source);
  for (std::size_t i = 3; i < model.pieces.size(); ++i)
    require_input(model.pieces[i].text != "<mask>" && model.pieces[i].text != "<pad>",
                  "{}: has a piece '{}', which transformers adds itself", source,
                  model.pieces[i].text);
  const Scores scores = in_order(model, is_camembert);
  Json vocabulary = Json::array();
  for (const auto& [text, score] : scores) vocabulary.push_back({text, score});
  return tokenizer_json_text({{"added_tokens", added_tokens(model, scores, is_camembert)},
                              {"normalizer", normalizer(model)},
                              {"pre_tokenizer", metaspace_json()},
                              {"post_processor", post_processor(scores)},
                              {"decoder", metaspace_json()},
                              {"model", unigram_json(vocabulary, 3)}});
}

std::string base64(std::string_view bytes) {
  constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0);
    for (int k = 3; k >= 0; --k) text += digits[group >> (6 * k) & 63];
  }
  const std::size_t padding = (3 - bytes.size() % 3) % 3;
  return text.replace(text.size() - padding, padding, padding, '=');
}

}  // namespace nystrom
