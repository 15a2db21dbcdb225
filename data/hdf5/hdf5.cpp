#include "data/hdf5/hdf5.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/hdf5/hdf5_library.h"

namespace nystrom {
namespace {

/// Bytes of an array to bytes of the file. Deflate packs at most about as well.
constexpr std::int64_t max_ratio = 1000;

/// Throws an InputError with the reason of the library's failure. `what` names the file, and what
/// of it.
[[noreturn]] void fail(const std::string& what) {
  if (read_error()) std::rethrow_exception(std::exchange(read_error(), nullptr));
  const std::string reason = printable(library_reason());  // first: the next call forgets it
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  throw InputError(fmt::format(
      "{} cannot be read: {}; the file is damaged, or of a form that HDF5 {}.{}.{} does not know",
      what, reason, major, minor, release));
}

/// Deletes a state, whose identifiers are closed under the lock.
constexpr auto delete_locked = [](const auto* state) {
  const auto lock = lock_library();
  delete state;
};

/// Refuses to follow a link into another file.
herr_t follow_nothing(const char*, const char*, const char*, const char*, unsigned*, hid_t, void*) {
  return -1;
}

/// How arrays are opened.
Id array_access(std::int64_t cache_bytes) {
  Id access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  constexpr std::size_t slots = 12421;  // prime, and many times the number of kept chunks
  H5Pset_chunk_cache(access.get(), slots, static_cast<std::size_t>(cache_bytes), 1);
  H5Pset_elink_cb(access.get(), follow_nothing, nullptr);
  return access;
}

/// Whether all parts of a number lie inside its bytes. The library's conversions take that for
/// granted.
bool has_bounds(hid_t type, H5T_class_t kind) {
  const auto is_part = [](std::size_t first, std::size_t count, std::size_t bits) {
    return count > 0 && first < bits && count <= bits - first;
  };
  const std::size_t bytes = H5Tget_size(type),
                    first = static_cast<std::size_t>(H5Tget_offset(type)),
                    count = H5Tget_precision(type);
  if (bytes > 16 || !is_part(first, count, 8 * bytes)) return false;
  if (kind == H5T_INTEGER) return true;
  std::size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
  return H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) >= 0 &&
         is_part(sign, 1, count) && is_part(exponent, exponent_bits, count) &&
         is_part(mantissa, mantissa_bits, count);
}

/// The half-precision numbers of IEEE 754, of which the library has no name before 1.14.4.
hid_t half_type() {
  static const hid_t half = [] {
    const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    H5Tset_fields(type, 15, 10, 5, 0, 10);
    H5Tset_size(type, 2);
    H5Tset_ebias(type, 15);
    return type;
  }();
  return half;
}

/// Whether a type is half_type() in either order of bytes.
bool is_half_type(hid_t type) {
  const Id little_endian(H5Tcopy(type), H5Tclose);
  return H5Tget_size(type) == 2 && H5Tset_order(little_endian.get(), H5T_ORDER_LE) >= 0 &&
         H5Tequal(little_endian.get(), half_type()) > 0;
}

/// "u16", "f64", …; `what` names the array.
std::string type_name(hid_t type, const std::string& what) {
  static constexpr const char* kinds[] = {"integers",
                                          "floating-point numbers",
                                          "times",
                                          "strings",
                                          "bit fields",
                                          "opaque values",
                                          "compound values",
                                          "references",
                                          "enums (such as NumPy's bool)",
                                          "variable-length values",
                                          "arrays"};
  const H5T_class_t kind = H5Tget_class(type);
  require_input(kind == H5T_INTEGER || kind == H5T_FLOAT,
                "{}: the elements are {}; only integers and floating-point numbers are read", what,
                kind >= 0 && kind < static_cast<int>(std::size(kinds)) ? kinds[kind] : "unknown");
  require_input(has_bounds(type, kind), "{}: its type has bits outside of it: the file is damaged",
                what);
  const char letter = kind == H5T_FLOAT ? 'f' : H5Tget_sign(type) == H5T_SGN_NONE ? 'u' : 'i';
  return letter + std::to_string(8 * H5Tget_size(type));
}

/// The shape of a data space; `what` names the array.
std::vector<std::int64_t> shape_of(hid_t space, std::int64_t element_bytes,
                                   const std::string& what) {
  require_input(H5Sget_simple_extent_type(space) != H5S_NULL, "{}: it is empty", what);
  hsize_t sizes[H5S_MAX_RANK];
  const int rank = H5Sget_simple_extent_dims(space, sizes, nullptr);
  if (rank < 0) fail(what);
  std::vector<std::int64_t> shape;
  std::int64_t bytes = element_bytes;
  for (int axis = 0; axis < rank; ++axis) {
    shape.push_back(static_cast<std::int64_t>(sizes[axis]));
    const bool fits =
        sizes[axis] < (hsize_t{1} << 62) &&
        !__builtin_mul_overflow(bytes, std::max<std::int64_t>(shape.back(), 1), &bytes);
    require_input(fits, "{}: its sizes overflow: the file is damaged", what);
  }
  return shape;
}

/// The chunk's shape; empty without chunks.
std::vector<std::int64_t> chunk_of(hid_t creation, std::size_t rank, std::int64_t element_bytes,
                                   const std::string& what) {
  if (H5Pget_layout(creation) != H5D_CHUNKED) return {};
  hsize_t sizes[H5S_MAX_RANK];
  if (H5Pget_chunk(creation, H5S_MAX_RANK, sizes) != static_cast<int>(rank)) fail(what);
  std::vector<std::int64_t> chunk(sizes, sizes + rank);  // 32-bit numbers in the file
  std::int64_t bytes = element_bytes;
  for (const std::int64_t size : chunk) {
    require_input(size > 0 && size <= max_chunk_bytes / bytes,
                  "{}: its chunks have [{}] elements of {} bytes; at most {} MiB are read", what,
                  fmt::join(chunk, ", "), element_bytes, max_chunk_bytes >> 20);
    bytes *= size;
  }
  return chunk;
}

}  // namespace

