// Arbitrary files as a model folder, or as a run with checkpoints: config.json, a vocabulary, and
// weights in one file or in shards with an index. Only InputError may be thrown, and every tensor
// of accepted weights must be readable.
#include <cstdlib>
#include <string_view>

#include "core/base/error.h"
#include "tests/fuzz/input_files.h"
#include "tests/support/start_defaults.h"
#include "train/config/config_io.h"
#include "train/state/architecture.h"
#include "train/state/model_folder.h"
#include "train/state/model_weights.h"

namespace {

void read_weights(const std::filesystem::path& folder) {
  const auto weights = nystrom::ModelWeights::open(folder);
  for (const std::string& name : weights.names()) {
    if (!weights.contains(name)) std::abort();
    if (weights.read(name).shape() != weights.stored(name).shape) std::abort();
    for (const nystrom::Architecture& each : nystrom::architectures())
      for (const auto& [head, head_name] : nystrom::enum_names(nystrom::Head{}))
        if (const auto parameter = each.parameter_name(name, head))
          each.tensor_name(*parameter, head);
  }
  weights.read("no such tensor");
}

void read_model(const std::filesystem::path& place) {
  nystrom::Log quiet(true);
  const nystrom::ModelFolder folder = nystrom::open_model(place, {}, quiet);
  if (nystrom::trained_length(folder) < 1) std::abort();
  try {
    nystrom::parse_config("model: {from: " + place.string() + "}", "from.yaml",
                          nystrom::start_defaults);
  } catch (const nystrom::InputError&) {
  }
  nystrom::open_masked_lm_tokenizer(folder);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  static nystrom::testing::InputFolder folder{"model.safetensors",
                                              "model.safetensors.index.json",
                                              "a.safetensors",
                                              "b.safetensors",
                                              "pytorch_model.bin",
                                              "config.json",
                                              "tokenizer_config.json",
                                              "vocab.txt",
                                              "checkpoints/",
                                              "checkpoints/step-1/MANIFEST.json",
                                              "checkpoints/step-1/config.json",
                                              "checkpoints/step-2/MANIFEST.json",
                                              "checkpoints/step-2/config.json",
                                              "checkpoints/step-2/state.json"};
  folder.fill({reinterpret_cast<const char*>(data), size});
  for (const auto& read : {read_weights, read_model}) {
    try {
      read(folder.path());
    } catch (const nystrom::InputError&) {
    }
  }
  return 0;
}
