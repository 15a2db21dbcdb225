// The characters for bytes in byte-level vocabularies. Bytes that are printable in Latin-1 stand
// for themselves; other bytes use the characters from U+0100 on.
#include <array>

#include "data/tokenizers/pipeline/normalizers.h"

namespace nystrom {
namespace {

bool prints(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Table {
  std::array<std::string, 256> characters;
  std::array<int, 0x144> bytes;

  Table() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const char32_t character = prints(byte) ? static_cast<char32_t>(byte) : next++;
      append_utf8(characters[static_cast<std::size_t>(byte)], character);
      bytes[character] = byte;
    }
  }
};

const Table& table() {
  static const Table made;
  return made;
}

}  // namespace

const std::string& byte_level_character(unsigned char byte) { return table().characters[byte]; }

int byte_of_character(char32_t character) {
  return character < table().bytes.size() ? table().bytes[character] : -1;
}

void to_byte_level(AlignedText& text) {
  std::vector<Change> changes;
  changes.reserve(text.size());
  for (const char byte : text.text()) {
    std::size_t start = 0;
    const char32_t character =
        next_code_point(byte_level_character(static_cast<unsigned char>(byte)), start);
    changes.push_back({character, is_utf8_continuation(byte) ? 1 : 0});
  }
  text.transform(changes);
}

}  // namespace nystrom
