// Rows of numbers that the processes of a run compute for each other.
#pragma once

#include <cstdint>
#include <vector>

#include "train/distributed/communicator.h"

namespace nystrom {

/// Gathers rows of numbers. Each process adds those that it has computed, with their places.
class RowExchange {
 public:
  /// Rows of `width` numbers.
  explicit RowExchange(std::int64_t width) : width_(static_cast<std::size_t>(width)) {}
  /// Adds the rows at places first, first + 1, ….
  void add(std::int64_t first, const std::vector<double>& numbers);
  /// The rows of all processes in the order of their places, of which there are `rows`.
  std::vector<double> all(std::int64_t rows, Communicator& communicator) const;

 private:
  std::size_t width_;
  std::vector<double> own_;  // a place and its numbers, row by row
};

}  // namespace nystrom
