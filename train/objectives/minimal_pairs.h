// Minimal pairs: which of two sentences does a pretrained model find more probable? (Warstadt
// et al., "BLiMP: The Benchmark of Linguistic Minimal Pairs for English", TACL 2020.)
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "nn/model.h"

namespace nystrom {

/// An acceptable sentence, and one that is not.
struct MinimalPair {
  std::string good, bad;
  std::string place{};  ///< "pairs.jsonl:7", for messages
};

/// Reads the pairs of a table (open_rows; without a known ending JSON Lines), whose columns have
/// the names `columns`. Throws an InputError "file:line: …" for a row without both sentences, and
/// for a file without pairs.
std::vector<MinimalPair> read_minimal_pairs(const std::filesystem::path& file,
                                            const MinimalPair& columns);

/// The sentences of pairs as ids with the special tokens, and how much of them the tokenizer does
/// not know.
struct EncodedPairs {
  std::vector<std::vector<std::int32_t>> sentences;  ///< the good and the bad one of each pair
  std::int64_t tokens = 0, unknown = 0;              ///< without the special ones around a text
  std::int64_t pairs_with_unknown = 0;
};

/// Encodes pairs. Throws an InputError with the place of a pair of which the tokenizer makes no
/// token of a sentence, and of one with a sentence of more than `longest` tokens.
EncodedPairs encode_pairs(const Tokenizer& tokenizer, std::span<const MinimalPair> pairs,
                          std::optional<std::int64_t> longest);

/// The pseudo-log-likelihood of each sentence: the sum over its tokens, without [CLS] and [SEP], of
/// the logarithm of the probability that the model gives the token where it alone is masked
/// (Salazar et al., "Masked Language Model Scoring", ACL 2020). `ids` have the special tokens, and
/// `batch_size` rows are computed at once.
std::vector<double> pseudo_log_likelihoods(const Model& model, const Tokenizer& tokenizer,
                                           std::span<const std::vector<std::int32_t>> ids,
                                           std::int64_t batch_size);

/// The judgements of a model on some pairs.
struct PairCounts {
  std::int64_t preferred = 0;  ///< the good sentence has the larger likelihood
  std::int64_t ties = 0;       ///< both have the same one, but for rounding
};

/// Compares the likelihoods of the two sentences of each pair (EncodedPairs::sentences):
/// pseudo_log_likelihoods, or for a model with Head::replaced_tokens the sum over each sentence's
/// tokens of the logarithm of the probability that no other token stood in its place.
PairCounts count_pairs(const Model& model, const Tokenizer& tokenizer,
                       std::span<const std::vector<std::int32_t>> sentences,
                       std::int64_t batch_size);

}  // namespace nystrom
