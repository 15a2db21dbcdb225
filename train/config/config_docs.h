// The options of a run as documentation: visitors over the field lists of train/config/config.h, so
// that no text about an option is written twice.
#pragma once

#include <string>
#include <string_view>

namespace nystrom {

/// docs/config.md: every option with type, default, allowed values and meaning, a section a YAML
/// section.
std::string config_markdown();

/// docs/config.schema.json: a JSON Schema (draft 2020-12) of a run's file, for editors.
std::string config_schema();

/// Meaning, type, allowed values and default of the option `key` ("training.batch_size"), or of all
/// options of a section ("training"). InputError with the nearest key when there is none.
std::string explain_option(std::string_view key);

/// The path of the option that `key` names: its path, or its last part where only one option is
/// called that ("learning_rate" for "optimizer.learning_rate"). InputError when there is none, with
/// the nearest, or several.
std::string option_path(std::string_view key);

}  // namespace nystrom
