#include "data/tokenizers/pipeline/added_tokens.h"

#include <algorithm>

#include "core/base/json_part.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/unicode.h"
#include "data/tokenizers/pipeline/vocabulary.h"

namespace nystrom {
namespace {

bool word_ends_at(std::string_view text, std::size_t position) {
  return position > 0 && is_word_character(previous_character(text, position));
}

bool word_begins_at(std::string_view text, std::size_t position) {
  return position < text.size() && is_word_character(next_code_point(text, position));
}

}  // namespace

AddedToken read_added_token(const JsonPart& part) {
  AddedToken token;
  token.content = part["content"].text();
  token.special = part.boolean_or("special", false);
  token.normalized = part.boolean_or("normalized", !token.special);
  token.single_word = part.boolean_or("single_word", false);
  token.lstrip = part.boolean_or("lstrip", false);
  token.rstrip = part.boolean_or("rstrip", false);
  if (token.content.empty()) part.fail("'content' is empty");
  require_piece_size(token.content, part);
  return token;
}

void place_added_token(const AddedToken& token, const std::string& where, std::int32_t& next,
                       Vocabulary& vocabulary) {
  const std::string name = printable(token.content);
  if (const auto known = vocabulary.find(token.content)) {
    require_input(*known == token.id, "{}: '{}' has id {}, but the vocabulary says {}", where, name,
                  token.id, *known);
    return;
  }
  require_input(!vocabulary.has(token.id), "{}: '{}' has id {}, which is '{}' in the vocabulary",
                where, name, token.id,
                vocabulary.has(token.id) ? printable(vocabulary.piece(token.id)) : "");
  require_input(token.id == next,
                "{}: '{}' has id {}, expected {}: new tokens are numbered from the number of "
                "pieces on, in order",
                where, name, token.id, next);
  vocabulary.add(token.content, next++);
}

AddedTokenList read_added_tokens(const JsonPart& part, Vocabulary& vocabulary) {
  AddedTokenList tokens;
  std::int32_t next = vocabulary.count();
  for (const JsonPart& each : part.elements()) {
    AddedToken token = read_added_token(each);
    token.id = static_cast<std::int32_t>(each["id"].integer(0, max_pieces));
    place_added_token(token, each.where(), next, vocabulary);
    tokens.add(std::move(token));
  }
  return tokens;
}

void AddedTokenList::add(AddedToken token) {
  std::vector<std::size_t>& places = places_[token.content];
  bool was_special = false, has_form = false;
  for (const std::size_t i : places) {
    if (tokens_[i] == token) return;
    was_special |= tokens_[i].special;
    has_form |= tokens_[i].normalized == token.normalized;
  }
  token.special |= was_special;
  for (const std::size_t i : places) {
    const bool normalized = tokens_[i].normalized;
    tokens_[i] = token;
    tokens_[i].normalized = normalized;
  }
  if (!places.empty() && (was_special || has_form)) return;
  places.push_back(tokens_.size());
  tokens_.push_back(std::move(token));
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const TextNormalizer& normalizer)
    : tokens_(std::move(tokens)) {
  // Special tokens win over others with the same form, and earlier tokens over later ones. The trie
  // keeps the last of equal strings, so the entries are added in reverse.
  std::stable_partition(tokens_.begin(), tokens_.end(),
                        [](const AddedToken& token) { return token.special; });
  std::vector<std::string> forms;
  for (const AddedToken& token : tokens_) {
    AlignedText form(token.content);
    if (token.normalized && normalizer) normalizer(form);
    require_input(!form.empty(),
                  "the tokenizer's normalizer leaves nothing of the added token '{}', which is to "
                  "be found in normal text; give it \"normalized\": false",
                  printable(token.content));
    forms.push_back(form.text());
  }
  std::vector<std::pair<std::string_view, std::int32_t>> entries[2];
  for (std::size_t i = tokens_.size(); i-- > 0;)
    entries[tokens_[i].normalized].emplace_back(forms[i], static_cast<std::int32_t>(i));
  for (const int which : {0, 1}) tries_[which] = PrefixTrie(std::move(entries[which]));
}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text, bool normalized,
                                                  SpecialNames names) const {
  std::vector<Part> parts;
  const PrefixTrie& trie = tries_[normalized];
  std::size_t done = 0;
  for (std::size_t at = 0; !trie.empty() && at < text.size();) {
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
    // The token before may already include these spaces. A token of white space among them is found
    // again, as in Hugging Face's tokenizers. It is dropped when it becomes empty; Hugging Face's
    // tokenizers fail there.
    if (token.lstrip) begin = std::max(spaces_begin(text, begin), done);
    if (token.rstrip) end = end_while(text, end, is_white_space);
    if (begin >= end) continue;
    if (begin > done) parts.push_back({byte_range(done, begin), nullptr});
    parts.push_back({byte_range(begin, end), &token});
    done = end;
  }
  if (done < text.size()) parts.push_back({byte_range(done, text.size()), nullptr});
  return parts;
}

}  // namespace nystrom
