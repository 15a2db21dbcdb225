// config.json of BERT's family: the options of its classes as a ModelConfig.
#pragma once

#include "train/config/json_fields.h"
#include "train/state/architecture.h"

namespace nystrom {

/// Reads the options of a folder with this architecture. Absent keys have the defaults of its
/// class. Throws an InputError for a wrong value, and for an option of the encoder that nystrom
/// lacks and that changes results.
ModelConfig read_architecture(json_fields::Reader& reader, const Architecture& architecture);

/// Writes the keys that read_architecture reads, the inverse.
void write_architecture(json_fields::Writer& writer, ModelConfig config,
                        const Architecture& architecture);

/// Throws an InputError for an option of the encoder that nystrom lacks and that changes results.
void check_encoder_options(const json_fields::Reader& reader);
/// Throws an InputError for an option of the head that nystrom lacks and that changes its results.
void check_head_options(const json_fields::Reader& reader, Head head);

}  // namespace nystrom
