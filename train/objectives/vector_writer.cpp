#include "train/objectives/vector_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/file_io.h"
#include "core/base/json.h"
#include "core/base/new_folder.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "core/safetensors_header.h"
#include "data/text/match_files.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const std::string unknown_checksum(32, '0');

/// The header of an npy file: 128 bytes.
std::string npy_header(const VectorMatrix& matrix) {
  constexpr std::size_t size = 128, before = 10;
  std::string text = fmt::format("{{'descr': '<f{}', 'fortran_order': False, 'shape': ({}, {}), }}",
                                 size_of(matrix.dtype), matrix.rows, matrix.width);
  text.resize(size - before - 1, ' ');
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(size - before);
  header += '\0';
  return header + text + '\n';
}

/// The header of a safetensors file whose data has this checksum of 32 digits. Its length does not
/// depend on the checksum.
std::string safetensors_header(const VectorMatrix& matrix, const std::string& checksum) {
  SafetensorsHeader header;
  header.metadata["format"] = "pt";
  header.tensors.push_back({vectors_tensor,
                            matrix.dtype,
                            {matrix.rows, matrix.width},
                            0,
                            matrix.rows * matrix.row_bytes(),
                            checksum});
  return safetensors_header_bytes(header);
}

/// The bytes before the vectors.
std::string header_of(VectorFormat format, const VectorMatrix& matrix,
                      const std::string& checksum) {
  if (format == VectorFormat::npy) return npy_header(matrix);
  return format == VectorFormat::safetensors ? safetensors_header(matrix, checksum) : "";
}

}  // namespace

VectorFormat vector_format_of(const std::filesystem::path& path) {
  const std::string ending = last_ending(path);
  if (ending == ".npy") return VectorFormat::npy;
  if (ending == ".safetensors") return VectorFormat::safetensors;
  require_input(ending == ".jsonl",
                "{}: its ending tells no form of vectors; expected .npy, .safetensors or .jsonl",
                printable_path(path));
  return VectorFormat::jsonl;
}

std::string vector_line(const Example& example, std::span<const float> vector) {
  const auto quoted = [](const std::string& text) { return nlohmann::json(text).dump(); };
  std::string line = "{";
  if (example.whole_file) {
    line += "\"document\": " + quoted(example.id);
  } else {
    if (example.named) line += "\"id\": " + quoted(example.id) + ", ";
    line += "\"text\": " + quoted(example.text);
  }
  return line + fmt::format(", \"vector\": [{}]}}\n", fmt::join(vector, ", "));
}

Tensor rounded_vectors(const Tensor& vectors, DType dtype) {
  if (dtype == DType::f32) return vectors;
  const float* const values = vectors.data<float>();
  for (std::int64_t i = 0; i < vectors.numel(); ++i)
    require_input(std::abs(values[i]) < 65520,
                  "a vector holds {}, and f16 ends at 65504; use --dtype f32", values[i]);
  return vectors.cast(DType::f16);
}

void require_new_file(const fs::path& path) {
  std::error_code error;
  require_input(!fs::exists(fs::symlink_status(path, error)),
                "{}: exists already; remove it, or give --output another name",
                printable_path(path));
}

