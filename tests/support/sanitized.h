// Whether a sanitizer is at work.
#pragma once

namespace nystrom::testing {

/// Then neither the memory that is taken nor time says anything: sanitizers keep what is freed, and
/// are slow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace nystrom::testing
