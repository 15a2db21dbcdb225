#include "train/export/model_classes.h"

#include <vector>

#include "core/base/file_io.h"
#include "core/check.h"

namespace nystrom {

std::string foreign_classes(const std::filesystem::path& folder) {
  std::vector<std::string_view> names;
  for (const EmbeddedFile& file : model_classes()) {
    const std::filesystem::path path = folder / file.name;
    if (std::filesystem::exists(path) && read_text_file(path) != file.text)
      names.push_back(file.name);
  }
  return fmt::format("{}", fmt::join(names, " and "));
}

}  // namespace nystrom
