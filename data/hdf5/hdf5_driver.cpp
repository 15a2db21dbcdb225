// How the HDF5 library reads a file: through the descriptor that was opened and checked. By its
// path it could open another file, and a file that it has open it would not read anew: it takes the
// structure of one that was overwritten in place for that of the file before.
#include <hdf5.h>
#if __has_include(<H5FDdevelop.h>)  // HDF5 1.14
#include <H5FDdevelop.h>
#endif

#include <algorithm>
#include <cstring>
#include <new>

#include "data/hdf5/hdf5_library.h"

namespace nystrom {
namespace {

/// The data that the library copies from the property list to open_file().
struct Source {
  const std::shared_ptr<const InputFile>* input;
};

struct OpenFile : H5FD_t {
  std::shared_ptr<const InputFile> input;
  haddr_t addressed = 0;  // the end of what the library may address, which it sets
};

OpenFile& of(H5FD_t* file) { return *static_cast<OpenFile*>(file); }

const OpenFile& of(const H5FD_t* file) { return *static_cast<const OpenFile*>(file); }

H5FD_t* open_file(const char*, unsigned, hid_t access, haddr_t) {
  const auto* source = static_cast<const Source*>(H5Pget_driver_info(access));
  if (source == nullptr) return nullptr;
  auto* file = new (std::nothrow) OpenFile{};
  if (file != nullptr) file->input = *source->input;
  return file;
}

herr_t close_file(H5FD_t* file) {
  delete &of(file);
  return 0;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  if (flags != nullptr) *flags = H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE;
  return 0;
}

haddr_t addressed(const H5FD_t* file, H5FD_mem_t) { return of(file).addressed; }

herr_t set_addressed(H5FD_t* file, H5FD_mem_t, haddr_t end) {
  of(file).addressed = end;
  return 0;
}

haddr_t file_end(const H5FD_t* file, H5FD_mem_t) {
  return static_cast<haddr_t>(of(file).input->size());
}

/// Reads zeros behind the end of the file, as the library's own drivers do.
herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t place, std::size_t size, void* buffer) {
  const InputFile& input = *of(file).input;
  const auto end = static_cast<haddr_t>(input.size());
  const std::size_t present = place >= end ? 0 : std::min<haddr_t>(size, end - place);
  auto* bytes = static_cast<std::byte*>(buffer);
  std::memset(bytes + present, 0, size - present);
  try {
    input.read({bytes, present}, static_cast<std::int64_t>(place));
    return 0;
  } catch (...) {  // the library's functions are C
    read_error() = std::current_exception();
    return -1;
  }
}

herr_t write_nothing(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, std::size_t, const void*) { return -1; }

hid_t register_driver() {
  static H5FD_class_t driver{};
#ifdef H5FD_CLASS_VERSION
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(511);  // of those for private use
#endif
  driver.name = "nystrom";
  driver.maxaddr = (haddr_t{1} << 63) - 1;
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.fapl_size = sizeof(Source);
  driver.open = open_file;
  driver.close = close_file;
  driver.query = query;  // no cmp: two open files are never the same
  driver.get_eoa = addressed;
  driver.set_eoa = set_addressed;
  driver.get_eof = file_end;
  driver.read = read;
  driver.write = write_nothing;
  return H5FDregister(&driver);
}

}  // namespace

std::exception_ptr& read_error() {
  static thread_local std::exception_ptr error;
  return error;
}

Id access_through(const std::shared_ptr<const InputFile>& input) {
  static const hid_t driver = register_driver();
  const Source source{&input};
  Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_driver(access.get(), driver, &source);
  return access;
}

}  // namespace nystrom
