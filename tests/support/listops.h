// The value of a ListOps expression.
#pragma once

#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

#include "core/base/words.h"

namespace nystrom::testing {

/// The value, 0 to 9, of a valid expression with the operators of ListOpsGenerator.
inline int evaluate_listops(std::string_view source) {
  struct List {
    std::string_view op;
    std::vector<int> values;
  };
  std::vector<List> open{{}};
  for (const std::string_view word : words_between(source, " ")) {
    if (word == "(" || word == ")") continue;
    if (word[0] == '[') {
      open.push_back({word, {}});
      continue;
    }
    int value = word[0] - '0';
    if (word == "]") {
      auto [op, values] = std::move(open.back());
      open.pop_back();
      std::ranges::sort(values);
      const std::size_t size = values.size();
      value = op == "[MIN"   ? values.at(0)
              : op == "[MAX" ? values.at(size - 1)
              : op == "[MED" ? (values.at((size - 1) / 2) + values.at(size / 2)) / 2
                             : std::accumulate(values.begin(), values.end(), 0) % 10;
    }
    open.at(open.size() - 1).values.push_back(value);
  }
  return open.at(0).values.at(0);
}

}  // namespace nystrom::testing
