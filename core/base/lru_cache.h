// A bounded cache of recently used values.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <utility>

namespace nystrom {

/// A cache with a bounded total cost, which evicts the least recently used values first. Not
/// thread-safe.
template <class Key, class Value>
class LruCache {
 public:
  /// `capacity` is the largest total cost.
  explicit LruCache(std::int64_t capacity) : capacity_(capacity) {}

  /// The value of `key`, or null.
  std::shared_ptr<const Value> find(const Key& key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->value;
  }

  /// Adds `value` as the newest, even if it alone exceeds the capacity. An existing value of `key`
  /// stays.
  void insert(const Key& key, std::shared_ptr<const Value> value, std::int64_t cost) {
    if (places_.contains(key)) return;
    entries_.push_front({key, std::move(value), cost});
    places_[key] = entries_.begin();
    cost_ += cost;
    while (cost_ > capacity_ && entries_.size() > 1) {
      cost_ -= entries_.back().cost;
      places_.erase(entries_.back().key);
      entries_.pop_back();
    }
  }

 private:
  struct Entry {
    Key key;
    std::shared_ptr<const Value> value;
    std::int64_t cost;
  };
  std::int64_t capacity_;
  std::int64_t cost_ = 0;
  std::list<Entry> entries_;  // newest first
  std::map<Key, typename std::list<Entry>::iterator> places_;
};

}  // namespace nystrom
