#include "train/pretrain/task_inputs.h"

#include <set>

#include "core/base/checksum.h"
#include "core/check.h"
#include "data/tasks/held_out.h"
#include "data/tokenizers/builtin_tokenizer.h"
#include "train/pretrain/text_statistics.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

// Part of the names of data sets in the cache. Raise it with every change of what a document is.
constexpr int inputs_version = 1;

/// A text of an example, or the pixels of an image.
struct Document {
  std::string bytes;
  bool is_image;
};

/// The documents of an example, in order.
std::vector<Document> documents_of(const Example& example) {
  if (!example.pixels.empty())
    return {{std::string(example.pixels.begin(), example.pixels.end()), true}};
  std::vector<Document> documents;
  const auto add = [&](const std::string& text) {
    if (text.find_first_not_of(" \t\r\n") != text.npos) documents.push_back({text, false});
  };
  add(example.words.empty() ? example.text : fmt::format("{}", fmt::join(example.words, " ")));
  if (example.pair) add(*example.pair);
  for (const std::string& choice : example.choices) add(choice);
  for (const std::string& negative : example.negatives) add(negative);
  return documents;
}

/// Calls use(document) for every document of the source, each once. Labels are not read.
template <class Use>
TextStatistics for_each_document(const TaskConfig& task, const ExampleSource& source,
                                 const Use& use) {
  TextStatistics statistics;
  SkippedRows skipped;
  std::set<Digest> known;
  for_each_example(task, source, Labelled::optional, skipped, [&](const Example& example) {
    for (const Document& document : documents_of(example)) {
      Checksum content;
      content.update(document.bytes.data(), document.bytes.size());
      if (!known.insert(content.digest()).second) continue;
      ++statistics.documents;
      statistics.bytes += static_cast<std::int64_t>(document.bytes.size());
      use(document);
    }
  });
  if (skipped.count > 0)
    statistics.skipped[static_cast<std::size_t>(SkipReason::bad_row)] = {skipped.count, 0,
                                                                         skipped.first};
  return statistics;
}

/// The two sets of a run's inputs.
class Inputs {
 public:
  explicit Inputs(const RunSpec& spec)
      : task_(*spec.inputs),
        tokenizer_(spec.tokenizer),
        sources_(task_sources(task_, spec.options.seed)) {
    require(tokenizer_ != nullptr, "the inputs of a task need a tokenizer");
    Checksum content;
    for (const ExampleSource* source : {&sources_.train, &sources_.validation}) {
      for_each_document(task_, *source, [&](const Document& document) {
        const std::uint64_t size = document.bytes.size();
        content.update(&size, sizeof size);
        content.update(document.bytes.data(), document.bytes.size());
      });
      content.update("|", 1);
    }
    folder_ = fs::path(spec.options.data.cache) /
              ("tokens-" + cache_name(fmt::format("inputs {} {} {}", inputs_version, content.hex(),
                                                  tokenizer_key(*tokenizer_))));
  }

  const fs::path& folder() const { return folder_; }

  void write(Log& log) const {
    make_entry(folder_, [&](const fs::path& made) {
      write_set(made / train, sources_.train, log);
      write_set(made / validation, sources_.validation, log);
    });
  }

  Corpus open(const RunSpec& spec) const {
    Corpus corpus;
    corpus.tokenizer = tokenizer_;
    corpus.token_folder = folder_;
    corpus.tokenizer_folder = tokenizer_place(spec).value_or(fs::path());
    const auto source = [&](const char* set) {
      return CorpusSource{"", std::nullopt, folder_ / set,
                          std::make_shared<TokenDataset>(TokenDataset::open(folder_ / set))};
    };
    corpus.train.push_back(source(train));
    corpus.validation.push_back(source(validation));
    return corpus;
  }

 private:
  static constexpr const char *train = "train", *validation = "validation";

  void write_set(const fs::path& folder, const ExampleSource& source, Log& log) const {
    ShardWriter writer(
        folder, {tokenizer_key(*tokenizer_), tokenizer_->vocab_size(), tokenizer_->special()});
    const TextStatistics statistics =
        for_each_document(task_, source, [&](const Document& document) {
          const auto* pixels = reinterpret_cast<const std::uint8_t*>(document.bytes.data());
          const auto ids = document.is_image
                               ? byte_ids(*tokenizer_, {pixels, document.bytes.size()})
                               : tokenizer_->encode(document.bytes);
          writer.begin_document();
          writer.append(std::vector<std::uint32_t>(ids.begin(), ids.end()));
        });
    require_input(writer.tokens() > 0, "the inputs of {} have no token",
                  fmt::join(source.patterns, ", "));
    writer.finish(statistics_json(statistics));
    log.say(fmt::format("{} texts of {}: {} tokens", writer.documents(),
                        fmt::join(source.patterns, ", "), writer.tokens()));
  }

  TaskConfig task_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  TaskSources sources_;
  fs::path folder_;
};

}  // namespace

Corpus prepare_task_inputs(const RunSpec& spec, Log& log, Communicator& communicator) {
  const Inputs inputs(spec);
  if (communicator.is_first() && !fs::exists(inputs.folder())) inputs.write(log);
  communicator.barrier();
  if (!fs::exists(inputs.folder())) inputs.write(log);
  Corpus corpus = inputs.open(spec);
  corpus.token_use = std::make_shared<CacheUse>(inputs.folder());
  return corpus;
}

std::optional<Corpus> cached_task_inputs(const RunSpec& spec) {
  const Inputs inputs(spec);
  if (!fs::exists(inputs.folder())) return std::nullopt;
  return inputs.open(spec);
}

}  // namespace nystrom
