// Hand-written scanners for the regular expressions of most byte-level tokenizers. They are several
// times as fast as Oniguruma.
#pragma once

#include <cstddef>
#include <string_view>

namespace nystrom {

/// Returns the end of the first word of `text` that starts at `begin`. Each word starts at the end
/// of the word before. `text` must be valid UTF-8, and begin < text.size().
using WordScanner = std::size_t (*)(std::string_view text, std::size_t begin);

/// GPT-2's expression, the default of byte-level pre-tokenizers.
inline constexpr std::string_view gpt2_expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
/// The expression of Llama 3, and of OpenAI's cl100k in a tokenizer.json.
inline constexpr std::string_view llama3_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
/// Qwen's expression: that of Llama 3, but each digit is a word.
inline constexpr std::string_view qwen_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Returns the scanner that finds all matches of `expression`, or null when there is no scanner for
/// it. Letters, numbers and spaces follow utf8proc.
WordScanner find_word_scanner(std::string_view expression);

}  // namespace nystrom
