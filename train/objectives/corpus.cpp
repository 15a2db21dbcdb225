#include "train/objectives/corpus.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <map>

#include "core/base/checksum.h"
#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/base/progress.h"
#include "core/base/stop_signals.h"
#include "core/check.h"
#include "core/rng.h"
#include "core/threads.h"
#include "data/text/table_reader.h"
#include "data/tokenizers/sentencepiece_train.h"
#include "data/tokenizers/tokenizer_folder.h"
#include "train/state/model_folder.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

using Files = std::vector<fs::path>;

// The longest pieces in which documents are read.
constexpr std::size_t whole_pieces = std::size_t{1} << 18;

// Names of data sets in their folder. That of a source has its name behind.
constexpr const char *training_set = "train", *validation_set = "validation";

/// The place, the name, whose ending tells the form, and the checksum of every file. Sizes and
/// times do not tell the state of a corpus: files of a container image have one time, and copies
/// may keep that of the original.
std::string describe_files(const Files& files) {
  std::string text;
  for (const fs::path& file : files)
    text += fmt::format("{} {} {}\n", normal_place(file).string(), file.filename().string(),
                        file_checksum(file));
  return text;
}

/// The files of a source.
struct SourceFiles {
  TextSource source;
  Files files;
};

std::vector<SourceFiles> files_of(const char* option, const std::vector<TextSource>& entries,
                                  const TextForm& form) {
  std::vector<SourceFiles> found;
  std::map<fs::path, std::string> owners;
  for (const TextSource& source : sources_of(entries)) {
    found.push_back({source, match_texts(source.files, form)});
    for (const fs::path& file : found.back().files) {
      const auto [owner, fresh] = owners.emplace(normal_place(file), source.name);
      require_input(fresh, "{}: {} is in two sources, {} and {}; name it in one of them", option,
                    printable_path(file), owner->second, source.name);
    }
  }
  return found;
}

std::string describe_sources(const std::vector<SourceFiles>& sources) {
  std::string text;
  for (const auto& [source, files] : sources)
    text += (source.name.empty() ? "" : source.name + "\n") + describe_files(files);
  return text;
}

/// The text files of a run, and what they hold.
struct CorpusFiles {
  std::vector<SourceFiles> train, validation;
  std::string train_content, validation_content;

  /// Reads all files.
  explicit CorpusFiles(const DataConfig& data)
      : train(files_of("data.train", data.train, text_form(data))),
        validation(files_of("data.validation", data.validation, text_form(data))),
        train_content(describe_sources(train)),
        validation_content(describe_sources(validation)) {}

  Files all_training_files() const {
    Files all;
    for (const auto& [source, files] : train) all.insert(all.end(), files.begin(), files.end());
    return all;
  }

  /// Throws an InputError if a file is not what it was at first: what is made of it would stand for
  /// another content.
  void require_unchanged() const {
    require_input(train_content == describe_sources(train) &&
                      validation_content == describe_sources(validation),
                  "the text files changed while they were read; start again when nothing writes "
                  "them");
  }
};

/// The checkpoint whose tokenizer a run goes on with, also if this version would train another one.
std::optional<fs::path> tokenizer_of_run(const fs::path& run_dir) {
  if (!fs::is_directory(run_dir / "checkpoints")) return std::nullopt;
  try {
    Log muted;
    muted.mute();  // the run tells itself which checkpoints it passes over
    const fs::path folder = find_model(run_dir, muted);
    if (has_tokenizer(folder)) return folder;
  } catch (const InputError&) {  // no whole checkpoint yet
  }
  return std::nullopt;
}

/// The folder of the tokenizer; empty for a built-in one. It may not exist before the tokenizer is
/// trained.
fs::path tokenizer_folder(const RunSpec& spec, const CorpusFiles& files) {
  if (spec.options.tokenizer.builtin) return {};
  if (auto named = tokenizer_place(spec)) return *named;
  const RunConfig& config = spec.options;
  if (const auto own = tokenizer_of_run(config.run_dir)) return *own;
  const TokenizerTrainingConfig& train = config.tokenizer.train;
  const std::string key =
      files.train_content +
      fmt::format("{} {} {} {} {} {}", enum_name(train.kind), train.vocab_size.value_or(0),
                  train.lower_case, train.strip_accents, config.seed,
                  enum_name(config.data.documents)) +
      fmt::format(" {} {} {}", config.data.validation_fraction.value_or(0), text_version,
                  config.data.text_column);
  return fs::path(config.data.cache) / ("tokenizer-" + cache_name(key));
}

