// The files of a checkpoint that hold the optimizer's moments and, if weights are averaged, the
// trained weights. Unsharded state is in optimizer.safetensors. Sharded state has one file a
// process, such as optimizer-00002-of-00008.safetensors. Any number of processes can read either
// form.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/distributed/communicator.h"
#include "train/optim/optimizer.h"
#include "train/state/checkpoint.h"
#include "train/state/safetensors.h"

namespace nystrom {

/// The tensors of `slabs`, which cover `range`, by parameter: those of Optimizer::state and
/// "weight", the trained weights. A whole parameter is "moment1.NAME", with its shape. A part is
/// "moment1.NAME.from-K" [n], the n elements from element K on.
std::vector<NamedTensor> tensors_of(const ParameterStore& store, SlabRange range,
                                    const std::vector<NamedTensor>& slabs);

/// The files that rank 0 passes to CheckpointFolder::save: one file, or, if sharded, one file a
/// process. All processes write their files at the same time, into the folder that rank 0
/// announces. If one file cannot be written, the save fails.
std::vector<CheckpointFolder::File> optimizer_files(std::vector<NamedTensor> tensors, bool sharded,
                                                    Communicator& communicator);
/// Writes the files of any other rank during that save, with its own `tensors`. Returns when rank 0
/// sends an empty text (Communicator::from_first) in the place of a folder.
void write_own_optimizer_files(const std::vector<NamedTensor>& tensors, Communicator& communicator);

/// Fills `slabs`, each the `range` of one that is laid out as the parameter store's, from the files
/// of `checkpoint`. Throws an InputError for damaged files, and when they do not hold all values.
void read_optimizer_files(const std::filesystem::path& checkpoint, const ParameterStore& store,
                          SlabRange range, const std::vector<NamedTensor>& slabs);

}  // namespace nystrom
