// Errors a person can act on. Free of fmt so that CUDA units may include it; core/check.h adds
// formatting.
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace nystrom {

/// Something went wrong: one line saying what, where, what was got and expected, and if known what
/// to do. Contexts are added while the error travels up and stand in front: "while loading a.yaml:
/// line 3: …".
class Error : public std::exception {
 public:
  explicit Error(std::string message) : message_(std::move(message)) {}

  const char* what() const noexcept override { return message_.c_str(); }
  void add_context(const std::string& context) { message_ = context + ": " + message_; }

 private:
  std::string message_;
};

/// The user's input (a file, flag or value) is at fault: the program exits with 2 instead of 1.
class InputError : public Error {
 public:
  using Error::Error;
};

/// Runs f; an Error leaving it gains `context` in front of its message.
template <class F>
auto with_context(const std::string& context, F&& f) {
  try {
    return f();
  } catch (Error& error) {
    error.add_context(context);
    throw;
  }
}

}  // namespace nystrom
