#include "data/tokenizers/sentencepiece_train.h"

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "core/base/words.h"
#include "core/check.h"
#include "core/rng.h"
#include "data/tokenizers/pipeline/aligned_text.h"
#include "data/tokenizers/pipeline/tokenizer_files.h"

namespace nystrom {
namespace {

// Lines are cut there. The trainer drops sentences above its max_sentence_length; normalization
// makes a character at most 11 times as long (U+FDFA).
constexpr std::size_t max_line_bytes = 4096, max_sentence_bytes = 12 * max_line_bytes;

/// A random sample of lines with a limited number of bytes of normalized text. Each line gets a
/// random number. Lines with a number above a limit are dropped, and the limit is lowered as
/// needed.
class Sample {
 public:
  explicit Sample(const SentencePieceTraining& options)
      : normalizer_(trained_normalizer(options.normalizer)),
        seed_(mix64(options.seed)),
        max_bytes_(options.max_bytes) {}

  void add(std::string_view line) {
    read_bytes_ += static_cast<std::int64_t>(line.size());
    const std::uint64_t lot = mix64(seed_ + count_++);
    if (lot > limit_) return;
    AlignedText normal(line);
    normalizer_(normal);
    // The trainer leaves out sentences with U+2585, its own sign for unknown characters.
    normal.replace(places_of(normal.text(), "\xE2\x96\x85"), " ");
    if (normal.text().find_first_not_of(' ') == std::string::npos) return;
    sentences_.push_back({lot, normal.text()});
    taken_bytes_ += static_cast<std::int64_t>(normal.size());
    while (taken_bytes_ > max_bytes_ && sentences_.size() > 1) lower_limit();
  }

  /// Drops more sentences until at most `most` different words remain.
  void reduce_words(std::int64_t most) {
    while (different_words() > most && sentences_.size() > 1) lower_limit();
  }

  struct Sentence {
    std::uint64_t lot;
    std::string text;
  };
  std::vector<Sentence>& sentences() { return sentences_; }
  std::int64_t read_bytes() const { return read_bytes_; }
  std::int64_t taken_bytes() const { return taken_bytes_; }

 private:
  void lower_limit() {
    limit_ -= limit_ / 8;
    std::erase_if(sentences_, [&](const Sentence& each) { return each.lot > limit_; });
    taken_bytes_ = 0;
    for (const Sentence& each : sentences_)
      taken_bytes_ += static_cast<std::int64_t>(each.text.size());
  }

  std::int64_t different_words() const {
    /// About as large as the text. It is freed before the trainer needs far more memory.
    std::vector<std::size_t> hashes;
    for (const Sentence& each : sentences_)
      for (const std::string_view word : words_between(each.text, " "))
        hashes.push_back(std::hash<std::string_view>{}(word));
    std::sort(hashes.begin(), hashes.end());
    return std::unique(hashes.begin(), hashes.end()) - hashes.begin();
  }

  TextNormalizer normalizer_;
  std::uint64_t seed_;
  std::int64_t max_bytes_, read_bytes_ = 0, taken_bytes_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t limit_ = std::numeric_limits<std::uint64_t>::max();
  std::vector<Sentence> sentences_;
};

/// Passes the sample to the trainer, which copies it. Each sentence is freed after it was passed.
class SampleIterator : public sentencepiece::SentenceIterator {
 public:
  explicit SampleIterator(std::vector<Sample::Sentence> sentences)
      : sentences_(std::move(sentences)) {}

