// From a regular expression to instructions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/pipeline/character_set.h"

namespace nystrom {

struct PatternInstruction {
  enum class Kind {
    end,         ///< matched
    character,   ///< one of `set`
    repeat,      ///< least to most of `set`, as many as let the rest match
    repeat_all,  ///< … as many as there are
    jump,        ///< to target
    branch,      ///< to target, and if that fails to other
    ahead,       ///< what follows up to `end` matches here (least 1) or not (0); then on at target
    atomic,      ///< what follows up to `end` matches, in its first way; then on at target
    behind,      ///< the character before is of `set` (least 1) or not
    line_begin,
    line_end,
    text_begin,
    text_end,  ///< least 1: or before the last line feed
    word_edge  ///< least 1; 0: no edge
  };
  Kind kind = Kind::end;
  std::uint32_t set = 0;
  std::uint32_t target = 0, other = 0;
  std::uint32_t least = 1, most = 1;
};

struct PatternProgram {
  std::vector<PatternInstruction> instructions;
  std::vector<CharacterSet> sets;
};

/// InputError "where: …" for what Pattern does not know.
PatternProgram compile_pattern(std::string_view expression, const std::string& where);

}  // namespace nystrom
