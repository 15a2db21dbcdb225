#include "train/objectives/vector_writer.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/file_io.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const std::string unknown_checksum(32, '0');

/// The bytes before the vectors.
std::string header_of(VectorFormat format, const VectorMatrix& matrix,
                      const std::string& checksum) {
  switch (format) {
    case VectorFormat::npy: return npy_header(matrix);
    case VectorFormat::safetensors: return vectors_header(matrix, checksum);
    case VectorFormat::jsonl: break;
  }
  return "";
}

/// The checksum of a file from `begin` on.
std::string checksum_from(const fs::path& path, std::int64_t begin) {
  const InputFile file = InputFile::open(path);
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  Checksum checksum;
  for (std::int64_t at = begin; at < file.size();) {
    const auto count = std::min(std::ssize(buffer), file.size() - at);
    const auto part = std::span(buffer).first(static_cast<std::size_t>(count));
    file.read(part, at);
    checksum.update(part.data(), part.size());
    at += count;
  }
  return checksum.hex();
}

}  // namespace

Tensor rounded_vectors(const Tensor& vectors, DType dtype) {
  if (dtype == DType::f32) return vectors;
  const float* const values = vectors.data<float>();
  for (std::int64_t i = 0; i < vectors.numel(); ++i)
    require_input(std::abs(values[i]) < 65520,
                  "a vector holds {}, and f16 ends at 65504; use --dtype f32", values[i]);
  return vectors.cast(DType::f16);
}

VectorWriter::VectorWriter(fs::path path, VectorJob job)
    : state_path_(path.string() + ".partial.json"),
      job_(std::move(job)),
      format_(vector_format_of(path)),
      file_(std::move(path)) {
  if (resume()) return;
  save_state();  // first, because a PATH.partial without it belongs to others
  const std::string header = header_of(format_, job_.matrix, unknown_checksum);
  file_.truncate(0);
  file_.append(std::as_bytes(std::span(header)));
  bytes_ = std::ssize(header);
  save_state();
}

/// Goes on with PATH.partial. Returns false if there is none, or nothing of it is done.
bool VectorWriter::resume() {
  const std::string name = printable_path(file_.partial());
  if (!fs::exists(fs::symlink_status(state_path_))) {
    require_input(
        file_.size() == 0,
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
  require_input(file_.size() >= bytes_ && done_ <= job_.matrix.rows,
                "{}: has {} bytes, and {} says {}; remove both files", name, file_.size(),
                printable_path(state_path_), bytes_);
  if (bytes_ == 0) return false;  // stopped before the header
  file_.truncate(bytes_);
  return true;
}

void VectorWriter::save_state() {
  file_.sync();
  write_text_file(state_path_, Json{{"model", job_.model},
                                    {"options", job_.options},
                                    {"texts", job_.texts},
                                    {"done", done_},
                                    {"bytes", bytes_}}
                                       .dump(2) +
                                   "\n");
}

void VectorWriter::add(std::span<const Example> examples, const Tensor& vectors) {
  const Tensor rounded = rounded_vectors(vectors, job_.matrix.dtype);
  const auto append = [&](std::span<const std::byte> bytes) {
    file_.append(bytes);
    bytes_ += std::ssize(bytes);
  };
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
    const std::int64_t begin = std::ssize(header_of(format_, job_.matrix, unknown_checksum));
    file_.overwrite(header_of(format_, job_.matrix, checksum_from(file_.partial(), begin)), 0);
  }
  file_.commit();
  std::error_code ignored;
  fs::remove(state_path_, ignored);
}

}  // namespace nystrom
