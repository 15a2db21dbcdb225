// Documentation of a run's options. It is generated from the field lists of train/config/config.h,
// the only place that describes an option.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nystrom {

/// The content of docs/config.md: every option with its type, default, permitted values and
/// meaning, grouped by YAML section.
std::string config_markdown();

/// The content of docs/config.schema.json: a JSON Schema (draft 2020-12) of a run's file, for
/// editors.
std::string config_schema();

/// The meaning, type, permitted values and default of the option `key` ("training.batch_size"), or
/// of all options in a section ("training"). Throws an InputError, which suggests the nearest key,
/// if there is none.
std::string explain_option(std::string_view key);

/// The path of the option `key`, which is a path or an unambiguous name: "learning_rate" gives
/// "optimizer.learning_rate". Throws an InputError if no option or more than one has that name.
std::string option_path(std::string_view key);

/// The shortest name that option_path takes for the option at `path`: its last part, or the path
/// where another option has that name too.
std::string option_name(const std::string& path);

/// The paths of all options, in the order of the file.
std::vector<std::string> option_paths();

/// An override with the path of its option: "steps=5" gives "training.steps=5". Unknown names stay,
/// for the reader to refuse. Throws an InputError if more than one option has that name.
std::string full_override(const std::string& text);

}  // namespace nystrom
