// What every process keeps a copy of, and whether the copies are still the same: a fault of one
// machine's memory or processor must neither get into a checkpoint nor go on unseen.
#pragma once

#include <span>
#include <string>

#include "train/distributed/communicator.h"

namespace nystrom {

/// A number for the bits of `slabs`, contiguous and on one device: another one where a bit is
/// flipped.
std::uint64_t fingerprint(std::span<const Tensor> slabs);

/// Error unless `print` is the same in all processes: "rank 2 on b has other `what` than rank 0 on
/// a: `reason`". Named is the one that is not like most; of two, neither is known to be right.
void require_same_replicas(Communicator& communicator, std::uint64_t print, const std::string& what,
                           const std::string& reason);

}  // namespace nystrom
