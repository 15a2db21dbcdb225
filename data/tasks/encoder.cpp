#include "data/tasks/encoder.h"

#include <algorithm>

#include "core/base/printable.h"
#include "core/base/suggest.h"
#include "core/check.h"
#include "data/tokenizers/builtin_tokenizer.h"
#include "data/tokenizers/encoding.h"

namespace nystrom {
namespace {

std::vector<std::int32_t> ids_of(std::span<const Token> tokens) {
  std::vector<std::int32_t> ids;
  for (const Token& token : tokens) ids.push_back(token.id);
  return ids;
}

/// The first and the last token that overlap the example's first answer; −1 and −1 if there are
/// none.
std::pair<std::int64_t, std::int64_t> answer_tokens(const Example& example,
                                                    std::span<const Token> tokens) {
  std::int64_t first = -1, last = -1;
  if (example.answers.empty()) return {first, last};
  const std::int64_t begin = example.answers[0].begin,
                     end = begin + std::ssize(example.answers[0].text);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].begin >= tokens[i].end || tokens[i].end <= begin || tokens[i].begin >= end)
      continue;
    if (first < 0) first = static_cast<std::int64_t>(i);
    last = static_cast<std::int64_t>(i);
  }
  return {first, last};
}

/// For each token, its place, or that of its word's tokens among these.
std::vector<TextRange> places_of(std::span<const Token> tokens, bool whole_words) {
  std::vector<TextRange> places;
  for (std::size_t begin = 0, end = 0; begin < tokens.size(); begin = end) {
    do ++end;
    while (whole_words && end < tokens.size() && tokens[end].word == tokens[begin].word);
    places.insert(places.end(), end - begin, {tokens[begin].begin, tokens[end - 1].end});
  }
  return places;
}

/// The number of tokens before this sequence in a wrapped row.
std::int64_t place_of(const WrappedIds& wrapped, std::int32_t id) {
  return std::ranges::find(wrapped.ids, id) - wrapped.ids.begin();
}

/// Whether a text that the model reads is blank. The shared beginning of choices may be blank.
bool has_blank_text(TaskKind kind, const Example& example) {
  if (kind == TaskKind::tokens || !example.pixels.empty()) return false;
  const bool blank_pair = kind != TaskKind::choice && example.pair && is_blank(*example.pair);
  return is_blank(example.text) || blank_pair || std::ranges::any_of(example.choices, is_blank);
}

}  // namespace

std::int64_t EncodedSample::length() const {
  std::int64_t longest = 0;
  for (const WrappedIds& row : rows) longest = std::max(longest, std::ssize(row.ids));
  return longest;
}

std::int64_t stride_of(const TaskConfig& task, std::int64_t sequence_length) {
  return task.stride.value_or(std::min<std::int64_t>(128, sequence_length / 3));
}

TaskEncoder::TaskEncoder(const TaskConfig& task, LabelSet labels, const Tokenizer& tokenizer,
                         std::int64_t sequence_length, bool towers)
    : task_(task),
      labels_(std::move(labels)),
      tokenizer_(tokenizer),
      sequence_length_(sequence_length),
      stride_(stride_of(task, sequence_length)),
      towers_(towers),
      single_specials_(std::ssize(tokenizer.wrap({}).ids)),
      pair_specials_(std::ssize(tokenizer.wrap({}, {}).ids)) {
  constexpr std::int32_t text = -1, none = -2;
  before_text_ = place_of(tokenizer.wrap(std::span(&text, 1)), text);
  before_second_ = place_of(tokenizer.wrap(std::span(&none, 1), std::span(&text, 1)), text) - 1;
  require(task.kind && *task.kind != TaskKind::features,
          "TaskEncoder: the task is of features or not resolved");
  require_input(sequence_length >= pair_specials_ + 4,
                "data.sequence_length {} leaves no room for two texts beside {} special tokens; "
                "expected at least {}",
                sequence_length, pair_specials_, pair_specials_ + 4);
  require_input(
      tokenizer.special().pad != no_id,
      "the tokenizer has no padding token, which batches of texts of different lengths need");
  const auto require_stride = [&](std::int64_t size, const char* what) {
    require_input(stride_ < size,
                  "task.stride {} is too large for data.sequence_length {}: a window has {} tokens "
                  "of {}",
                  stride_, sequence_length, size, what);
  };
  if (task.windows != TaskWindows::first)
    require_stride(sequence_length - single_specials_, "text");
  if (*task.kind != TaskKind::questions) return;
  require_input(tokenizer.special().cls != no_id,
                "the tokenizer has no cls token, which stands for answers that are not there");
  require_stride(sequence_length - pair_specials_ - (sequence_length - pair_specials_) / 2,
                 "context beside a long question");
}

