// Models as ONNX files, which ONNX Runtime and others run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "nn/model.h"

namespace nystrom {

/// The options of an ONNX file.
struct OnnxOptions {
  bool int8 = false;  ///< dense layers and the word table in int8 (see onnx_modules.h)
  /// The most bytes of weights inside the file. A file of 2 GiB or more cannot be read.
  std::int64_t max_bytes = std::int64_t{2'000'000'000};
};

/// The reason why no ONNX file can hold the model; empty if one can.
std::string onnx_obstacle(const ModelConfig& config);

/// Writes model.onnx or, with int8, model_int8.onnx into `folder`; weights beyond max_bytes go to
/// model.onnx_data beside it. Batch size and length are free, except for a model of fixed length.
/// Inputs, i64: input_ids and attention_mask [b, n], or [b, choices, n], or [b, 2, n] for towers;
/// token_type_ids of the same shape if the model has several types. Features are f32 [b, n,
/// embed_dim]. Outputs, f32: last_hidden_state of every row; logits, or start_logits and
/// end_logits; for features without a head pooler_output, the last token's; for tokens without a
/// head sentence_embedding [b, vector_width], the vectors of `nystrom embed`: pooled (not with
/// pooling landmarks, which has no such output), projected and normalised. Throws an InputError
/// with the obstacle, and when the system refuses.
void write_onnx(const Model& model, const std::filesystem::path& folder,
                const OnnxOptions& options = {});

}  // namespace nystrom
