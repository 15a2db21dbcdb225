// The fields of messages in protobuf's wire format, for writing TensorBoard's and ONNX's files. A
// message is the concatenation of its fields.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace nystrom::protobuf {

/// The bytes of a number, little-endian.
template <class T>
std::string little_endian(T value) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

/// A number in groups of seven bits.
inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

/// The key of a field of wire type 0 (varint), 1 (64 bits), 2 (bytes) or 5 (32 bits).
inline std::string key(int field, int wire_type) {
  return varint(static_cast<std::uint64_t>(field << 3 | wire_type));
}

/// A field of type int32, int64, bool or enum.
inline std::string integer(int field, std::int64_t value) {
  return key(field, 0) + varint(static_cast<std::uint64_t>(value));
}
/// A field of type double or float.
inline std::string number(int field, double value) { return key(field, 1) + little_endian(value); }
inline std::string number(int field, float value) { return key(field, 5) + little_endian(value); }
/// The key and length in front of the `size` bytes of a field.
inline std::string head(int field, std::uint64_t size) { return key(field, 2) + varint(size); }
/// A field of type string or bytes, or a message inside the message.
inline std::string bytes(int field, std::string_view value) {
  return head(field, value.size()).append(value);
}

}  // namespace nystrom::protobuf