/// The folder of the data sets for this tokenizer. It may not exist before tokenization.
fs::path token_folder(const RunConfig& config, const CorpusFiles& files,
                      const Tokenizer& tokenizer) {
  // The seed draws what is held out.
  const bool draws = files.validation.empty() && config.data.validation_fraction.value_or(0) > 0;
  const std::string key =
      files.train_content + "\n" + files.validation_content +
      fmt::format("{} {} {} {} {} {} {}", tokenizer_key(tokenizer),
                  enum_name(config.data.documents), config.data.validation_fraction.value_or(0),
                  draws ? config.seed : 0, statistics_version, text_version,
                  config.data.text_column);
  return fs::path(config.data.cache) / ("tokens-" + cache_name(key));
}

/// The text that data.validation_fraction holds out. In each source it counts documents, or, where
/// files are documents and a source has too few of them, stretches of documents. Of each
/// 1 / fraction parts it holds one: a source of that length has one, and which does not depend on
/// what follows.
class HeldOutText {
 public:
  HeldOutText(const RunConfig& config, const CorpusFiles& files)
      : fraction_(files.validation.empty() ? config.data.validation_fraction.value_or(0) : 0),
        key_(philox_key(static_cast<std::uint64_t>(config.seed), 0x76616c6964ull)) {
    if (fraction_ == 0) return;
    constexpr double stretches = 4;  // held out of a small source
    for (const auto& [source, texts] : files.train) {
      bool tables = false;
      std::uintmax_t bytes = 0;
      for (const fs::path& file : texts) {
        source_of_[file] = std::ssize(stretch_);
        bytes += fs::file_size(file);
        tables |= table_format_of(file).has_value();
      }
      const bool few = static_cast<double>(texts.size()) * fraction_ < 1;
      const double held = static_cast<double>(bytes) * fraction_;
      stretch_.push_back(
          config.data.documents == Documents::files && !tables && few
              ? static_cast<std::int64_t>(std::clamp(held / stretches, 64.0, 16384.0))
              : 0);
      if (stretch_.back() > 0) piece_bytes_ = std::min(piece_bytes_, stretch_.back());
    }
  }

  /// The longest pieces in which text must be read.
  std::size_t piece_bytes() const { return static_cast<std::size_t>(piece_bytes_); }

  /// Whether a piece is held out. All pieces of a source are given, in the order of reading.
  bool holds(const TextPiece& piece) {
    if (fraction_ == 0) return false;
    std::int64_t source = source_;
    if (piece.file->native() != file_) {
      file_ = piece.file->native();
      source = source_of_.at(*piece.file);
    }
    const std::int64_t stretch = stretch_[source],
                       count = stretch > 0 ? piece.number : piece.document;
    if (std::exchange(source_, source) != source) before_ = count;
    return holds_part((count - before_) /
                      (stretch > 0 ? (stretch + piece_bytes_ / 2) / piece_bytes_ : 1));
  }

 private:
  bool holds_part(std::int64_t part) const {
    constexpr double most = 0x1p62;  // parts; of a tiny fraction a group has more
    const auto first_of = [&](double group) {
      return static_cast<std::int64_t>(std::min(most, std::ceil(group / fraction_)));
    };
    double group = std::floor(static_cast<double>(part) * fraction_);
    while (first_of(group + 1) <= part) ++group;  // rounding
    while (first_of(group) > part) --group;
    const auto words =
        philox(key_, {{static_cast<std::uint32_t>(static_cast<std::int64_t>(group)), 0, 0, 0}});
    const std::int64_t first = first_of(group), count = first_of(group + 1) - first;
    return part - first ==
           static_cast<std::int64_t>(uniform_open(words.word[0]) * static_cast<double>(count));
  }

  double fraction_;
  PhiloxKey key_;
  std::int64_t piece_bytes_ = whole_pieces;
  std::map<fs::path, std::int64_t> source_of_;
  std::vector<std::int64_t> stretch_;  // bytes of a source's stretches; 0: its documents are whole
  std::string file_;                   // of the last piece
  std::int64_t source_ = -1;           // the same
  std::int64_t before_ = 0;            // pieces or documents before that source
};

