// A check for duplicate words in lists.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/printable.h"
#include "core/base/require.h"

namespace nystrom {

/// Throws an InputError when a word occurs twice. `where` names the list, such as "--landmarks".
inline void require_distinct(const std::string& where, const std::vector<std::string>& words) {
  for (auto word = words.begin(); word != words.end(); ++word)
    require_input(std::find(words.begin(), word, *word) == word,
                  "{}: {} is named twice; name each once", where, printable(*word, 80));
}

}  // namespace nystrom