// ---- Arrays -------------------------------------------------------------------------------------

struct Hdf5Array::State {
  std::string name, where, type;  // where: the file and the name, for messages
  std::vector<std::int64_t> shape, chunk;
  std::vector<Filter> filters;
  std::size_t chunk_bytes = 0;
  bool half = false, packs_edges = true;
  std::vector<double> missing{};  // the numbers that stand for none
  Id id;
  mutable std::unordered_set<hsize_t> checked;  // chunks, by their number

  /// Throws an InputError if the chunk at this element, one of its first, is stored but does not
  /// unpack to its full size. The library takes for granted that it does.
  void check_chunk(const std::vector<hsize_t>& at) const {
    hsize_t stored = 0;
    if (H5Dget_chunk_storage_size(id.get(), at.data(), &stored) < 0) {
      // HDF5 1.10 fails at a chunk behind filters that was never written. This knows it, slowly: it
      // looks at all chunks.
      haddr_t place = HADDR_UNDEF;
      unsigned mask = 0;
      if (H5Dget_chunk_info_by_coord(id.get(), at.data(), &mask, &place, &stored) < 0) fail(where);
    }
    if (stored == 0) return;  // never written: its elements are the fill value
    bool packed = true;
    for (std::size_t axis = 0; axis < at.size(); ++axis)
      packed &= packs_edges || static_cast<std::int64_t>(at[axis]) + chunk[axis] <= shape[axis];
    std::size_t bytes = stored;
    if (packed) {
      std::uint32_t skipped = 0;
      std::vector<std::byte> raw(stored);
      if (H5Dread_chunk(id.get(), H5P_DEFAULT, at.data(), &skipped, raw.data()) < 0) fail(where);
      bytes = unpacked_bytes(filters, raw, skipped, chunk_bytes);
    }
    require_input(bytes >= chunk_bytes,
                  "{}: the chunk at [{}] unpacks to {} bytes, expected {}: the file is damaged",
                  where, fmt::join(at, ", "), bytes, chunk_bytes);
  }

