#include "data/tokenizers/pipeline/prefix_trie.h"

#include <algorithm>
#include <cstring>
#include <deque>

namespace nystrom {

PrefixTrie::PrefixTrie(std::vector<std::pair<std::string_view, std::int32_t>> entries) {
  std::erase_if(entries, [](const auto& entry) { return entry.first.empty(); });
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  roots_.assign(256, none);
  // The range of entries that share the prefix of a node.
  struct Job {
    std::size_t begin, end, depth;
    std::uint32_t node;
  };
  std::deque<Job> jobs;
  const auto add_children = [&](std::size_t begin, std::size_t end, std::size_t depth) {
    std::uint16_t count = 0;
    while (begin < end) {
      const char byte = entries[begin].first[depth];
      std::size_t behind = begin;
      while (behind < end && entries[behind].first[depth] == byte) ++behind;
      jobs.push_back({begin, behind, depth + 1, static_cast<std::uint32_t>(nodes_.size())});
      nodes_.emplace_back();
      bytes_.push_back(byte);
      ++count;
      begin = behind;
    }
    return count;
  };
  add_children(0, entries.size(), 0);
  for (const Job& job : jobs) roots_[static_cast<unsigned char>(bytes_[job.node])] = job.node;
  while (!jobs.empty()) {
    Job job = jobs.front();
    jobs.pop_front();
    for (; job.begin < job.end && entries[job.begin].first.size() == job.depth; ++job.begin)
      nodes_[job.node].value = entries[job.begin].second;
    const auto first = static_cast<std::uint32_t>(nodes_.size());
    const std::uint16_t count = add_children(job.begin, job.end, job.depth);
    nodes_[job.node].first_child = first;
    nodes_[job.node].children = count;
  }
}

std::uint32_t PrefixTrie::child(const Node& node, char byte) const {
  if (node.children == 0) return none;
  const char* first = bytes_.data() + node.first_child;
  const auto* found =
      static_cast<const char*>(std::memchr(first, static_cast<unsigned char>(byte), node.children));
  return found == nullptr ? none : node.first_child + static_cast<std::uint32_t>(found - first);
}

}  // namespace nystrom
