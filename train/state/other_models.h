// Models of other programs: those in the local cache of the Hugging Face hub, which transformers,
// sentence-transformers or `hf download` have fetched (nystrom never opens the network), and those
// that nystrom does not read: what a folder or an architecture is, and the nearest way.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace nystrom {

/// The folder of the cache, as huggingface_hub finds it: HF_HUB_CACHE, HF_HOME/hub,
/// XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub.
std::filesystem::path hub_cache();

/// Whether `name` has the form of a model on the hub: "org/name", or "name" alone.
bool is_hub_name(const std::string& name);

/// The folder of the model that the hub calls `name`: the snapshot of its branch main. Nothing if
/// the cache does not have it, or the name has another form.
std::optional<std::filesystem::path> find_in_hub_cache(const std::string& name);

/// What a folder holds in place of a model that can be opened, and what to do; empty if unknown.
/// "tf_model.h5 holds weights of TensorFlow; convert it …".
std::string what_folder_holds(const std::filesystem::path& folder);

/// Half a sentence on why models of this model_type are not read; empty if unknown.
std::string why_not_read(std::string_view model_type);

}  // namespace nystrom
