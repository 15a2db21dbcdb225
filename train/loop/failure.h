// The kind of an exception and its message, for programs that report it.
#pragma once

#include <string>

namespace nystrom {

/// Who can act on a failure. internal: the authors of nystrom; input: the user; interrupted: nobody
/// need, a signal stopped the work.
enum class FailureKind { internal, input, interrupted };

struct Failure {
  FailureKind kind;
  std::string message;  ///< one line; may be empty for an interruption
};

/// The kind and the message of the exception that is being handled.
Failure current_failure();

}  // namespace nystrom
