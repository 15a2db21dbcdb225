#include "data/tokenizers/pipeline/aligned_text.h"

#include <algorithm>

#include "core/check.h"

namespace nystrom {
namespace {

constexpr std::size_t longest_growth = 64;

}  // namespace

std::vector<ByteRange> places_of(std::string_view text, std::string_view searched) {
  std::vector<ByteRange> found;
  for (std::size_t at = text.find(searched); at != text.npos;
       at = text.find(searched, at + searched.size()))
    found.push_back(byte_range(at, at + searched.size()));
  return found;
}

AlignedText::AlignedText(std::string_view source, std::uint32_t offset)
    : text_(source),
      origin_(source.size()),
      offset_(offset),
      limit_((std::size_t{1} << 20) + longest_growth * source.size()) {
  for (std::size_t begin = 0; begin < source.size();) {
    const std::size_t end = begin + utf8_length(source[begin]);
    const ByteRange range = byte_range(offset + begin, offset + end);
    for (; begin < end; ++begin) origin_[begin] = range;
  }
}

void AlignedText::check_size(std::size_t bytes) const {
  require_input(bytes <= limit_,
                "the tokenizer's normalizer or pre-tokenizer makes the text more than {} times as "
                "long",
                longest_growth);
}

void AlignedText::take(AlignedText made) {
  check_size(made.text_.size());
  text_ = std::move(made.text_);
  origin_ = std::move(made.origin_);
}

bool AlignedText::is_ascii() const {
  return std::all_of(text_.begin(), text_.end(),
                     [](char byte) { return static_cast<unsigned char>(byte) < 0x80; });
}

AlignedText AlignedText::slice(ByteRange part) const {
  AlignedText result;
  result.offset_ = offset_;
  result.limit_ = limit_;
  result.append(*this, part);
  return result;
}

void AlignedText::append(const AlignedText& other, ByteRange part) {
  text_.append(other.text_, part.begin, part.size());
  origin_.insert(origin_.end(), other.origin_.begin() + part.begin,
                 other.origin_.begin() + part.end);
}

void AlignedText::append(std::string_view text, ByteRange origin) {
  text_ += text;
  origin_.resize(text_.size(), origin);
}

void AlignedText::reserve(std::size_t bytes) {
  text_.reserve(bytes);
  origin_.reserve(bytes);
}

void AlignedText::transform(const std::vector<Change>& changes) {
  AlignedText made;
  made.reserve(text_.size());
  std::size_t at = 0;  // offset in the old text
  const auto pass = [&] {
    if (at < text_.size()) at += utf8_length(text_[at]);
  };
  for (const auto& [character, change] : changes) {
    ByteRange origin;
    if (change > 0 || at >= text_.size()) {
      if (at > 0) origin = origin_[at - 1];
    } else {
      origin = origin_[at];
      pass();
      for (int i = change; i < 0; ++i) pass();
    }
    append_utf8(made.text_, character);
    made.origin_.resize(made.text_.size(), origin);
  }
  take(std::move(made));
}

void AlignedText::replace(const std::vector<ByteRange>& parts, std::string_view content) {
  if (parts.empty()) return;
  check_size(parts.size() * content.size());
  AlignedText made;
  made.reserve(text_.size());
  std::uint32_t done = 0;
  for (const ByteRange& part : parts) {
    made.append(*this, {done, part.begin});
    made.append(content, part.end > 0 ? origin_[part.end - 1] : ByteRange{offset_, offset_});
    done = part.end;
  }
  made.append(*this, {done, size()});
  take(std::move(made));
}

void AlignedText::prepend(std::string_view prefix) {
  if (empty()) return;
  AlignedText made;
  made.reserve(text_.size() + prefix.size());
  made.append(prefix, origin_[0]);
  made.append(*this, {0, size()});
  take(std::move(made));
}

}  // namespace nystrom
