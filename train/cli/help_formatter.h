// The form of --help: plain words instead of CLI11's type names.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <string>

namespace nystrom {

/// Shows an option as "--batch N   sequences computed at once (at least 1; default 16)".
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();
  /// The placeholder of an option's value: " N", " f32|bf16", " TEXT …".
  std::string make_option_opts(const CLI::Option* option) const override;
  /// The description, with the range, the default, and whether the option is required.
  std::string make_option_desc(const CLI::Option* option) const override;
};

}  // namespace nystrom
