// Whether a sanitizer is active.
#pragma once

namespace nystrom::testing {

/// With a sanitizer, memory use and time are not meaningful: sanitizers keep freed memory and are
/// slow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace nystrom::testing
