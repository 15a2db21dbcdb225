// Attention maps of bags as files.
#pragma once

#include <filesystem>
#include <string>

#include "train/objectives/task_settings.h"

namespace nystrom {

/// Writes the score of each row of the bag `file` (attention_map in nn/attention_map.h) into the
/// HDF5 file `output`: `attention` [rows] and, if the bag has them, `coords` [rows, columns]. Then
/// a PNG file beside it shows the scores at their first two coordinates: blue for the lowest, red
/// for the highest rank. Throws an InputError for a model without such scores, for what is no bag,
/// when `output` does not end in .h5, and when anything but an earlier map and its picture would be
/// replaced.
void write_attention(const TaskModel& task, const std::string& file,
                     const std::filesystem::path& output, Log& log);

}  // namespace nystrom
