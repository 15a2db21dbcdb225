#include "train/pretrain/fill_mask.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/check.h"
#include "train/pretrain/evaluation.h"

namespace nystrom {
namespace {

using Ids = std::vector<std::int32_t>;

/// The ids of [CLS] text [SEP]. Throws an InputError if fill_masks cannot use the text.
Ids encode(const ModelConfig& config, const Tokenizer& tokenizer, std::string_view text) {
  const std::string& mask = tokenizer.piece(tokenizer.special().mask);
  require_input(text.find_first_not_of(" \t\n\v\f\r") != text.npos,
                "the text is empty; give a text with {} where a word is to be filled in", mask);
  Ids ids = tokenizer.wrap(tokenizer.encode(text, SpecialNames::tokens)).ids;
  require_input(std::count(ids.begin(), ids.end(), tokenizer.special().mask) > 0,
                "the text has no {}; write it where a word is to be filled in", mask);
  const auto longest = config.longest_sequence();
  require_input(
      !longest || static_cast<std::int64_t>(ids.size()) <= *longest,
      "the text has {} tokens with [CLS] and [SEP], the model takes at most {}; shorten it",
      ids.size(), longest.value_or(0));
  return ids;
}

/// The softmax of logits, in f64.
std::vector<double> softmax_of(const Tensor& logits) {
  std::vector<double> values = logits.cast(DType::f64).to_doubles();
  const double largest = *std::max_element(values.begin(), values.end());
  double total = 0;
  for (double& value : values) total += value = std::exp(value - largest);
  for (double& value : values) value /= total;
  return values;
}

/// The ids of the k largest scores, largest first; equal scores are sorted by id.
std::vector<std::size_t> largest(const std::vector<double>& scores, std::int64_t k) {
  std::vector<std::size_t> ids(scores.size());
  std::iota(ids.begin(), ids.end(), std::size_t{0});
  std::partial_sort(ids.begin(), ids.begin() + k, ids.end(), [&](std::size_t a, std::size_t b) {
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
  });
  ids.resize(static_cast<std::size_t>(k));
  return ids;
}

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

}  // namespace

std::vector<std::vector<MaskFill>> fill_masks(const Model& model, const Tokenizer& tokenizer,
                                              std::string_view text, std::int64_t top_k) {
  const ModelConfig& config = model.config();
  require(top_k >= 1 && top_k <= config.vocab_size, "fill_masks: {} of {} tokens", top_k,
          config.vocab_size);
  const Ids ids = encode(config, tokenizer, text);
  std::vector<std::int64_t> places;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == tokenizer.special().mask) places.push_back(static_cast<std::int64_t>(i));
  }
  const auto masks = static_cast<std::int64_t>(places.size());
  const Var logits = model.masked_lm_logits(
      input_of(ids, config.fixed_length().value_or(static_cast<std::int64_t>(ids.size())),
               tokenizer.special().pad),
      Tensor::from(places, {masks}));
  std::vector<std::vector<MaskFill>> result;
  for (std::int64_t mask = 0; mask < masks; ++mask) {
    const std::vector<double> scores =
        softmax_of(logits.value().slice(0, mask, mask + 1).to(cpu_device));
    result.emplace_back();
    for (const std::size_t id : largest(scores, top_k)) {
      const auto token = static_cast<std::int32_t>(id);
      Ids filled = ids;
      filled[static_cast<std::size_t>(places[static_cast<std::size_t>(mask)])] = token;
      // The text keeps its special tokens if there are several masks, so that the others stay.
      const std::string piece =
          token < tokenizer.vocab_size() ? tokenizer.decode(std::span(&token, 1), false) : "";
      result.back().push_back(
          {scores[id], token, piece, decode(tokenizer, std::move(filled), masks == 1)});
    }
  }
  return result;
}

std::vector<std::vector<MaskFill>> sample_fills(const Model& model, const Tokenizer& tokenizer,
                                                std::string text) {
  constexpr std::int64_t words = 3;
  return fill_masks(model, tokenizer, with_mask_of(tokenizer, std::move(text)),
                    std::min(words, model.config().vocab_size));
}

std::string fill_mask_json(const std::vector<std::vector<MaskFill>>& masks) {
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
