// Text during normalization. It stores the source bytes of each of its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/utf8.h"

namespace nystrom {

/// The bytes from `begin` up to, but not including, `end`.
struct ByteRange {
  std::uint32_t begin = 0, end = 0;
  std::uint32_t size() const { return end - begin; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

inline ByteRange byte_range(std::size_t begin, std::size_t end) {
  return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
}

/// The places of `searched`, which is not empty, in `text`; they do not overlap.
std::vector<ByteRange> places_of(std::string_view text, std::string_view searched);

/// A character of the new text and its effect on the old text. With 0 it replaces the next old
/// character. With −n it also removes the n old characters after it. With 1 it is inserted, and its
/// origin is that of the character before it. Hugging Face's tokenizers compute their alignments in
/// this way, so offsets agree.
struct Change {
  char32_t character;
  int change = 0;
};

/// Valid UTF-8 text and, for each byte, the source bytes of the character that produced it. Members
/// throw an InputError when the text becomes many times as long as its source. No real tokenizer
/// does that, but a hostile one could.
class AlignedText {
 public:
  AlignedText() = default;
  /// The origin of the first byte is `offset`.
  explicit AlignedText(std::string_view source, std::uint32_t offset = 0);

  const std::string& text() const { return text_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(text_.size()); }
  bool empty() const { return text_.empty(); }
  /// The source bytes of byte `i`.
  ByteRange origin(std::size_t i) const { return origin_[i]; }
  /// The source bytes of `part`, which must not be empty.
  ByteRange origin(ByteRange part) const {
    return {origin_[part.begin].begin, origin_[part.end - 1].end};
  }
  bool is_ascii() const;

  AlignedText slice(ByteRange part) const;
  /// Appends a part of another text with its origins.
  void append(const AlignedText& other, ByteRange part);
  /// Appends `text`; every byte of it has the origin `origin`.
  void append(std::string_view text, ByteRange origin);
  void reserve(std::size_t bytes);

  /// Replaces the text by a list of changes.
  void transform(const std::vector<Change>& changes);
  /// Keeps the characters for which keep(character) is true.
  template <class Keep>
  void filter(const Keep& keep);
  /// Replaces each character by map(character).
  template <class Map>
  void map(const Map& map);
  /// Replaces each part by `content`. The parts must be in order and must not overlap. The origin
  /// of `content` is that of the last replaced byte. For an empty part it is that of the byte
  /// before, or an empty range at the start of the source.
  void replace(const std::vector<ByteRange>& parts, std::string_view content);
  /// Inserts `prefix` at the start, with the origin of the first character. An empty text stays
  /// empty.
  void prepend(std::string_view prefix);

  /// Replaces this text by `made`, whose origins lie in the same source.
  void take(AlignedText made);

 private:
  void check_size(std::size_t bytes) const;

  std::string text_;
  std::vector<ByteRange> origin_;
  std::uint32_t offset_ = 0;  // offset of the source's first byte
  std::size_t limit_ = 0;     // maximum size in bytes
};

/// Calls use(character) for each character of valid UTF-8.
template <class Use>
void for_each_character(std::string_view text, const Use& use) {
  for (std::size_t position = 0; position < text.size();) use(next_code_point(text, position));
}

template <class Keep>
void AlignedText::filter(const Keep& keep) {
  AlignedText made;
  std::size_t done = 0;  // the end of the last removed character
  for (std::size_t position = 0; position < text_.size();) {
    const std::size_t begin = position;
    if (keep(next_code_point(text_, position))) continue;
    made.append(*this, byte_range(done, begin));
    done = position;
  }
  if (done == 0) return;
  made.append(*this, byte_range(done, text_.size()));
  take(std::move(made));
}

template <class Map>
void AlignedText::map(const Map& map) {
  // Most characters keep their length in bytes, and so their origins.
  std::string made;
  made.reserve(text_.size());
  bool same_places = true;
  for (std::size_t position = 0; same_places && position < text_.size();) {
    append_utf8(made, map(next_code_point(text_, position)));
    same_places = made.size() == position;
  }
  if (same_places) {
    text_ = std::move(made);
    return;
  }
  std::vector<Change> changes;
  for_each_character(text_, [&](char32_t c) { changes.push_back({map(c), 0}); });
  transform(changes);
}

}  // namespace nystrom
