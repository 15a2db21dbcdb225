// A text file of the repository that the program contains. nystrom_embed_files in CMakeLists.txt
// writes the function that returns such files.
#pragma once

#include <span>
#include <string_view>

namespace nystrom {

struct EmbeddedFile {
  std::string_view name;
  std::string_view text;  ///< the unchanged content
};

}  // namespace nystrom
