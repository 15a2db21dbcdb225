// How well a masked language model predicts the tokens of a text.
#pragma once

#include "data/pretraining/loader.h"
#include "data/tokenizers/tokenizer.h"
#include "nn/model.h"
#include "train/config/config.h"
#include "train/distributed/communicator.h"

namespace nystrom {

/// The samples of a data set as `config` packs and masks them. A model with the semantics of
/// transformers gets rows of its one length.
MaskedSamples masked_samples(std::shared_ptr<const TokenDataset> dataset,
                             const Tokenizer& tokenizer, const RunConfig& config);

/// Means over all tokens asked for.
struct Evaluation {
  double loss = 0;      ///< cross-entropy, in nats
  double accuracy = 0;  ///< share predicted right
  double frequency_loss =
      0;  ///< the loss of always predicting by how often each token occurs in this very text
  double frequency_accuracy = 0;  ///< the share of its most frequent token
  std::int64_t tokens = 0;        ///< asked for
  std::optional<double>
      order_accuracy{};  ///< share of the sequences whose segments' order was told right
};

/// Every sample once, with the masks of epoch 0, `micro_batch_size` at a time; no dropout.
/// `progress` is called with the number of samples done. InputError when no token can be asked for.
/// The work is spread over the processes, and the result is the same bits in any number of them.
Evaluation evaluate_masked_lm(const Model& model, const MaskedSamples& samples,
                              std::int64_t micro_batch_size, Communicator& communicator,
                              const std::function<void(std::int64_t)>& progress = {});

/// The input of a model from one text, padded behind to `positions` with `pad`.
ModelInput input_of(std::span<const std::int32_t> ids, std::int64_t positions, std::int64_t pad);

}  // namespace nystrom
