#include "core/base/log.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <tuple>

#include "core/base/require.h"

namespace nystrom {
namespace {

/// Prints to standard error. Unlike fmt::print it does not throw when that fails, as on a full
/// disk: a run must continue.
void put(const std::string& text) { std::fputs(text.c_str(), stderr); }

}  // namespace

bool is_terminal(int descriptor) {
  const char* const type = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && (!type || std::string_view(type) != "dumb");
}

Log::Log(bool quiet, LogSink sink)
    : sink_(std::move(sink)), quiet_(quiet), terminal_(!sink_ && is_terminal(STDERR_FILENO)) {}

void Log::end_line() {
  if (drawn_) put("\n");
  drawn_ = false;
}

void Log::append_to(const std::filesystem::path& file) { file_ = open_to_append(file); }

void Log::print(const std::string& line) {
  if (muted_) return;
  if (sink_) return sink_(line);
  put((drawn_ ? "\r\x1b[K" : "") + line + "\n");
  drawn_ = false;
}

void Log::say(const std::string& text) {
  if (!quiet_) print(text);
  record(text);
}

void Log::record(const std::string& text) {
  if (!file_.is_open()) return;
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char time[32];
  std::strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", &parts);
  const std::string line = fmt::format("{} {}\n", time, text);
  std::ignore = ::write(file_.get(), line.data(), line.size());  // a full disk must not end the run
}

void Log::warn(const std::string& text) {
  if (quiet_) print("warning: " + text);
  say("warning: " + text);
}

std::size_t Log::width() const {
  winsize size{};
  const bool told = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return told ? size.ws_col : 80;
}

void Log::draw(const std::string& text) {
  if (!draws()) return;
  // Disable line wrap, because a wrapped line cannot be overwritten.
  put("\r\x1b[K\x1b[?7l" + text + "\x1b[?7h");
  drawn_ = true;
}

}  // namespace nystrom
