// Minimal pairs: which of two sentences does a pretrained model find more probable? (Warstadt
// et al., "BLiMP: The Benchmark of Linguistic Minimal Pairs for English", TACL 2020.)
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "nn/model.h"

namespace nystrom {

/// An acceptable sentence, and one that is not.
struct MinimalPair {
  std::string good, bad;
};

/// Reads the pairs of a table (open_rows; without a known ending JSON Lines), whose columns have
/// the names `columns`. Throws an InputError "file:line: …" for a row without both sentences, and
/// for a file without pairs.
std::vector<MinimalPair> read_minimal_pairs(const std::filesystem::path& file,
                                            const MinimalPair& columns);

/// The pseudo-log-likelihood of each sentence: the sum over its tokens, without [CLS] and [SEP], of
/// the logarithm of the probability that the model gives the token where it alone is masked
/// (Salazar et al., "Masked Language Model Scoring", ACL 2020). `ids` have the special tokens, and
/// `batch_size` rows are computed at once.
std::vector<double> pseudo_log_likelihoods(const Model& model, const Tokenizer& tokenizer,
                                           std::span<const std::vector<std::int32_t>> ids,
                                           std::int64_t batch_size);

/// What a model makes of some pairs.
struct PairCounts {
  std::int64_t preferred = 0;  ///< the good sentence has the larger likelihood
  std::int64_t ties = 0;       ///< both sentences are the same tokens: no model prefers one
};

/// Compares the likelihoods of each pair: pseudo_log_likelihoods, or for a model with
/// Head::replaced_tokens the sum over each sentence's tokens of the logarithm of the probability
/// that no other token stood in its place. Throws an InputError that begins with `source` for a
/// sentence that is longer than the model takes.
PairCounts count_pairs(const Model& model, const Tokenizer& tokenizer,
                       std::span<const MinimalPair> pairs, const std::string& source,
                       std::int64_t batch_size);

}  // namespace nystrom
