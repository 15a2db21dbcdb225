#include "data/text/byte_source.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/text/match_files.h"

namespace nystrom {
namespace {

class PlainSource : public ByteSource {
 public:
  explicit PlainSource(const std::filesystem::path& path) : file_(InputFile::open(path)) {}

  std::size_t read(std::span<char> buffer) override {
    const auto count =
        static_cast<std::size_t>(std::min(std::ssize(buffer), file_.size() - position_));
    file_.read(std::as_writable_bytes(buffer.first(count)), position_);
    position_ += static_cast<std::int64_t>(count);
    return count;
  }

  std::int64_t position() const override { return position_; }
  std::int64_t size() const { return file_.size(); }

 private:
  InputFile file_;
  std::int64_t position_ = 0;
};

/// The common part of both formats: blocks of the file, and the detection of bombs.
class CompressedSource : public ByteSource {
 public:
  explicit CompressedSource(const std::filesystem::path& path)
      : name_(printable_path(path)), file_(path), block_(read_block_bytes) {}

  std::size_t read(std::span<char> buffer) override {
    std::size_t filled = 0;
    while (filled < buffer.size()) {
      if (block_used_ == block_size_) {
        block_size_ = file_.read(block_);
        block_used_ = 0;
      }
      if (block_used_ == block_size_ && !expects_more()) break;
      // At the end of the file a decoder may still hold output. If it makes none, it waits for
      // missing bytes.
      const bool at_end = block_used_ == block_size_;
      const std::size_t made = decode(buffer.subspan(filled));
      require_input(
          made > 0 || !at_end || !expects_more(),
          "{}: the compressed data ends in the middle; the file is truncated: copy it again",
          name_);
      filled += made;
      check_ratio(made);
    }
    return filled;
  }

  std::int64_t position() const override { return file_.position(); }

 protected:
  /// Whether the output so far ends inside a member or frame.
  virtual bool expects_more() const = 0;
  /// Decodes input() into `output`, and returns the number of bytes, maybe 0.
  virtual std::size_t decode(std::span<char> output) = 0;

  std::span<const char> input() const {
    return std::span(block_).subspan(block_used_, block_size_ - block_used_);
  }
  void consume(std::size_t bytes) { block_used_ += bytes; }
  const std::string& name() const { return name_; }

 private:
  void check_ratio(std::size_t made) {
    produced_ += static_cast<std::int64_t>(made);
    const std::int64_t size = std::max(file_.size(), file_.position());  // of a pipe, so far
    if (produced_ > bomb_free_bytes && produced_ / bomb_ratio > size)
      throw DecompressionBomb(
          fmt::format("{}: its {} bytes unpack to more than {} times as many, as no text does; if "
                      "you trust the file, unpack it by hand and name the result",
                      name_, size, bomb_ratio));
  }

  std::string name_;
  PlainSource file_;
  std::vector<char> block_;
  std::size_t block_used_ = 0;
  std::size_t block_size_ = 0;
  std::int64_t produced_ = 0;
};

class GzipSource : public CompressedSource {
 public:
  explicit GzipSource(const std::filesystem::path& path) : CompressedSource(path) {
    constexpr int gzip_with_largest_window = 15 + 16;
    require(inflateInit2(&stream_, gzip_with_largest_window) == Z_OK,
            "zlib: cannot start; out of memory");
  }
  ~GzipSource() override { inflateEnd(&stream_); }

 protected:
  bool expects_more() const override { return in_member_; }

  std::size_t decode(std::span<char> output) override {
    if (!in_member_) inflateReset(&stream_);
    in_member_ = true;
    const auto in = input();
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(output.data());
    stream_.avail_out = static_cast<uInt>(std::min(output.size(), read_block_bytes));
    const uInt room = stream_.avail_out;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    consume(in.size() - stream_.avail_in);
    if (code == Z_STREAM_END) {
      in_member_ = false;
    } else {
      require_input(code == Z_OK || code == Z_BUF_ERROR,
                    "{}: not valid gzip data ({}); unpack it by hand or make it anew", name(),
                    stream_.msg != nullptr ? stream_.msg : "preset dictionary");
    }
    return room - stream_.avail_out;
  }

 private:
  z_stream stream_{};
  bool in_member_ = true;  // an empty file is not a gzip file
};

class ZstdSource : public CompressedSource {
 public:
  explicit ZstdSource(const std::filesystem::path& path) : CompressedSource(path) {
    require(stream_ != nullptr, "zstd: cannot start; out of memory");
  }
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }

 protected:
  bool expects_more() const override { return wanted_ != 0; }

  std::size_t decode(std::span<char> output) override {
    const auto bytes = input();
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    ZSTD_outBuffer out{output.data(), std::min(output.size(), read_block_bytes), 0};
    wanted_ = ZSTD_decompressStream(stream_, &out, &in);
    require_input(ZSTD_getErrorCode(wanted_) != ZSTD_error_frameParameter_windowTooLarge,
                  "{}: its window is larger than 128 MB; unpack it: zstd -d --long=31 {}", name(),
                  name());
    require_input(ZSTD_isError(wanted_) == 0,
                  "{}: not valid zstd data ({}); unpack it by hand or make it anew", name(),
                  ZSTD_getErrorName(wanted_));
    consume(in.pos);
    return out.pos;
  }

 private:
  ZSTD_DStream* stream_ = ZSTD_createDStream();
  std::size_t wanted_ = 1;  // an empty file is not a zstd file
};

}  // namespace

void refuse_columns_of_arrow(const std::filesystem::path& path) {
  const std::string ending = last_ending(path);
  const auto refuse = [&](const char* form, const char* line) {
    const std::string name = printable_path(path);
    throw InputError(fmt::format(
        "{}: is {} file, which this program does not read; convert it: python3 -c \"{}\", or give "
        "it to nystrom in Python",
        name, form, fmt::format(fmt::runtime(line), name)));
  };
  if (ending == ".arrow")
    refuse("an Arrow", "import datasets; datasets.Dataset.from_file('{0}').to_json('{0}.jsonl')");
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return;
  char begin[5] = {};
  std::ifstream(path, std::ios::binary).read(begin, sizeof begin);
  if (ending == ".parquet" || std::string_view(begin, sizeof begin) == "PAR1\x15")
    refuse("a Parquet",
           "import pandas; pandas.read_parquet('{0}').to_json('{0}.jsonl', orient='records', "
           "lines=True, force_ascii=False)");
}

std::unique_ptr<ByteSource> open_byte_source(const std::filesystem::path& path) {
  refuse_columns_of_arrow(path);
  const std::string ending = last_ending(path);
  if (ending == ".gz") return std::make_unique<GzipSource>(path);
  if (ending == ".zst") return std::make_unique<ZstdSource>(path);
  return std::make_unique<PlainSource>(path);
}

}  // namespace nystrom
