#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/hdf5/hdf5.h"
#include "data/hdf5/hdf5_library.h"

namespace nystrom {

struct Hdf5Writer::State {
  struct Array {
    StoredInteger type;
    std::int64_t rows, max_rows;
    Id id;
  };
  Id file;
  std::map<std::string, Array> arrays;  // closed before the file
};

Hdf5Writer::Hdf5Writer(std::filesystem::path path)
    : path_(std::move(path)), state_(std::make_unique<State>()) {
  temporary_ = temporary_name(path_);
  const auto lock = lock_library();
  // The format of HDF5 1.10, even with a newer library.
  const Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose),
      creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110);
  // Other processes do not know the name, and some network disks cannot lock.
  H5Pset_file_locking(access.get(), false, true);
  H5Pset_obj_track_times(creation.get(), false);
  state_->file =
      Id(H5Fcreate(temporary_.c_str(), H5F_ACC_EXCL, creation.get(), access.get()), H5Fclose);
  if (state_->file.valid()) return;
  ::unlink(temporary_.c_str());
  fail("cannot create");
}

Hdf5Writer::~Hdf5Writer() {
  if (state_ == nullptr) return;
  {
    const auto lock = lock_library();
    state_.reset();
  }
  ::unlink(temporary_.c_str());
}

void Hdf5Writer::fail(const std::string& action) const {
  const std::string reason = library_reason();
  throw InputError(
      fmt::format("{}: {}{}{}", printable_path(path_), action, reason.empty() ? "" : ": ", reason));
}

void Hdf5Writer::add(const std::string& name, StoredInteger type, std::int64_t chunk_rows,
                     std::int64_t max_rows) {
  require(chunk_rows > 0 && max_rows >= 0 && chunk_rows * size_of(type) <= max_chunk_bytes,
          "Hdf5Writer: cannot add array {} of {} rows in chunks of {}", name, max_rows, chunk_rows);
  require(!state_->arrays.contains(name), "Hdf5Writer: a second array {}", name);
  const auto lock = lock_library();
  // More than one chunk always: for a single one the library would use another index.
  const hsize_t none = 0, most = static_cast<hsize_t>(std::max(max_rows, chunk_rows + 1)),
                chunk = static_cast<hsize_t>(chunk_rows);
  const Id space(H5Screate_simple(1, &none, &most), H5Sclose),
      creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_chunk(creation.get(), 1, &chunk);
  H5Pset_shuffle(creation.get());
  H5Pset_deflate(creation.get(), 1);
  H5Pset_fletcher32(creation.get());
  H5Pset_obj_track_times(creation.get(), false);
  H5Pset_fill_time(creation.get(), H5D_FILL_TIME_ALLOC);  // no stale memory after the last row
  Id id(H5Dcreate2(state_->file.get(), name.c_str(), library_type(type), space.get(), H5P_DEFAULT,
                   creation.get(), H5P_DEFAULT),
        H5Dclose);
  if (!id.valid()) fail("cannot create the array " + name);
  state_->arrays.emplace(name, State::Array{type, 0, max_rows, std::move(id)});
}

void Hdf5Writer::add_numbers(const std::string& name, std::span<const double> values,
                             std::int64_t columns, bool integers) {
  const auto width = static_cast<hsize_t>(std::max<std::int64_t>(columns, 1));
  require(values.size() % width == 0, "Hdf5Writer: {} numbers in {} columns", values.size(), width);
  const hsize_t shape[] = {values.size() / width, width};
  const auto lock = lock_library();
  const Id space(H5Screate_simple(columns == 0 ? 1 : 2, shape, nullptr), H5Sclose),
      creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation.get(), false);
  const hid_t type = integers ? H5T_STD_I64LE : H5T_IEEE_F64LE;
  const Id id(H5Dcreate2(state_->file.get(), name.c_str(), type, space.get(), H5P_DEFAULT,
                         creation.get(), H5P_DEFAULT),
              H5Dclose);
  if (!id.valid()) fail("cannot create the array " + name);
  if (H5Dwrite(id.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0)
    fail("cannot write");
}

void Hdf5Writer::append(const std::string& name, std::span<const std::byte> values) {
  const auto found = state_->arrays.find(name);
  require(found != state_->arrays.end(), "Hdf5Writer: no array {}", name);
  State::Array& array = found->second;
  const auto count = static_cast<std::int64_t>(values.size()) / size_of(array.type);
  require(count * size_of(array.type) == static_cast<std::int64_t>(values.size()) &&
              array.rows + count <= array.max_rows,
          "Hdf5Writer: {} more bytes do not fit array {}", values.size(), name);
  if (count == 0) return;
  const auto lock = lock_library();
  const auto first = static_cast<hsize_t>(array.rows), rows = static_cast<hsize_t>(count),
             total = first + rows;
  array.rows += count;
  if (H5Dset_extent(array.id.get(), &total) < 0) fail("cannot extend the array " + name);
  const Id file_space(H5Dget_space(array.id.get()), H5Sclose),
      memory_space(H5Screate_simple(1, &rows, nullptr), H5Sclose);
  H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, &first, nullptr, &rows, nullptr);
  if (H5Dwrite(array.id.get(), library_type(array.type), memory_space.get(), file_space.get(),
               H5P_DEFAULT, values.data()) < 0) {
    fail("cannot write");
  }
}

void Hdf5Writer::commit() {
  {
    const auto lock = lock_library();
    for (auto& [name, array] : state_->arrays) {
      if (!array.id.close()) fail("cannot write");
    }
    if (!state_->file.close()) fail("cannot write");
  }
  Descriptor file(::open(temporary_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  require_success(file.is_open(), path_, "cannot open");
  put_in_place(file, temporary_, path_);
  state_.reset();
}

}  // namespace nystrom