  hsize_t stored_chunks() const {
    hsize_t count = 0;
    const Id space(H5Dget_space(id.get()), H5Sclose);
    if (H5Dget_num_chunks(id.get(), space.get(), &count) < 0) fail(where);
    return count;
  }

  /// check_chunk() for the chunks of these elements, each once.
  void check_chunks(std::span<const std::int64_t> first,
                    std::span<const std::int64_t> count) const {
    const std::size_t rank = chunk.size();
    std::vector<hsize_t> at(rank);
    const auto visit = [&](auto&& self, std::size_t axis, hsize_t number) -> void {
      if (axis == rank) {
        if (checked.contains(number)) return;
        check_chunk(at);
        checked.insert(number);
        return;
      }
      const std::int64_t across = (shape[axis] + chunk[axis] - 1) / chunk[axis];
      for (std::int64_t i = first[axis] / chunk[axis]; i * chunk[axis] < first[axis] + count[axis];
           ++i) {
        at[axis] = static_cast<hsize_t>(i * chunk[axis]);
        self(self, axis + 1, number * static_cast<hsize_t>(across) + static_cast<hsize_t>(i));
      }
    };
    visit(visit, 0, 0);
  }

  /// Reads elements as the library's type `as` into `values`.
  void read(std::span<const std::int64_t> first, std::span<const std::int64_t> count, hid_t as,
            void* values) const {
    const std::vector<hsize_t> start(first.begin(), first.end()), size(count.begin(), count.end());
    const auto lock = lock_library();
    if (!chunk.empty() && !filters.empty()) check_chunks(first, count);
    const Id file_space(H5Dget_space(id.get()), H5Sclose),
        memory_space(H5Screate_simple(static_cast<int>(size.size()), size.data(), nullptr),
                     H5Sclose);
    H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, size.data(),
                        nullptr);
    if (H5Dread(id.get(), as, memory_space.get(), file_space.get(), H5P_DEFAULT, values) < 0)
      fail(where);
  }

  void require_present(std::span<const double> values) const {
    for (const double each : missing)
      require_input(std::ranges::find(values, each) == values.end(),
                    "{}: holds {}, which its attributes call missing; leave such rows out, or fill "
                    "them",
                    where, each);
  }

  void require_inside(std::span<const std::int64_t> first, std::span<const std::int64_t> count,
                      std::size_t elements) const {
    bool inside = !shape.empty() && first.size() == shape.size() && count.size() == shape.size();
    std::size_t all = 1;
    for (std::size_t axis = 0; inside && axis < shape.size(); ++axis) {
      inside = first[axis] >= 0 && count[axis] >= 0 && first[axis] <= shape[axis] &&
               count[axis] <= shape[axis] - first[axis];
      all *= static_cast<std::size_t>(count[axis]);
    }
    require(inside && all == elements, "Hdf5Array: {} [{}] has no {} elements at [{}]", name,
            fmt::join(shape, ", "), elements, fmt::join(first, ", "));
  }
};

const std::string& Hdf5Array::name() const { return state_->name; }
const std::vector<std::int64_t>& Hdf5Array::shape() const { return state_->shape; }
const std::string& Hdf5Array::type() const { return state_->type; }
std::int64_t Hdf5Array::chunk_size(std::size_t axis) const {
  return state_->chunk.empty() ? 0 : state_->chunk[axis];
}

bool Hdf5Array::has_fragile_filters() const { return has_fragile(state_->filters); }
bool Hdf5Array::is_half() const { return state_->half; }

bool Hdf5Array::is_complete() const {
  const State& s = *state_;
  if (s.chunk.empty()) return true;
  hsize_t expected = 1;
  for (std::size_t axis = 0; axis < s.shape.size(); ++axis)
    expected *= static_cast<hsize_t>((s.shape[axis] + s.chunk[axis] - 1) / s.chunk[axis]);
  const auto lock = lock_library();
  return s.stored_chunks() == expected;
}

void Hdf5Array::read(std::span<const std::int64_t> first, std::span<const std::int64_t> count,
                     std::span<double> values) const {
  state_->require_inside(first, count, values.size());
  if (!values.empty()) state_->read(first, count, H5T_NATIVE_DOUBLE, values.data());
  state_->require_present(values);
}