/// Reports that data.validation_fraction leaves a data set without text.
[[noreturn]] void refuse_fraction(std::int64_t documents, Documents form) {
  throw InputError(
      fmt::format("of {} documents data.validation_fraction gives none to this data set; name "
                  "data.validation{}, or choose another fraction",
                  documents, form == Documents::lines ? "" : ", set documents: lines"));
}

/// The tokenizer of a run: its own, that of a checkpoint, or one that was trained into the cache.
std::shared_ptr<const Tokenizer> tokenizer_of(const RunSpec& spec, const fs::path& folder) {
  if (spec.tokenizer) return spec.tokenizer;
  if (!fs::exists(folder / tokenizer_key_file)) return open_tokenizer(folder);
  return with_remedy(remedy_for(folder), [&] {
    std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(folder);
    require_input(read_text_file(folder / tokenizer_key_file) == tokenizer_key(*tokenizer),
                  "{}: does not fit {} beside it: the file is damaged",
                  printable_path(folder / "tokenizer.json"), tokenizer_key_file);
    return tokenizer;
  });
}

[[noreturn]] void interrupt() {
  throw Interrupted(
      "stopped during preparation of the text; the same command continues with the finished part");
}

/// Trains the tokenizer on the training text only, so that it never sees the held-out documents.
void train_tokenizer(const RunConfig& config, const CorpusFiles& files, const fs::path& folder,
                     Log& log, const StopSignals& stop) {
  const TokenizerTrainingConfig& train = config.tokenizer.train;
  const std::int64_t size = train.vocab_size.value_or(most_pieces_by_default);
  log.say(
      fmt::format("training a tokenizer of {}{} pieces", train.vocab_size ? "" : "at most ", size));
  make_entry(folder, [&](const fs::path& made) {
    HeldOutText held_out(config, files);
    TextReader text(files.all_training_files(), text_form(config.data), held_out.piece_bytes());
    SentencePieceTraining options;
    options.kind = train.kind == TokenizerKind::bpe ? SentencePieceModel::Kind::bpe
                                                    : SentencePieceModel::Kind::unigram;
    options.vocab_size = size;
    options.shrink = !train.vocab_size;
    options.normalizer = {train.lower_case, train.strip_accents};
    options.seed = static_cast<std::uint64_t>(config.seed);
    bool takes_one = false;
    options.takes = [&](const TextPiece& piece) {
      const bool takes = !held_out.holds(piece);
      takes_one |= takes;
      return takes;
    };
    try {
      const auto trained = train_sentencepiece(text, options, [&] {
        if (stop.requested()) interrupt();
      });
      if (const std::int64_t pieces = trained.tokenizer->vocab_size(); pieces < size)
        log.say(fmt::format("the text supports a tokenizer of {} pieces", pieces));
      write_tokenizer(*trained.tokenizer, made, config.data.sequence_length);
      write_text_file(made / tokenizer_key_file, tokenizer_key(*open_tokenizer(made)));
    } catch (const InputError&) {
      if (!takes_one && text.statistics().documents > 0)
        refuse_fraction(text.statistics().documents, config.data.documents);
      throw;
    }
    files.require_unchanged();
  });
}

/// A piece of a document: its text, then its token ids.
struct Piece {
  std::string text;
  bool begins;  ///< this is the first piece of a document
  std::vector<std::uint32_t> ids;
};

/// Tokenizes the pieces on all threads.
void encode(std::span<Piece> pieces, const Tokenizer& tokenizer) {
  const auto threads = static_cast<std::size_t>(num_threads());
  std::vector<std::future<void>> workers;  // futures pass on the exceptions of the workers
  for (std::size_t worker = 0; worker < threads; ++worker) {
    workers.push_back(std::async(std::launch::async, [&, worker] {
      for (std::size_t i = worker; i < pieces.size(); i += threads) {
        const auto ids = tokenizer.encode(pieces[i].text);
        pieces[i].ids.assign(ids.begin(), ids.end());
      }
    }));
  }
  for (auto& worker : workers) worker.get();
}

