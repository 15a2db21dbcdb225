#include "nn/weight_loading.h"

#include <algorithm>

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

std::string listed(const std::string& title, const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format("; {}: {}", title, long_list(names, 20));
}

}  // namespace

bool is_outside_encoder(std::string_view name) {
  return !name.starts_with("nystromformer.") && !name.starts_with("embedding.");
}

void check_weights(const ParameterStore& store, const WeightSource& source,
                   std::span<const std::string> fresh) {
  std::vector<std::string> missing, unexpected, mismatched, known;
  bool changes_results = false;
  const auto shown = [&](const std::string& name) {
    return source.name_in_file ? source.name_in_file(name) : name;
  };
  for (const Parameter& parameter : store.parameters()) {
    if (std::ranges::find(fresh, parameter.name()) != fresh.end()) continue;
    known.push_back(parameter.name());
    const auto found =
        std::find_if(source.entries.begin(), source.entries.end(),
                     [&](const auto& entry) { return entry.name == parameter.name(); });
    if (found == source.entries.end()) {
      missing.push_back(shown(parameter.name()));
    } else if (found->shape != parameter.shape()) {
      mismatched.push_back(fmt::format("{} is {}, expected {}", shown(parameter.name()),
                                       found->shape, parameter.shape()));
    }
  }
  for (const auto& entry : source.entries) {
    if (is_redundant(entry.name) ||
        std::find(known.begin(), known.end(), entry.name) != known.end())
      continue;
    changes_results |= !is_outside_encoder(entry.name);
    unexpected.push_back(shown(entry.name) + did_you_mean(shown(entry.name), missing));
  }
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
        source.name_in_file ? source.name_in_file(name) : name, values.dtype());
    store.set(name, values);
  }
  const std::string beyond = store.not_finite();
  require_input(beyond.empty(), "tensor {} holds numbers beyond what {} holds",
                source.name_in_file && !beyond.empty() ? source.name_in_file(beyond) : beyond,
                store.dtype());
}

}  // namespace nystrom
