// Words already encoded, for tokenizers whose words do not depend on what stands around them.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "data/tokenizers/pipeline/string_map.h"
#include "data/tokenizers/tokenizer.h"

namespace nystrom {

/// Of one thread. It only ever saves time: what a tokenizer gives does not depend on it.
class WordCache {
 public:
  /// The tokens of `word` with their places in it, from encode(word, tokens), which appends them,
  /// or from an earlier call. Valid until the next call.
  template <class Encode>
  const std::vector<Token>& find(std::string_view word, const Encode& encode) {
    const bool keeps = word.size() <= max_word_bytes;
    if (keeps) {
      const auto found = words_.find(word);
      if (found != words_.end()) return found->second;
    }
    uncached_.clear();
    encode(word, uncached_);
    if (!keeps || words_.size() >= max_words) return uncached_;
    return words_.emplace(word, uncached_).first->second;
  }

 private:
  static constexpr std::size_t max_words = std::size_t{1} << 15;
  static constexpr std::size_t max_word_bytes = 48;

  StringMap<std::vector<Token>> words_;
  std::vector<Token> uncached_;
};

/// The caches of a tokenizer, one for each thread at work.
class WordCaches {
 public:
  /// A cache for the caller alone; back() takes it again.
  std::unique_ptr<WordCache> borrow() {
    const std::lock_guard lock(mutex_);
    if (caches_.empty()) return std::make_unique<WordCache>();
    auto cache = std::move(caches_.back());
    caches_.pop_back();
    return cache;
  }
  void back(std::unique_ptr<WordCache> cache) {
    const std::lock_guard lock(mutex_);
    caches_.push_back(std::move(cache));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<WordCache>> caches_;  // not in use
};

}  // namespace nystrom
