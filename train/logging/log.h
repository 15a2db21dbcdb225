// What a command tells its user while it works: lines on standard error, in a run also in its
// log.txt.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace nystrom {

/// The messages of one command. Results go to standard output and are no business of this class.
class Log {
 public:
  /// Prints nothing but warnings when `quiet`.
  explicit Log(bool quiet = false);
  /// Ends a line that was drawn over.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// From here on nothing is printed, not even warnings: of all processes of a run one speaks.
  void mute() { muted_ = true; }

  /// From here on every line also goes to the end of `file`, with the time in front, quiet or not.
  /// InputError when it cannot be written.
  void append_to(const std::filesystem::path& file);

  /// A line.
  void say(const std::string& text);
  /// A line that is never kept quiet, with "warning: " in front.
  void warn(const std::string& text);
  /// A line that the next one takes the place of. Only on a terminal, and never into the file.
  void draw(const std::string& text);
  /// A line into the file alone.
  void record(const std::string& text);

  /// Whether draw() shows anything.
  bool draws() const { return terminal_ && !quiet_ && !muted_; }
  bool quiet() const { return quiet_; }

 private:
  void print(const std::string& line);

  bool quiet_, terminal_;
  bool muted_ = false;
  bool drawn_ = false;  // the cursor stands behind a drawn line
  std::ofstream file_;
};

}  // namespace nystrom
