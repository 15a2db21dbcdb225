#include "core/base/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/require.h"

namespace nystrom {

struct Checksum::State {
  XXH3_state_t value;
};

Checksum::Checksum() : state_(new State) { XXH3_128bits_reset(&state_->value); }
Checksum::~Checksum() { delete state_; }
void Checksum::update(const void* data, std::size_t bytes) {
  XXH3_128bits_update(&state_->value, data, bytes);
}
Digest Checksum::digest() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->value);
  return {hash.high64, hash.low64};
}
std::string Checksum::hex() const {
  const Digest bits = digest();
  return fmt::format("{:016x}{:016x}", bits.high, bits.low);
}

std::string text_checksum(std::string_view text) {
  Checksum checksum;
  checksum.update(text.data(), text.size());
  return checksum.hex();
}

}  // namespace nystrom
