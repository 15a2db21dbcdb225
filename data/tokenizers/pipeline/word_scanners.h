// The regular expressions that most byte-level tokenizers cut words by, by hand: several times as
// fast as Oniguruma.
#pragma once

#include <cstddef>
#include <string_view>

namespace nystrom {

/// Where the first word of `text` from `begin` on ends; each word begins where the last one ends.
/// `text` is valid UTF-8, begin < text.size().
using WordScanner = std::size_t (*)(std::string_view text, std::size_t begin);

/// GPT-2's expression, which byte-level pre-tokenizers have built in.
inline constexpr std::string_view gpt2_expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
/// Llama 3's, and that of OpenAI's cl100k as a tokenizer.json has it.
inline constexpr std::string_view llama3_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
/// Qwen's: as Llama 3's, with each digit a word.
inline constexpr std::string_view qwen_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// The scanner that finds all matches of `expression`, or null when there is none by hand. Letters,
/// numbers and spaces are utf8proc's.
WordScanner find_word_scanner(std::string_view expression);

}  // namespace nystrom
