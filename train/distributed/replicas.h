// Comparison of the copies that every process keeps. A fault of one machine's memory or processor
// must not get into a checkpoint or go unnoticed.
#pragma once

#include <span>
#include <string>

#include "train/distributed/communicator.h"

namespace nystrom {

/// A hash of the bits of `slabs`, which are contiguous and on one device. A flipped bit changes it.
std::uint64_t fingerprint(std::span<const Tensor> slabs);

/// Throws an Error unless `print` is the same in all processes. The message reads "rank 2 on b has
/// other `what` than rank 0 on a: `reason`". It names the rank that differs from most; with two
/// processes, either may be wrong.
void require_same_replicas(Communicator& communicator, std::uint64_t print, const std::string& what,
                           const std::string& reason);

}  // namespace nystrom
