#include "train/loop/failure.h"

#include <cstdio>
#include <filesystem>
#include <new>
#include <system_error>

#include "core/base/printable.h"
#include "core/base/stop_signals.h"
#include "core/check.h"
#include "train/distributed/communicator.h"

namespace nystrom {

Failure current_failure() {
  try {
    throw;
  } catch (const Interrupted& reason) {
    return {FailureKind::interrupted, reason.what()};
  } catch (const InputError& error) {
    return {FailureKind::input, error.what()};
  } catch (const std::filesystem::filesystem_error& error) {
    const std::string place = error.path1().empty() ? "" : printable_path(error.path1()) + ": ";
    return {FailureKind::input, place + error.code().message()};
  } catch (const std::system_error& error) {
    // A print fails where the standard output does, as on a full disk.
    if (std::ferror(stdout) != 0)
      return {FailureKind::input, fmt::format("standard output: cannot write: {}; is there space "
                                              "on the device?",
                                              error.code().message())};
    if (error.code() == std::errc::resource_unavailable_try_again)  // std::thread
      return {FailureKind::input,
              "cannot start a thread: " + error.code().message() +
                  "; raise the limit of processes (ulimit -u), or lower --threads"};
    return {FailureKind::input, error.what()};
  } catch (const std::bad_alloc&) {
    return {FailureKind::input, "out of memory; lower the batch size or the sequence length"};
  } catch (const ProcessLost& error) {
    return {FailureKind::internal, error.what()};
  } catch (const std::exception& error) {
    return {FailureKind::internal, std::string("internal error: ") + error.what()};
  }
}

}  // namespace nystrom
