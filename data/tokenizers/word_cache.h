// A cache of encoded words, for tokenizers that encode each word independently of its context.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "data/tokenizers/pipeline/string_map.h"
#include "data/tokenizers/tokenizer.h"

namespace nystrom {

/// The cache of one thread. It changes the speed only, never the result.
class WordCache {
 public:
  /// Returns the tokens of `word` with their offsets in it, from the cache or from encode(word,
  /// tokens). `encode` appends the tokens. The reference is valid until the next call.
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

/// The caches of one tokenizer: one for each active thread.
class WordCaches {
 public:
  /// Returns a cache for exclusive use. Return it with back().
  std::unique_ptr<WordCache> borrow() {
    const std::lock_guard lock(mutex_);
    if (caches_.empty()) return std::make_unique<WordCache>();
    auto cache = std::move(caches_.back());
    caches_.pop_back();
    return cache;
  }
  /// Takes a borrowed cache back.
  void back(std::unique_ptr<WordCache> cache) {
    const std::lock_guard lock(mutex_);
    caches_.push_back(std::move(cache));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<WordCache>> caches_;  // the caches that no thread uses
};

}  // namespace nystrom
