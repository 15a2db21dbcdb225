// config.json of BERT's family: the options of its classes as a ModelConfig.
#pragma once

#include "train/formats/architecture.h"
#include "train/formats/json_fields.h"

namespace nystrom {

/// Reads the options of a folder with this architecture. Absent keys have the defaults of its
/// class. Throws an InputError for a wrong value, and for an option that nystrom lacks and that
/// changes the results of a model with `head`.
ModelConfig read_architecture(json_fields::Reader& reader, const Architecture& architecture,
                              Head head);

}  // namespace nystrom
