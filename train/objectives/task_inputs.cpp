// Turns the inputs of a task, without its labels, into the token shards of a pretraining run, as in
// "Never Train from Scratch" (Amos et al., ICLR 2024) and "Don't Stop Pretraining" (Gururangan et
// al., ACL 2020).
#include <array>
#include <set>

#include "core/base/checksum.h"
#include "core/base/interruption.h"
#include "core/base/stop_signals.h"
#include "core/check.h"
#include "data/tasks/examples.h"
#include "data/tokenizers/builtin_tokenizer.h"
#include "train/objectives/corpus.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

// Part of the names of data sets in the cache. Raise it with every change of what a document is.
constexpr int inputs_version = 1;

/// A text of an example, or the pixels of an image.
struct InputText {
  std::string bytes;
  bool is_image;
};

/// The documents of an example, in order.
std::vector<InputText> documents_of(const Example& example) {
  if (!example.pixels.empty())
    return {{std::string(example.pixels.begin(), example.pixels.end()), true}};
  std::vector<InputText> documents;
  const auto add = [&](const std::string& text) {
    if (text.find_first_not_of(" \t\r\n") != text.npos) documents.push_back({text, false});
  };
  add(example.words.empty() ? example.text : fmt::format("{}", fmt::join(example.words, " ")));
  if (example.pair) add(*example.pair);
  for (const std::string& choice : example.choices) add(choice);
  for (const std::string& negative : example.negatives) add(negative);
  return documents;
}

/// The documents of a run's two sets.
class Inputs {
 public:
  explicit Inputs(const RunSpec& spec)
      : task_(*spec.inputs),
        tokenizer_(spec.tokenizer),
        sources_(task_sources(task_, spec.options.seed)) {
    require(tokenizer_ != nullptr, "the inputs of a task need a tokenizer");
    content_ = read([](Set, const InputText&) {});
    folder_ = fs::path(spec.options.data.cache) /
              ("tokens-" +
               cache_name(fmt::format("inputs {} {} {} {} {}", inputs_version, statistics_version,
                                      text_version, content_, tokenizer_key(*tokenizer_))));
  }

  const fs::path& folder() const { return folder_; }
  /// Remarks on rows that were left out, and on those that both sets have.
  const std::vector<std::string>& notes() const { return notes_; }

  void write(Log& log) {
    make_entry(folder_, [&](const fs::path& made) { write_sets(made, log); });
  }

  Corpus open(const RunSpec& spec) const {
    Corpus corpus;
    corpus.tokenizer = tokenizer_;
    corpus.token_folder = folder_;
    corpus.tokenizer_folder = tokenizer_place(spec).value_or(fs::path());
    const auto cache = make_shard_cache();
    const auto source = [&](Set set) {
      const fs::path own = folder_ / name_of(set);
      return CorpusSource{
          "", std::nullopt,
          std::make_shared<TokenDataset>(TokenDataset::open(own, remedy_for(folder_), cache)),
          (set == Set::train ? "inputs of " : "held-out inputs of ") + files_of(set)};
    };
    corpus.train.push_back(source(Set::train));
    corpus.validation.push_back(source(Set::validation));
    return corpus;
  }

 private:
  enum class Set : unsigned char { train, validation };

  static const char* name_of(Set set) { return set == Set::train ? "train" : "validation"; }
  const ExampleSource& source_of(Set set) const {
    return set == Set::train ? sources_.train : sources_.validation;
  }
  std::string files_of(Set set) const {
    return fmt::format("{}", fmt::join(source_of(set).patterns, ", "));
  }

  std::vector<std::int32_t> ids_of(const InputText& document) const {
    if (!document.is_image) return tokenizer_->encode(document.bytes);
    const auto* pixels = reinterpret_cast<const std::uint8_t*>(document.bytes.data());
    return byte_ids(*tokenizer_, {pixels, document.bytes.size()});
  }

