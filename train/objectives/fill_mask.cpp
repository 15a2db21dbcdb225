#include "train/objectives/fill_mask.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "data/tasks/task_loader.h"
#include "data/tasks/task_metrics.h"

namespace nystrom {
namespace {

using Ids = std::vector<std::int32_t>;

/// The text of ids, without padding and without ids outside the tokenizer's vocabulary.
std::string decode(const Tokenizer& tokenizer, Ids ids, bool skip_special) {
  std::erase_if(ids, [&](std::int32_t id) {
    return id == tokenizer.special().pad || id >= tokenizer.vocab_size();
  });
  return tokenizer.decode(ids, skip_special);
}

/// A JSON string in ASCII, like json.dumps.
std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

/// The text with [MASK] replaced by the tokenizer's own mask token.
std::string with_mask_of(const Tokenizer& tokenizer, std::string text) {
  const std::string &mask = tokenizer.piece(tokenizer.special().mask), usual = "[MASK]";
  for (std::size_t at = text.find(usual); at != text.npos; at = text.find(usual, at + mask.size()))
    text.replace(at, usual.size(), mask);
  return text;
}

/// The predictions at one mask of a text, from its logits [1, vocab].
std::vector<MaskFill> fills_of(const Tokenizer& tokenizer, const MaskedText& text,
                               std::int64_t place, const Tensor& logits, std::int64_t top_k) {
  const std::vector<double> scores = softmax_of(logits.cast(DType::f64).to_doubles());
  std::vector<MaskFill> fills;
  for (const std::size_t id : largest(scores, top_k)) {
    const auto token = static_cast<std::int32_t>(id);
    Ids filled = text.ids;
    filled[static_cast<std::size_t>(place)] = token;
    // The text keeps its special tokens if there are several masks, so that the others stay.
    const std::string piece =
        token < tokenizer.vocab_size() ? tokenizer.decode(std::span(&token, 1), false) : "";
    fills.push_back(
        {scores[id], token, piece, decode(tokenizer, std::move(filled), text.places.size() == 1)});
  }
  return fills;
}

}  // namespace

MaskedText masked_text(const ModelConfig& config, const Tokenizer& tokenizer,
                       std::string_view text) {
  const std::string& mask = tokenizer.piece(tokenizer.special().mask);
  require_input(text.find_first_not_of(" \t\n\v\f\r") != text.npos,
                "the text is empty; give a text with {} where a word is to be filled in", mask);
  WrappedIds wrapped = tokenizer.wrap(tokenizer.encode(text, SpecialNames::tokens));
  require_input(std::ranges::all_of(wrapped.type_ids, [](std::int32_t type) { return type == 0; }),
                "the tokenizer's template gives a text other token types than 0, and masks are "
                "filled in with 0; correct the template in tokenizer.json");
  MaskedText result{std::move(wrapped.ids), {}};
  for (std::size_t i = 0; i < result.ids.size(); ++i)
    if (result.ids[i] == tokenizer.special().mask)
      result.places.push_back(static_cast<std::int64_t>(i));
  require_input(!result.places.empty(),
                "the text has no {}; write it where a word is to be filled in", mask);
  const auto longest = config.longest_sequence();
  require_input(
      !longest || static_cast<std::int64_t>(result.ids.size()) <= *longest,
      "the text has {} tokens, the special ones included, the model takes at most {}; shorten it",
      result.ids.size(), longest.value_or(0));
  return result;
}

std::vector<MaskFills> fill_masks(const Model& model, const Tokenizer& tokenizer,
                                  std::span<const MaskedText> texts, std::int64_t top_k,
                                  std::int64_t batch_size) {
  const ModelConfig& config = model.config();
  require(top_k >= 1 && top_k <= config.vocab_size, "fill_masks: {} of {} tokens", top_k,
          config.vocab_size);
  std::vector<TextIds> rows;
  for (const MaskedText& text : texts) rows.emplace_back(text.ids);
  std::vector<MaskFills> result(texts.size());
  const auto fill = [&](const std::vector<std::size_t>& batch, const ModelInput& input) {
    std::vector<std::int64_t> places;
    for (std::size_t row = 0; row < batch.size(); ++row)
      for (const std::int64_t place : texts[batch[row]].places)
        places.push_back(input.offsets[row] + place);
    const Tensor logits = model.masked_lm_logits(input, places).value().to(cpu_device);
    std::int64_t mask = 0;
    for (const std::size_t text : batch) {
      for (const std::int64_t place : texts[text].places) {
        result[text].push_back(
            fills_of(tokenizer, texts[text], place, logits.slice(0, mask, mask + 1), top_k));
        ++mask;
      }
    }
  };
  for_each_batch(rows, batch_size, fill);
  return result;
}

MaskFills fill_masks(const Model& model, const Tokenizer& tokenizer, std::string_view text,
                     std::int64_t top_k) {
  const MaskedText masked = masked_text(model.config(), tokenizer, text);
  return fill_masks(model, tokenizer, std::span(&masked, 1), top_k, 1)[0];
}

MaskFills sample_fills(const Model& model, const Tokenizer& tokenizer, std::string text) {
  constexpr std::int64_t words = 3;
  return fill_masks(model, tokenizer, with_mask_of(tokenizer, std::move(text)),
                    std::min(words, model.config().vocab_size));
}

std::string fill_mask_json(const MaskFills& masks) {
  std::vector<std::string> lists;
  for (const auto& fills : masks) {
    std::vector<std::string> objects;
    for (const MaskFill& fill : fills) {
      objects.push_back(
          fmt::format(R"({{"score": {}, "token": {}, "token_str": {}, "sequence": {}}})",
                      nlohmann::json(fill.score).dump(), fill.token, json_text(fill.token_str),
                      json_text(fill.sequence)));
    }
    lists.push_back(fmt::format("[{}]", fmt::join(objects, ", ")));
  }
  return masks.size() == 1 ? lists[0] : fmt::format("[{}]", fmt::join(lists, ", "));
}

}  // namespace nystrom
