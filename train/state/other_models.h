// Models that nystrom does not read: what a folder or an architecture is, and the nearest way.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace nystrom {

/// What a folder holds in place of a model that can be opened, and what to do; empty if unknown.
/// "tf_model.h5 holds weights of TensorFlow; convert it …".
std::string what_folder_holds(const std::filesystem::path& folder);

/// Half a sentence on why models of this model_type are not read; empty if unknown.
std::string why_not_read(std::string_view model_type);

}  // namespace nystrom