std::vector<EncodedSample> TaskEncoder::encode(const Example& example,
                                               EncodingCounts& counts) const {
  std::vector<EncodedSample> samples(1);
  switch (*task_.kind) {
    case TaskKind::classification:
    case TaskKind::regression: samples = encode_texts(example); break;
    case TaskKind::tokens: encode_words(example, samples[0]); break;
    case TaskKind::choice: encode_choices(example, samples[0]); break;
    case TaskKind::questions: samples = encode_question(example, counts); break;
    case TaskKind::features:
    case TaskKind::embeddings: break;
  }
  if (samples[0].full_length > samples[0].length()) counts.truncated.add(example);
  if (has_blank_text(*task_.kind, example)) counts.blank.add(example);
  for (EncodedSample& sample : samples) {
    counts.longest = std::max(counts.longest, sample.full_length);
    sample.example = counts.examples;
    sample.labelled = example.labelled;
    for (const WrappedIds& row : sample.rows) {
      counts.tokens += std::ssize(row.ids);
      counts.unknown += std::ranges::count(row.ids, tokenizer_.special().unk);
    }
  }
  counts.samples += std::ssize(samples);
  ++counts.examples;
  return samples;
}

std::int64_t TaskEncoder::label_index(const std::string& label, const Example& example) const {
  const std::int64_t index = labels_.find(label);
  if (index < 0)
    throw BadRow(fmt::format("{}: unknown label '{}'{}; {}{}", example.place(), printable(label),
                             did_you_mean(label, labels_.names()), describe(labels_),
                             header_hint(task_, example)));
  return index;
}

void TaskEncoder::add_single(Ids ids, EncodedSample& sample) const {
  const std::int64_t all = std::ssize(ids),
                     kept = std::min(all, sequence_length_ - single_specials_);
  sample.full_length = std::max(sample.full_length, all + single_specials_);
  ids.resize(static_cast<std::size_t>(kept));
  sample.rows.push_back(tokenizer_.wrap(ids));
}

void TaskEncoder::add_pair(Ids first, Ids second, EncodedSample& sample) const {
  require_pairs(tokenizer_);
  const std::int64_t all = std::ssize(first) + std::ssize(second);
  sample.full_length = std::max(sample.full_length, all + pair_specials_);
  const auto [kept_first, kept_second] =
      longest_first(std::ssize(first), std::ssize(second), sequence_length_ - pair_specials_);
  first.resize(static_cast<std::size_t>(kept_first));
  second.resize(static_cast<std::size_t>(kept_second));
  sample.rows.push_back(tokenizer_.wrap(first, second));
}

std::vector<EncodedSample> TaskEncoder::encode_texts(const Example& example) const {
  EncodedSample sample;
  if (example.label) sample.label = label_index(*example.label, example);
  for (const std::string& label : example.labels)
    sample.labels.push_back(label_index(label, example));
  std::ranges::sort(sample.labels);
  if (example.value) sample.value = *example.value;
  Ids ids = example.pixels.empty() ? tokenizer_.encode(example.text)
                                   : byte_ids(tokenizer_, example.pixels);
  if (towers_ && !example.pair)
    throw BadRow(example.place() + ": has one text, and a model of two towers compares two");
  if (task_.windows != TaskWindows::first && !example.pair && example.pixels.empty())
    return cut_into_windows(sample, ids);
  if (example.pair && !towers_) {
    add_pair(std::move(ids), tokenizer_.encode(*example.pair), sample);
  } else {
    add_single(std::move(ids), sample);
    if (example.pair) add_single(tokenizer_.encode(*example.pair), sample);
  }
  return {std::move(sample)};
}

