#include "data/tasks/embedding_data.h"

#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/word_cut.h"
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
        "{}: the score {} is {} task.max_score {}; set it to the score of equal texts",
        example.place(), *example.value, *example.value > 0 ? "above" : "below minus", max_score));
  return *example.value / max_score;
}

void sort_groups(EmbeddingTexts& texts) {
  for (auto& groups : texts.groups) {
    std::ranges::sort(groups);
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  }
}

std::string checksum_of(const EmbeddingTexts& read) {
  Checksum checksum;
  for (const std::string& text : read.texts) checksum.add_counted(text);
  for (const EmbeddingSample& sample : read.samples) {
    checksum.add(sample.texts);
    checksum.add(std::array{sample.score, static_cast<double>(sample.label)});
  }
  return checksum.hex();
}

}  // namespace

const char* describe(TextRoles roles) {
  return roles == TextRoles::pairs    ? "pairs of texts"
         : roles == TextRoles::scores ? "scored pairs"
         : roles == TextRoles::labels ? "labelled texts"
                                      : "texts";
}

std::string describe(const EmbeddingTexts& texts) {
  std::string line = fmt::format("{} {}, {} different", texts.samples.size(), describe(texts.roles),
                                 texts.groups.size());
  if (texts.skipped.count > 0) line += fmt::format("; {} rows were skipped", texts.skipped.count);
  return line;
}

bool EmbeddingTexts::alike(std::int64_t a, std::int64_t b) const {
  if (!same.empty()) {
    a = same[static_cast<std::size_t>(a)];
    b = same[static_cast<std::size_t>(b)];
  }
  if (a == b) return true;
  const auto& first = groups[static_cast<std::size_t>(a)];
  const auto& second = groups[static_cast<std::size_t>(b)];
  const bool fewer = first.size() < second.size();
  const auto &few = fewer ? first : second, &many = fewer ? second : first;
  return std::ranges::any_of(
      few, [&](std::int64_t group) { return std::ranges::binary_search(many, group); });
}

EmbeddingTexts read_embedding_texts(const TaskConfig& task, const ExampleSource& source,
                                    const Tokenizer& tokenizer) {
  EmbeddingTexts result;
  std::map<Digest, std::int64_t> numbers;
  std::map<std::string, std::int64_t> labels;
  for_each_example(task, source, Labelled::optional, result.skipped, [&](const Example& example) {
    const TextRoles roles = roles_of(example);
    if (result.samples.empty()) result.roles = roles;
    if (roles != result.roles)
      throw InputError(fmt::format("{}: has {}, the files before it {}; give files of one form",
                                   example.place(), describe(roles), describe(result.roles)));
    std::vector<std::string> texts = {example.text};
    if (example.pair) texts.push_back(*example.pair);
    texts.insert(texts.end(), example.negatives.begin(), example.negatives.end());
    if (std::ranges::any_of(texts, is_blank)) throw BadRow(example.place() + ": a text is blank");
    EmbeddingSample sample;
    if (roles == TextRoles::scores) sample.score = score_of(example, task.max_score);
    std::vector<std::vector<std::int32_t>> tokens;
    std::vector<Digest> digests;
    for (const std::string& text : texts) {
      tokens.push_back(tokenizer.encode(text));
      if (tokens.back().empty())
        throw BadRow(fmt::format("{}: a text has no token", example.place()));
      digests.push_back(checksum_of_items(tokens.back()));
      const bool unlike = std::ssize(digests) > 2;
      if (unlike && (digests.back() == digests[0] || digests.back() == digests[1]))
        throw BadRow(fmt::format("{}: a text unlike the others has the tokens of one of them, '{}'",
                                 example.place(), printable(text, 60)));
    }
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto [number, added] = numbers.emplace(digests[i], std::ssize(numbers));
      sample.texts.push_back(number->second);
      if (!added) continue;
      result.counts.tokens += std::ssize(tokens[i]);
      result.counts.unknown += std::ranges::count(tokens[i], tokenizer.special().unk);
      result.texts.push_back(std::move(texts[i]));
      result.tokens.push_back(std::move(tokens[i]));
    }
    result.digests.push_back(
        checksum_of_items(std::span(digests).first(std::min<std::size_t>(digests.size(), 2))));
    result.groups.resize(result.texts.size());
    const auto place = std::ssize(result.samples);
    if (roles == TextRoles::labels) {
      sample.label = labels.emplace(*example.label, std::ssize(labels)).first->second;
      result.of_label.resize(labels.size());
      result.of_label[static_cast<std::size_t>(sample.label)].push_back(place);
      result.groups[static_cast<std::size_t>(sample.texts[0])].push_back(sample.label);
    }
    if (roles == TextRoles::pairs)
      for (const std::size_t column : {0, 1})
        result.groups[static_cast<std::size_t>(sample.texts[column])].push_back(place);
    result.samples.push_back(std::move(sample));
  });
  require_input(!result.samples.empty(), "{}",
                describe_unreadable(source.patterns, result.skipped));
  for (const auto& [label, number] : labels)
    require_input(result.of_label[static_cast<std::size_t>(number)].size() > 1,
                  "{}{}: only one text has the label '{}', and texts of one label are to be alike",
                  fmt::join(source.patterns, ", "),
                  source.filter ? " (without what task.validation_fraction parts)" : "",
                  printable(label, 60));
  sort_groups(result);
  result.contradictions = std::ranges::count_if(result.samples, [&](const auto& sample) {
    const std::span texts(sample.texts);
    return texts.size() > 2 && std::ranges::any_of(texts.subspan(2), [&](std::int64_t text) {
             return result.alike(texts[0], text);
           });
  });
  result.checksum = checksum_of(result);
  return result;
}

