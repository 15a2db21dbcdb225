#include "train/objectives/row_exchange.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace nystrom {

void RowExchange::add(std::int64_t first, const std::vector<double>& numbers) {
  for (auto row = numbers.begin(); row != numbers.end();) {
    const auto end = row + static_cast<std::ptrdiff_t>(width_);
    own_.push_back(static_cast<double>(first++));
    own_.insert(own_.end(), row, end);
    row = end;
  }
}

std::vector<double> RowExchange::all(std::int64_t rows, Communicator& communicator) const {
  std::vector<double> result(static_cast<std::size_t>(rows) * width_);
  const std::string bytes(reinterpret_cast<const char*>(own_.data()), own_.size() * sizeof(double));
  for (const std::string& each : communicator.gather(bytes)) {
    if (each.empty()) continue;  // a process without micro-batches
    std::vector<double> numbers(each.size() / sizeof(double));
    std::memcpy(numbers.data(), each.data(), each.size());
    for (auto place = numbers.begin(); place != numbers.end();) {
      const auto row = static_cast<std::size_t>(*place++);
      std::copy_n(place, width_, result.begin() + static_cast<std::ptrdiff_t>(row * width_));
      place += static_cast<std::ptrdiff_t>(width_);
    }
  }
  return result;
}

}  // namespace nystrom
