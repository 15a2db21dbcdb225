// From text files to token shards: the tokenizer and the data sets of a run, made once and kept in a cache.
#pragma once

#include <filesystem>
#include <memory>

#include "data/sentencepiece_tokenizer.h"
#include "data/shards.h"
#include "train/config.h"

namespace nystrom {

/// What a run trains on.
struct Corpus {
  std::filesystem::path tokenizer_folder;  ///< in Hugging Face's form
  std::shared_ptr<const SentencePieceTokenizer> tokenizer;
  std::shared_ptr<const TokenDataset> train, validation;
};

/// Trains the tokenizer if asked, and tokenizes the text into shards, unless the cache holds both for the same files (name, size and time
/// of change) and settings. Streams: memory does not grow with the text. InputError when files are missing or hold no text.
Corpus prepare_corpus(const RunConfig& config, bool quiet);

}  // namespace nystrom
