// Errors that a user can act on. This header does not depend on fmt, so CUDA units may include it;
// core/check.h adds formatting.
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace nystrom {

/// An error with a message of one line: the problem, its place, the actual and the expected value,
/// and a remedy if there is one. Callers add contexts in front of the message: "while loading
/// a.yaml: line 3: …".
class Error : public std::exception {
 public:
  explicit Error(std::string message) : message_(std::move(message)) {}

  const char* what() const noexcept override { return message_.c_str(); }
  /// Puts `context` and ": " in front of the message, unless it begins with it, or with a path in
  /// it.
  void add_context(const std::string& context) {
    const bool there = message_.starts_with(context + ": ") || message_.starts_with(context + "/");
    if (!context.empty() && !there) message_ = context + ": " + message_;
  }

 private:
  std::string message_;
};

/// Wrong input of a user: a file, flag or value. The program exits with status 2 instead of 1.
class InputError : public Error {
 public:
  using Error::Error;
};

/// Weights, gradients or scores of a model are not finite: its training has diverged.
class DivergedError : public InputError {
 public:
  using InputError::InputError;
};

/// Runs f. An Error of f gets `context` in front of its message.
template <class F>
auto with_context(const std::string& context, F&& f) {
  try {
    return f();
  } catch (Error& error) {
    error.add_context(context);
    throw;
  }
}

/// Calls f. An InputError from it is thrown anew with `remedy`, which says what to do, at its end.
template <class F>
auto with_remedy(const std::string& remedy, F&& f) {
  try {
    return f();
  } catch (const InputError& error) {
    if (remedy.empty()) throw;
    throw InputError(error.what() + ("; " + remedy));
  }
}

}  // namespace nystrom
