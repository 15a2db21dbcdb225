#include "train/corpus.h"

#include <unistd.h>

#include <optional>

#include "core/check.h"
#include "core/checksum.h"
#include "core/file_io.h"
#include "core/rng.h"
#include "data/sentencepiece_train.h"
#include "data/tokenizer_json.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

using Files = std::vector<fs::path>;

/// Name, size and time of change of every file: what tells one state of a corpus from another without reading it.
std::string describe_files(const Files& files) {
  std::string text;
  for (const fs::path& file : files) {
    text += fmt::format("{} {} {}\n", fs::absolute(file).string(), fs::file_size(file), fs::last_write_time(file).time_since_epoch().count());
  }
  return text;
}

std::string short_hash(const std::string& text) {
  Checksum checksum;
  checksum.update(text.data(), text.size());
  return checksum.hex().substr(0, 16);
}

void say(bool quiet, const std::string& text) {
  if (!quiet) fmt::print(stderr, "{}\n", text);
}

/// Makes `folder` by `fill`, whole or not at all.
template <class Fill>
void make_folder(const fs::path& folder, const Fill& fill) {
  const fs::path temporary = folder.string() + fmt::format(".tmp-{}", ::getpid());
  fs::remove_all(temporary);
  fs::create_directories(temporary);
  try {
    fill(temporary);
  } catch (...) {
    fs::remove_all(temporary);
    throw;
  }
  fs::rename(temporary, folder);
  sync_folder(folder.parent_path());
}

fs::path trained_tokenizer(const RunConfig& config, const Files& files, bool quiet) {
  const TokenizerTrainingConfig& train = config.tokenizer.train;
  const std::string key = describe_files(files) + fmt::format("{} {} {} {} {}", enum_name(train.kind), train.vocab_size, train.lower_case,
                                                              config.seed, enum_name(config.data.documents));
  const fs::path folder = fs::path(config.data.cache) / ("tokenizer-" + short_hash(key));
  if (fs::exists(folder)) return folder;
  say(quiet, fmt::format("training a tokenizer of {} pieces", train.vocab_size));
  make_folder(folder, [&](const fs::path& made) {
    TextReader text(files, config.data.documents);
    SentencePieceTraining options;
    options.kind = train.kind == TokenizerKind::bpe ? SentencePieceModel::Kind::bpe : SentencePieceModel::Kind::unigram;
    options.vocab_size = train.vocab_size;
    options.normalizer.lower_case = train.lower_case;
    options.seed = static_cast<std::uint64_t>(config.seed);
    train_sentencepiece(text, options, made / "trained.model");
    const auto tokenizer = SentencePieceTokenizer::open(made / "trained.model", options.normalizer);
    write_tokenizer(tokenizer, made, config.data.sequence_length);
    fs::remove(made / "trained.model");
  });
  return folder;
}

/// Tokenizes the documents that `takes` accepts, by their number, into `folder`.
template <class Takes>
void write_shards(const fs::path& folder, const Files& files, Documents documents, const SentencePieceTokenizer& tokenizer,
                  const TokenSetInfo& info, const Takes& takes) {
  TextReader text(files, documents);
  ShardWriter writer(folder, info);
  std::int64_t number = 0;
  bool begins = true;
  while (const auto piece = text.next()) {
    if (takes(number)) {
      if (begins) writer.begin_document();
      const auto ids = tokenizer.encode(piece->text);
      writer.append(std::vector<std::uint32_t>(ids.begin(), ids.end()));
    }
    begins = !piece->continues;
    number += begins;
  }
  writer.finish(fmt::format("{{\"documents\": {}, \"bytes\": {}, \"left_out\": {}}}", text.statistics().documents, text.statistics().bytes,
                            text.statistics().skipped_documents()));
}

std::shared_ptr<const TokenDataset> open_set(const fs::path& folder) {
  return std::make_shared<TokenDataset>(TokenDataset::open(folder));
}

}  // namespace

Corpus prepare_corpus(const RunConfig& config, bool quiet) {
  const DataConfig& data = config.data;
  const Files train = match_files(data.train);
  const Files validation = data.validation.empty() ? Files{} : match_files(data.validation);
  Corpus corpus;
  corpus.tokenizer_folder = config.tokenizer.path ? fs::path(*config.tokenizer.path) : trained_tokenizer(config, train, quiet);
  corpus.tokenizer = std::make_shared<SentencePieceTokenizer>(SentencePieceTokenizer::open_folder(corpus.tokenizer_folder));

  const std::string tokenizer_hash = short_hash(corpus.tokenizer->bytes());
  const std::string key = describe_files(train) + "\n" + describe_files(validation) +
                          fmt::format("{} {} {} {}", tokenizer_hash, enum_name(data.documents), data.validation_fraction.value_or(0), config.seed);
  const fs::path folder = fs::path(data.cache) / ("tokens-" + short_hash(key));
  // A document is held out by a draw of its own, so that the choice does not depend on how many there are.
  const double fraction = data.validation_fraction.value_or(0);
  const auto held_out = [&](std::int64_t number) {
    const auto words = philox(philox_key(static_cast<std::uint64_t>(config.seed), 0x76616c6964ull), {{static_cast<std::uint32_t>(number), 0, 0, 0}});
    return uniform_open(words.word[0]) < fraction;
  };
  if (!fs::exists(folder)) {
    say(quiet, "turning the text into tokens");
    const TokenSetInfo info{tokenizer_hash, corpus.tokenizer->vocab_size(), corpus.tokenizer->special()};
    make_folder(folder, [&](const fs::path& made) {
      write_shards(made / "train", train, data.documents, *corpus.tokenizer, info, [&](std::int64_t i) { return !held_out(i); });
      const Files& source = validation.empty() ? train : validation;
      write_shards(made / "validation", source, data.documents, *corpus.tokenizer, info,
                   [&](std::int64_t i) { return !validation.empty() || held_out(i); });
    });
  }
  corpus.train = open_set(folder / "train");
  corpus.validation = open_set(folder / "validation");
  return corpus;
}

}  // namespace nystrom
