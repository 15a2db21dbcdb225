#include "nn/parameter_store.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <thread>

#include "core/check.h"
#include "core/int8.h"
#include "core/kernels.h"
#include "core/threads.h"

namespace nystrom {
namespace {

constexpr std::int64_t slab_alignment = 16;  // elements: 64 bytes in f32

/// The elements that a parameter of `count` values takes in the slabs.
std::int64_t rounded_up(std::int64_t count) {
  return (count + slab_alignment - 1) / slab_alignment * slab_alignment;
}

/// Below it a thread costs more than it draws.
constexpr std::size_t blocks_of_a_thread = 1 << 14;

/// Draws the values 4 begin … 4 end − 1 of normal_values.
void draw_blocks(PhiloxKey key, double scale, std::size_t begin, std::size_t end,
                 std::span<double> values) {
  for (std::size_t i = 4 * begin; i < std::min(4 * end, values.size()); i += 4) {
    const auto block = philox(
        key, {{static_cast<std::uint32_t>(i / 4), static_cast<std::uint32_t>(i >> 34), 0, 0}});
    for (std::size_t j = 0; j < 4 && i + j < values.size(); j += 2) {
      const double radius = scale * std::sqrt(-2 * std::log(uniform_open(block.word[j])));
      const double angle = 2 * std::numbers::pi * uniform_open(block.word[j + 1]);
      values[i + j] = radius * std::cos(angle);
      if (i + j + 1 < values.size()) values[i + j + 1] = radius * std::sin(angle);
    }
  }
}

}  // namespace

std::vector<double> normal_values(std::uint64_t seed, std::string_view name, std::int64_t count,
                                  double scale) {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  const PhiloxKey key = philox_key(seed, hash);
  std::vector<double> values(static_cast<std::size_t>(count));
  // Every thread takes a range of whole blocks of 4 values: the values do not depend on their
  // number.
  const std::size_t blocks = (values.size() + 3) / 4,
                    threads = std::clamp<std::size_t>(blocks / blocks_of_a_thread, 1,
                                                      static_cast<std::size_t>(num_threads()));
  std::vector<std::jthread> others;
  for (std::size_t t = 1; t < threads; ++t)
    others.emplace_back([&, t] {
      draw_blocks(key, scale, blocks * t / threads, blocks * (t + 1) / threads, values);
    });
  draw_blocks(key, scale, 0, blocks / threads, values);
  others.clear();  // waits for them
  return values;
}

const Var& Parameter::var() const {
  require(entry_ && entry_->var.defined(), "parameter {} is used before its store was allocated",
          entry_ ? entry_->name : "(none)");
  require(entry_->has_values,
          "parameter {} has no values yet; initialise the store or load weights", entry_->name);
  return entry_->var;
}

void Parameter::keep_exact() {
  require(shape().numel() == 1, "{} has {} values, expected one", name(), shape().numel());
  entry_->keeps_exact = true;
}

Parameter ParameterStore::add(std::string name, const Shape& shape, Init init, bool decay) {
  require(!values_.defined(), "parameter {} is declared after the store was allocated", name);
  require(places_.emplace(name, entries_.size()).second, "parameter {} is declared twice", name);
  entries_.push_back(std::make_shared<Parameter::Entry>(
      Parameter::Entry{std::move(name), shape, init, decay, slab_size_, {}}));
  slab_size_ += rounded_up(shape.numel());
  return Parameter(entries_.back());
}

void ParameterStore::freeze(std::string_view name) {
  require(!values_.defined(), "parameter {} is frozen after the store was allocated", name);
  find(name).frozen = true;
}

void ParameterStore::allocate(DType dtype, StoreMode mode, Device device,
                              std::optional<SlabRange> masters) {
  require(!values_.defined(), "the parameter store is allocated already");
  require_computable(dtype, device);
  const AllocationLabel label("parameters");
  const DType exact = accumulate_dtype(dtype);
  dtype_ = dtype;
  values_ = Tensor::zeros({slab_size_}, dtype, device);
  masters_ = values_;
  masters_range_ = {0, slab_size_};
  if (mode == StoreMode::training) {
    if (exact != dtype) {
      masters_range_ = masters.value_or(masters_range_);
      masters_ = Tensor::zeros({masters_range_.size()}, exact, device);
    }
    gradients_ = Tensor::zeros({slab_size_}, exact, device);
  }
  for (auto& entry : entries_) {
    const Tensor own = exact_of(*entry),
                 value = own.defined() ? own : part_of(values_, entry->name);
    entry->var = gradients_.defined() && !entry->frozen ? Var::leaf(value, gradient(entry->name))
                                                        : Var(value);
  }
}

void ParameterStore::initialise(std::uint64_t seed, double standard_deviation) {
  std::vector<std::string> names;
  for (const auto& entry : entries_) names.push_back(entry->name);
  initialise(seed, standard_deviation, names);
}

void ParameterStore::initialise(std::uint64_t seed, double standard_deviation,
                                std::span<const std::string> names) {
  require(standard_deviation >= 0 && std::isfinite(standard_deviation),
          "standard_deviation {}; expected a number of at least 0", standard_deviation);
  for (const std::string& name : names) {
    const Parameter::Entry& entry = find(name);
    std::vector<float> values(static_cast<std::size_t>(entry.shape.numel()),
                              entry.init.kind == Init::Kind::ones ? 1.0f : 0.0f);
    if (entry.init.kind == Init::Kind::normal) {
      const std::vector<double> normal =
          normal_values(seed, name, entry.shape.numel(), standard_deviation);
      std::transform(normal.begin(), normal.end(), values.begin(),
                     [](double value) { return static_cast<float>(value); });
    }
    if (entry.init.zero_row >= 0) {
      const std::int64_t width = entry.shape[-1];
      std::fill_n(values.begin() + entry.init.zero_row * width, width, 0.0f);
    }
    set(name, Tensor::from(values, entry.shape));
  }
}

Parameter::Entry& ParameterStore::find(std::string_view name) const {
  const auto found = places_.find(name);
  require(found != places_.end(), "there is no parameter {}", name);
  return *entries_[found->second];
}

bool ParameterStore::has(std::string_view name) const { return places_.contains(name); }

void ParameterStore::set(std::string_view name, const Tensor& values) {
  auto& entry = find(name);
  require(values_.defined(), "parameter {} gets values before its store is allocated", name);
  require(values.shape() == entry.shape, "parameter {} has shape {}, got {}", name, entry.shape,
          values.shape());
  const std::int64_t place = entry.offset, count = values.numel();
  const auto write = [&](const Tensor& slab, SlabRange range) {
    const std::int64_t begin = std::max(place, range.begin),
                       end = std::min(place + count, range.end);
    if (begin >= end) return;
    Tensor target = slab.slice(0, begin - range.begin, end - range.begin);
    const Tensor flat = values.cast(slab.dtype()).to(slab.device()).contiguous().reshape({count});
    kernels::copy(flat.slice(0, begin - place, end - place), target);
  };
  write(masters_, masters_range_);
  if (masters_.dtype() != dtype_) write(values_, {0, slab_size_});
  if (entry.var.dtype() != dtype_) {
    Tensor exact = entry.var.value();
    kernels::copy(values.cast(exact.dtype()).to(exact.device()).contiguous(), exact);
  }
  entry.has_values = true;
}

void ParameterStore::round_to_int8(std::string_view name) {
  set(name, to_int8_rows(master(name)).matrix());
  find(name).int8 = true;
}

Tensor ParameterStore::masters(SlabRange range) const {
  require(masters_range_.begin <= range.begin && range.end <= masters_range_.end,
          "the store keeps masters {} to {}, not {} to {}", masters_range_.begin,
          masters_range_.end, range.begin, range.end);
  return masters_.slice(0, range.begin - masters_range_.begin, range.end - masters_range_.begin);
}

void ParameterStore::round_masters() {
  if (masters_.dtype() == dtype_ || masters_range_.size() == 0) return;
  Tensor rounded = values_.slice(0, masters_range_.begin, masters_range_.end);
  kernels::copy(masters_, rounded);
}

std::vector<std::pair<std::int64_t, Tensor>> ParameterStore::exact_values() const {
  std::vector<std::pair<std::int64_t, Tensor>> values;
  for (const auto& entry : entries_)
    if (const Tensor& value = entry->var.value(); value.dtype() != dtype_)
      values.emplace_back(entry->offset, value);
  return values;
}

/// The tensor for f32 values of Parameter::keep_exact: the master, or one of its own where the
/// store lacks masters or has a range of them; undefined where there is none.
Tensor ParameterStore::exact_of(const Parameter::Entry& entry) const {
  if (!entry.keeps_exact || !is_half(dtype_)) return {};
  return masters_.dtype() != dtype_ && masters_range_.size() == slab_size_
             ? part_of(masters_, entry.name)
             : Tensor::zeros(entry.shape, DType::f32, values_.device());
}

Tensor ParameterStore::part_of(const Tensor& slab, std::string_view name) const {
  const auto& entry = find(name);
  require(slab.numel() == slab_size_, "a slab of {} elements is not laid out as the store's {}",
          slab.numel(), slab_size_);
  return slab.slice(0, entry.offset, entry.offset + entry.shape.numel()).reshape(entry.shape);
}

std::string ParameterStore::not_finite() const {
  const auto is_finite = [](const Tensor& x) { return std::isfinite(sum_of_squares(x)); };
  for (const auto& entry : entries_)
    if (!is_finite(entry->var.value())) return entry->name;
  return "";
}

Tensor ParameterStore::master(std::string_view name) const {
  require(masters_range_.size() == slab_size_,
          "the store keeps a part of the masters, not the whole of {}", name);
  const Tensor& values = find(name).var.value();
  return values.dtype() == dtype_ ? part_of(masters_, name) : values;
}

Tensor ParameterStore::gradient(std::string_view name) const {
  require(gradients_.defined(), "the store was allocated for inference and has no gradients");
  return part_of(gradients_, name);
}

std::vector<Parameter> ParameterStore::parameters() const {
  std::vector<Parameter> result;
  for (const auto& entry : entries_) result.push_back(Parameter(entry));
  return result;
}

std::int64_t ParameterStore::count() const {
  std::int64_t total = 0;
  for (const auto& entry : entries_) total += entry->shape.numel();
  return total;
}

std::int64_t ParameterStore::trained_count() const {
  std::int64_t total = 0;
  for (const auto& entry : entries_) total += entry->frozen ? 0 : entry->shape.numel();
  return total;
}

SlabRange ParameterStore::range_of(std::string_view name) const {
  const Parameter::Entry& entry = find(name);
  return {entry.offset, entry.offset + rounded_up(entry.shape.numel())};
}

std::vector<SlabRange> ParameterStore::trained_ranges(SlabRange range) const {
  std::vector<SlabRange> ranges;
  for (const auto& entry : entries_) {
    const SlabRange own = range_of(entry->name);
    const std::int64_t begin = std::max(own.begin, range.begin), end = std::min(own.end, range.end);
    if (entry->frozen || begin >= end) continue;
    if (!ranges.empty() && ranges.back().end == begin)
      ranges.back().end = end;
    else
      ranges.push_back({begin, end});
  }
  return ranges;
}

Scope Scope::operator/(std::string_view name) const {
  Scope result = *this;
  if (!path_.empty()) result.path_ += '.';
  result.path_ += name;
  return result;
}

Parameter Scope::parameter(std::string_view name, const Shape& shape, Init init, bool decay) const {
  return store_->add((*this / name).path_, shape, init, decay);
}

}  // namespace nystrom
