// Tokenizers without training and without files: the vocabularies of Long Range Arena (Tay et al.,
// ICLR 2021).
#pragma once

#include <memory>
#include <span>

#include "core/base/fields.h"
#include "data/tokenizers/tokenizer.h"

namespace nystrom {

/// Kind of a built-in tokenizer.
enum class BuiltinTokenizer {
  /// 258 ids: 0 is padding, byte b of the UTF-8 text is b + 1, and 257 the mask. Images use it too:
  /// their pixels are bytes.
  bytes,
  /// 20 ids: 0 padding, 1 unknown, 2–11 the digits, 12 ], 13–18 [MIN [MAX [MED [SM [FIRST [LAST,
  /// and
  /// 19 the mask. Parentheses are removed.
  listops,
};

/// Creates the tokenizer. It adds no tokens to a text. Its files are a
/// tokenizer.json and a tokenizer_config.json, which open_tokenizer and Hugging Face's
/// AutoTokenizer read.
std::unique_ptr<Tokenizer> make_builtin_tokenizer(BuiltinTokenizer kind);

/// Returns the ids of bytes that need not be text. Throws an InputError unless `tokenizer` is the
/// built-in tokenizer of bytes.
std::vector<std::int32_t> byte_ids(const Tokenizer& tokenizer, std::span<const std::uint8_t> bytes);

}  // namespace nystrom