/// Tokenizes the pieces in all processes, each of which encodes a part. Rank 0 gets all ids. Throws
/// an InputError if a process has different text or another tokenizer.
void encode_together(std::vector<Piece>& pieces, const Tokenizer& tokenizer,
                     Communicator& communicator) {
  const auto size = static_cast<std::size_t>(communicator.size());
  const auto part = [&](std::size_t rank) {
    const std::size_t begin = pieces.size() * rank / size, end = pieces.size() * (rank + 1) / size;
    return std::span(pieces).subspan(begin, end - begin);
  };
  const std::span<Piece> own = part(static_cast<std::size_t>(communicator.rank()));
  encode(own, tokenizer);
  if (size == 1) return;
  Checksum text;
  text.add(tokenizer_key(tokenizer));
  for (const Piece& piece : pieces) {
    text.update(piece.begins ? "\1" : "\2", 1);
    text.add(piece.text);
  }
  std::string message = text.hex();
  const std::size_t header = message.size();
  for (const Piece& piece : own) {
    const auto count = static_cast<std::uint32_t>(piece.ids.size());
    message.append(reinterpret_cast<const char*>(&count), sizeof count);
    message.append(reinterpret_cast<const char*>(piece.ids.data()), count * sizeof count);
  }
  const std::vector<std::string> all = communicator.gather(message);
  for (std::size_t rank = 0; rank < size; ++rank) {
    require_input(all[rank].compare(0, header, all[0], 0, header) == 0,
                  "{} reads other text than {}, or has another tokenizer: copy the same files to "
                  "all machines",
                  communicator.name_of(static_cast<int>(rank)), communicator.name_of(0));
    if (!communicator.is_first()) continue;
    const char* next = all[rank].data() + header;
    for (Piece& piece : part(rank)) {
      std::uint32_t count = 0;
      std::memcpy(&count, next, sizeof count);
      piece.ids.resize(count);
      std::memcpy(piece.ids.data(), next + sizeof count, count * sizeof count);
      next += sizeof count + count * sizeof count;
    }
  }
}

/// The folder of a source's data set below that of all.
std::string data_set_name(const char* set, const TextSource& source) {
  return source.name.empty() ? set : fmt::format("{}-{}", set, source.name);
}

/// The name of a source in messages. `split`: data.train has the held-out text, too.
std::string origin_of(const char* set, bool split, const TextSource& source) {
  std::string origin = set == training_set ? "data.train"
                       : split             ? "the held-out part of data.train"
                                           : "data.validation";
  return source.name.empty() ? origin : origin + " " + source.name;
}

std::vector<CorpusSource> open_sources(const fs::path& folder, const char* set, bool split,
                                       const std::vector<SourceFiles>& sources,
                                       const std::shared_ptr<ShardCache>& cache) {
  std::vector<CorpusSource> opened;
  for (const auto& [source, files] : sources) {
    const fs::path own = folder / data_set_name(set, source);
    opened.push_back(
        {source.name, source.weight,
         std::make_shared<TokenDataset>(TokenDataset::open(own, remedy_for(folder), cache)),
         origin_of(set, split, source)});
  }
  return opened;
}

/// Opens the data sets, and warns of what cannot be read as text in any source.
void open_datasets(Corpus& corpus, const CorpusFiles& files, const RunConfig& config, Log& log) {
  const bool split = files.validation.empty();
  const auto cache = make_shard_cache();
  corpus.train = open_sources(corpus.token_folder, training_set, split, files.train, cache);
  corpus.validation = open_sources(corpus.token_folder, validation_set, split,
                                   split ? files.train : files.validation, cache);
  const auto report = [&](const std::vector<CorpusSource>& sources) {
    for (const CorpusSource& source : sources)
      report_unreadable(source.origin, *source.tokens, config.data.max_unreadable, log);
  };
  report(corpus.train);
  if (!split) report(corpus.validation);
}

