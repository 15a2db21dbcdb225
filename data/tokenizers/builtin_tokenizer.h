// Tokenizers that need no training and no files: the vocabularies of Long Range Arena (Tay et al.,
// ICLR 2021).
#pragma once

#include <memory>
#include <span>

#include "core/base/fields.h"
#include "data/tokenizers/tokenizer.h"

namespace nystrom {

enum class BuiltinTokenizer {
  bytes,  ///< 0 is padding, byte b of the UTF-8 text is b + 1: 257 ids. Also of images, whose
          ///< pixels are bytes
  listops,  ///< 0 padding, 1 unknown, 2–11 the digits, 12 ], 13–18 [MIN [MAX [MED [SM [FIRST [LAST;
            ///< parentheses are left out
};

std::span<const EnumName<BuiltinTokenizer>> enum_names(BuiltinTokenizer);

/// The tokenizer. It adds no tokens to a text, and has none to mask. Its files are a
/// tokenizer.json, which open_tokenizer and Hugging Face's AutoTokenizer read.
std::unique_ptr<Tokenizer> make_builtin_tokenizer(BuiltinTokenizer kind);

/// The ids of bytes that need not be text. InputError unless `tokenizer` is that of bytes.
std::vector<std::int32_t> byte_ids(const Tokenizer& tokenizer, std::span<const std::uint8_t> bytes);

}  // namespace nystrom
