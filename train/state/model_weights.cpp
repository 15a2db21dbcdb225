#include "train/state/model_weights.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/file_io.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "train/state/other_models.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

/// A way in which folders hold weights: one file, or an index of shards.
struct Form {
  TensorFormat format;
  const char *single, *index, *suffix;
};
/// The first form that a folder has counts, as in transformers.
constexpr Form forms[] = {
    {TensorFormat::safetensors, "model.safetensors", "model.safetensors.index.json",
     ".safetensors"},
    {TensorFormat::state_dict, "pytorch_model.bin", "pytorch_model.bin.index.json", ".bin"}};
constexpr std::size_t max_index_bytes = std::size_t{16} << 20;

bool is_shard_name(std::string_view name, std::string_view suffix) {
  return name.size() > suffix.size() && name.ends_with(suffix) &&
         is_tensor_name(name);  // the same characters are valid
}

[[noreturn]] void report_absent(const fs::path& folder) {
  const std::string looked_for =
      fmt::format("{}: has none of {}, {}, {} and {}", printable_path(folder), forms[0].single,
                  forms[0].index, forms[1].single, forms[1].index);
  const std::string found = what_folder_holds(folder);
  throw InputError(found.empty() ? looked_for : fmt::format("{}; {}", looked_for, found));
}

/// Opens a shard. A link is followed if its file lies in the folder, or in the hub's cache that the
/// folder belongs to: "models--NAME/snapshots/REVISION", whose files are links to "../../blobs".
TensorFile open_shard(const fs::path& folder, const std::string& shard, TensorFormat format) {
  std::error_code ignored;
  if (!fs::is_symlink(folder / shard, ignored))
    return TensorFile::open_inside(folder, shard, format);
  const fs::path own = fs::canonical(folder);
  const fs::path target = fs::weakly_canonical(folder / shard);
  const bool cached = own.parent_path().filename() == "snapshots";
  const fs::path root = cached ? own.parent_path().parent_path() : own;
  const auto [end, rest] = std::mismatch(root.begin(), root.end(), target.begin(), target.end());
  require_input(end == root.end() && rest != target.end(),
                "{}: is a link to {}, outside of {}; put the file in its place",
                printable_path(folder / shard), printable_path(target), printable_path(root));
  return TensorFile::open_inside(target.parent_path(), target.filename().string(), format);
}

/// The form of the folder's weights; null if it has none.
const Form* form_of(const fs::path& folder) {
  std::error_code ignored;
  const auto found = std::ranges::find_if(forms, [&](const Form& form) {
    return fs::exists(folder / form.single, ignored) || fs::exists(folder / form.index, ignored);
  });
  return found == std::end(forms) ? nullptr : found;
}

}  // namespace

std::map<std::string, std::string> parse_weight_map(std::string_view text,
                                                    const std::string& source,
                                                    std::string_view suffix) {
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
    require_input(is_shard_name(name, suffix),
                  "{}: tensor {}: \"{}\" is not the name of a {} file in the same folder", source,
                  tensor, printable(name), suffix);
    shard_of[tensor] = name;
  }
  return shard_of;
}

bool ModelWeights::exist(const fs::path& folder) { return form_of(folder); }

ModelWeights ModelWeights::open(const fs::path& folder) {
  const Form* form = form_of(folder);
  if (!form) report_absent(folder);
  ModelWeights weights;
  weights.folder_ = folder;
  std::error_code ignored;
  if (fs::exists(folder / form->single, ignored)) {
    weights.files_.push_back(TensorFile::open(folder / form->single, form->format));
    for (const StoredTensor& tensor : weights.files_[0].tensors())
      weights.file_of_[tensor.name] = 0;
    return weights;
  }
  const std::string source = printable_path(folder / form->index);
  const auto shard_of =
      parse_weight_map(read_text_file(folder / form->index, max_index_bytes), source, form->suffix);
  std::map<std::string, std::size_t> position_of;
  for (const auto& [tensor, shard] : shard_of) {
    if (!position_of.contains(shard)) {
      position_of[shard] = weights.files_.size();
      weights.files_.push_back(open_shard(folder, shard, form->format));
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

std::string ModelWeights::checksum() const {
  std::string of_files;
  for (const TensorFile& file : files_) of_files += file_checksum(file.path()) + "\n";
  return files_.size() == 1 ? of_files.substr(0, of_files.size() - 1) : text_checksum(of_files);
}

std::vector<std::string> ModelWeights::names() const {
  std::vector<std::string> names;
  for (const auto& [name, position] : file_of_) names.push_back(name);
  return names;
}

const TensorFile& ModelWeights::file_with(const std::string& name) const {
  const auto found = file_of_.find(name);
  require_input(found != file_of_.end(), "{}: has no tensor {}", printable_path(folder_),
                printable(name));
  return files_[found->second];
}

}  // namespace nystrom