/// Tokenizes the pieces of text that `takes` accepts. Rank 0 writes the data set at `folder`. After
/// a signal to `stop`, which may be null, in any process all processes throw Interrupted.
void write_tokens(const Files& files, const TextForm& form, std::size_t piece_bytes,
                  const Tokenizer& tokenizer, const fs::path& folder, Log& log,
                  const std::function<bool(const TextPiece&)>& takes, Communicator& communicator,
                  const StopSignals* stop) {
  // One piece for each thread of all processes, within limits that keep memory small.
  const double threads = communicator.sum(static_cast<double>(num_threads()));
  const std::size_t batch_bytes =
      whole_pieces * static_cast<std::size_t>(std::clamp(threads, 16.0, 256.0));
  TextReader text(files, form, piece_bytes);
  std::optional<ShardWriter> writer;
  if (communicator.is_first())
    writer.emplace(folder, TokenSetInfo{tokenizer_key(tokenizer), tokenizer.vocab_size(),
                                        tokenizer.special()});
  std::int64_t total = 0;
  for (const fs::path& file : files) total += InputFile::open(file).size();
  Progress progress("tokenizing: byte", 0, total, log);
  std::vector<Piece> pieces;
  std::size_t waiting = 0;
  std::int64_t documents = 0, single = 0, length = 0;  // single: of one token; length: of the last
  const auto flush = [&] {
    if (communicator.sum(stop && stop->requested() ? 1 : 0) > 0) interrupt();
    encode_together(pieces, tokenizer, communicator);
    if (writer) {
      for (const Piece& piece : pieces) {
        if (piece.begins) {
          writer->begin_document();
          ++documents;
          single += std::exchange(length, 0) == 1;
        }
        writer->append(piece.ids);
        length += std::ssize(piece.ids);
      }
      progress.update(text.position(), fmt::format("{} tokens", writer->tokens()), false);
    }
    pieces.clear();
    waiting = 0;
  };
  bool begins = true;  // a document begins where the text before was left out, too
  while (const auto piece = text.next()) {
    const bool taken = takes(*piece);
    if (taken) {
      // Stretches that follow each other are tokenized as the text that they are, whatever the
      // size of a batch.
      const bool joins = !begins && !pieces.empty() &&
                         pieces.back().text.size() + piece->text.size() <= whole_pieces;
      if (!joins) {
        if (waiting >= batch_bytes) flush();
        pieces.push_back({"", begins, {}});
      }
      pieces.back().text += piece->text;
      // With short lines, the pieces take more memory than their text.
      waiting += piece->text.size() + (joins ? 0 : sizeof(Piece));
    }
    begins = !taken || !piece->continues;
  }
  flush();  // even without pieces: flush() is collective, and another process may have more text
  if (!writer) return;
  single += length == 1;
  const TextStatistics& statistics = text.statistics();
  if (documents == 0 && statistics.documents > 0)
    refuse_fraction(statistics.documents, form.documents);
  require_input(writer->tokens() > 0, "no document with a token was taken: {}",
                statistics.summary());
  writer->finish(statistics_json(statistics));
  log.say(fmt::format("{}; {} documents with {} tokens taken{}", statistics.summary(),
                      writer->documents(), writer->tokens(),
                      single == 0 ? ""
                                  : fmt::format(", {} of them of a single token, which alone makes "
                                                "no sequence",
                                                single)));
}

/// Tokenizes the text of a run into data sets below `folder`, two for each source.
void write_datasets(const RunConfig& config, const CorpusFiles& files, const Tokenizer& tokenizer,
                    const fs::path& folder, Log& log, Communicator& communicator,
                    const StopSignals& stop) {
  const auto fill = [&](const fs::path& made) {
    const bool split = files.validation.empty();
    const auto write = [&](const std::vector<SourceFiles>& sources, const char* set,
                           bool validates) {
      HeldOutText held_out(config, files);
      for (const SourceFiles& texts : sources) {
        const std::string& name = texts.source.name;
        log.say(fmt::format("turning the {} text{} into tokens",
                            set == training_set ? "training" : set,
                            name.empty() ? "" : fmt::format(" ({})", name)));
        const auto takes = [&](const TextPiece& piece) {
          return !split || held_out.holds(piece) == validates;
        };
        with_context(origin_of(set, split, texts.source), [&] {
          write_tokens(texts.files, text_form(config.data), held_out.piece_bytes(), tokenizer,
                       made / data_set_name(set, texts.source), log, takes, communicator, &stop);
        });
      }
    };
    // First, so that a set without text is refused before the longer one is read.
    write(split ? files.train : files.validation, validation_set, true);
    write(files.train, training_set, false);
    files.require_unchanged();
  };
  if (communicator.is_first())
    make_entry(folder, fill);
  else
    fill({});
}

}  // namespace

std::shared_ptr<const TokenDataset> tokenize_text_option(
    const Files& files, const RunConfig& config, const Tokenizer& tokenizer, const fs::path& folder,
    Log& log, const std::function<bool(const TextPiece&)>& takes) {
  Communicator alone;
  const auto all = [](const TextPiece&) { return true; };
  write_tokens(files, text_form(config.data), whole_pieces, tokenizer, folder, log,
               takes ? takes : all, alone, nullptr);
  auto tokens = std::make_shared<TokenDataset>(TokenDataset::open(folder));
  report_unreadable("--text", *tokens, config.data.max_unreadable, log);
  warn_of_unknown("--text", *tokens, log);
  return tokens;
}

