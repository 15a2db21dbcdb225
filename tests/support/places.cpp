#include "tests/support/places.h"

#include <cstdlib>

namespace nystrom::testing {

std::filesystem::path source_folder() {
  const char* elsewhere = std::getenv("NYSTROM_SOURCE_DIR");
  return elsewhere ? elsewhere : NYSTROM_SOURCE_DIR;
}

std::filesystem::path build_folder() { return NYSTROM_BINARY_DIR; }

}  // namespace nystrom::testing
