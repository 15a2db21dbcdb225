#include "data/tasks/entities.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "data/tasks/word_cut.h"

namespace nystrom {
namespace {

struct Tag {
  char letter = 'O';
  std::string_view type;
};

/// A tag by the letters of BIOES: BILOU calls the last word L and a single one U, BMES calls the
/// words between M, which goes on like I.
Tag parse_tag(std::string_view text) {
  if (text.empty()) return {};
  std::string_view type = text.substr(1);
  if (type.starts_with('-')) type.remove_prefix(1);
  const char letter = text[0] == 'L' ? 'E' : text[0] == 'U' ? 'S' : text[0];
  return {letter, type.empty() ? "_" : type};
}

/// Whether the entity of `before` continues at the word of `tag`.
bool goes_on(const Tag& before, const Tag& tag) {
  const bool open = before.letter != 'O' && before.letter != 'E' && before.letter != 'S';
  const bool inside = tag.letter != 'O' && tag.letter != 'B' && tag.letter != 'S';
  return open && inside && before.type == tag.type;
}

}  // namespace

std::vector<WordLabel> word_labels(const EncodedSample& sample, std::span<const double> scores,
                                   std::int64_t labels) {
  std::vector<WordLabel> result;
  for (const std::int64_t start : sample.word_starts) {
    result.push_back({start});
    if (start < 0) continue;
    const auto begin = static_cast<std::size_t>(start * labels),
               count = static_cast<std::size_t>(labels);
    require(begin + count <= scores.size(), "word_labels: {} scores for position {} of {} labels",
            scores.size(), start, labels);
    const auto row = scores.subspan(begin, count);
    const auto best = std::ranges::max_element(row);
    double sum = 0;
    for (const double score : row) sum += std::exp(score - *best);
    result.back() = {best - row.begin(), 1 / sum};
  }
  return result;
}

std::vector<std::string> tags_of(std::span<const WordLabel> words, const LabelSet& labels) {
  std::vector<std::string> tags;
  for (const WordLabel& word : words)
    tags.push_back(word.label == no_token  ? ""
                   : word.label == cut_off ? "O"
                                           : labels.name(word.label));
  return tags;
}

std::vector<Entity> find_entities(std::span<const std::string> words,
                                  std::span<const WordLabel> predicted, const LabelSet& labels,
                                  std::string_view text, std::span<const TextRange> places) {
  require(words.size() == predicted.size() && (places.empty() || places.size() == words.size()),
          "find_entities: {} words, {} labels, {} places", words.size(), predicted.size(),
          places.size());
  std::vector<Entity> entities = tagged_entities(tags_of(predicted, labels));
  for (Entity& entity : entities) {
    const auto first = static_cast<std::size_t>(entity.first),
               end = static_cast<std::size_t>(entity.end);
    const auto scored = std::ranges::count_if(
        predicted.subspan(first, end - first), [](std::int64_t label) { return label >= 0; },
        &WordLabel::label);
    for (std::size_t word = first; word < end; ++word) {
      const bool apart = word > first && !touch(words[word - 1], words[word]);
      if (places.empty()) entity.text += (apart ? " " : "") + words[word];
      entity.score += predicted[word].probability / static_cast<double>(scored);
    }
    if (places.empty()) continue;
    entity.place = {places[first].begin, places[end - 1].end};
    entity.text = text_at(text, entity.place);
  }
  return entities;
}

std::vector<Entity> tagged_entities(std::span<const std::string> tags) {
  std::vector<Entity> entities;
  Tag before;
  for (std::size_t i = 0; i < tags.size(); ++i) {
    if (tags[i].empty()) continue;
    const Tag tag = parse_tag(tags[i]);
    const auto place = static_cast<std::int64_t>(i);
    if (goes_on(before, tag))
      entities.back().end = place + 1;
    else if (tag.letter != 'O')
      entities.push_back({std::string(tag.type), place, place + 1});
    before = tag;
  }
  return entities;
}

bool is_entity_tag(std::string_view tag) {
  if (tag == "O") return true;
  return tag.size() > 2 && tag[1] == '-' &&
         std::string_view("BIESLUM").find(tag[0]) != std::string_view::npos;
}

EntityScores score_entities(std::span<const std::vector<std::string>> truth,
                            std::span<const std::vector<std::string>> predicted) {
  const auto check_sizes = [](std::size_t right, std::size_t found) {
    require(right == found, "metric: {} true values, {} predicted", right, found);
  };
  check_sizes(truth.size(), predicted.size());
  ClassCounts spans;
  std::int64_t words = 0, equal = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    check_sizes(truth[i].size(), predicted[i].size());
    std::vector<std::string> seen = truth[i];
    for (std::size_t word = 0; word < seen.size(); ++word)
      if (predicted[i][word].empty()) seen[word].clear();
    const std::vector<Entity> right = tagged_entities(seen), found = tagged_entities(predicted[i]);
    spans.truth += std::ssize(right);
    spans.predicted += std::ssize(found);
    for (const Entity& entity : found) spans.correct += std::ranges::count(right, entity);
    for (std::size_t word = 0; word < seen.size(); ++word) {
      words += !seen[word].empty();
      equal += !seen[word].empty() && seen[word] == predicted[i][word];
    }
  }
  return {spans.score(), words == 0 ? 0 : static_cast<double>(equal) / static_cast<double>(words)};
}

}  // namespace nystrom
