#include "core/library_versions.h"

#include <dnnl.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace nystrom {

std::vector<LibraryVersion> core_library_versions() {
  const dnnl_version_t* dnnl = dnnl_version();
  return {{"oneDNN", fmt::format("{}.{}.{}", dnnl->major, dnnl->minor, dnnl->patch)},
          {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
                              FMT_VERSION % 100)},
          {"nlohmann-json", nlohmann::json::meta().at("version").at("string").get<std::string>()}};
}

}  // namespace nystrom