/// Windows of `ids`, each with the label or value of `whole`.
std::vector<EncodedSample> TaskEncoder::cut_into_windows(const EncodedSample& whole,
                                                         const Ids& ids) const {
  const std::int64_t size = sequence_length_ - single_specials_, all = std::ssize(ids);
  std::vector<EncodedSample> windows;
  for (std::int64_t begin = 0;; begin += size - stride_) {
    const std::int64_t end = std::min(begin + size, all);
    EncodedSample window = whole;
    window.rows.push_back(tokenizer_.wrap(std::span(ids).subspan(
        static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin))));
    window.full_length = window.length();
    windows.push_back(std::move(window));
    if (end == all) return windows;
  }
}

void TaskEncoder::encode_choices(const Example& example, EncodedSample& sample) const {
  if (example.choice) sample.label = *example.choice;
  const Ids before = tokenizer_.encode(example.text);
  for (const std::string& choice : example.choices) {
    const std::string text =
        example.pair && !example.pair->empty() ? *example.pair + " " + choice : choice;
    add_pair(before, tokenizer_.encode(text), sample);
  }
}

void TaskEncoder::encode_words(const Example& example, EncodedSample& sample) const {
  for (const std::string& label : example.labels)
    sample.labels.push_back(label_index(label, example));
  const std::int64_t room = sequence_length_ - single_specials_;
  Ids ids;
  std::int64_t all = 0;
  for (const std::string& word : example.words) {
    const Ids pieces = tokenizer_.encode(" " + word);
    sample.word_starts.push_back(pieces.empty() ? no_token : all < room ? all : cut_off);
    all += std::ssize(pieces);
    ids.insert(ids.end(), pieces.begin(), pieces.end());
  }
  sample.full_length = all + single_specials_;
  ids.resize(static_cast<std::size_t>(std::min(all, room)));
  sample.rows.push_back(tokenizer_.wrap(ids));
  for (std::int64_t& start : sample.word_starts)
    if (start >= 0) start += before_text_;
}

std::vector<EncodedSample> TaskEncoder::encode_question(const Example& example,
                                                        EncodingCounts& counts) const {
  require_pairs(tokenizer_);
  const std::string& context = *example.pair;
  Ids question = tokenizer_.encode(example.text);
  const std::vector<Token> tokens = tokenizer_.encode_with_offsets(context);
  const std::int64_t room = sequence_length_ - pair_specials_, all = std::ssize(tokens);
  const std::int64_t kept = std::min(std::ssize(question), room / 2), size = room - kept,
                     removed = std::ssize(question) - kept;
  question.resize(static_cast<std::size_t>(kept));

  const auto [first, last] = answer_tokens(example, tokens);
  bool found = example.answers.empty();
  std::vector<EncodedSample> windows;
  for (std::int64_t begin = 0;; begin += size - stride_) {
    const std::int64_t end = std::min(begin + size, all);
    const auto part = std::span(tokens).subspan(static_cast<std::size_t>(begin),
                                                static_cast<std::size_t>(end - begin));
    EncodedSample window;
    window.rows.push_back(tokenizer_.wrap(question, ids_of(part)));
    window.full_length = std::ssize(window.rows[0].ids) + removed;
    window.context_begin = before_second_ + kept;
    window.places = places_of(part, task_.whole_words);
    if (first >= begin && last >= first && last < end) {
      window.start = window.context_begin + first - begin;
      window.end = window.context_begin + last - begin;
      found = true;
    }
    windows.push_back(std::move(window));
    if (end == all) break;
  }
  counts.answers_cut += !found;
  return windows;
}

std::vector<double> merge_windows(TaskWindows windows,
                                  std::span<const std::vector<double>> outputs) {
  require(!outputs.empty(), "merge_windows: a text without windows");
  std::vector<double> merged = outputs[0];
  for (const std::vector<double>& window : outputs.subspan(1)) {
    for (std::size_t i = 0; i < merged.size(); ++i)
      merged[i] =
          windows == TaskWindows::max ? std::max(merged[i], window[i]) : merged[i] + window[i];
  }
  if (windows == TaskWindows::mean)
    for (double& value : merged) value /= static_cast<double>(outputs.size());
  return merged;
}

}  // namespace nystrom
