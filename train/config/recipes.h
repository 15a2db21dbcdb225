// The recipes inside the program: the files of configs/, commented YAML for users to copy and edit.
#pragma once

#include <span>
#include <string_view>

namespace nystrom {

struct Recipe {
  std::string_view name;  ///< of the file, without .yaml
  std::string_view text;  ///< the file, byte for byte
};

/// All recipes, the smallest first. Defined in a file that the build makes
/// (train/config/embed_recipes.cmake).
std::span<const Recipe> recipes();

/// The recipe called `name`; InputError with the nearest name when there is none.
const Recipe& find_recipe(std::string_view name);

/// What the first line of the recipe says, without its "# ".
std::string_view summary(const Recipe& recipe);

}  // namespace nystrom
