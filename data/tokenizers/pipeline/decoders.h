// The decoders of a tokenizer.json: conversion of pieces to text.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nystrom {

class JsonPart;

/// Changes pieces into parts of the text. The text is their concatenation. Throws an InputError
/// when the parts become too long. Several threads may call it at the same time.
using Decoder = std::function<void(std::vector<std::string>& parts)>;

/// Creates the decoder that a part of a tokenizer.json describes. Throws an InputError for an
/// unknown type or a wrong value.
Decoder read_decoder(const JsonPart& part);

/// Removes the spaces that a tokenizer put before punctuation and inside contractions.
std::string clean_up_spaces(std::string text);
/// The byte of a piece <0x00> to <0xFF>; nothing for other pieces.
std::optional<char> byte_of_piece(std::string_view piece);

}  // namespace nystrom
