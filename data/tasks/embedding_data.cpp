#include "data/tasks/embedding_data.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/checksum.h"
#include "core/check.h"
#include "data/tasks/blanks.h"
#include "data/text/text.h"

namespace nystrom {
namespace {

TextRoles roles_of(const Example& example) {
  if (example.pair) return example.value ? TextRoles::scores : TextRoles::pairs;
  return example.label ? TextRoles::labels : TextRoles::texts;
}

double score_of(const Example& example, double max_score) {
  if (std::abs(*example.value) > max_score)
    throw BadRow(fmt::format(
        "{}: the score {} is above task.max_score {}; set it to the score of equal texts",
        example.place(), *example.value, max_score));
  return *example.value / max_score;
}

/// Numbers for texts, equal for equal ones.
class TextNumbers {
 public:
  /// The number of `text`, and whether it is new.
  std::pair<std::int64_t, bool> operator()(std::string_view text) {
    Checksum checksum;
    checksum.update(text.data(), text.size());
    const auto [place, added] = numbers_.emplace(checksum.digest(), std::ssize(numbers_));
    return {place->second, added};
  }

 private:
  std::map<Digest, std::int64_t> numbers_;
};

}  // namespace

const char* describe(TextRoles roles) {
  switch (roles) {
    case TextRoles::pairs: return "pairs of texts";
    case TextRoles::scores: return "scored pairs";
    case TextRoles::labels: return "labelled texts";
    case TextRoles::texts: return "texts";
  }
  return "";
}

std::string describe(const EmbeddingDataset& data) {
  std::string line = fmt::format("{} {}, {} different", data.samples().size(),
                                 describe(data.roles()), data.texts().size());
  if (data.truncated() > 0) line += fmt::format("; {} were cut at the end", data.truncated());
  if (data.skipped().count > 0) line += fmt::format("; {} rows were skipped", data.skipped().count);
  return line;
}

std::string EmbeddingDataset::checksum() const {
  Checksum checksum;
  const auto add = [&](const auto& values) {
    checksum.update(values.data(), values.size() * sizeof(values[0]));
  };
  for (const auto& text : texts_) {
    const std::size_t size = text.size();
    checksum.update(&size, sizeof size);
    add(text);
  }
  for (const EmbeddingSample& sample : samples_) {
    add(sample.texts);
    const double numbers[] = {sample.score, static_cast<double>(sample.label)};
    checksum.update(numbers, sizeof numbers);
  }
  return checksum.hex();
}

std::int64_t EmbeddingDataset::columns() const {
  const bool alone = roles_ == TextRoles::texts || roles_ == TextRoles::labels;
  return alone ? 2 : std::ssize(samples_[0].texts);
}

EmbeddingDataset::EmbeddingDataset(const TaskConfig& task, const std::vector<std::string>& patterns,
                                   const Tokenizer& tokenizer,
                                   const EmbeddingTextOptions& options) {
  const std::int64_t room = options.sequence_length - std::ssize(tokenizer.wrap({}).ids);
  require_input(room >= 4,
                "data.sequence_length {} leaves no room for text beside {} special tokens",
                options.sequence_length, options.sequence_length - room);
  TextNumbers numbers;
  std::map<std::string, std::int64_t> labels;
  const auto number_of = [&](const std::string& text) {
    const auto [number, added] = numbers(text);
    if (!added) return number;
    std::vector<std::int32_t> ids = tokenizer.encode(text);
    const bool whole = roles_ == TextRoles::texts && task.views == TaskViews::crops;
    if (!whole && std::ssize(ids) > room) {
      ids.resize(static_cast<std::size_t>(room));
      ++truncated_;
    }
    texts_.push_back(std::move(ids));
    return number;
  };
  for_each_example(task, patterns, Labelled::optional, skipped_, [&](const Example& example) {
    const TextRoles roles = roles_of(example);
    if (samples_.empty()) roles_ = roles;
    if (roles != roles_)
      throw InputError(fmt::format("{}: has {}, the files before it {}; give files of one form",
                                   example.place(), describe(roles), describe(roles_)));
    std::vector<std::string> texts = {options.query_prompt + example.text};
    if (example.pair) texts.push_back(options.document_prompt + *example.pair);
    for (const std::string& negative : example.negatives)
      texts.push_back(options.document_prompt + negative);
    const bool blank = is_blank(example.text) || (example.pair && is_blank(*example.pair)) ||
                       std::ranges::any_of(example.negatives, is_blank);
    if (blank) throw BadRow(example.place() + ": a text is blank");
    EmbeddingSample sample;
    if (roles == TextRoles::scores) sample.score = score_of(example, task.max_score);
    for (const std::string& text : texts) sample.texts.push_back(number_of(text));
    if (roles == TextRoles::labels) {
      sample.label = labels.emplace(*example.label, std::ssize(labels)).first->second;
      of_label_.resize(labels.size());
      of_label_[static_cast<std::size_t>(sample.label)].push_back(std::ssize(samples_));
    }
    samples_.push_back(std::move(sample));
  });
  require_input(!samples_.empty(), "{}", describe_unreadable(patterns, skipped_));
  for (const auto& [label, number] : labels)
    require_input(of_label_[static_cast<std::size_t>(number)].size() > 1,
                  "{}: only one text has the label '{}', and texts of one label are to be alike",
                  fmt::join(patterns, ", "), label);
}

}  // namespace nystrom
