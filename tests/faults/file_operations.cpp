#include "tests/faults/file_operations.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <map>
#include <stdexcept>

namespace nystrom::testing {
namespace {

using Kind = FileOperation::Kind;

struct State {
  std::string root;
  Exchange exchange;
  std::vector<Fault> faults;
  std::vector<FileOperation> operations;
  std::map<std::string, int> opened;
  int calls = 0;
  std::vector<std::string> failed_calls;
};
State* recording = nullptr;

template <class F>
F* libc(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

std::string path_of(int descriptor) {
  char target[4096];
  const auto length =
      ::readlink(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), target, sizeof(target));
  return length > 0 ? std::string(target, static_cast<std::size_t>(length)) : "";
}

std::string path_in(int folder, const char* name) {
  return name[0] == '/'
             ? name
             : (folder == AT_FDCWD ? std::filesystem::current_path().string() : path_of(folder)) +
                   "/" + name;
}

bool watched(const std::string& path) {
  return recording && (path + "/").starts_with(recording->root + "/");
}

/// The fault of the current call, or null.
const Fault* fault_of_this_call() {
  for (const Fault& fault : recording->faults)
    if (fault.call == recording->calls) return &fault;
  return nullptr;
}

/// Counts a call and returns whether it fails.
bool goes_wrong(const char* call, const std::string& path) {
  if (!watched(path)) return false;
  ++recording->calls;
  const Fault* fault = fault_of_this_call();
  if (!fault || fault->error == Fault::short_write) return false;
  recording->failed_calls.push_back(call);
  errno = fault->error;
  return true;
}

void record(FileOperation operation) {
  if (!watched(operation.path)) return;
  const auto relative = [](std::string& path) {
    if (!path.empty()) path.erase(0, recording->root.size() + 1);
  };
  relative(operation.path);
  relative(operation.target);
  recording->operations.push_back(std::move(operation));
}

int open_at(int folder, const char* name, int flags, mode_t mode) {
  static auto* const real = libc<int(int, const char*, int, ...)>("openat");
  const std::string path = path_in(folder, name);
  if (goes_wrong("open", path)) return -1;
  const int descriptor = real(folder, name, flags, mode);
  if (descriptor >= 0 && watched(path)) ++recording->opened[path];
  if (descriptor >= 0 && flags & O_CREAT) record({Kind::create, path});
  return descriptor;
}

int remove_at(int folder, const char* name, int flags) {
  static auto* const real = libc<int(int, const char*, int)>("unlinkat");
  const std::string path = path_in(folder, name);
  if (goes_wrong("unlink", path)) return -1;
  const int result = real(folder, name, flags);
  if (result == 0) record({Kind::remove, path});
  return result;
}

int rename_at(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  static auto* const real = libc<int(int, const char*, int, const char*, unsigned)>("renameat2");
  const std::string path = path_in(from_folder, from);
  const bool exchanges = (flags & RENAME_EXCHANGE) != 0;
  if (exchanges && watched(path) && recording->exchange == Exchange::impossible) {
    errno = EINVAL;
    return -1;
  }
  if (goes_wrong("rename", path)) return -1;
  const int result = real(from_folder, from, to_folder, to, flags);
  if (result == 0)
    record({exchanges ? Kind::exchange : Kind::rename, path, path_in(to_folder, to)});
  return result;
}

ssize_t read_at(int descriptor, void* buffer, std::size_t size, off_t offset) {
  static auto* const real = libc<ssize_t(int, void*, std::size_t, off_t)>("pread");
  return goes_wrong("read", path_of(descriptor)) ? -1 : real(descriptor, buffer, size, offset);
}

mode_t mode_of(int flags, std::va_list arguments) {
  return flags & O_CREAT ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

}  // namespace

FileRecorder::FileRecorder(std::filesystem::path root, Exchange exchange,
                           std::vector<Fault> faults) {
  if (recording) throw std::logic_error("one FileRecorder at a time");
  recording = new State{
      std::filesystem::canonical(root).string(), exchange, std::move(faults), {}, {}, 0, {}};
}
FileRecorder::~FileRecorder() {
  delete recording;
  recording = nullptr;
}
void FileRecorder::acknowledge(std::int64_t save) {
  recording->operations.push_back({Kind::acknowledge, "", "", 0, "", save});
}
const std::vector<FileOperation>& FileRecorder::operations() const { return recording->operations; }
int FileRecorder::calls() const { return recording->calls; }
int FileRecorder::opened(const std::string& path) const {
  return recording->opened[recording->root + "/" + path];
}
const std::vector<std::string>& FileRecorder::failed_calls() const {
  return recording->failed_calls;
}

}  // namespace nystrom::testing

// ---- Replacements of libc's functions -----------------------------------------------------------

using namespace nystrom::testing;

extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at(AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at(folder, path, flags, mode);
}

ssize_t write(int descriptor, const void* data, std::size_t size) {
  static auto* const real = libc<ssize_t(int, const void*, std::size_t)>("write");
  if (!recording) return real(descriptor, data, size);
  const std::string path = path_of(descriptor);
  if (goes_wrong("write", path)) return -1;
  if (watched(path) && fault_of_this_call() && size > 1) {  // a short write
    recording->failed_calls.push_back("write");
    size /= 2;
  }
  const auto offset = ::lseek(descriptor, 0, SEEK_CUR);
  const ssize_t written = real(descriptor, data, size);
  if (written > 0)
    record({Kind::write, path, "", offset,
            std::string(static_cast<const char*>(data), static_cast<std::size_t>(written))});
  return written;
}

ssize_t pread(int descriptor, void* buffer, std::size_t size, off_t offset) {
  return read_at(descriptor, buffer, size, offset);
}
ssize_t pread64(int descriptor, void* buffer, std::size_t size, off_t offset) {
  return read_at(descriptor, buffer, size, offset);
}
ssize_t __pread_chk(int descriptor, void* buffer, std::size_t size, off_t offset, std::size_t) {
  return read_at(descriptor, buffer, size, offset);
}

int posix_fallocate(int descriptor, off_t offset, off_t size) {
  static auto* const real = libc<int(int, off_t, off_t)>("posix_fallocate");
  const std::string path = path_of(descriptor);
  if (goes_wrong("fallocate", path)) return errno;
  const int result = real(descriptor, offset, size);
  if (result == 0)
    record({Kind::write, path, "", offset, std::string(static_cast<std::size_t>(size), '\0')});
  return result;
}

int fsync(int descriptor) {
  const std::string path = path_of(descriptor);
  if (goes_wrong("fsync", path)) return -1;
  struct stat status {};
  const int result = ::fstat(descriptor, &status);
  if (result == 0) record({S_ISDIR(status.st_mode) ? Kind::sync_folder : Kind::sync_file, path});
  return result;
}

int flock(int descriptor, int operation) {
  static auto* const real = libc<int(int, int)>("flock");
  return goes_wrong("flock", path_of(descriptor)) ? -1 : real(descriptor, operation);
}

int close(int descriptor) {
  static auto* const real = libc<int(int)>("close");
  const bool wrong = recording && goes_wrong("close", path_of(descriptor));
  const int error = errno;
  const int result = real(descriptor);  // Linux closes it even after an error
  if (wrong) errno = error;
  return wrong ? -1 : result;
}

int mkdir(const char* name, mode_t mode) {
  static auto* const real = libc<int(const char*, mode_t)>("mkdir");
  const std::string path = path_in(AT_FDCWD, name);
  if (goes_wrong("mkdir", path)) return -1;
  const int result = real(name, mode);
  if (result == 0) record({Kind::make_folder, path});
  return result;
}

int rename(const char* from, const char* to) { return rename_at(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  return rename_at(from_folder, from, to_folder, to, flags);
}
int unlink(const char* path) { return remove_at(AT_FDCWD, path, 0); }
int rmdir(const char* path) { return remove_at(AT_FDCWD, path, AT_REMOVEDIR); }
int unlinkat(int folder, const char* path, int flags) { return remove_at(folder, path, flags); }

}  // extern "C"
