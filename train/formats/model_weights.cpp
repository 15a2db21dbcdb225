#include "train/formats/model_weights.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/file_io.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "train/formats/other_models.h"

namespace nystrom {
namespace {

constexpr const char* single_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";
constexpr std::size_t max_index_bytes = std::size_t{16} << 20;

bool is_shard_name(std::string_view name) {
  constexpr std::string_view suffix = ".safetensors";
  return name.size() > suffix.size() && name.ends_with(suffix) &&
         is_tensor_name(name);  // the same characters are valid
}

[[noreturn]] void report_absent(const std::filesystem::path& folder) {
  const std::string looked_for =
      fmt::format("{}: has neither {} nor {}", printable_path(folder), single_name, index_name);
  const std::string found = what_folder_holds(folder);
  throw InputError(found.empty() ? looked_for : fmt::format("{}; {}", looked_for, found));
}

/// Opens a shard. A link is followed if its file lies in the folder, or in the hub's cache that the
/// folder belongs to: "models--NAME/snapshots/REVISION", whose files are links to "../../blobs".
SafetensorsFile open_shard(const std::filesystem::path& folder, const std::string& shard) {
  std::error_code ignored;
  if (!std::filesystem::is_symlink(folder / shard, ignored))
    return SafetensorsFile::open_inside(folder, shard);
  const std::filesystem::path own = std::filesystem::canonical(folder);
  const std::filesystem::path target = std::filesystem::weakly_canonical(folder / shard);
  const bool cached = own.parent_path().filename() == "snapshots";
  const std::filesystem::path root = cached ? own.parent_path().parent_path() : own;
  const auto [end, rest] = std::mismatch(root.begin(), root.end(), target.begin(), target.end());
  require_input(end == root.end() && rest != target.end(),
                "{}: is a link to {}, outside of {}; put the file in its place",
                printable_path(folder / shard), printable_path(target), printable_path(root));
  return SafetensorsFile::open_inside(target.parent_path(), target.filename().string());
}

}  // namespace

std::map<std::string, std::string> parse_weight_map(std::string_view text,
                                                    const std::string& source) {
  const nlohmann::json index = parse_json(text, source);
  require_input(index.is_object(), "{}: expected an object, got {}", source, index.type_name());
  const auto found = index.find("weight_map");
  require_input(found != index.end(), "{}: has no weight_map", source);
  require_input(found->is_object() && !found->empty(),
                "{}: weight_map must be an object that names tensors, got {}", source,
                found->is_object() ? "none" : found->type_name());
  std::map<std::string, std::string> shard_of;
  for (const auto& [tensor, shard] : found->items()) {
    require_input(is_tensor_name(tensor),
                  "{}: tensor name \"{}\" is not 1 to 256 of A-Z a-z 0-9 . _ -", source,
                  printable(tensor));
    require_input(shard.is_string(), "{}: the shard of {} must be a string, got {}", source, tensor,
                  shard.type_name());
    const std::string name = shard.get<std::string>();
    require_input(is_shard_name(name),
                  "{}: tensor {}: \"{}\" is not the name of a .safetensors file in the same folder",
                  source, tensor, printable(name));
    shard_of[tensor] = name;
  }
  return shard_of;
}

bool ModelWeights::exist(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder / single_name, ignored) ||
         std::filesystem::exists(folder / index_name, ignored);
}

ModelWeights ModelWeights::open(const std::filesystem::path& folder) {
  std::error_code ignored;
  ModelWeights weights;
  weights.folder_ = folder;
  if (std::filesystem::exists(folder / single_name, ignored)) {
    weights.files_.push_back(SafetensorsFile::open(folder / single_name));
    for (const StoredTensor& tensor : weights.files_[0].tensors())
      weights.file_of_[tensor.name] = 0;
    return weights;
  }
  if (!std::filesystem::exists(folder / index_name, ignored)) report_absent(folder);

  const std::string source = printable_path(folder / index_name);
  const auto shard_of =
      parse_weight_map(read_text_file(folder / index_name, max_index_bytes), source);
  std::map<std::string, std::size_t> position_of;
  for (const auto& [tensor, shard] : shard_of) {
    if (!position_of.contains(shard)) {
      position_of[shard] = weights.files_.size();
      weights.files_.push_back(open_shard(folder, shard));
    }
    const std::size_t position = position_of[shard];
    require_input(weights.files_[position].contains(tensor),
                  "{}: places tensor {} in {}, which does not have it", source, tensor, shard);
    weights.file_of_[tensor] = position;
  }
  for (const auto& [shard, position] : position_of)
    for (const StoredTensor& tensor : weights.files_[position].tensors())
      require_input(shard_of.contains(tensor.name) && shard_of.at(tensor.name) == shard,
                    "{}: does not list tensor {} of {}", source, tensor.name, shard);
  return weights;
}

std::vector<std::string> ModelWeights::names() const {
  std::vector<std::string> names;
  for (const auto& [name, position] : file_of_) names.push_back(name);
  return names;
}

Tensor ModelWeights::read(const std::string& name, NonFinite non_finite) const {
  return file_with(name).read(name, non_finite);
}

void ModelWeights::read_into(const std::string& name, Tensor& destination,
                             NonFinite non_finite) const {
  file_with(name).read_into(name, destination, non_finite);
}

const SafetensorsFile& ModelWeights::file_with(const std::string& name) const {
  const auto found = file_of_.find(name);
  require_input(found != file_of_.end(), "{}: has no tensor {}", printable_path(folder_),
                printable(name));
  return files_[found->second];
}

}  // namespace nystrom
