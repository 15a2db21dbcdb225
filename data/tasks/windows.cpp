#include "data/tasks/windows.h"

#include <algorithm>

#include "core/check.h"

namespace nystrom {

std::vector<double> merge_windows(TaskWindows windows,
                                  std::span<const std::vector<double>> outputs) {
  require(!outputs.empty(), "merge_windows: a text without windows");
  std::vector<double> merged = outputs[0];
  for (const std::vector<double>& window : outputs.subspan(1)) {
    for (std::size_t i = 0; i < merged.size(); ++i)
      merged[i] =
          windows == TaskWindows::max ? std::max(merged[i], window[i]) : merged[i] + window[i];
  }
  if (windows == TaskWindows::mean)
    for (double& value : merged) value /= static_cast<double>(outputs.size());
  return merged;
}

}  // namespace nystrom
