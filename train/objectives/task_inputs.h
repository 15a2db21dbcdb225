// Turns the inputs of a task, without its labels, into the token shards of a pretraining run, as in
// "Never Train from Scratch" (Amos et al., ICLR 2024) and "Don't Stop Pretraining" (Gururangan et
// al., ACL 2020).
#pragma once

#include "train/objectives/corpus.h"

namespace nystrom {

/// The corpus of a run with spec.inputs, which has a tokenizer. Each text of an example is a
/// document: the text, its pair, choices and negatives; the words of one with a space between; the
/// pixels of an image as bytes. Equal documents count once. The validation set has those of
/// task.validation, or those of task.validation_fraction that the rest has not.
///
/// Collective: rank 0 writes the shards, and so does a process that does not see them. Throws an
/// InputError as the readers of the task do, for examples without a text, and for images with
/// another tokenizer than bytes.
Corpus prepare_task_inputs(const RunSpec& spec, Log& log, Communicator& communicator);

}  // namespace nystrom
