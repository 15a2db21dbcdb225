// A tokenizer.json of this program's making, and the parts that several of them share. This header
// includes all of nlohmann/json, so only .cpp files should include it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace nystrom {

struct AddedToken;

/// The text of a tokenizer.json with these members. Without added tokens there are none; every
/// other member that is not given is null.
std::string tokenizer_json_text(nlohmann::json members);

/// A NumberReader (core/base/json.h) for a file that tokenizer_json_text writes again: such a
/// number is written with the same digits.
nlohmann::json number_as_it_stands(std::string_view digits);

/// An element of `added_tokens`.
nlohmann::json added_token_json(const AddedToken& token);
/// The pre-tokenizer and the decoder that write a space as U+2581, also in front of a text.
nlohmann::json metaspace_json();
/// The pre-tokenizer, the post-processor and the decoder of byte-level vocabularies.
nlohmann::json byte_level_json(bool add_prefix_space, bool trim_offsets = true,
                               bool use_regex = true);

/// A BPE model. Adjacent unknown characters form one `unknown` token; null: there is none.
nlohmann::json bpe_json(const nlohmann::json& vocabulary, const nlohmann::json& merges,
                        const nlohmann::json& unknown = nullptr);
/// A unigram model. `vocabulary` is a list of pieces with their scores.
nlohmann::json unigram_json(const nlohmann::json& vocabulary, std::int32_t unknown);
/// BERT's model.
nlohmann::json wordpiece_json(const nlohmann::json& vocabulary, const std::string& unknown);

}  // namespace nystrom