  bool done() const override { return position_ == sentences_.size(); }
  void Next() override { std::string().swap(sentences_[position_++].text); }
  const std::string& value() const override { return sentences_[position_].text; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<Sample::Sentence> sentences_;
  std::size_t position_ = 0;
};

/// Adds the lines of a text. Long lines are cut into parts.
void add_lines(std::string_view text, Sample& sample) {
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    std::string_view rest = text.substr(start, end - start);
    while (!rest.empty()) {
      std::size_t cut = rest.size();
      if (cut > max_line_bytes) {
        cut = rest.rfind(' ', max_line_bytes);
        if (cut == rest.npos || cut == 0) {
          cut = max_line_bytes;
          while (is_utf8_continuation(rest[cut])) --cut;
        }
      }
      sample.add(rest.substr(0, cut));
      rest.remove_prefix(cut);
    }
    start = end + 1;
  }
}

std::unordered_map<std::string, std::string> trainer_options(const SentencePieceTraining& options,
                                                             std::int64_t vocab_size) {
  return {
      {"model_type", options.kind == SentencePieceModel::Kind::bpe ? "bpe" : "unigram"},
      {"vocab_size", std::to_string(vocab_size)},
      {"character_coverage", fmt::format("{}", options.character_coverage)},
      {"required_chars", "▁"},  // which begins every text, and is rare in long lines without spaces
      {"max_sentence_length", std::to_string(max_sentence_bytes)},
      {"pad_id", "0"},
      {"pad_piece", "<pad>"},
      {"unk_id", "1"},
      {"unk_piece", "<unk>"},
      {"bos_id", "2"},
      {"bos_piece", "[CLS]"},
      {"eos_id", "3"},
      {"eos_piece", "[SEP]"},
      {"control_symbols", "[MASK]"},
      {"normalization_rule_name", "identity"},  // trained_normalizer does it all
      {"shuffle_input_sentence", "false"},
      // The number of threads decides the order of sums and so the result. It is a constant and not
      // the number of cores.
      {"num_threads", "4"},
      {"minloglevel", "3"},
  };
}

/// The size that the trainer's error proposes in place of one that is too large.
std::optional<std::int64_t> proposed_size(const std::string& status) {
  constexpr std::string_view words = "Please set it to a value <= ";
  const std::size_t place = status.find(words);
  if (place == status.npos) return std::nullopt;
  return std::stoll(status.substr(place + words.size()));
}

/// Turns the trainer's error into an InputError about the options.
[[noreturn]] void refuse(const std::string& status, const SentencePieceTraining& options) {
  const std::size_t required = status.find("smaller than required_chars. ");
  if (required != status.npos) {
    const std::size_t versus = status.find(" vs ", required);
    throw InputError(fmt::format(
        "tokenizer: vocab_size {} is smaller than the {} characters and special tokens of the "
        "text; raise it",
        options.vocab_size,
        versus == status.npos
            ? ""
            : status.substr(versus + 4,
                            status.find_first_not_of("0123456789", versus + 4) - versus - 4)));
  }
  throw InputError(
      fmt::format("tokenizer: SentencePiece cannot train on this text: {}", printable(status)));
}

/// Rounds the scores to multiples of 1/1024. Sums over a word are then exact in float and in
/// double. The library sums in float and Hugging Face's in double; both then agree when two
/// segmentations have the same score ("---" as -- - or - --).
void round_scores(SentencePieceModel& model) {
  for (SentencePiece& piece : model.pieces) piece.score = std::round(piece.score * 1024) / 1024;
}

struct Trained {
  sentencepiece::util::Status status;
  std::string model;
};

/// Runs the library's trainer in a thread that owns all its data, so that `poll` may throw
/// meanwhile.
Trained run_trainer(const SentencePieceTraining& options, std::int64_t vocab_size,
                    std::vector<Sample::Sentence> sentences, const std::function<void()>& poll) {
  std::packaged_task<Trained()> task(
      [words = trainer_options(options, vocab_size),
       iterator = std::make_shared<SampleIterator>(std::move(sentences))] {
        Trained trained;
        trained.status =
            sentencepiece::SentencePieceTrainer::Train(words, iterator.get(), &trained.model);
        return trained;
      });
  std::future<Trained> trained = task.get_future();
  std::thread(std::move(task)).detach();
  while (trained.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) poll();
  return trained.get();
}

}  // namespace

SentencePieceTrained train_sentencepiece(TextReader& text, const SentencePieceTraining& options,
                                         const std::function<void()>& poll) {
  require_input(options.vocab_size >= min_vocab_size && options.vocab_size <= 1'000'000,
                "tokenizer: vocab_size is {}, expected {} to 1000000", options.vocab_size,
                min_vocab_size);
  require_input(options.character_coverage >= 0.9 && options.character_coverage <= 1,
                "tokenizer: character_coverage is {}, expected 0.9 to 1",
                options.character_coverage);
  Sample sample(options);
  while (const auto piece = text.next()) {
    poll();
    if (!options.takes || options.takes(*piece)) add_lines(piece->text, sample);
  }
  sample.reduce_words(options.max_words);
  require_input(!sample.sentences().empty(), "tokenizer: there is no text to train on ({})",
                text.statistics().summary());

  // The trainer proposes a size in place of one that is too large. It may be too large again.
  std::int64_t size = options.vocab_size;
  SentencePieceModel model;
  while (true) {
    const Trained trained = run_trainer(options, size, sample.sentences(), poll);
    std::int64_t supported = 0;
    if (trained.status.ok()) {
      model = scan_sentencepiece(trained.model, "the trained tokenizer");
      supported = std::ssize(model.pieces);
      if (supported >= size) break;
    } else {
      const auto proposed = proposed_size(trained.status.ToString());
      if (!proposed) refuse(trained.status.ToString(), options);
      supported = *proposed;
    }
    size = std::min(size - 1, supported);
  }
  require_input(size == options.vocab_size || options.shrink,
                "tokenizer: vocab_size {} is too large for {} bytes of text; expected at most {}: "
                "{} or give more text",
                options.vocab_size, sample.taken_bytes(), size,
                size < min_vocab_size ? "leave it out" : "lower it");
  round_scores(model);
  return {tokenizer_of_json(trained_tokenizer_json(std::move(model), options.normalizer)),
          sample.read_bytes(), sample.taken_bytes()};
}

}  // namespace nystrom