void warn_of_unknown(const std::string& name, const TokenDataset& set, Log& log) {
  constexpr std::int64_t most = std::int64_t{1} << 20;
  const std::vector<std::uint32_t> ids = set.read(0, std::min(set.tokens(), most));
  const auto unknown = std::ranges::count(ids, static_cast<std::uint32_t>(set.info().special.unk));
  const double share = static_cast<double>(unknown) / static_cast<double>(ids.size());
  if (share > 0.01)
    log.warn(
        fmt::format("{}: {:.1f} % of the tokens are unknown; the tokenizer does not fit the "
                    "text",
                    name, 100 * share));
}

void warn_of_unknown(const Corpus& corpus, Log& log) {
  for (const auto* sources : {&corpus.train, &corpus.validation})
    for (const CorpusSource& source : *sources) warn_of_unknown(source.origin, *source.tokens, log);
}

std::optional<Corpus> cached_corpus(const RunSpec& spec, Log& log) {
  const RunConfig& config = spec.options;
  const CorpusFiles files(config.data);
  Corpus corpus;
  corpus.tokenizer_folder = tokenizer_folder(spec, files);
  if (!spec.tokenizer && !fs::exists(corpus.tokenizer_folder)) return std::nullopt;
  corpus.tokenizer = tokenizer_of(spec, corpus.tokenizer_folder);
  corpus.token_folder = token_folder(config, files, *corpus.tokenizer);
  if (!fs::exists(corpus.token_folder)) return std::nullopt;
  open_datasets(corpus, files, config, log);
  return corpus;
}

Corpus prepare_corpus(const RunSpec& spec, Log& log, Communicator& communicator) {
  if (spec.inputs) return prepare_task_inputs(spec, log, communicator);
  const RunConfig& config = spec.options;
  const CorpusFiles files(config.data);
  const StopSignals stop;
  // Several processes stop together, at the places where they meet.
  const InterruptionCheck stop_alone([&] {
    if (communicator.size() == 1 && stop.requested()) interrupt();
  });
  Corpus corpus;
  corpus.tokenizer_folder = tokenizer_folder(spec, files);
  const bool given = spec.tokenizer || tokenizer_place(spec);
  bool stopped = false;
  const auto unless_stopped = [&](const auto& work) {
    try {
      work();
    } catch (const Interrupted&) {
      stopped = true;
    }
  };
  // If one process stopped alone, the others would wait for it.
  const auto stop_together = [&] {
    if (communicator.sum(stopped || stop.requested() ? 1 : 0) > 0) interrupt();
  };
  const auto make_tokenizer = [&] {
    if (!given && !fs::exists(corpus.tokenizer_folder))
      train_tokenizer(config, files, corpus.tokenizer_folder, log, stop);
  };
  if (communicator.is_first()) unless_stopped(make_tokenizer);
  stop_together();
  unless_stopped(make_tokenizer);  // for a process that does not see the files of rank 0
  stop_together();
  corpus.tokenizer = tokenizer_of(spec, corpus.tokenizer_folder);
  corpus.token_folder = token_folder(config, files, *corpus.tokenizer);
  // Only rank 0 checks for the folder before it is written. A network file system may cache the
  // result "does not exist" for a minute.
  const bool absent = communicator.is_first() && !fs::exists(corpus.token_folder);
  if (communicator.sum(absent ? 1 : 0) > 0)
    write_datasets(config, files, *corpus.tokenizer, corpus.token_folder, log, communicator, stop);
  communicator.barrier();
  Communicator alone;
  unless_stopped([&] {
    if (!fs::exists(corpus.token_folder))
      write_datasets(config, files, *corpus.tokenizer, corpus.token_folder, log, alone, stop);
  });
  stop_together();
  corpus.token_use = std::make_shared<CacheUse>(corpus.token_folder);
  if (!given)
    CacheUse(corpus.tokenizer_folder);  // only records the time; the tokenizer is in memory already
  open_datasets(corpus, files, config, log);
  return corpus;
}

}  // namespace nystrom
