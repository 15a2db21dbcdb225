#include "core/cuda/rows/sort.cuh"

#include <cub/device/device_radix_sort.cuh>

#include "core/cuda/launch.cuh"

namespace nystrom::cuda {

void sort_pairs(const ViewBase& like, const std::uint32_t* keys, const std::uint32_t* values,
                std::uint32_t* sorted_keys, std::uint32_t* sorted_values, std::int64_t count,
                int bits) {
  std::size_t bytes = 0;
  check(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, sorted_keys, values, sorted_values,
                                        count, 0, bits, stream()),
        "size of a sort's workspace");
  const Workspace<char> workspace(like, static_cast<std::int64_t>(bytes));
  count_launch();
  check(cub::DeviceRadixSort::SortPairs(workspace.get(), bytes, keys, sorted_keys, values,
                                        sorted_values, count, 0, bits, stream()),
        "sort");
}

}  // namespace nystrom::cuda
