// Checkpoints for the tests of faults. Their content states their step.
#pragma once

#include <string>

#include "core/base/file_io.h"
#include "train/state/checkpoint.h"

namespace nystrom::testing {

/// `version` is the number of earlier saves of the step.
inline std::string weights_of(std::int64_t step, int version = 0) {
  return std::string(1500, static_cast<char>('a' + step)) + std::to_string(step) + "." +
         std::to_string(version);
}

inline std::filesystem::path checkpoints_below(const std::filesystem::path& root) {
  return root / "runs" / "run" / "checkpoints";
}

/// Saves as training does: a text, and a larger file that reserves its space and is written in
/// pieces.
inline void save_step(CheckpointFolder& folder, std::int64_t step, int version = 0) {
  const auto write_weights = [step, version](const std::filesystem::path& path) {
    const std::string bytes = weights_of(step, version);
    OutputFile file(path);
    file.reserve(static_cast<std::int64_t>(bytes.size()));
    for (std::size_t at = 0; at < bytes.size(); at += 600)
      file.write(std::string_view(bytes).substr(at, 600));
    file.commit();
    return file.checksum();
  };
  folder.save(
      step,
      {CheckpointFolder::text_file("state.json", "{\"step\": " + std::to_string(step) + "}"),
       {"weights", write_weights}},
      2000);
  folder.remove_old(step, {});
}

}  // namespace nystrom::testing