  void write_sets(const fs::path& folder, Log& log) {
    const TokenSetInfo info{tokenizer_key(*tokenizer_), tokenizer_->vocab_size(),
                            tokenizer_->special()};
    ShardWriter train(folder / name_of(Set::train), info),
        validation(folder / name_of(Set::validation), info);
    const std::string content = read([&](Set set, const InputText& document) {
      const auto ids = ids_of(document);
      ShardWriter& writer = set == Set::train ? train : validation;
      writer.begin_document();
      writer.append(std::vector<std::uint32_t>(ids.begin(), ids.end()));
    });
    require_input(content == content_,
                  "the task's files changed while they were read; start again when nothing writes "
                  "them");
    const auto finish = [&](Set set, ShardWriter& writer) {
      require_input(writer.tokens() > 0, "{}: no {} with a token of its own", files_of(set),
                    set == Set::train ? "input" : "held-out input");
      writer.finish(statistics_json(statistics_[static_cast<std::size_t>(set)]));
      log.say(fmt::format("{}: {} texts with {} tokens to {}", files_of(set), writer.documents(),
                          writer.tokens(), set == Set::train ? "train on" : "evaluate on"));
    };
    finish(Set::train, train);
    finish(Set::validation, validation);
  }

  /// Calls use(set, document) for every document of both sets, each once, and returns a checksum of
  /// all. What validation_fraction holds out has no document of the training set.
  template <class Use>
  std::string read(const Use& use) {
    Checksum content;
    std::array<std::set<Digest>, 2> known;
    std::int64_t shared = 0;  // named held-out documents that the training set has too
    notes_.clear();
    for (const Set set : {Set::train, Set::validation}) {
      TextStatistics& statistics = statistics_[static_cast<std::size_t>(set)] = {};
      SkippedRows skipped;
      std::string file;
      // Labels are read as fine-tuning reads them, so that examples have the same numbers.
      const Labelled labelled = needed_labels(task_);
      for_each_example(task_, source_of(set), labelled, skipped, [&](const Example& example) {
        check_interruption();
        if (example.file && file != *example.file) {
          file = *example.file;
          ++statistics.files;
        }
        for (const InputText& document : documents_of(example)) {
          const Digest digest = checksum_of_items(document.bytes);
          const bool trained = set == Set::validation && known[0].contains(digest);
          if (trained && task_.validation_fraction) continue;
          if (!known[static_cast<std::size_t>(set)].insert(digest).second) continue;
          shared += trained ? 1 : 0;
          content.update(&digest, sizeof digest);
          ++statistics.documents;
          statistics.bytes += std::ssize(document.bytes);
          use(set, document);
        }
      });
      content.update("|", 1);
      if (skipped.count > 0)
        notes_.push_back(fmt::format("{}: {} rows were left out; the first: {}", files_of(set),
                                     skipped.count, skipped.first));
      add_new_notes(notes_, skipped.notes);
    }
    if (shared > 0)
      notes_.push_back(
          fmt::format("{}: {} of {} texts are among those to train on; their loss is no test",
                      files_of(Set::validation), shared, known[1].size()));
    return content.hex();
  }

  TaskConfig task_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  TaskSources sources_;
  std::array<TextStatistics, 2> statistics_;
  std::vector<std::string> notes_;
  std::string content_;
  fs::path folder_;
};

}  // namespace

Corpus prepare_task_inputs(const RunSpec& spec, Log& log, Communicator& communicator) {
  const StopSignals stop;
  const auto interrupt_if = [](bool stopped) {
    if (stopped)
      throw Interrupted("stopped during preparation of the inputs; the same command starts again");
  };
  // A process that stopped alone would leave the others waiting.
  const InterruptionCheck stop_alone(
      [&] { interrupt_if(communicator.size() == 1 && stop.requested()); });
  Inputs inputs(spec);
  if (communicator.is_first() && !fs::exists(inputs.folder())) inputs.write(log);
  interrupt_if(communicator.sum(stop.requested() ? 1 : 0) > 0);
  if (!fs::exists(inputs.folder())) inputs.write(log);  // a process that does not see the first's
  for (const std::string& note : inputs.notes()) log.warn(note);
  Corpus corpus = inputs.open(spec);
  corpus.token_use = std::make_shared<CacheUse>(inputs.folder());
  return corpus;
}

}  // namespace nystrom
