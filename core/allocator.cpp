#include "core/allocator.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "core/base/control_groups.h"
#include "core/check.h"
#include "core/cuda/runtime.h"

namespace nystrom {
namespace {

thread_local std::string current_label = "other";

constexpr std::int64_t alignment = 64;

/// Rounds up to 64 bytes, and large sizes to 1/16 of their power of two. Batches of varying size
/// can then reuse blocks.
std::int64_t rounded(std::int64_t bytes) {
  std::int64_t unit = alignment;
  while (unit * 16 < bytes) unit *= 2;
  return std::max<std::int64_t>((bytes + unit - 1) / unit * unit, alignment);
}

/// The next address of a planned GPU, aligned as cudaMalloc's. Nothing is there.
void* planned_address(std::int64_t bytes) {
  static std::atomic<std::uintptr_t> next = std::uintptr_t{1} << 60;
  constexpr std::uintptr_t unit = 512;
  return reinterpret_cast<void*>(
      next.fetch_add((static_cast<std::uintptr_t>(bytes) + unit) / unit * unit));
}

void* system_allocate(Device device, std::int64_t bytes) {
  if (device.is_planned()) return planned_address(bytes);
  return device.is_cpu() ? std::aligned_alloc(alignment, bytes)
                         : cuda::device_allocate(device.index, bytes);
}

void system_free(Device device, void* block) {
  if (device.is_planned()) return;
  if (device.is_cpu()) {
    std::free(block);
  } else {
    cuda::device_free(device.index, block);
  }
}

}  // namespace

struct Arena::State {
  explicit State(Device d)
      : device(d),
        limit(d.is_cpu() ? available_memory_bytes() : std::numeric_limits<std::int64_t>::max()) {}
  ~State() { release_cache(); }

  void* take_cached(std::int64_t size);
  void* reserve(std::int64_t size);
  void release_cache();
  std::string holders() const;

  struct Live {
    std::int64_t bytes;
    std::string label;
  };

  const Device device;
  mutable std::mutex mutex;
  std::multimap<std::int64_t, void*> cached;
  std::map<void*, Live> live;
  std::map<void*, std::int64_t> sizes;
  ArenaStatistics statistics;
  // Linux overcommits memory and kills a process that touches too much. So the arena enforces a
  // limit.
  std::int64_t limit;
};

void* Arena::State::take_cached(std::int64_t size) {
  const auto found = cached.lower_bound(size);
  if (found == cached.end() || found->first > size + size / 8) return nullptr;
  void* block = found->second;
  cached.erase(found);
  return block;
}

void* Arena::State::reserve(std::int64_t size) {
  if (statistics.reserved_bytes + size > limit) return nullptr;
  void* block = system_allocate(device, size);
  if (!block) return nullptr;
  sizes[block] = size;
  statistics.reserved_bytes += size;
  ++statistics.system_allocations;
  return block;
}

void Arena::State::release_cache() {
  for (const auto& [size, block] : cached) {
    system_free(device, block);
    sizes.erase(block);
    statistics.reserved_bytes -= size;
  }
  cached.clear();
}

std::string Arena::State::holders() const {
  std::map<std::string, std::int64_t> by_label;
  for (const auto& [block, entry] : live) by_label[entry.label] += entry.bytes;
  std::vector<std::pair<std::string, std::int64_t>> rows(by_label.begin(), by_label.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(rows.size(), 5); ++i) {
    text += fmt::format("{}{} {:.1f} MiB", i ? ", " : "", rows[i].first,
                        static_cast<double>(rows[i].second) / (1 << 20));
  }
  return text.empty() ? "nothing" : text;
}

Arena::Arena(Device device) : state_(std::make_shared<State>(device)) {}
Arena::~Arena() = default;

Arena& Arena::of(Device device) {
  // Never destroyed, because tensors with static lifetime may outlive main().
  static std::mutex mutex;
  static auto* arenas = new std::map<std::pair<Device::Kind, int>, std::unique_ptr<Arena>>;
  const std::lock_guard lock(mutex);
  auto& arena = (*arenas)[{device.kind, device.index}];
  if (!arena) arena = std::make_unique<Arena>(device);
  return *arena;
}

std::shared_ptr<void> Arena::allocate(std::int64_t bytes) {
  require(bytes >= 0, "cannot allocate {} bytes", bytes);
  const std::int64_t size = rounded(bytes);
  auto& s = *state_;
  const std::lock_guard lock(s.mutex);
  void* block = s.take_cached(size);
  if (!block) block = s.reserve(size);
  if (!block) {
    s.release_cache();
    block = s.reserve(size);
  }
  if (!block) {
    throw InputError(fmt::format(
        "out of memory on {}: {:.1f} MiB requested, {:.1f} MiB in use, {:.1f} MiB reserved; "
        "largest holders: {}; lower micro_batch_size or sequence_length, set "
        "activation_checkpointing: true, or make the model smaller",
        s.device.name(), static_cast<double>(size) / (1 << 20),
        static_cast<double>(s.statistics.in_use_bytes) / (1 << 20),
        static_cast<double>(s.statistics.reserved_bytes) / (1 << 20), s.holders()));
  }
  const std::int64_t actual = s.sizes[block];
  s.live[block] = {actual, current_label};
  s.statistics.in_use_bytes += actual;
  s.statistics.peak_in_use_bytes =
      std::max(s.statistics.peak_in_use_bytes, s.statistics.in_use_bytes);
  return {block, [state = state_](void* p) {
            const std::lock_guard free_lock(state->mutex);
            const auto entry = state->live.find(p);
            state->statistics.in_use_bytes -= entry->second.bytes;
            state->cached.emplace(entry->second.bytes, p);
            state->live.erase(entry);
          }};
}

ArenaStatistics Arena::statistics() const {
  const std::lock_guard lock(state_->mutex);
  return state_->statistics;
}

void Arena::reset_peak() {
  const std::lock_guard lock(state_->mutex);
  state_->statistics.peak_in_use_bytes = state_->statistics.in_use_bytes;
}

void Arena::release_cache() {
  const std::lock_guard lock(state_->mutex);
  state_->release_cache();
}

void Arena::set_limit(std::int64_t bytes) {
  const std::lock_guard lock(state_->mutex);
  state_->limit = bytes;
}

AllocationLabel::AllocationLabel(std::string label)
    : previous_(std::exchange(current_label, std::move(label))) {}
AllocationLabel::~AllocationLabel() { current_label = std::move(previous_); }

}  // namespace nystrom
