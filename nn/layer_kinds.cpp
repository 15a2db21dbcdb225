#include "nn/layer_kinds.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/printable.h"
#include "core/base/words.h"

namespace nystrom {
namespace {

std::optional<std::int64_t> parse_layer(std::string_view text) {
  constexpr std::size_t max_digits = 9;
  const auto layer = number_of<std::int64_t>(text);
  return text.size() <= max_digits && !text.starts_with('-') ? layer : std::nullopt;
}

}  // namespace

std::optional<LayerRange> parse_layer_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = parse_layer(text.substr(0, dash)),
             last = dash == text.npos ? first : parse_layer(text.substr(dash + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return LayerRange{*first, *last};
}

AttentionKind ModelConfig::kind_of(std::int64_t layer) const {
  for (const auto& [text, kind] : attention.layers) {
    const auto range = parse_layer_range(text);
    if (range && range->first <= layer && layer <= range->last) return kind;
  }
  return attention.kind;
}

bool ModelConfig::has_kind(AttentionKind kind) const {
  std::int64_t named = 0;
  for (const auto& [text, each] : attention.layers) {
    const auto range = parse_layer_range(text);
    if (!range) continue;
    if (each == kind) return true;
    named += range->last - range->first + 1;
  }
  return kind == attention.kind && (named == 0 || named < num_hidden_layers);
}

bool ModelConfig::has_only(AttentionKind kind) const {
  return std::ranges::all_of(enum_names(kind), [&](const auto& each) {
    return has_kind(each.value) == (each.value == kind);
  });
}

bool ModelConfig::has_window(std::int64_t layer) const {
  if (!attention.window) return false;
  if (attention.window_layers.empty())
    return kind_of(layer) ==
           (has_kind(AttentionKind::softmax) ? AttentionKind::softmax : AttentionKind::nystrom);
  return std::ranges::any_of(attention.window_layers, [&](const std::string& text) {
    const auto range = parse_layer_range(text);
    return range && range->first <= layer && layer <= range->last;
  });
}

bool ModelConfig::has_window(AttentionKind kind) const {
  for (std::int64_t layer = 0; layer < num_hidden_layers; ++layer)
    if (kind_of(layer) == kind && has_window(layer)) return true;
  return false;
}

ModelConfig ModelConfig::without_window() const {
  ModelConfig config = *this;
  config.attention.window.reset();
  config.attention.window_layers.clear();
  return config;
}

ModelConfig ModelConfig::with_exact_attention() const {
  ModelConfig exact = *this;
  exact.attention.kind = AttentionKind::softmax;
  exact.attention.layers.clear();
  exact.attention.window_layers.clear();
  for (std::int64_t layer = 0; layer < num_hidden_layers; ++layer)
    if (has_window(layer)) exact.attention.window_layers.push_back(std::to_string(layer));
  if (exact.attention.window_layers.empty()) exact.attention.window.reset();
  return exact;
}

ModelConfig ModelConfig::of_layer(std::int64_t layer) const {
  ModelConfig config = has_window(layer) ? *this : without_window();
  config.attention.window_layers.clear();
  config.attention.kind = kind_of(layer);
  config.attention.layers.clear();
  return config;
}

Problems layer_problems(const ModelConfig& config) {
  Problems found;
  const auto add = [&](const std::string& text, const std::string& reason) {
    add_problem(found, {"attention.layers", "num_hidden_layers"}, "attention.layers '{}' {}",
                printable(text, 40), reason);
  };
  const LayerKinds& layers = config.attention.layers;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string& text = layers[i].first;
    const auto range = parse_layer_range(text);
    if (!range) {
      add(text, "names no layers; expected a layer or a range, such as 11 or 0-3");
      continue;
    }
    if (range->last >= config.num_hidden_layers) {
      add(text, fmt::format("exceeds num_hidden_layers {}, whose layers count from 0; lower it",
                            config.num_hidden_layers));
    }
    for (std::size_t j = 0; j < i; ++j) {
      const auto other = parse_layer_range(layers[j].first);
      if (!other || other->last < range->first || range->last < other->first) continue;
      add(text, fmt::format("and '{}' both name layer {}; name each layer once",
                            printable(layers[j].first, 40), std::max(range->first, other->first)));
    }
  }
  return found;
}

std::string describe_kinds(const ModelConfig& config) {
  std::string layers;
  for (const auto& [text, kind] : config.attention.layers)
    layers += fmt::format("{}{}: {}", layers.empty() ? "" : ", ", text, enum_name(kind));
  std::string text =
      enum_name(config.attention.kind) + (layers.empty() ? "" : " (layers " + layers + ")");
  if (!config.attention.window) return text;
  std::string windows;
  for (const std::string& range : config.attention.window_layers)
    windows += (windows.empty() ? " in layers " : ", ") + range;
  return text + fmt::format(", window {}{}", *config.attention.window, windows);
}

}  // namespace nystrom
