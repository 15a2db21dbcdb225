// Recipes are commented YAML configurations for users to copy and edit. The program contains the
// files of configs/.
#pragma once

#include <span>
#include <string_view>

#include "core/base/embedded_file.h"

namespace nystrom {

/// A file of configs/; its name is without .yaml.
using Recipe = EmbeddedFile;

/// All recipes, the smallest first. The build generates the definition.
std::span<const Recipe> recipes();

/// The recipe called `name`. Throws an InputError, which suggests the nearest name, if there is
/// none.
const Recipe& find_recipe(std::string_view name);

/// The first line of the recipe, without its "# ".
std::string_view summary(const Recipe& recipe);

}  // namespace nystrom
