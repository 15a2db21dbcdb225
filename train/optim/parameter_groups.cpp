#include "train/optim/parameter_groups.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>

#include "core/base/printable.h"
#include "core/base/suggest.h"
#include "core/base/words.h"

namespace nystrom {
namespace {

constexpr std::string_view embeddings_prefix = "nystromformer.embeddings.";
constexpr std::string_view layer_prefix = "nystromformer.encoder.layer.";

bool matches(const ParameterGroup& group, const std::string& name) {
  return ::fnmatch(group.parameters.c_str(), name.c_str(), 0) == 0;
}

/// The index of the last group that matches `name`; −1 for none.
std::ptrdiff_t group_of(const std::string& name, const std::vector<ParameterGroup>& groups) {
  for (std::ptrdiff_t i = std::ssize(groups) - 1; i >= 0; --i)
    if (matches(groups[static_cast<std::size_t>(i)], name)) return i;
  return -1;
}

/// 0 for the embeddings, i + 1 for layer i, of a generator too; nothing for the final norm and
/// heads.
std::optional<std::int64_t> depth_of(std::string_view name) {
  constexpr std::string_view of_generator = "generator.";
  if (name.starts_with(of_generator)) name.remove_prefix(of_generator.size());
  if (name.starts_with(embeddings_prefix)) return 0;
  if (!name.starts_with(layer_prefix)) return std::nullopt;
  std::int64_t layer = 0;
  std::from_chars(name.data() + layer_prefix.size(), name.data() + name.size(), layer);
  return layer + 1;
}

/// A hint for a pattern that matches none of `names`, which are not empty.
std::string hint_for(const std::string& pattern, const std::vector<std::string>& names) {
  std::set<std::string> all;
  for (const std::string& name : names)
    for (const std::string_view part : words_between(name, ".")) all.emplace(part);
  const std::vector<std::string> known(all.begin(), all.end());
  for (const std::string_view word : words_between(pattern, ".")) {
    const std::string part(word);
    if (part.find_first_of("*?[") != part.npos || all.contains(part)) continue;
    if (part == "conv")
      return "the model has no convolution: leave the group out, or set "
             "model.attention.conv_kernel_size, of a trained model by nystrom convert --conv 33";
    if (const auto near = nearest(part, known))
      return fmt::format("did you mean '{}' in place of '{}'?", *near, printable(part, 40));
  }
  return fmt::format("nystrom info lists the names, such as {}", names.back());
}

}  // namespace

std::vector<ParameterOptions> parameter_options(const ParameterStore& store,
                                                const OptimizerOptions& options) {
  const std::vector<Parameter> parameters = store.parameters();
  std::int64_t layers = 0;
  for (const Parameter& parameter : parameters)
    layers = std::max(layers, depth_of(parameter.name()).value_or(0));
  std::vector<ParameterOptions> result;
  for (const Parameter& parameter : parameters) {
    ParameterOptions own{1, options.weight_decay, false};
    if (const auto depth = depth_of(parameter.name()); depth && options.layer_decay)
      own.learning_rate_factor =
          std::pow(*options.layer_decay, static_cast<double>(layers + 1 - *depth));
    if (const auto index = group_of(parameter.name(), options.groups); index >= 0) {
      const ParameterGroup& group = options.groups[static_cast<std::size_t>(index)];
      own.learning_rate_factor *= group.learning_rate_factor;
      own.weight_decay = group.weight_decay.value_or(own.weight_decay);
      own.frozen = group.freeze;
    }
    if (!parameter.decays()) own.weight_decay = 0;
    result.push_back(own);
  }
  return result;
}

void freeze_parameters(ParameterStore& store, const OptimizerOptions& options) {
  const std::vector<Parameter> parameters = store.parameters();
  const std::vector<ParameterOptions> of_each = parameter_options(store, options);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (of_each[i].frozen) store.freeze(parameters[i].name());
}

Problems group_problems(const ParameterStore& store, const OptimizerOptions& options) {
  std::vector<std::string> names;
  std::set<std::string> decaying;
  std::vector<bool> applies(options.groups.size(), false);
  bool trains = options.groups.empty();
  for (const Parameter& parameter : store.parameters()) {
    names.push_back(parameter.name());
    const auto index = group_of(names.back(), options.groups);
    if (index >= 0) applies[static_cast<std::size_t>(index)] = true;
    if (parameter.decays()) decaying.insert(names.back());
    trains |= index < 0 || !options.groups[static_cast<std::size_t>(index)].freeze;
  }
  Problems found;
  const auto add = [&](std::string message) {
    found.push_back({{"optimizer.groups"}, std::move(message)});
  };
  for (std::size_t i = 0; i < options.groups.size(); ++i) {
    const ParameterGroup& group = options.groups[i];
    const std::string path = fmt::format("optimizer.groups[{}]", i),
                      pattern = printable(group.parameters, 100);
    if (group.freeze && (group.weight_decay || group.learning_rate_factor != 1))
      add(path +
          ".freeze true excludes learning_rate_factor and weight_decay; frozen parameters "
          "do not change: leave these out, or set freeze to false");
    if (group.parameters.empty()) {
      add(path + ".parameters is empty; give a pattern of names, such as \"*.conv.weight\"");
    } else if (std::ranges::none_of(names, [&](const auto& n) { return matches(group, n); })) {
      add(fmt::format("{}.parameters '{}' matches no parameter of the model; {}", path, pattern,
                      hint_for(group.parameters, names)));
    } else if (!applies[i]) {
      add(
          fmt::format("{}.parameters '{}' matches only parameters of later groups, which replace "
                      "it; put it behind them, or remove it",
                      path, pattern));
    } else if (group.weight_decay.value_or(0) > 0 && !group.freeze &&
               std::ranges::none_of(decaying, [&](const auto& n) { return matches(group, n); })) {
      add(
          fmt::format("{}.weight_decay {} has no effect: biases, normalisation and the gates of "
                      "windows never decay, and '{}' matches nothing else; leave it out",
                      path, *group.weight_decay, pattern));
    }
  }
  if (!trains) add("optimizer.groups freezes all parameters; leave some to train");
  return found;
}

}  // namespace nystrom
