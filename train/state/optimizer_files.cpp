#include "train/state/optimizer_files.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/base/words.h"
#include "core/check.h"
#include "core/kernels.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view from_mark = ".from-";

/// A tensor of one of the files: the elements `from` … `from` + `count` − 1 of a parameter.
struct Part {
  std::string tensor;
  std::size_t file;
  std::int64_t from, count;
};

/// Splits "moment1.NAME.from-K" into name and K. K is 0 without the suffix.
std::pair<std::string, std::int64_t> split(const std::string& name) {
  const std::size_t mark = name.rfind(from_mark);
  if (mark == name.npos) return {name, 0};
  const auto from = number_of<std::int64_t>(name.substr(mark + from_mark.size()));
  return from && *from >= 0 ? std::pair(name.substr(0, mark), *from)
                            : std::pair(name, std::int64_t{0});
}

/// The elements of a parameter in a range of the slabs, as indices into the parameter.
SlabRange overlap(const ParameterStore& store, const Parameter& parameter, SlabRange range) {
  const std::int64_t place = store.offset_of(parameter.name());
  return {std::max<std::int64_t>(range.begin - place, 0),
          std::min(range.end - place, parameter.shape().numel())};
}

/// The result of writing a file, for other processes: "=CHECKSUM" or "!MESSAGE".
std::string report_of(const std::function<std::string()>& write) {
  try {
    return "=" + write();
  } catch (const Error& error) {
    return std::string("!") + error.what();
  }
}

std::string checksum_in(const std::string& report) {
  if (report.starts_with("!")) throw InputError(report.substr(1));
  return report.substr(1);
}

/// The file name of one process among `size`; with size 1 the name of the unsharded file.
std::string optimizer_file_name(int rank, int size) {
  return size == 1 ? "optimizer.safetensors"
                   : fmt::format("optimizer-{:05}-of-{:05}.safetensors", rank, size);
}

}  // namespace

std::vector<NamedTensor> tensors_of(const ParameterStore& store, SlabRange range,
                                    const std::vector<NamedTensor>& slabs) {
  std::vector<NamedTensor> tensors;
  for (const Parameter& parameter : store.parameters()) {
    const auto [from, end] = overlap(store, parameter, range);
    if (from >= end) continue;
    const std::int64_t place = store.offset_of(parameter.name()) - range.begin;
    const bool whole = end - from == parameter.shape().numel();
    const std::string name = parameter.name() + (whole ? "" : fmt::format("{}{}", from_mark, from));
    for (const NamedTensor& slab : slabs) {
      const Tensor part = slab.tensor.slice(0, place + from, place + end).to(cpu_device);
      tensors.push_back(
          {fmt::format("{}.{}", slab.name, name), whole ? part.reshape(parameter.shape()) : part});
    }
  }
  return tensors;
}

std::vector<CheckpointFolder::File> optimizer_files(std::vector<NamedTensor> tensors, bool sharded,
                                                    Communicator& communicator) {
  const auto own = std::make_shared<const std::vector<NamedTensor>>(std::move(tensors));
  if (!sharded)
    return {{optimizer_file_name(0, 1),
             [own](const fs::path& path) { return write_safetensors(path, *own); }}};
  const auto reports = std::make_shared<std::vector<std::string>>();  // from all processes
  const int size = communicator.size();
  std::vector<CheckpointFolder::File> files;
  files.push_back(
      {optimizer_file_name(0, size), [own, reports, &communicator](const fs::path& path) {
         communicator.from_first(path.parent_path().string());
         *reports = communicator.gather(report_of([&] { return write_safetensors(path, *own); }));
         return checksum_in((*reports)[0]);
       }});
  for (int rank = 1; rank < size; ++rank)
    files.push_back(
        {optimizer_file_name(rank, size), [reports, rank, &communicator](const fs::path&) {
           return with_context(communicator.name_of(rank), [&] {
             return checksum_in((*reports)[static_cast<std::size_t>(rank)]);
           });
         }});
  return files;
}

void write_own_optimizer_files(const std::vector<NamedTensor>& tensors,
                               Communicator& communicator) {
  while (true) {
    const fs::path folder = communicator.from_first("");
    if (folder.empty()) return;
    const std::string name = optimizer_file_name(communicator.rank(), communicator.size());
    communicator.gather(report_of([&] { return write_safetensors(folder / name, tensors); }));
  }
}

void read_optimizer_files(const fs::path& checkpoint, const ParameterStore& store, SlabRange range,
                          const std::vector<NamedTensor>& slabs) {
  std::vector<TensorFile> files;
  std::multimap<std::string, Part> parts;  // by name without ".from-K"
  const nlohmann::json manifest = read_json_file(checkpoint / checkpoint_manifest);
  for (const auto& [name, entry] : manifest.at("files").items()) {
    if (!name.starts_with("optimizer")) continue;
    files.push_back(TensorFile::open(checkpoint / name));
    for (const StoredTensor& tensor : files.back().tensors()) {
      const auto [whole, from] = split(tensor.name);
      parts.emplace(whole, Part{tensor.name, files.size() - 1, from, tensor.shape.numel()});
    }
  }
  for (const NamedTensor& slab : slabs) {
    for (const Parameter& parameter : store.parameters()) {
      const auto [wanted, wanted_end] = overlap(store, parameter, range);
      const std::string name = slab.name + "." + parameter.name();
      const std::int64_t place = store.offset_of(parameter.name()) - range.begin;
      std::int64_t missing = std::max<std::int64_t>(wanted_end - wanted, 0);
      const auto [first, last] = parts.equal_range(name);
      for (auto it = first; it != last; ++it) {
        const Part& part = it->second;
        const std::int64_t begin = std::max(wanted, part.from),
                           end = std::min(wanted_end, part.from + part.count);
        if (begin >= end) continue;
        const Tensor values = files[part.file].read(part.tensor).reshape({part.count});
        Tensor target = slab.tensor.slice(0, place + begin, place + end);
        kernels::copy(
            values.slice(0, begin - part.from, end - part.from).contiguous().to(target.device()),
            target);
        missing -= end - begin;
      }
      require_input(missing == 0, "{}: its optimizer files do not hold all of {}",
                    printable_path(checkpoint), name);
    }
  }
}

}  // namespace nystrom
