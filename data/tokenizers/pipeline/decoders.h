// The decoders of a tokenizer.json: conversion of pieces to text.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace nystrom {

class JsonPart;

/// Interface of the decoders. Const members may be called from several threads.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Changes pieces into parts of the text. The text is their concatenation. Throws an InputError
  /// when a part becomes too long.
  virtual void apply(std::vector<std::string>& parts) const = 0;
};

/// Creates the decoder that a part of a tokenizer.json describes. Throws an InputError for an
/// unknown type or a wrong value.
std::unique_ptr<Decoder> read_decoder(const JsonPart& part);

/// BERT's decoder: a space before each piece without `prefix`. With `cleanup` it removes spaces
/// like clean_up_spaces.
std::unique_ptr<Decoder> wordpiece_decoder(const std::string& prefix, bool cleanup);
/// Removes the spaces that a tokenizer put before punctuation and inside contractions.
std::string clean_up_spaces(std::string text);
/// Converts byte-level characters to bytes. Invalid UTF-8 becomes U+FFFD.
std::unique_ptr<Decoder> byte_level_decoder();

}  // namespace nystrom