void Hdf5Array::read(std::span<const std::int64_t> first, std::span<const std::int64_t> count,
                     std::span<f16> values) const {
  state_->require_inside(first, count, values.size());
  require(state_->half, "Hdf5Array: {} holds {}, read as f16", state_->name, state_->type);
  if (!values.empty()) state_->read(first, count, half_type(), values.data());
  if (state_->missing.empty()) return;
  std::vector<double> wide;
  for (const f16 value : values) wide.push_back(static_cast<float>(value));
  state_->require_present(wide);
}

void Hdf5Array::read(std::int64_t first, StoredInteger as, std::span<std::byte> values) const {
  const std::int64_t count = static_cast<std::int64_t>(values.size()) / size_of(as);
  state_->require_inside({&first, 1}, {&count, 1},
                         values.size() / static_cast<std::size_t>(size_of(as)));
  if (!values.empty()) state_->read({&first, 1}, {&count, 1}, library_type(as), values.data());
}

// ---- Files --------------------------------------------------------------------------------------

struct Hdf5File::State {
  std::shared_ptr<const InputFile> input;
  Id id;
};

/// Throws an InputError if a writer has the file open, or was killed: what it wrote last is
/// missing. The library asks for this mark only of its own drivers.
static void require_closed(const InputFile& file) {
  constexpr std::int64_t version_at = 8, marks_at = 11;  // of a superblock
  constexpr auto open_for_writing = std::byte{1};
  std::array<std::byte, marks_at + 1> begin{};
  if (file.size() < std::ssize(begin)) return;
  file.read(begin, 0);
  require_input(std::memcmp(begin.data(), "\x89HDF", 4) != 0 || begin[version_at] < std::byte{3} ||
                    (begin[marks_at] & open_for_writing) == std::byte{0},
                "{}: is open for writing, or its writer was killed; let the writer close it, or "
                "clear the mark with h5clear -s if the file is whole",
                printable_path(file.path()));
}

