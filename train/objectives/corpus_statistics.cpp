#include "train/objectives/corpus_statistics.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/checksum.h"
#include "core/base/printable.h"
#include "core/base/progress.h"
#include "core/check.h"
#include "train/objectives/evaluation.h"

namespace nystrom {
namespace {

constexpr std::size_t max_shown_samples = 3, max_shown_tokens = 60;

/// The facts about one document.
struct Document {
  std::int64_t number, first, length;  // `first` is the place of its first token in the data set
  std::int64_t unknown;                // number of unknown tokens
  Digest digest;                       // hash of all token ids
};

/// Reads a document in parts, so that memory does not grow with its length.
Document read_document(const TokenDataset& set, std::int64_t number, std::int64_t first,
                       std::int64_t end) {
  constexpr std::int64_t part = std::int64_t{1} << 16;
  const auto unknown = static_cast<std::uint32_t>(set.info().special.unk);
  Document document{number, first, end - first, 0, {}};
  Checksum checksum;
  for (std::int64_t at = first; at < end; at += part) {
    const std::vector<std::uint32_t> ids = set.read(at, std::min(part, end - at));
    checksum.add(ids);
    document.unknown += std::count(ids.begin(), ids.end(), unknown);
  }
  document.digest = checksum.digest();
  return document;
}

/// Calls visit(document) for each document, in order.
template <class Visit>
void for_each_document(const TokenDataset& set, const std::string& name, Log& log,
                       const Visit& visit) {
  constexpr std::int64_t block = 4096;
  Progress progress(name + ": document", 0, set.documents(), log);
  for (std::int64_t first = 0; first < set.documents(); first += block) {
    const std::int64_t count = std::min(block, set.documents() - first);
    std::vector<std::int64_t> bounds =
        set.document_starts(first, std::min(count + 1, set.documents() - first));
    if (first + count == set.documents()) bounds.push_back(set.tokens());
    for (std::int64_t i = 0; i < count; ++i) {
      visit(read_document(set, first + i, bounds[static_cast<std::size_t>(i)],
                          bounds[static_cast<std::size_t>(i) + 1]));
    }
    progress.update(first + count, fmt::format("{} tokens", bounds.back()), false);
  }
}

void add(TextStatistics& sum, const TextStatistics& more) {
  sum.files += more.files;
  sum.bytes += more.bytes;
  sum.documents += more.documents;
  for (std::size_t i = 0; i < skip_reasons; ++i) {
    Skipped& skipped = sum.skipped[i];
    if (skipped.count == 0) skipped.first = more.skipped[i].first;
    skipped.count += more.skipped[i].count;
    skipped.bytes += more.skipped[i].bytes;
  }
}

/// Collects the statistics of the documents of all sources, split as in Packing.
class DocumentCounter {
 public:
  explicit DocumentCounter(const Packing& packing)
      : across_(packing.options().cross_documents), piece_(packing.longest_piece()) {}

  /// Begins with the documents of another source.
  void add_source(const Packing& packing) {
    const TokenDataset& set = packing.dataset();
    nystrom::add(report_.text, text_statistics(set));
    report_.documents += set.documents();
    report_.tokens += set.tokens();
    report_.sequences += packing.size();
    if (across_) report_.dropped += is_dropped((set.tokens() + set.documents() - 1) % piece_);
  }

  void add(const Document& document) {
    ++lengths_[document.length];
    report_.unknown += document.unknown;
    if (across_) {  // all documents form one stream with a separator token between them
      const std::int64_t begin = document.first + document.number,
                         last = begin + document.length - 1;
      report_.cut += begin / piece_ != last / piece_;
    } else {
      const std::int64_t rest = document.length % piece_;
      report_.cut += document.length / piece_ + (rest >= min_piece_tokens) > 1;
      report_.dropped += is_dropped(rest);
    }
  }

  DocumentStatistics finish() {
    report_.longest = lengths_.rbegin()->first;
    std::int64_t passed = 0;
    for (const auto& [length, count] : lengths_) {
      const std::int64_t before = std::exchange(passed, passed + count);
      // Of an even number of documents two are in the middle.
      for (const std::int64_t place : {(report_.documents - 1) / 2, report_.documents / 2})
        if (before <= place && place < passed) report_.median += static_cast<double>(length) / 2;
    }
    return report_;
  }

 private:
  bool is_dropped(std::int64_t rest) const { return rest > 0 && rest < min_piece_tokens; }

