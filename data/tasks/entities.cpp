#include "data/tasks/entities.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "data/tasks/task_metrics.h"

namespace nystrom {
std::vector<WordLabel> word_labels(const EncodedSample& sample, std::span<const double> scores,
                                   std::int64_t labels) {
  std::vector<WordLabel> result;
  for (const std::int64_t start : sample.word_starts) {
    result.emplace_back();
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

std::vector<Entity> find_entities(std::span<const std::string> words,
                                  std::span<const WordLabel> predicted, const LabelSet& labels,
                                  std::string_view text, std::span<const TextRange> places) {
  require(words.size() == predicted.size() && (places.empty() || places.size() == words.size()),
          "find_entities: {} words, {} labels, {} places", words.size(), predicted.size(),
          places.size());
  std::vector<std::string> tags;
  for (const WordLabel& word : predicted)
    tags.push_back(word.label < 0 ? "O" : labels.name(word.label));
  std::vector<Entity> entities;
  for (const TaggedSpan& span : tagged_spans(tags)) {
    Entity entity{span.type, "", span.begin, span.end, {}, 0};
    const auto first = static_cast<std::size_t>(span.begin),
               end = static_cast<std::size_t>(span.end);
    for (std::size_t word = first; word < end; ++word) {
      if (places.empty()) entity.text += (word > first ? " " : "") + words[word];
      entity.score += predicted[word].probability / static_cast<double>(end - first);
    }
    if (!places.empty()) {
      entity.place = {places[first].begin, places[end - 1].end};
      entity.text = text_at(text, entity.place);
    }
    entities.push_back(std::move(entity));
  }
  return entities;
}

}  // namespace nystrom
