// The post-processors of a tokenizer.json: what stands around texts, and whose spaces offsets leave
// out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace nystrom {

class JsonPart;
class Vocabulary;

/// An element of a template: the first text, the second, or a special token.
struct TemplatePart {
  enum class Kind { first, second, special };
  Kind kind = Kind::first;
  std::int32_t type_id = 0;
  std::vector<std::int32_t> ids;  ///< of a special token
};

struct PostProcessor {
  std::vector<TemplatePart> single, pair;
  bool trims_offsets = false;  ///< tokens leave out the spaces that their pieces begin or end with
  bool adds_prefix_space = false;  ///< … but for the one added in front of the text
  /// What stands before the first text and behind it, where there is such.
  std::optional<std::int32_t> cls, sep;

  /// Whether nothing stands around a text.
  bool is_plain() const { return single.size() == 1; }

  /// [cls] first [sep] second [sep], the second text with type 1.
  static PostProcessor bert(std::int32_t cls, std::int32_t sep);
  /// <s> first </s> </s> second </s>, all of type 0.
  static PostProcessor roberta(std::int32_t cls, std::int32_t sep, bool adds_prefix_space);
  /// The texts and nothing else.
  static PostProcessor plain();
};

/// The post-processor that a part of a tokenizer.json describes. InputError that names a type which
/// is not known, and for tokens that are not in the vocabulary.
PostProcessor read_post_processor(const JsonPart& part, const Vocabulary& vocabulary);

/// The template with the texts in their places. `second` is not looked at where the template has
/// none.
WrappedIds fill_template(const std::vector<TemplatePart>& parts,
                         std::span<const std::int32_t> first, std::span<const std::int32_t> second);

}  // namespace nystrom
