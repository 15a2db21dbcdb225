// The post-processors of a tokenizer.json. They add special tokens around texts and decide whether
// offsets exclude spaces.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "data/tokenizers/tokenizer.h"

namespace nystrom {

class JsonPart;
class Vocabulary;

/// An element of a template: the first text, the second text, or a special token.
struct TemplatePart {
  enum class Kind { first, second, special };
  Kind kind = Kind::first;
  std::int32_t type_id = 0;
  std::vector<std::int32_t> ids;  ///< ids of a special token
  friend bool operator==(const TemplatePart&, const TemplatePart&) = default;
};

/// Templates for one text and for two texts, and rules for offsets.
struct PostProcessor {
  /// By default the texts stay as they are: no special tokens, types 0 and 1.
  std::vector<TemplatePart> single{TemplatePart{}},
      pair{TemplatePart{}, {TemplatePart::Kind::second, 1, {}}};
  bool trims_offsets = false;      ///< offsets exclude spaces at the beginning and end of a piece
  bool adds_prefix_space = false;  ///< the space added in front of the text is not trimmed
  /// Whether the templates are those by default.
  bool is_plain() const;
  /// The single special token before the first text of the single template, or `behind` it.
  std::optional<std::int32_t> end(bool behind) const;

  /// The template [cls] first [sep] second [sep]. The second text has type 1.
  static PostProcessor bert(std::int32_t cls, std::int32_t sep);
  /// The template <s> first </s> </s> second </s>. All have type 0.
  static PostProcessor roberta(std::int32_t cls, std::int32_t sep);
};

/// Reads the post-processor that a part of a tokenizer.json describes. Throws an InputError for an
/// unknown type, and for tokens outside the vocabulary.
PostProcessor read_post_processor(const JsonPart& part, const Vocabulary& vocabulary);

/// The part of a tokenizer.json that read_post_processor reads as `processor`; null when it changes
/// nothing.
nlohmann::json post_processor_json(const PostProcessor& processor, const Vocabulary& vocabulary);

/// Inserts the texts into the template. `second` is ignored when the template has no second text.
WrappedIds fill_template(const std::vector<TemplatePart>& parts,
                         std::span<const std::int32_t> first, std::span<const std::int32_t> second);

}  // namespace nystrom