EmbeddingDataset::EmbeddingDataset(EmbeddingTexts content, const Tokenizer& tokenizer,
                                   std::int64_t sequence_length, const std::string& query_prompt,
                                   const std::string& document_prompt, TaskViews views)
    : content_(std::move(content)),
      crops_(content_.roles == TextRoles::texts && views == TaskViews::crops) {
  const std::int64_t room = sequence_length - std::ssize(tokenizer.wrap({}).ids);
  require_input(room >= 4,
                "data.sequence_length {} leaves no room for text beside {} special tokens",
                sequence_length, sequence_length - room);
  const std::vector<std::string> texts = std::move(content_.texts);
  std::vector<std::vector<std::int32_t>> plain = std::move(content_.tokens);
  std::vector<std::string> prompts = {query_prompt};
  if (document_prompt != query_prompt) prompts.push_back(document_prompt);
  for (const std::string& prompt : prompts) {
    require_plain_prompt(tokenizer, prompt);
    prompt_tokens_.push_back(std::ssize(tokenizer.encode(prompt)));
    require_input(prompt_tokens_.back() + 4 <= room,
                  "data.sequence_length {} leaves no room for text beside a prompt of {} tokens, "
                  "'{}'",
                  sequence_length, prompt_tokens_.back(), printable(prompt, 60));
  }
  tokens_.assign(prompts.size(), std::vector<std::vector<std::int32_t>>(texts.size()));
  std::vector<bool> cut(texts.size());
  const auto encode = [&](std::int64_t text, std::size_t prompt) {
    const auto place = static_cast<std::size_t>(text);
    std::vector<std::int32_t>& ids = tokens_[prompt][place];
    if (!ids.empty()) return;
    ids = prompts[prompt].empty() ? std::move(plain[place])
                                  : tokenizer.encode(prompts[prompt] + texts[place]);
    if (crops_ || std::ssize(ids) <= room) return;
    ids.resize(static_cast<std::size_t>(room));
    cut[place] = true;
  };
  for (const EmbeddingSample& sample : content_.samples) {
    for (std::size_t column = 0; column < sample.texts.size(); ++column)
      encode(sample.texts[column], std::min(column, prompts.size() - 1));
    if (content_.is_alone()) encode(sample.texts[0], prompts.size() - 1);
  }
  truncated_ = std::ranges::count(cut, true);
  join_equal(room);
}

void EmbeddingDataset::join_equal(std::int64_t room) {
  std::vector<std::int64_t>& same = content_.same;
  same.resize(content_.groups.size());
  std::iota(same.begin(), same.end(), std::int64_t{0});
  const auto first_of = [&](std::int64_t text) {
    while (same[static_cast<std::size_t>(text)] != text)
      text = same[static_cast<std::size_t>(text)];
    return static_cast<std::size_t>(text);
  };
  for (const auto& of_prompt : tokens_) {
    std::map<Digest, std::int64_t> known;
    for (std::size_t text = 0; text < of_prompt.size(); ++text) {
      if (std::ssize(of_prompt[text]) != room) continue;
      const auto number = static_cast<std::int64_t>(text);
      const auto equal = known.emplace(checksum_of_items(of_prompt[text]), number).first->second;
      const std::size_t first = first_of(equal), other = first_of(number);
      if (first == other) continue;
      same[other] = static_cast<std::int64_t>(first);
      std::vector<std::int64_t>& joined = content_.groups[first];
      std::ranges::move(content_.groups[other], std::back_inserter(joined));
      content_.groups[other].clear();
    }
  }
  for (std::int64_t& text : same) text = static_cast<std::int64_t>(first_of(text));
  sort_groups(content_);
}

}  // namespace nystrom