Hdf5File::Hdf5File(std::shared_ptr<const InputFile> file) {
  const std::shared_ptr<State> state(new State{std::move(file), {}}, delete_locked);
  state_ = state;
  const std::string name = printable_path(state->input->path());
  require_closed(*state->input);
  const auto lock = lock_library();
  const Id access = access_through(state->input);
  state->id = Id(H5Fopen(state->input->path().c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (state->id.valid()) return;
  const std::string reason = library_reason();
  const std::string begin = state->input->text(0, std::min<std::int64_t>(2, state->input->size()));
  require_input(reason != "file signature not found", "{}: not an HDF5 file{}", name,
                begin == "\x1F\x8B" || begin == "PK" ? "; the file is packed: unpack it" : "");
  fail(name + ": the file");
}

/// The members of a file's root group. The caller has the lock.
static std::vector<std::string> names_in(hid_t file, const InputFile& input) {
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5L_info_t*, void* all) -> herr_t {
    static_cast<std::vector<std::string>*>(all)->emplace_back(name);
    return 0;
  };
  if (H5Literate(file, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names) < 0)
    fail(printable_path(input.path()) + ": the root group");
  return names;
}

std::vector<std::string> Hdf5File::names() const {
  const auto lock = lock_library();
  return names_in(state_->id.get(), *state_->input);
}

/// An attribute of an array that is one number.
static std::optional<double> attribute(hid_t array, const char* name) {
  if (H5Aexists(array, name) <= 0) return {};
  const Id id(H5Aopen(array, name, H5P_DEFAULT), H5Aclose);
  if (!id.valid()) return {};
  const Id type(H5Aget_type(id.get()), H5Tclose), space(H5Aget_space(id.get()), H5Sclose);
  const H5T_class_t kind = H5Tget_class(type.get());
  double value = 0;
  const bool number = (kind == H5T_INTEGER || kind == H5T_FLOAT) &&
                      H5Sget_simple_extent_npoints(space.get()) == 1 &&
                      H5Aread(id.get(), H5T_NATIVE_DOUBLE, &value) >= 0;
  return number ? std::optional(value) : std::nullopt;
}

std::optional<Hdf5Array> Hdf5File::find(const std::string& name, std::int64_t cache_bytes) const {
  const std::string where =
      fmt::format("{}: '{}'", printable_path(state_->input->path()), printable(name));
  const hid_t file = state_->id.get();
  const std::shared_ptr<Hdf5Array::State> array(new Hdf5Array::State, delete_locked);
  const auto lock = lock_library();
  const htri_t exists = H5Lexists(file, name.c_str(), H5P_DEFAULT);
  if (exists < 0) fail(where);
  if (exists == 0) {
    // In a damaged group the search may pass over a name that the list has.
    const std::vector<std::string> listed = names_in(file, *state_->input);
    require_input(std::ranges::find(listed, name) == listed.end(),
                  "{}: its group lists it, and does not find it: the file is damaged", where);
    return {};
  }
  H5L_info_t link;
  if (H5Lget_info(file, name.c_str(), &link, H5P_DEFAULT) < 0) fail(where);
  require_input(link.type == H5L_TYPE_HARD || link.type == H5L_TYPE_SOFT,
                "{}: it lies in another file, which is not read; copy it into this file", where);
  array->name = name;
  array->where = where;
  const Id access = array_access(cache_bytes);
  array->id = Id(H5Dopen2(file, name.c_str(), access.get()), H5Dclose);
  if (!array->id.valid()) {
    require_input(library_reason() != "not a dataset", "{}: is a group, expected an array", where);
    fail(where);
  }
  const Id creation(H5Dget_create_plist(array->id.get()), H5Pclose),
      type(H5Dget_type(array->id.get()), H5Tclose);
  require_input(
      H5Pget_layout(creation.get()) != H5D_VIRTUAL && H5Pget_external_count(creation.get()) == 0,
      "{}: external and virtual storage are not read; copy the data into an array of its own",
      where);
  // The conventions of netCDF, which other readers apply.
  const double scale = attribute(array->id.get(), "scale_factor").value_or(1),
               offset = attribute(array->id.get(), "add_offset").value_or(0);
  require_input(scale == 1 && offset == 0,
                "{}: its numbers are packed (scale_factor {}, add_offset {}); write them unpacked",
                where, scale, offset);
  for (const char* key : {"_FillValue", "missing_value"})
    if (const auto missing = attribute(array->id.get(), key)) array->missing.push_back(*missing);
  array->filters = filters_of(creation.get(), where);
  array->type = type_name(type.get(), where);
  array->half = is_half_type(type.get());
  const auto element_bytes = static_cast<std::int64_t>(H5Tget_size(type.get()));
  const Id space(H5Dget_space(array->id.get()), H5Sclose);
  array->shape = shape_of(space.get(), element_bytes, where);
  array->chunk = chunk_of(creation.get(), array->shape.size(), element_bytes, where);
  array->chunk_bytes = static_cast<std::size_t>(
      std::accumulate(array->chunk.begin(), array->chunk.end(), element_bytes, std::multiplies()));
  unsigned options = 0;
  H5Pget_chunk_opts(creation.get(), &options);
  array->packs_edges = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) == 0;
  const std::int64_t elements =
      std::accumulate(array->shape.begin(), array->shape.end(), std::int64_t{1}, std::multiplies());
  if (elements > 0 && H5Dget_storage_size(array->id.get()) == 0) {  // of damaged files too
    if (!library_reason().empty()) fail(where);
    throw InputError(where + ": nothing was written into it");
  }
  const bool plain_chunks = !array->chunk.empty() && array->filters.empty();
  require_input(!plain_chunks || H5Dget_storage_size(array->id.get()) ==
                                     array->stored_chunks() * array->chunk_bytes,
                "{}: its chunks do not have {} bytes each: the file is damaged", where,
                array->chunk_bytes);
  require_input(elements * element_bytes / max_ratio <= state_->input->size(),
                "{}: declares {} bytes in a file of {}; at most {} times as many are read", where,
                elements * element_bytes, state_->input->size(), max_ratio);
  return Hdf5Array(array);
}

}  // namespace nystrom
