// The share of a task's training examples that is held out to validate.
#pragma once

#include <cstdint>

#include "data/tasks/examples.h"

namespace nystrom {

/// The examples to train on, and those to validate on.
struct TaskSources {
  ExampleSource train, validation;
};

/// The sources of a resolved task: the files of task.train and task.validation. With
/// task.validation_fraction a part of task.train's examples is the validation set:
/// - Equal inputs stay on one side. For questions these are those on one context, for embeddings
///   those with one first text, and for bags also those of one task.columns.group.
/// - Of each label alike (with task.multi_label: of the rarest label of a text), and in all as many
///   as the fraction says, as far as equal inputs allow. A label keeps an example to train on.
/// - The seed and the inputs alone decide, not their order.
///
/// Reads the files once for that. Throws an InputError where no example is held out.
TaskSources task_sources(const TaskConfig& task, std::int64_t seed);

}  // namespace nystrom