/// The file PATH.partial, which becomes PATH. It is locked while the object lives. Every failure is
/// an InputError that names the file and the cause. The destructor leaves PATH.partial, so that
/// another run can go on; it removes one that this object made and left empty.
class VectorWriter::File {
 public:
  /// Opens or creates PATH.partial. Throws an InputError when PATH exists or another process writes
  /// it.
  explicit File(const fs::path& path) : partial(path.string() + ".partial"), path_(path) {
    require_new_file(path_);
    constexpr int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    descriptor_ = Descriptor(::open(partial.c_str(), flags | O_EXCL, 0666));
    made_ = descriptor_.is_open();
    if (!made_) descriptor_ = Descriptor(::open(partial.c_str(), flags, 0666));
    require_success(descriptor_.is_open(), partial, "cannot create");
    struct stat status {};
    const bool regular = ::fstat(descriptor_.get(), &status) == 0 && S_ISREG(status.st_mode);
    const bool locked = regular && ::flock(descriptor_.get(), LOCK_EX | LOCK_NB) == 0;
    const int error = errno;
    if (locked) {
      const std::string state = partial.filename().string() + ".json";
      std::error_code ignored;
      for (const fs::path& left : leftover_files(parent_of(partial), {{state}}))
        fs::remove(left, ignored);
      return;
    }
    throw InputError(fmt::format(
        "{}: {}", printable_path(partial),
        !regular              ? "is not a regular file"
        : has_no_locks(error) ? "cannot be locked; name a file on a file system with locks (flock)"
                              : "another process writes it"));
  }
  ~File() {
    struct stat status {};
    if (made_ && descriptor_.is_open() && ::fstat(descriptor_.get(), &status) == 0 &&
        status.st_size == 0)
      ::unlink(partial.c_str());
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const fs::path partial;

  /// The bytes that are there.
  std::int64_t size() const {
    struct stat status {};
    require_success(::fstat(descriptor_.get(), &status) == 0, partial, "cannot be examined");
    return status.st_size;
  }
  /// Drops the bytes from `size` on.
  void truncate(std::int64_t size) {
    require_success(::ftruncate(descriptor_.get(), size) == 0, partial, "cannot truncate");
  }
  /// Writes bytes from `offset` on.
  void write(std::span<const std::byte> bytes, std::int64_t offset) {
    const bool written = ::lseek(descriptor_.get(), offset, SEEK_SET) == offset &&
                         write_all(descriptor_.get(), bytes);
    require_success(written, partial, "cannot write");
  }
  /// Makes all bytes durable.
  void sync() { require_success(::fsync(descriptor_.get()) == 0, partial, "cannot make durable"); }
  /// Gives the file its name, durably.
  void commit() { put_in_place(descriptor_, partial, path_); }

 private:
  fs::path path_;
  Descriptor descriptor_;
  bool made_ = false;  // by this object
};

VectorWriter::VectorWriter(const fs::path& path, VectorJob job)
    : state_path_(path.string() + ".partial.json"),
      job_(std::move(job)),
      format_(vector_format_of(path)),
      file_(std::make_unique<File>(path)) {
  if (resume()) return;
  save_state();  // first, because a PATH.partial without it belongs to others
  const std::string header = header_of(format_, job_.matrix, unknown_checksum);
  file_->truncate(0);
  file_->write(std::as_bytes(std::span(header)), 0);
  bytes_ = std::ssize(header);
  save_state();
}

VectorWriter::~VectorWriter() = default;

/// Goes on with PATH.partial. Returns false if there is none, or nothing of it is done.
bool VectorWriter::resume() {
  const std::string name = printable_path(file_->partial);
  if (!fs::exists(fs::symlink_status(state_path_))) {
    require_input(
        file_->size() == 0,
        "{}: was not begun by nystrom embed, for {} is missing; move it, or give --output "
        "another name",
        name, printable_path(state_path_));
    return false;
  }
  const nlohmann::json state = read_json_file(state_path_);
  const auto require_same = [&](const char* key, const std::string& value, const char* what) {
    require_input(state.contains(key) && state[key] == value,
                  "{}: was begun with {}; remove it and {}, or give --output another name", name,
                  what, printable_path(state_path_));
  };
  require_input(state.is_object() && state.contains("done") && state.contains("bytes"),
                "{}: is no record of nystrom embed; move it, or give --output another name",
                printable_path(state_path_));
  require_same("model", job_.model, "another model");
  require_same("options", job_.options, "other options");
  require_same("texts", job_.texts, "other texts");
  done_ = json_count(state.at("done"), "done");
  bytes_ = json_count(state.at("bytes"), "bytes");
  require_input(file_->size() >= bytes_ && done_ <= job_.matrix.rows,
                "{}: has {} bytes, and {} says {}; remove both files", name, file_->size(),
                printable_path(state_path_), bytes_);
  if (bytes_ == 0) return false;  // stopped before the header
  file_->truncate(bytes_);
  const std::string header = header_of(format_, job_.matrix, unknown_checksum);
  InputFile::open(file_->partial).add_to(checksum_, std::ssize(header), bytes_);
  require_input(state.value("checksum", "") == checksum_.hex(),
                "{}: is damaged: its vectors have another checksum than {} says; remove both files",
                name, printable_path(state_path_));
  return true;
}

void VectorWriter::save_state() {
  file_->sync();
  write_text_file(state_path_, Json{{"model", job_.model},
                                    {"options", job_.options},
                                    {"texts", job_.texts},
                                    {"done", done_},
                                    {"bytes", bytes_},
                                    {"checksum", checksum_.hex()}}
                                       .dump(2) +
                                   "\n");
}

void VectorWriter::append(std::span<const std::byte> bytes) {
  file_->write(bytes, bytes_);
  checksum_.update(bytes.data(), bytes.size());
  bytes_ += std::ssize(bytes);
}

void VectorWriter::add(std::span<const Example> examples, const Tensor& vectors) {
  const Tensor rounded = rounded_vectors(vectors, job_.matrix.dtype);
  if (format_ == VectorFormat::jsonl) {
    const Tensor values = rounded.cast(DType::f32);
    const auto width = static_cast<std::size_t>(job_.matrix.width);
    std::string lines;
    for (std::size_t i = 0; i < examples.size(); ++i)
      lines += vector_line(examples[i], {values.data<float>() + i * width, width});
    append(std::as_bytes(std::span(lines)));
  } else {
    const CView view = rounded;
    append({static_cast<const std::byte*>(view.data), static_cast<std::size_t>(rounded.bytes())});
  }
  done_ += std::ssize(examples);
  save_state();
}

void VectorWriter::finish() {
  require_input(done_ == job_.matrix.rows,
                "there are {} texts where {} were counted: the files changed while being read",
                done_, job_.matrix.rows);
  if (format_ == VectorFormat::safetensors) {
    const std::string header = header_of(format_, job_.matrix, checksum_.hex());
    file_->write(std::as_bytes(std::span(header)), 0);
  }
  file_->commit();
  std::error_code ignored;
  fs::remove(state_path_, ignored);
}

}  // namespace nystrom
