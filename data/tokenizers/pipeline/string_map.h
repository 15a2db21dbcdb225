// Hash maps with string keys and look-ups by string views.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace nystrom {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};
template <class Value>
using StringMap = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;

}  // namespace nystrom
