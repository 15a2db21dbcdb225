#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/interruption.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/hdf5/hdf5.h"
#include "data/hdf5/hdf5_library.h"

namespace nystrom {
namespace {

/// Ends this process once it has computed for long. A slow machine reads 10 MB of structure, and
/// unpacks 10 MB, in a second.
void limit_time(std::int64_t bytes) {
  itimerval limit{};
  limit.it_value = {.tv_sec = bytes / 10'000'000, .tv_usec = 500'000};
  ::setitimer(ITIMER_PROF, &limit, nullptr);
}

/// Lets this process crash without a word and without a trace.
void expect_the_worst() {
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGPROF})
    ::signal(number, SIG_DFL);
  ::prctl(PR_SET_DUMPABLE, 0);
  ::close(STDOUT_FILENO);
  ::close(STDERR_FILENO);
}

/// Reads the first row, and all others behind fragile filters. A bag has them as [1, rows, width].
void read_rows(const Hdf5Array& array) {
  std::vector<std::int64_t> first(array.shape().size()), count = array.shape();
  std::int64_t all = 1;
  for (const std::int64_t size : count) all *= size;
  if (all == 0) return;
  const bool fragile = array.has_fragile_filters();
  // Unpacks a chunk, twice.
  limit_time(8 * (all / count[0]) *
             std::max<std::int64_t>(fragile ? count[0] : 1, 2 * array.chunk_rows()));
  std::size_t axis = 0;
  while (!fragile && count[axis] == 1 && axis + 1 < count.size()) ++axis;
  const std::int64_t rows = fragile ? count[0] : 1, row = all / count[axis];
  // Nothing is kept between reads, so that one takes all rows of a chunk, if they have room.
  constexpr std::int64_t room = 1 << 23;
  const std::int64_t step =
      std::clamp<std::int64_t>(array.chunk_rows(), 1, std::max<std::int64_t>(room / row, 1));
  std::vector<double> values;
  for (; first[axis] < rows; first[axis] += step) {
    count[axis] = std::min(step, rows - first[axis]);
    values.resize(static_cast<std::size_t>(count[axis] * row));
    array.read(first, count, values);
  }
}

/// Does all that depends on how the file is built.
void read_structure(const std::shared_ptr<const InputFile>& input,
                    std::span<const char* const> names) {
  const InterruptionCheck none([] {});  // a check may wait for threads that this process lacks
  limit_time(input->size());
  try {
    const Hdf5File file(input);
    static_cast<void>(file.names());
    for (const char* name : names) {
      try {
        const std::optional<Hdf5Array> array = file.find(name, 0);
        if (!array || array->shape().empty()) continue;
        static_cast<void>(array->is_complete());
        read_rows(*array);
      } catch (const InputError&) {
      }
    }
  } catch (const InputError&) {
  } catch (...) {  // must not unwind the stack of the process that this one copies
    _exit(1);
  }
}

}  // namespace

void require_harmless(const std::shared_ptr<const InputFile>& file,
                      std::span<const char* const> names) {
  const std::string path = printable_path(file->path());
  int ends[2];
  require_success(::pipe2(ends, O_CLOEXEC) == 0, file->path(), "cannot make a pipe");
  const Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  pid_t child;
  {
    const auto lock = lock_library();  // no other thread uses the state that the child copies
    child = ::fork();
  }
  if (child == 0) {
    expect_the_worst();
    read_structure(file, names);
    _exit(::write(writing.get(), "", 1) == 1 ? 0 : 1);
  }
  require_success(child > 0, file->path(), "cannot start a process that tries the file");
  writing.close();
  char byte;
  const ssize_t count = retry([&] { return ::read(reading.get(), &byte, 1); });
  retry([&] { return ::waitpid(child, nullptr, 0); });
  require_input(count == 1, "{}: the HDF5 library fails on it or does not end: the file is damaged",
                path);
}

}  // namespace nystrom
