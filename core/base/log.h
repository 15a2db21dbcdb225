// Messages of a command: lines on standard error, and for a run also in its log.txt.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "core/base/file_io.h"

namespace nystrom {

/// Whether a descriptor is a terminal that moves its cursor and knows colours.
bool is_terminal(int descriptor);

/// Takes the lines of a log in the place of standard error.
using LogSink = std::function<void(const std::string& line)>;

/// The messages of one command. Results go to standard output, not to the log.
class Log {
 public:
  /// With `quiet`, prints warnings only. Lines go to `sink` where there is one.
  explicit Log(bool quiet = false, LogSink sink = {});
  ~Log() { end_line(); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Prints nothing from here on, not even warnings. Only one process of a run prints.
  void mute() { muted_ = true; }

  /// Appends every line from here on to `file` too, with the time in front, even if quiet. Throws
  /// an InputError when the file cannot be written, or is a link.
  void append_to(const std::filesystem::path& file);

  /// Prints a line, unless quiet.
  void say(const std::string& text);
  /// Prints a line with "warning: " in front, even if quiet.
  void warn(const std::string& text);
  /// Prints a line that the next one overwrites. Only on a terminal, and never into the file.
  void draw(const std::string& text);
  /// Ends a line that draw() has left open.
  void end_line();
  /// Writes a line into the file only.
  void record(const std::string& text);

  /// Whether draw() prints anything.
  bool draws() const { return terminal_ && !quiet_ && !muted_; }
  /// The columns of the terminal at this moment; 80 where it does not tell.
  std::size_t width() const;
  /// Whether the log prints warnings only.
  bool quiet() const { return quiet_; }

 private:
  void print(const std::string& line);

  LogSink sink_;
  bool quiet_, terminal_;
  bool muted_ = false;
  bool drawn_ = false;  // whether the cursor is behind a drawn line
  Descriptor file_;
};

}  // namespace nystrom
