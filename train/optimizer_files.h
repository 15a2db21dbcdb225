// The optimizer's moments in a checkpoint: whole in optimizer.safetensors, or each process's range of them in a file of its own,
// optimizer-00002-of-00008.safetensors. Any number of processes reads either.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "train/checkpoint.h"
#include "train/communicator.h"
#include "train/optimizer.h"
#include "train/safetensors.h"

namespace nystrom {

/// The file of one process among `size`, or the one for all.
std::string optimizer_file_name(int rank, int size);

/// What the optimizer's range holds, by parameter: "moment1.NAME" of its shape, or of a part "moment1.NAME.from-K" [n], elements K … of the
/// parameter in a row. The same for moment2.
std::vector<NamedTensor> moments_of(const ParameterStore& store, const Optimizer& optimizer);

/// What the first process gives CheckpointFolder::save to write `moments`: one file or, when sharded, one of each process, which all write
/// at the same time. The first process tells the others where; one file that cannot be written spoils the checkpoint.
std::vector<CheckpointFolder::File> optimizer_files(std::vector<NamedTensor> moments, bool sharded, Communicator& communicator);
/// The part of the others in that save, with moments of theirs, until the first process calls end_optimizer_files.
void write_own_optimizer_files(const std::vector<NamedTensor>& moments, Communicator& communicator);
void end_optimizer_files(Communicator& communicator);

/// All such files of a checkpoint.
class OptimizerFiles {
 public:
  explicit OptimizerFiles(const std::filesystem::path& checkpoint);

  /// InputError when no file has it.
  Tensor read(const std::string& name) const;
  /// Fills the optimizer's range. InputError when they do not hold all of it.
  void read_moments(const ParameterStore& store, Optimizer& optimizer) const;

 private:
  struct Part {
    std::string tensor;
    std::size_t file;
    std::int64_t from, count;  // elements of the parameter
  };
  void read_moment(const ParameterStore& store, const std::string& moment, SlabRange range, const Tensor& slab) const;

  std::filesystem::path checkpoint_;
  std::vector<SafetensorsFile> files_;
  std::multimap<std::string, Part> parts_;  // by name without ".from-K"
};

}  // namespace nystrom
