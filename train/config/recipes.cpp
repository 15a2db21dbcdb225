#include "train/config/recipes.h"

#include <string>
#include <vector>

#include "core/base/printable.h"
#include "core/base/suggest.h"
#include "core/check.h"

namespace nystrom {

const Recipe& find_recipe(std::string_view name) {
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes()) {
    if (recipe.name == name) return recipe;
    names.emplace_back(recipe.name);
  }
  throw InputError(fmt::format("unknown recipe {}{}; expected one of {}", printable(name, 80),
                               did_you_mean(name, names), fmt::join(names, ", ")));
}

std::string_view summary(const Recipe& recipe) {
  const std::string_view line = recipe.text.substr(0, recipe.text.find('\n'));
  return line.substr(line.find_first_not_of("# "));
}

}  // namespace nystrom
