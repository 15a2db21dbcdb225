#include "core/allocator.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "core/base/control_groups.h"
#include "core/check.h"
#include "core/cuda/runtime.h"

namespace nystrom {
namespace {

thread_local std::string current_label = "other";

constexpr std::int64_t alignment = 64;

/// Requests of this size on may get a part of a larger block. Smaller ones have segments of their
/// own, so that they do not keep a large block from being one again.
constexpr std::int64_t smallest_part = 4096;

/// The least that may be reserved beyond the largest use so far; otherwise a quarter of that use.
constexpr std::int64_t least_slack = 256 * 1024;

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

  /// Part of a segment, which is memory from one call to the system. Blocks of a segment follow
  /// each other without gaps.
  struct Block {
    std::int64_t bytes;
    bool begins_segment;
    bool free;
    std::string label;  // of its holder
  };
  using Blocks = std::map<char*, Block>;

  Blocks::iterator take_cached(std::int64_t size);
  Blocks::iterator reserve(std::int64_t size);
  void give_back(char* address);
  void release_cache(std::int64_t wanted = std::numeric_limits<std::int64_t>::max());
  bool is_whole_segment(Blocks::iterator block) const;
  std::string holders() const;

  const Device device;
  mutable std::mutex mutex;
  Blocks blocks;
  std::set<std::pair<std::int64_t, char*>> cached;  // the free blocks by size
  ArenaStatistics statistics;
  std::int64_t most_in_use = 0;
  // Linux overcommits memory and kills a process that touches too much. So the arena enforces a
  // limit.
  std::int64_t limit;
};

/// The best fitting free block: as it is if it is at most 1/8 larger, else its first part. The end
/// if there is none.
Arena::State::Blocks::iterator Arena::State::take_cached(std::int64_t size) {
  const auto found = cached.lower_bound({size, nullptr});
  if (found == cached.end()) return blocks.end();
  const bool fits = found->first <= size + size / 8;
  if (!fits && size < smallest_part) return blocks.end();
  const auto block = blocks.find(found->second);
  cached.erase(found);
  if (!fits) {
    const std::int64_t rest = block->second.bytes - size;
    blocks[block->first + size] = {rest, false, true, ""};
    cached.emplace(rest, block->first + size);
    block->second.bytes = size;
  }
  return block;
}

/// A new segment from the system; the end if it refuses. Frees segments that are not in use if the
/// arena would otherwise hold much more than was ever used.
Arena::State::Blocks::iterator Arena::State::reserve(std::int64_t size) {
  const std::int64_t most = std::max(most_in_use, statistics.in_use_bytes + size),
                     excess =
                         statistics.reserved_bytes + size - most - std::max(most / 4, least_slack);
  if (excess > 0) release_cache(excess);
  if (statistics.reserved_bytes + size > limit) return blocks.end();
  auto* address = static_cast<char*>(system_allocate(device, size));
  if (!address) return blocks.end();
  statistics.reserved_bytes += size;
  ++statistics.system_allocations;
  return blocks.emplace(address, Block{size, true, true, ""}).first;
}

/// Frees a block, and joins it with free neighbours of its segment.
void Arena::State::give_back(char* address) {
  auto block = blocks.find(address);
  statistics.in_use_bytes -= block->second.bytes;
  block->second.free = true;
  const auto join = [&](Blocks::iterator first, Blocks::iterator second) {
    first->second.bytes += second->second.bytes;
    blocks.erase(second);
    return first;
  };
  if (const auto next = std::next(block);
      next != blocks.end() && next->second.free && !next->second.begins_segment) {
    cached.erase({next->second.bytes, next->first});
    join(block, next);
  }
  if (!block->second.begins_segment && std::prev(block)->second.free) {
    const auto before = std::prev(block);
    cached.erase({before->second.bytes, before->first});
    block = join(before, block);
  }
  cached.emplace(block->second.bytes, block->first);
}

bool Arena::State::is_whole_segment(Blocks::iterator block) const {
  const auto next = std::next(block);
  return block->second.begins_segment && (next == blocks.end() || next->second.begins_segment);
}

/// Returns free segments to the system, the largest first, until there are `wanted` bytes less.
void Arena::State::release_cache(std::int64_t wanted) {
  for (auto each = cached.end(); wanted > 0 && each != cached.begin();) {
    --each;
    const auto block = blocks.find(each->second);
    if (!is_whole_segment(block)) continue;
    system_free(device, block->first);
    statistics.reserved_bytes -= block->second.bytes;
    wanted -= block->second.bytes;
    blocks.erase(block);
    each = cached.erase(each);
  }
}

std::string Arena::State::holders() const {
  std::map<std::string, std::int64_t> by_label;
  for (const auto& [address, block] : blocks)
    if (!block.free) by_label[block.label] += block.bytes;
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
  auto block = s.take_cached(size);
  if (block == s.blocks.end()) block = s.reserve(size);
  if (block == s.blocks.end()) {
    s.release_cache();
    block = s.reserve(size);
  }
  if (block == s.blocks.end()) {
    throw InputError(fmt::format(
        "out of memory on {}: {:.1f} MiB requested, {:.1f} MiB in use, {:.1f} MiB reserved; "
        "largest holders: {}; lower micro_batch_size or sequence_length, set "
        "activation_checkpointing: true, or make the model smaller",
        s.device.name(), static_cast<double>(size) / (1 << 20),
        static_cast<double>(s.statistics.in_use_bytes) / (1 << 20),
        static_cast<double>(s.statistics.reserved_bytes) / (1 << 20), s.holders()));
  }
  block->second.free = false;
  block->second.label = current_label;
  s.statistics.in_use_bytes += block->second.bytes;
  s.statistics.peak_in_use_bytes =
      std::max(s.statistics.peak_in_use_bytes, s.statistics.in_use_bytes);
  s.most_in_use = std::max(s.most_in_use, s.statistics.in_use_bytes);
  return {block->first, [state = state_](void* address) {
            const std::lock_guard free_lock(state->mutex);
            state->give_back(static_cast<char*>(address));
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
