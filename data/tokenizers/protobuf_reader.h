// A strict reader for the wire format of protocol buffers. It never reads outside the message and
// rejects malformed numbers.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "core/check.h"

namespace nystrom {

/// Types of the wire format.
enum class WireType { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

/// One field of a message.
struct WireField {
  std::uint32_t number;
  WireType type;
  std::uint64_t value;     ///< value of a varint or a fixed-size number
  std::string_view bytes;  ///< content of a field of type bytes
  std::size_t offset;      ///< offset of the value in the file; for bytes, of the first one
};

/// Iterates over the fields of a message that starts at `offset` of a file. Errors are InputErrors
/// that name `source`.
class ProtobufReader {
 public:
  ProtobufReader(std::string_view message, std::size_t offset, const std::string& source)
      : message_(message), offset_(offset), source_(source) {}

  bool at_end() const { return position_ == message_.size(); }

  /// Reads the next field. Throws an InputError when the message is malformed.
  WireField next() {
    const std::size_t start = position_;
    const std::uint64_t key = varint();
    WireField field{static_cast<std::uint32_t>(key >> 3), static_cast<WireType>(key & 7), 0, {}, 0};
    require_input(key >> 3 != 0 && key >> 32 == 0, "{}: byte {}: field number {} is out of range",
                  source_, offset_ + start, key >> 3);
    field.offset = offset_ + position_;
    switch (field.type) {
      case WireType::varint: field.value = varint(); break;
      case WireType::fixed64: field.value = fixed(8, start); break;
      case WireType::fixed32: field.value = fixed(4, start); break;
      case WireType::bytes: field.bytes = length_delimited(start, field.offset); break;
      default: fail(start, "wire type {} is unknown", key & 7);
    }
    return field;
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(std::size_t position, fmt::format_string<Args...> message,
                         Args&&... args) const {
    throw InputError(fmt::format("{}: byte {}: ", source_, offset_ + position) +
                     fmt::format(message, std::forward<Args>(args)...));
  }

  std::uint64_t varint() {
    const std::size_t start = position_;
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_end()) fail(start, "a number runs past the end of its message");
      const auto byte = static_cast<unsigned char>(message_[position_++]);
      if (shift == 63 && byte > 1) break;
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    fail(start, "a number has more than 64 bits");
  }

  std::uint64_t fixed(std::size_t size, std::size_t start) {
    if (message_.size() - position_ < size)
      fail(start, "a number runs past the end of its message");
    std::uint64_t value = 0;
    /// The supported machines are little-endian, like the format.
    std::memcpy(&value, message_.data() + position_, size);
    position_ += size;
    return value;
  }

  std::string_view length_delimited(std::size_t start, std::size_t& value_offset) {
    const std::uint64_t length = varint();
    const std::size_t left = message_.size() - position_;
    if (length > left)
      fail(start, "a field of {} bytes has only {} left in its message", length, left);
    value_offset = offset_ + position_;
    const std::string_view bytes = message_.substr(position_, static_cast<std::size_t>(length));
    position_ += bytes.size();
    return bytes;
  }

  std::string_view message_;
  std::size_t offset_;
  const std::string& source_;
  std::size_t position_ = 0;
};

/// Calls use(field) for each field of a message, with the arguments and errors of ProtobufReader.
template <class Use>
void for_each_field(std::string_view message, std::size_t offset, const std::string& source,
                    const Use& use) {
  ProtobufReader reader(message, offset, source);
  while (!reader.at_end()) use(reader.next());
}

}  // namespace nystrom
