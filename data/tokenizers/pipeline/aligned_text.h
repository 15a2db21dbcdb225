// Text on its way through normalisation, which remembers for every byte what it came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/utf8.h"

namespace nystrom {

/// Bytes begin … end − 1 of something.
struct ByteRange {
  std::uint32_t begin = 0, end = 0;
  std::uint32_t size() const { return end - begin; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// A character of the new text, and what it does to the old: 0 takes the place of the next old
/// character; −n does, and removes the n old ones behind; 1 is inserted and stands for what the
/// character before it stands for. The alignments of Hugging Face's tokenizers follow from these,
/// so offsets do too.
struct Change {
  char32_t character;
  int change = 0;
};

/// Valid UTF-8, and for each byte the source bytes of the character it came from. InputError when
/// changes make it many times as long as its source (no tokenizer does that, but a hostile one
/// could).
class AlignedText {
 public:
  AlignedText() = default;
  /// Source bytes count from `offset`.
  explicit AlignedText(std::string_view source, std::uint32_t offset = 0);

  const std::string& text() const { return text_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(text_.size()); }
  bool empty() const { return text_.empty(); }
  /// What byte `i` came from.
  ByteRange origin(std::size_t i) const { return origin_[i]; }
  /// The source bytes of `part`, which is not empty.
  ByteRange origin(ByteRange part) const {
    return {origin_[part.begin].begin, origin_[part.end - 1].end};
  }
  bool is_ascii() const;

  AlignedText slice(ByteRange part) const;
  /// Appends a part of another text.
  void append(const AlignedText& other, ByteRange part);
  /// Appends `text`, all of it from `origin`.
  void append(std::string_view text, ByteRange origin);
  void reserve(std::size_t bytes);

  /// The new text as a list of changes; the first `removed` old characters go before the first.
  void transform(const std::vector<Change>& changes, std::size_t removed = 0);
  /// Keeps the characters for which `keep` holds.
  template <class Keep>
  void filter(const Keep& keep);
  /// Puts another character in the place of each.
  template <class Map>
  void map(const Map& map);
  /// Puts `content` in the place of each part (in order, apart); it stands for the last character
  /// that it replaces; of an empty part, for the one before, or for no byte at the source's start.
  void replace(const std::vector<ByteRange>& parts, std::string_view content);
  /// Puts `prefix`, which stands for what the first character stands for, in front of a text that
  /// is not empty.
  void prepend(std::string_view prefix);

 private:
  /// Takes the place of this text.
  void take(AlignedText made);
  void check_size(std::size_t bytes) const;

  std::string text_;
  std::vector<ByteRange> origin_;
  std::uint32_t offset_ = 0;  // where the source begins
  std::size_t limit_ = 0;     // of bytes
};

/// Calls use(character) for each character of valid UTF-8.
template <class Use>
void for_each_character(std::string_view text, const Use& use) {
  for (std::size_t position = 0; position < text.size();) {
    if (static_cast<unsigned char>(text[position]) < 0x80)
      use(static_cast<char32_t>(text[position++]));
    else
      use(next_code_point(text, position));
  }
}

template <class Keep>
void AlignedText::filter(const Keep& keep) {
  std::vector<Change> changes;
  std::size_t removed_in_front = 0;
  bool all = true;
  for_each_character(text_, [&](char32_t c) {
    if (keep(c)) {
      changes.push_back({c, 0});
      return;
    }
    all = false;
    if (changes.empty())
      ++removed_in_front;
    else
      --changes.back().change;
  });
  if (!all) transform(changes, removed_in_front);
}

template <class Map>
void AlignedText::map(const Map& map) {
  // Mostly every character takes as many bytes as before, and stands for what stood there.
  std::string made;
  made.reserve(text_.size());
  bool same_places = true;
  for (std::size_t position = 0; same_places && position < text_.size();) {
    if (static_cast<unsigned char>(text_[position]) < 0x80) {
      const char32_t mapped = map(static_cast<char32_t>(text_[position++]));
      same_places = mapped < 0x80;
      made += static_cast<char>(mapped);
    } else {
      append_utf8(made, map(next_code_point(text_, position)));
      same_places = made.size() == position;
    }
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
