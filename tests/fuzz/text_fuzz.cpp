// Arbitrary bytes as a corpus. The first byte selects the compression, the kind of documents and
// the length of pieces. Only InputError may be thrown. Pieces are valid UTF-8 without NUL and
// within the requested length.
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "data/text/match_files.h"
#include "data/text/text.h"
#include "tests/fuzz/input_files.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  static nystrom::testing::InputFolder folder{"text", "text.gz", "text.zst"};
  const char* const name = data[0] % 4 == 1 ? "text.gz" : data[0] % 4 == 2 ? "text.zst" : "text";
  const auto documents =
      data[0] / 4 % 2 == 0 ? nystrom::Documents::lines : nystrom::Documents::files;
  const std::size_t piece_bytes =
      data[0] / 8 % 2 == 0 ? nystrom::TextReader::default_piece_bytes : 64;
  folder.fill("=== " + std::string(name) + "\n" +
              std::string(reinterpret_cast<const char*>(data + 1), size - 1));
  try {
    const std::string pattern = folder.path() / "text*";
    nystrom::TextReader reader(nystrom::match_files({&pattern, 1}), documents, piece_bytes);
    std::int64_t bytes = 0;
    while (const auto piece = reader.next()) {
      bytes += static_cast<std::int64_t>(piece->text.size());
      if (piece->text.size() > piece_bytes || piece->line < 1 ||
          !nystrom::is_valid_utf8(piece->text))
        std::abort();
      if (piece->text.find('\0') != piece->text.npos) std::abort();
    }
    const auto& statistics = reader.statistics();
    std::int64_t skipped = 0;
    for (const nystrom::Skipped& each : statistics.skipped) skipped += each.count;
    if (skipped > static_cast<std::int64_t>(size) ||
        reader.position() > static_cast<std::int64_t>(size))
      std::abort();
    if (statistics.bytes != bytes || statistics.summary().find('\n') != std::string::npos)
      std::abort();
  } catch (const nystrom::InputError&) {
  }
  return 0;
}
