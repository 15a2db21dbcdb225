// What a run needs to go on, beside the weights: the optimizer's moments and, where weights are
// averaged, those that are trained. Whole in optimizer.safetensors, or each process's range in a
// file of its own, optimizer-00002-of-00008.safetensors. Any number of processes reads either.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "train/checkpoint/checkpoint.h"
#include "train/distributed/communicator.h"
#include "train/formats/safetensors.h"
#include "train/optim/optimizer.h"

namespace nystrom {

/// The file of one process among `size`, or the one for all.
std::string optimizer_file_name(int rank, int size);

/// A range of a slab laid out as the parameter store's: "moment1", "moment2" or "weight".
struct NamedSlab {
  std::string name;
  Tensor values;
};

/// Slabs of `range` by parameter: "moment1.NAME" of its shape, or of a part "moment1.NAME.from-K"
/// [n], elements K … of the parameter in a row.
std::vector<NamedTensor> tensors_of(const ParameterStore& store, SlabRange range,
                                    const std::vector<NamedSlab>& slabs);

/// What the first process gives CheckpointFolder::save to write `tensors`: one file or, when
/// sharded, one of each process, which all write at the same time. The first process tells the
/// others where; one file that cannot be written spoils the checkpoint.
std::vector<CheckpointFolder::File> optimizer_files(std::vector<NamedTensor> tensors, bool sharded,
                                                    Communicator& communicator);
/// The part of the others in that save, with tensors of theirs, until the first process calls
/// end_optimizer_files.
void write_own_optimizer_files(const std::vector<NamedTensor>& tensors, Communicator& communicator);
void end_optimizer_files(Communicator& communicator);

/// All such files of a checkpoint.
class OptimizerFiles {
 public:
  explicit OptimizerFiles(const std::filesystem::path& checkpoint);

  /// Fills a slab of `range`. InputError when they do not hold all of it.
  void read(const ParameterStore& store, SlabRange range, const NamedSlab& slab) const;

 private:
  struct Part {
    std::string tensor;
    std::size_t file;
    std::int64_t from, count;  // elements of the parameter
  };

  std::filesystem::path checkpoint_;
  std::vector<SafetensorsFile> files_;
  std::multimap<std::string, Part> parts_;  // by name without ".from-K"
};

}  // namespace nystrom
