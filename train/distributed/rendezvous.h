// How processes without MPI meet: rank 0 listens at an address, and the others connect to it.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

namespace nystrom {

/// The place of a process among those that meet.
struct MeetingPlace {
  int rank = 0, size = 1;
  std::string host, port;  ///< where rank 0 listens
  std::string token{};     ///< what the processes of one run have in common
  int local_rank = 0;      ///< among the processes of its machine
};

/// Gives the bytes of rank 0 to all processes, over TCP. All call it, in any order. Rank 0 listens
/// at the address of `host` alone. It ignores connections of strangers, of other runs, and of a
/// second process with a rank that was served; none of them makes the others wait. Throws an Error
/// that names the missing ranks, or the address without an answer, after `patience`.
void share_from_first(const MeetingPlace& place, std::span<std::byte> bytes,
                      std::chrono::seconds patience = std::chrono::minutes(5));

}  // namespace nystrom
