// The teacher of distillation: which folders suit a run, and loading one.
#pragma once

#include <string>

#include "train/loop/distillation.h"
#include "train/loop/run_spec.h"

namespace nystrom {

/// The folder of distillation.teacher. Throws an InputError unless it suits the run: a masked
/// language model with exact attention, the vocabulary of the run, the lengths of its sequences
/// and, with attention_output, the model's layers and width. The run has a teacher and a tokenizer.
ModelFolder open_teacher(const RunSpec& spec);

/// Loads the teacher of a run, spec.teacher, in the run's dtype.
Distillation load_teacher(const RunSpec& spec, Device device);

}  // namespace nystrom