  bool across_;
  std::int64_t piece_;
  DocumentStatistics report_;
  std::map<std::int64_t, std::int64_t> lengths_;  // at most about √(2n) entries for n tokens
};

/// The text of a token without control characters, with a space in front if it begins a word.
std::string text_of(const Tokenizer& tokenizer, std::int64_t id) {
  const auto token = static_cast<std::int32_t>(id);
  std::string text = tokenizer.decode(std::span(&token, 1), false);
  if (text.starts_with(' ')) text.erase(0, 1);
  const bool begins = tokenizer.surface(token).starts_with(' ') && !tokenizer.is_special(token);
  return (begins ? " " : "") + printable(text);
}

std::vector<ShownToken> show_sequence(const Batch& batch, std::size_t sequence,
                                      const Tokenizer& tokenizer) {
  const auto *ids = batch.input.input_ids.data<std::int64_t>(),
             *labels = batch.labels.data<std::int64_t>();
  std::vector<ShownToken> result;
  for (std::int64_t i = batch.input.offsets[sequence];
       i < batch.input.offsets[sequence + 1] && result.size() < max_shown_tokens; ++i) {
    if (labels[i] == ignore_index) {
      result.push_back({text_of(tokenizer, ids[i]), Masking::none, ""});
    } else {
      const Masking masking = ids[i] == tokenizer.special().mask ? Masking::masked
                              : ids[i] == labels[i]              ? Masking::kept
                                                                 : Masking::replaced;
      result.push_back({text_of(tokenizer, labels[i]), masking, text_of(tokenizer, ids[i])});
    }
  }
  return result;
}

/// Adds what masking.whole_word takes for words in the first sequences.
void add_units(const MaskedSamples& samples, CorpusStatistics& report) {
  constexpr std::int64_t max_sequences = 100;
  constexpr std::size_t max_units = 12;
  std::size_t units = 0, tokens = 0;
  for (std::int64_t i = 0; i < std::min(samples.packing->size(), max_sequences); ++i) {
    const std::vector<std::int64_t> ids = samples.packing->ids(i);
    const auto lengths = sequence_lengths(*samples.packing, i, ids);
    for (const MaskingUnit& unit : word_units(ids, *samples.table, lengths)) {
      ++units;
      tokens += unit.end - unit.begin;
      if (report.units.size() == max_units) continue;
      std::string text;
      for (std::size_t k = unit.begin; k < unit.end; ++k) text += samples.table->surface(ids[k]);
      report.units.push_back(printable(text.substr(text.starts_with(' '))));
    }
  }
  report.unit_tokens =
      static_cast<double>(tokens) / static_cast<double>(std::max<std::size_t>(units, 1));
}

/// The number of training sequences of `length` tokens.
std::int64_t sequences_of(const Corpus& corpus, std::int64_t length, const RunConfig& config) {
  std::int64_t sequences = 0;
  for (const CorpusSource& source : corpus.train)
    sequences += packing_of(source.tokens, length, config)->size();
  return sequences;
}

/// Adds how often each source of the training data is drawn.
void add_sources(const RunConfig& config, const Corpus& corpus,
                 const std::vector<MaskedSamples>& samples, CorpusStatistics& report) {
  double weights = 0;
  for (const MaskedSamples& source : samples) weights += sampling_weight(source);
  const double passes = passes_over(corpus, report.train.sequences, config);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Packing& packing = *samples[i].packing;
    const double share = sampling_weight(samples[i]) / weights,
                 size = static_cast<double>(packing.size()) /
                        static_cast<double>(report.train.sequences);
    report.sources.push_back({corpus.train[i].name, packing.dataset().documents(),
                              packing.dataset().tokens(), packing.size(), share,
                              passes * share / size});
  }
}

/// Draws the batches of the first training steps of a shape, and adds their samples and empty
/// places to the report.
void try_batches(const RunConfig& config, const Corpus& corpus,
                 const std::vector<MaskedSamples>& samples, CorpusStatistics& report) {
  const std::vector<Stage> stages = stages_of(config);
  const std::int64_t all = total_steps(config.training, report.train.sequences),
                     steps = std::min<std::int64_t>(stages.size() > 1 ? stages[1].begin : all, 8);
  const auto loader =
      training_loader(config, corpus.train, samples,
                      {config.training.batch_size, config.training.micro_batch_size}, stages[0], 0);
  std::int64_t tokens = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    for (const Batch& batch : loader->next()) {
      tokens += batch.tokens;
      for (std::size_t i = 1; i < batch.input.offsets.size(); ++i)
        if (report.samples.size() < max_shown_samples)
          report.samples.push_back(show_sequence(batch, i - 1, *corpus.tokenizer));
    }
  }
  const std::int64_t places = steps * stages[0].sequences * stages[0].length;
  report.padding = 1 - static_cast<double>(tokens) / static_cast<double>(places);
}

}  // namespace

