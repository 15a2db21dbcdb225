#include "train/loop/metrics.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <tuple>
#include <utility>

#include "core/base/printable.h"
#include "core/base/protobuf.h"
#include "core/check.h"
#include "train/state/checkpoint.h"

namespace nystrom {
namespace {

/// Masked CRC-32C (Castagnoli), as in TFRecord frames.
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
  for (const char byte : bytes)
    crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ (crc >> 8);
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// An Event of the present moment, framed.
std::string event_of(const std::string& fields) {
  using protobuf::little_endian;
  const std::string event = protobuf::number(1, wall_time()) + fields;
  const std::string length = little_endian(static_cast<std::uint64_t>(event.size()));
  return length + little_endian(masked_crc(length)) + event + little_endian(masked_crc(event));
}

/// A new file of events. TensorBoard reads the files in the order of their names, so its second is
/// behind those of earlier files even if the clock was set back.
std::filesystem::path new_events_file(const std::filesystem::path& run_dir) {
  constexpr std::string_view begin = "events.out.tfevents.";
  auto second = static_cast<std::int64_t>(wall_time());
  for (const auto& entry : folder_entries(run_dir)) {
    const std::string name = entry.filename().string();
    std::uint32_t earlier = 0;  // stays so for a number of more digits
    if (name.starts_with(begin))
      std::from_chars(name.data() + begin.size(), name.data() + name.size(), earlier);
    second = std::max<std::int64_t>(second, std::int64_t{earlier} + 1);
  }
  return run_dir / fmt::format("{}{}.{}.nystrom", begin, second, ::getpid());
}

/// Removes the records of later steps and evaluations from a file, and what is no record.
void forget_later(const std::filesystem::path& path, std::int64_t last_step,
                  std::int64_t last_evaluation) {
  std::ifstream old = open_records(path);
  if (!old.is_open()) return;
  OutputFile kept(path);
  for (std::string line; std::getline(old, line);) {
    const auto record =
        nlohmann::json::parse(line, nullptr, false);  // a killed run may leave a partial line
    const auto step = record.find("step");
    if (step == record.end() || !step->is_number_integer()) continue;
    bool evaluation = false;
    for (const auto& each : record.items()) evaluation |= each.key().starts_with(validation_prefix);
    if (step->get<std::int64_t>() <= (evaluation ? last_evaluation : last_step))
      kept.write(line + "\n");
  }
  kept.commit();
}

}  // namespace

void StepMeans::add(std::int64_t step, double loss, std::optional<double> accuracy,
                    std::int64_t tokens, double seconds) {
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

std::ifstream open_records(const std::filesystem::path& path) {
  std::error_code absent;
  return std::filesystem::is_regular_file(path, absent) ? std::ifstream(path) : std::ifstream();
}

RecordFile::RecordFile(std::filesystem::path path, Log& log,
                       std::optional<std::int64_t> resumed_step)
    : path_(std::move(path)), log_(log) {
  if (resumed_step)
    roll_back(*resumed_step, *resumed_step);
  else
    descriptor_ = open_to_append(path_);
}

void RecordFile::roll_back(std::int64_t last_step, std::int64_t last_evaluation) {
  descriptor_.close();
  require_no_link(path_);
  try {
    forget_later(path_, last_step, last_evaluation);
  } catch (const InputError& error) {  // as on a full disk; the next start tries again
    log_.warn(fmt::format("{}; the run goes on without recording", error.what()));
    return;
  }
  descriptor_ = open_to_append(path_);
  warned_ = false;
}

void RecordFile::append(std::string_view record) {
  if (!descriptor_.is_open()) return;  // roll_back has told it
  const ::off_t end = ::lseek(descriptor_.get(), 0, SEEK_END);
  const bool failed = !write_all(descriptor_.get(), std::as_bytes(std::span(record)));
  if (failed && !warned_)
    log_.warn(fmt::format("{}: cannot write: {}; the run goes on without recording",
                          printable_path(path_), std::strerror(errno)));
  warned_ = failed;
  if (failed)
    std::ignore =
        ::ftruncate(descriptor_.get(), end);  // if this fails too, readers skip the partial record
}

MetricsLog::MetricsLog(const std::filesystem::path& run_dir, std::int64_t resumed_step,
                       bool tensorboard, Log& log)
    : records_(run_dir / "metrics.jsonl", log, resumed_step),
      run_dir_(run_dir),
      log_(log),
      tensorboard_(tensorboard),
      last_step_(resumed_step) {}

void MetricsLog::roll_back(std::int64_t last_step, std::int64_t last_evaluation) {
  records_.roll_back(last_step, last_evaluation);
  last_step_ = last_step;
  if (events_) begin_session();
}

/// Lets TensorBoard forget the steps after the last one of this and of earlier files.
void MetricsLog::begin_session() {
  constexpr std::int64_t started = 1;  // SessionLog.START
  events_->append(event_of(protobuf::integer(2, last_step_ + 1) +
                           protobuf::bytes(7, protobuf::integer(1, started))));
}

void MetricsLog::write(std::int64_t step, const Metrics& metrics) {
  nlohmann::ordered_json record = {{"step", step}};
  std::string summary;
  for (const auto& [name, value] : metrics) {
    record[name] = std::isfinite(value) ? nlohmann::ordered_json(value) : nullptr;
    summary += protobuf::bytes(
        1, protobuf::bytes(1, name) + protobuf::number(2, static_cast<float>(value)));
  }
  records_.append(record.dump() + "\n");
  if (!tensorboard_) return;
  if (!events_) {
    try {
      events_.emplace(new_events_file(run_dir_), log_);
    } catch (const InputError& error) {  // a run goes on without its records
      log_.warn(fmt::format("{}; TensorBoard gets no records", error.what()));
      tensorboard_ = false;
      return;
    }
    events_->append(event_of(protobuf::bytes(3, "brain.Event:2")));
    begin_session();
  }
  events_->append(event_of(protobuf::integer(2, step) + protobuf::bytes(5, summary)));
}

}  // namespace nystrom
