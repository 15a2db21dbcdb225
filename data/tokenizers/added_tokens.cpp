#include "data/tokenizers/added_tokens.h"

#include <algorithm>

#include "core/check.h"
#include "core/json.h"
#include "data/tokenizers/json_part.h"
#include "data/tokenizers/normalizers.h"
#include "data/tokenizers/unicode.h"
#include "data/tokenizers/vocabulary.h"

namespace nystrom {
namespace {

/// The character that ends before `position`, which is not 0; moves there.
char32_t previous_character(std::string_view text, std::size_t& position) {
  do --position;
  while (is_utf8_continuation(text[position]));
  std::size_t start = position;
  return next_code_point(text, start);
}

bool word_ends_at(std::string_view text, std::size_t position) {
  return position > 0 && is_word_character(previous_character(text, position));
}

bool word_begins_at(std::string_view text, std::size_t position) {
  return position < text.size() && is_word_character(next_code_point(text, position));
}

std::size_t spaces_begin(std::string_view text, std::size_t end) {
  while (end > 0) {
    std::size_t before = end;
    if (!is_white_space(previous_character(text, before))) break;
    end = before;
  }
  return end;
}

std::size_t spaces_end(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    std::size_t behind = begin;
    if (!is_white_space(next_code_point(text, behind))) break;
    begin = behind;
  }
  return begin;
}

ByteRange range_of(std::size_t begin, std::size_t end) { return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)}; }

}  // namespace

std::vector<AddedToken> read_added_tokens(const JsonPart& part, Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  for (const JsonPart& each : part.elements()) {
    AddedToken token;
    token.content = each["content"].text();
    token.special = each.boolean_or("special", false);
    token.normalized = each.boolean_or("normalized", !token.special);
    token.single_word = each.boolean_or("single_word", false);
    token.lstrip = each.boolean_or("lstrip", false);
    token.rstrip = each.boolean_or("rstrip", false);
    if (token.content.empty()) each.fail("'content' is empty");
    const std::int64_t largest = std::int64_t{vocabulary.size()} + static_cast<std::int64_t>(part.value().size()) - 1;
    token.id = static_cast<std::int32_t>(each["id"].integer(0, largest));
    if (const auto known = vocabulary.find(token.content)) {
      if (*known != token.id)
        each.fail(fmt::format("'{}' has id {}, but the vocabulary says {}", printable(token.content), token.id, *known));
    } else if (!vocabulary.add(token.content, token.id)) {
      each.fail(fmt::format("'{}' has id {}, which is '{}' in the vocabulary", printable(token.content), token.id,
                            printable(vocabulary.piece(token.id))));
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const TextNormalizer* normalizer) : tokens_(std::move(tokens)) {
  std::vector<std::string> forms;
  for (const AddedToken& token : tokens_) {
    AlignedText form(token.content);
    if (token.normalized && normalizer != nullptr) normalizer->apply(form);
    forms.push_back(form.text());
  }
  std::vector<std::pair<std::string_view, std::int32_t>> entries[2];
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (forms[i].empty()) continue;
    entries[tokens_[i].normalized].emplace_back(forms[i], static_cast<std::int32_t>(i));
    begins_[tokens_[i].normalized][static_cast<unsigned char>(forms[i][0])] = true;
  }
  for (const int which : {0, 1}) tries_[which] = PrefixTrie(std::move(entries[which]));
}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text, bool normalized, SpecialNames names) const {
  std::vector<Part> parts;
  const PrefixTrie& trie = tries_[normalized];
  const std::vector<bool>& begins = begins_[normalized];
  std::size_t done = 0;
  for (std::size_t at = 0; !trie.empty() && at < text.size();) {
    if (!begins[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const auto [length, index] = trie.longest(text.substr(at));
    if (length == 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(index)];
    std::size_t begin = at, end = at + length;
    at = end;
    if (token.special && names == SpecialNames::text) continue;
    if (token.single_word && (word_ends_at(text, begin) || word_begins_at(text, end))) continue;
    // The spaces may already belong to the token before.
    if (token.lstrip) begin = std::max(spaces_begin(text, begin), done);
    if (token.rstrip) end = spaces_end(text, end);
    if (begin < done) continue;
    if (begin > done) parts.push_back({range_of(done, begin), nullptr});
    parts.push_back({range_of(begin, end), &token});
    done = end;
  }
  if (done < text.size()) parts.push_back({range_of(done, text.size()), nullptr});
  return parts;
}

}  // namespace nystrom