double passes_over(const Corpus& corpus, std::int64_t sequences, const RunConfig& config) {
  const std::int64_t steps = total_steps(config.training, sequences);
  const std::vector<Stage> stages = stages_of(config);
  double passes = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const std::int64_t end = i + 1 < stages.size() ? stages[i + 1].begin : steps;
    const std::int64_t length = stages[i].length;
    const std::int64_t all =
        length == config.data.sequence_length ? sequences : sequences_of(corpus, length, config);
    passes += static_cast<double>((end - stages[i].begin) * stages[i].sequences) /
              static_cast<double>(all);
  }
  return passes;
}

CorpusStatistics corpus_statistics(const RunConfig& config, const Corpus& corpus, Log& log) {
  const auto samples = masked_sources(corpus.train, *corpus.tokenizer, config);
  const auto held_out = masked_sources(corpus.validation, *corpus.tokenizer, config);
  CorpusStatistics report;
  std::vector<Digest> digests;
  DocumentCounter train(*samples[0].packing), validation = train;
  for (const MaskedSamples& source : samples) {
    train.add_source(*source.packing);
    for_each_document(source.packing->dataset(), "training data", log,
                      [&](const Document& document) {
                        train.add(document);
                        digests.push_back(document.digest);
                      });
  }
  std::sort(digests.begin(), digests.end());
  for (std::size_t i = 1; i < digests.size(); ++i)
    report.duplicates += digests[i] == digests[i - 1];
  for (const MaskedSamples& source : held_out) {
    validation.add_source(*source.packing);
    for_each_document(
        source.packing->dataset(), "validation data", log, [&](const Document& document) {
          validation.add(document);
          report.overlap += std::binary_search(digests.begin(), digests.end(), document.digest);
        });
  }
  report.train = train.finish();
  report.validation = validation.finish();
  if (!corpus.train[0].name.empty()) add_sources(config, corpus, samples, report);
  try_batches(config, corpus, samples, report);
  if (samples[0].masking.whole_word) add_units(samples[0], report);
  return report;
}

std::vector<std::string> data_warnings(const CorpusStatistics& report) {
  std::vector<std::string> lines;
  if (report.overlap > 0) {
    lines.push_back(
        fmt::format("{} of {} validation documents are training documents too; the validation loss "
                    "will look better than it is",
                    report.overlap, report.validation.documents));
  }
  for (const SourceStatistics& source : report.sources) {
    if (source.passes <= 100) continue;
    lines.push_back(
        fmt::format("the run goes over {} {:.0f} times; lower its weight in data.train, or give it "
                    "more text",
                    source.name, source.passes));
  }
  if (report.padding > 0.5) {
    lines.push_back(fmt::format(
        "{:.0f} % of the places of a step hold no token, so that it learns from few; raise "
        "training.batch_size, or set data.packing to isolated",
        100 * report.padding));
  }
  return lines;
}

std::vector<std::string> epoch_warnings(double epochs) {
  if (epochs < 1)
    return {fmt::format(
        "the run sees only {:.0f} % of the training data; raise training.steps, or give less text",
        100 * epochs)};
  if (epochs > 100)
    return {fmt::format(
        "the run goes over the training data {:.0f} times; lower training.steps, or give more text",
        epochs)};
  return {};
}

std::string shown(const std::vector<ShownToken>& sample, bool colour) {
  std::string line;
  for (const ShownToken& token : sample) {
    if (token.masking == Masking::none) {
      line += token.text;
      continue;
    }
    const auto bare = [](const std::string& text) {
      return text.starts_with(' ') ? text.substr(1) : text;
    };
    const std::string change = bare(token.text) + "→" + bare(token.now);
    const int code = token.masking == Masking::masked     ? 33
                     : token.masking == Masking::replaced ? 31
                                                          : 32;  // yellow, red, green
    if (token.text.starts_with(' ')) line += ' ';
    line += colour ? fmt::format("\x1b[{}m{}\x1b[0m", code, change) : fmt::format("[{}]", change);
  }
  return line;
}

}  // namespace nystrom
