// A trie over bytes. It finds the strings of a set that are prefixes of a text.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace nystrom {

/// Const members may be called from several threads.
class PrefixTrie {
 public:
  PrefixTrie() = default;
  /// Builds the trie from strings and their values. The last of equal strings counts; empty strings
  /// are ignored.
  explicit PrefixTrie(std::vector<std::pair<std::string_view, std::int32_t>> entries);

  /// Whether the trie has no strings.
  bool empty() const { return nodes_.empty(); }

  /// Calls use(length, value) for each string that is a prefix of `text`, the shortest first.
  template <class Use>
  void for_each_prefix(std::string_view text, const Use& use) const {
    if (text.empty() || nodes_.empty()) return;
    std::uint32_t node = roots_[static_cast<unsigned char>(text[0])];
    for (std::size_t length = 1; node != none; ++length) {
      if (nodes_[node].value >= 0) use(length, nodes_[node].value);
      if (length == text.size()) return;
      node = child(nodes_[node], text[length]);
    }
  }

  /// Length and value of the longest string that is a prefix of `text`, or length 0.
  std::pair<std::size_t, std::int32_t> longest(std::string_view text) const {
    std::pair<std::size_t, std::int32_t> found{0, -1};
    for_each_prefix(text, [&](std::size_t length, std::int32_t value) { found = {length, value}; });
    return found;
  }

 private:
  static constexpr std::uint32_t none = 0xFFFFFFFF;

  /// The children of a node are adjacent and ordered by their bytes.
  struct Node {
    std::uint32_t first_child = 0;
    std::uint16_t children = 0;
    std::int32_t value = -1;
  };

  std::uint32_t child(const Node& node, char byte) const;

  std::vector<Node> nodes_;
  std::vector<char> bytes_;  // the byte that leads to each node
  std::vector<std::uint32_t> roots_;
};

}  // namespace nystrom
