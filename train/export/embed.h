// Vectors of texts, as sentence-transformers makes them of an exported folder.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "data/tokenizers/tokenizer.h"
#include "nn/model.h"
#include "train/export/sentence_transformers.h"

namespace nystrom {

/// The options of embed_texts.
struct EmbedOptions {
  SentencePooling pooling = SentencePooling::mean;
  std::int64_t max_length = 512;  ///< tokens of a text, with the special ones; more are cut off
  std::int64_t batch_size = 32;   ///< texts that the model computes at once
  /// Called after each batch with the number of texts done. Its exceptions pass through.
  std::function<void(std::size_t done)> progress = {};
};

/// One vector for each text, from the hidden states of its tokens without padding: [texts, hidden]
/// f32 on the CPU. Results do not depend on the other texts. Throws an InputError that names the
/// first text that is not UTF-8, and for a model of features.
Tensor embed_texts(const Model& model, const Tokenizer& tokenizer,
                   std::span<const std::string> texts, const EmbedOptions& options);

}  // namespace nystrom
