#include "train/metrics.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/file_io.h"

namespace nystrom {
namespace {

/// CRC-32C (Castagnoli), as TFRecord frames carry it, masked.
std::uint32_t masked_crc(const std::string& bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> values{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t c = i;
      for (int bit = 0; bit < 8; ++bit) c = c & 1 ? 0x82f63b78u ^ (c >> 1) : c >> 1;
      values[i] = c;
    }
    return values;
  }();
  std::uint32_t crc = 0xffffffffu;
  for (const char byte : bytes) crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ (crc >> 8);
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

template <class T>
std::string little_endian(T value) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

// The few parts of the protobuf wire format that an Event needs.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}
std::string key(int field, int wire_type) { return varint(static_cast<std::uint64_t>(field << 3 | wire_type)); }
std::string text_field(int field, const std::string& text) { return key(field, 2) + varint(text.size()) + text; }

double wall_time() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

void StepMeans::add(std::int64_t step, double loss, std::optional<double> accuracy, std::int64_t tokens, double seconds) {
  if (step != last_ + 1) clear();
  last_ = step;
  tokens_ += tokens;
  seconds_ += seconds;
  if (!std::isfinite(loss)) return;
  ++finite_;
  loss_ += loss;
  if (accuracy) accuracy_ = accuracy_.value_or(0) + *accuracy;
}

std::optional<double> StepMeans::accuracy() const {
  return accuracy_ ? std::optional(*accuracy_ / static_cast<double>(finite_)) : std::nullopt;
}

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& folder) {
  const auto path = folder / fmt::format("events.out.tfevents.{}.{}.nystrom", static_cast<std::int64_t>(wall_time()), ::getpid());
  file_.open(path, std::ios::binary);
  require_input(file_.good(), "{}: cannot create", path.string());
  write_record(key(1, 1) + little_endian(wall_time()) + text_field(3, "brain.Event:2"));
}

void TensorBoardWriter::write(std::int64_t step, const Metrics& metrics) {
  std::string summary;
  for (const auto& [name, value] : metrics) {
    summary += text_field(1, text_field(1, name) + key(2, 5) + little_endian(static_cast<float>(value)));
  }
  write_record(key(1, 1) + little_endian(wall_time()) + key(2, 0) + varint(static_cast<std::uint64_t>(step)) + text_field(5, summary));
}

void TensorBoardWriter::write_record(const std::string& event) {
  const std::string length = little_endian(static_cast<std::uint64_t>(event.size()));
  file_ << length << little_endian(masked_crc(length)) << event << little_endian(masked_crc(event)) << std::flush;
}

RecordLog::RecordLog(std::filesystem::path path, std::int64_t resumed_step) : path_(std::move(path)) { roll_back(resumed_step); }

void RecordLog::roll_back(std::int64_t last_step) {
  file_.close();
  if (std::ifstream old(path_); old) {
    OutputFile kept(path_);
    for (std::string line; std::getline(old, line);) {
      const auto record = nlohmann::json::parse(line, nullptr, false);  // a killed run may leave half a line
      const auto step = record.find("step");
      if (step != record.end() && step->is_number_integer() && step->get<std::int64_t>() <= last_step) kept.write(line + "\n");
    }
    kept.commit();
  }
  file_.open(path_, std::ios::app);
  require_input(file_.good(), "{}: cannot open for writing", path_.string());
}

void RecordLog::write(const std::string& line) {
  file_ << line + "\n" << std::flush;
  require_input(file_.good(), "{}: cannot write; is there space on the device? The run goes on from its last checkpoint", path_.string());
}

MetricsLog::MetricsLog(const std::filesystem::path& run_dir, std::int64_t resumed_step, bool tensorboard)
    : records_(run_dir / "metrics.jsonl", resumed_step) {
  if (tensorboard) tensorboard_.emplace(run_dir);
}

void MetricsLog::write(std::int64_t step, const Metrics& metrics) {
  nlohmann::ordered_json record = {{"step", step}};
  for (const auto& [name, value] : metrics) record[name] = std::isfinite(value) ? nlohmann::ordered_json(value) : nullptr;
  records_.write(record.dump());
  if (tensorboard_) tensorboard_->write(step, metrics);
}

}  // namespace nystrom
