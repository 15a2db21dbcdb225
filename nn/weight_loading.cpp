#include "nn/weight_loading.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/long_list.h"
#include "core/base/suggest.h"
#include "core/check.h"

namespace nystrom {
namespace {

/// Whether the tensor is a copy that files hold beside the parameters. The decoder is the word
/// embedding, and its bias is cls.predictions.bias.
bool is_redundant(std::string_view name) {
  return name == "cls.predictions.decoder.weight" || name == "cls.predictions.decoder.bias" ||
         name == "nystromformer.embeddings.position_ids" ||
         name == "nystromformer.embeddings.token_type_ids";
}

constexpr std::size_t listed_names = 20;

std::string listed(const std::string& title, const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format("; {}: {}", title, long_list(names, listed_names));
}

}  // namespace

bool is_outside_encoder(std::string_view name) {
  return !name.starts_with("nystromformer.") && !name.starts_with("embedding.");
}

void check_weights(const ParameterStore& store, const WeightSource& source,
                   std::span<const std::string> fresh) {
  std::vector<std::string> missing, mismatched;
  std::set<std::string> surplus;  // one tensor of a file may hold several parameters
  std::map<std::string_view, const Shape*> held;
  for (const auto& entry : source.entries) held.emplace(entry.name, &entry.shape);
  std::set<std::string> absent;
  std::set<std::string_view> known;
  bool changes_results = false;
  for (const Parameter& parameter : store.parameters()) {
    if (std::ranges::find(fresh, parameter.name()) != fresh.end()) continue;
    known.insert(parameter.name());
    const auto found = held.find(parameter.name());
    if (found == held.end()) {
      // One tensor of a file may hold several parameters.
      const auto [name, is_new] = absent.insert(source.shown(parameter.name()));
      if (is_new) missing.push_back(*name);
    } else if (*found->second != parameter.shape()) {
      mismatched.push_back(fmt::format("{} is {}, expected {}", source.shown(parameter.name()),
                                       *found->second, parameter.shape()));
    }
  }
  for (const auto& entry : source.entries) {
    if (is_redundant(entry.name) || known.contains(entry.name)) continue;
    changes_results |= !is_outside_encoder(entry.name);
    surplus.insert(source.shown(entry.name));
  }
  std::vector<std::string> unexpected(surplus.begin(), surplus.end());
  constexpr std::size_t most_compared = 1000;
  if (missing.size() <= most_compared)
    for (std::size_t i = 0; i < std::min(unexpected.size(), listed_names); ++i)
      unexpected[i] += did_you_mean(unexpected[i], missing);
  require_input(missing.empty() && !changes_results && mismatched.empty(),
                "the weights do not fit the model{}{}{}", listed("mismatched", mismatched),
                listed("unexpected", unexpected), listed("missing", missing));
}

void load_weights(ParameterStore& store, const WeightSource& source,
                  std::span<const std::string> fresh) {
  check_weights(store, source, fresh);
  for (const Parameter& parameter : store.parameters()) {
    const std::string& name = parameter.name();
    if (std::ranges::find(fresh, name) != fresh.end()) continue;
    const Tensor values = source.read(name);
    require_input(
        is_float(values.dtype()),
        "tensor {} has the type {}, expected floating-point numbers; of a quantized model "
        "save the weights before its quantization",
        source.shown(name), values.dtype());
    store.set(name, values);
  }
  const std::string beyond = store.not_finite();
  if (!beyond.empty())
    throw InputError(fmt::format("tensor {} holds numbers beyond what {} holds",
                                 source.shown(beyond), store.dtype()));
}

}  // namespace nystrom
