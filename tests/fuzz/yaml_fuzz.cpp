// Arbitrary text as a configuration. Reading must end in an InputError or in a configuration that
// survives writing.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "tests/support/start_defaults.h"
#include "train/config/config_io.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::optional<nystrom::RunConfig> config;
  try {
    config = nystrom::parse_config(text, "fuzz.yaml", nystrom::start_defaults);
  } catch (const nystrom::InputError&) {
  }
  if (config) {
    const std::string written = nystrom::to_yaml(*config);
    if (nystrom::to_yaml(nystrom::parse_config(written, "written.yaml", nystrom::start_defaults)) !=
        written)
      std::abort();
  }
  try {
    const std::string overrides[] = {text, "model.norm=" + text};
    nystrom::ModelConfig model;
    nystrom::override_model(model, "config.json", overrides);
  } catch (const nystrom::InputError&) {
  }
  return 0;
}
