// Arbitrary bytes as config.json. Only InputError may be thrown, and an accepted configuration must
// survive writing and reading.
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "train/state/hf_config.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string first;
  try {
    first = nystrom::hf_config_text(nystrom::parse_hf_config(text, "config.json"));
  } catch (const nystrom::InputError&) {
    return 0;
  }
  if (nystrom::hf_config_text(nystrom::parse_hf_config(first, "config.json")) != first)
    std::abort();
  return 0;
}
