// The local cache of the Hugging Face hub: models that transformers, sentence-transformers or
// `hf download` have fetched. nystrom reads it, and never opens the network.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace nystrom {

/// The folder of the cache, as huggingface_hub finds it: HF_HUB_CACHE, HF_HOME/hub,
/// XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub.
std::filesystem::path hub_cache();

/// Whether `name` has the form of a model on the hub: "org/name", or "name" alone.
bool is_hub_name(const std::string& name);

/// The snapshot that refs/main names in a model's folder of the cache (models--ORG--NAME); nothing
/// if it is not there.
std::optional<std::filesystem::path> main_snapshot(const std::filesystem::path& folder);

/// The folder of the model that the hub calls `name`: the snapshot of its branch main. Nothing if
/// the cache does not have it, or the name has another form.
std::optional<std::filesystem::path> find_in_hub_cache(const std::string& name);

}  // namespace nystrom
