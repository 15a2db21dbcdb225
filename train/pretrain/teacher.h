// The teacher of distillation: which folders suit a run, and loading one.
#pragma once

#include <string>

#include "train/loop/distillation.h"

namespace nystrom {

/// Throws an InputError unless distillation.teacher suits the run: a masked language model with
/// exact attention, the vocabulary of the run, the lengths of its sequences and, with
/// attention_output, the model's layers and width. Does nothing without a teacher. The run's
/// tokenizer must exist; the model need not be fitted to it.
void check_teacher(const RunConfig& config);

/// Loads the teacher of a run that passes check_teacher, in the run's dtype.
Distillation load_teacher(const RunConfig& config, Device device);

/// A hash of the teacher's configuration and weights.
std::string teacher_hash(const Model& teacher);

}  // namespace nystrom
