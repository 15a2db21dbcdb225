// libFuzzer entry: whatever the text, reading a configuration ends in a config or in an InputError.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"
#include "train/config_io.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const nystrom::RunConfig config = nystrom::parse_config(text, "fuzz.yaml", {}, nystrom::sections_beyond_the_model);
    nystrom::parse_config(nystrom::to_yaml(config), "written.yaml");
  } catch (const nystrom::InputError&) {
  }
  try {
    const std::string overrides[] = {text, "model.norm=" + text};
    nystrom::ModelConfig model;
    nystrom::override_model(model, overrides);
  } catch (const nystrom::InputError&) {
  }
  return 0;
}
