// nystrom config: list, print and explain configurations.
#include "core/check.h"
#include "train/cli/commands.h"
#include "train/config/config_docs.h"
#include "train/config/recipes.h"

namespace nystrom {
namespace {

struct ConfigOptions {
  CommonOptions common;
  std::string recipe, explain;
  bool list = false, schema = false, markdown = false;
};

void run(const ConfigOptions& options, Device, Log&) {
  const int asked = !options.recipe.empty() + !options.explain.empty() + options.list +
                    options.schema + options.markdown;
  require_input(asked == 1,
                "config needs exactly one of RECIPE, --list, --explain KEY, --schema, --markdown; "
                "got {}; see nystrom config --help",
                asked);
  if (options.list) {
    for (const Recipe& recipe : recipes()) fmt::print("{:<14} {}\n", recipe.name, summary(recipe));
  } else if (options.schema) {
    fmt::print("{}", config_schema());
  } else if (options.markdown) {
    fmt::print("{}", config_markdown());
  } else if (!options.explain.empty()) {
    fmt::print("{}", explain_option(options.explain));
  } else {
    fmt::print("{}", find_recipe(options.recipe).text);
  }
}

/// The names of the recipes in the notation of CLI11 for fixed sets: "{quickstart,small,…}".
std::string recipe_names() {
  std::vector<std::string_view> names;
  for (const Recipe& recipe : recipes()) names.push_back(recipe.name);
  return fmt::format("{{{}}}", fmt::join(names, ","));
}

}  // namespace

Command add_config_command(CLI::App& app) {
  auto options = std::make_shared<ConfigOptions>();
  auto* command = app.add_subcommand("config", "List, print and explain configurations");
  command->footer(
      "Examples:\n  nystrom config small > my.yaml\n  nystrom config --explain "
      "training.batch_size");
  command
      ->add_option("RECIPE", options->recipe,
                   "print this recipe, a commented YAML file to start from")
      ->type_name(recipe_names());
  command->add_flag("--list", options->list, "list the recipes");
  command->add_option("--explain", options->explain,
                      "explain an option, such as training.batch_size, or all of a section");
  command->add_flag("--schema", options->schema,
                    "print the JSON Schema of a run's file, for editors");
  command->add_flag("--markdown", options->markdown, "print docs/config.md: all options in tables");
  options->common.add_to(*command, {.set = false, .device = false, .threads = false});
  return alone(command, options, run);
}

}  // namespace nystrom
