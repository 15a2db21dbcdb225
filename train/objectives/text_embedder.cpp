#include "train/objectives/text_embedder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/interruption.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/task_loader.h"
#include "data/tasks/task_statistics.h"
#include "data/tasks/word_cut.h"
#include "data/text/line_reader.h"

namespace nystrom {
namespace {

/// Single texts: all of each in windows without overlap, or its beginning.
TaskConfig single_texts(bool whole) {
  TaskConfig task;
  task.kind = TaskKind::classification;
  task.windows = whole ? TaskWindows::mean : TaskWindows::first;
  task.stride = 0;
  return resolve_task(task);
}

/// `model`, if it can make vectors of texts with these options.
const Model& checked(const Model& model, const EmbeddingOptions& options) {
  const ModelConfig& config = model.config();
  require_input(!config.embed_dim, "the model reads features, and vectors are made of texts");
  const std::int64_t dimensions = options.dimensions.value_or(1);
  require_input(dimensions >= 1, "{} dimensions: choose at least 1", dimensions);
  require_input(dimensions <= config.vector_width(),
                "{} dimensions: the vectors of this model have {}; choose at most as many",
                dimensions, config.vector_width());
  const auto longest = config.longest_sequence();
  require_input(!longest || options.sequence_length <= *longest,
                "data.sequence_length {} is more than the {} tokens that the model takes; --set "
                "data.sequence_length={}",
                options.sequence_length, longest.value_or(0), longest.value_or(0));
  require(options.batch_size >= 1, "TextEmbedder: batch_size {}", options.batch_size);
  return model;
}

}  // namespace

EmbeddingOptions embedding_options(const ModelConfig& config, PromptKind prompt,
                                   std::int64_t sequence_length) {
  EmbeddingOptions options;
  options.pooling = config.embedding.pooling;
  options.normalize = config.embedding.normalize;
  if (prompt == PromptKind::query) options.prompt = config.embedding.query_prompt;
  if (prompt == PromptKind::document) options.prompt = config.embedding.document_prompt;
  options.sequence_length = sequence_length;
  return options;
}

void require_ranked(Similarity similarity, const std::string& where) {
  require_input(
      similarity == Similarity::cosine || similarity == Similarity::dot,
      "{}: model.embedding.similarity is {}, and nystrom compares by cosine or dot; --set "
      "model.embedding.similarity=cosine",
      where, enum_name(similarity));
}

void require_plain_prompts(const Tokenizer& tokenizer, const EmbeddingConfig& config) {
  require_plain_prompt(tokenizer, config.query_prompt);
  require_plain_prompt(tokenizer, config.document_prompt);
}

TextEmbedder::TextEmbedder(const Model& model, const Tokenizer& tokenizer, EmbeddingOptions options,
                           Communicator* communicator)
    : model_(checked(model, options)),
      options_(std::move(options)),
      communicator_(communicator),
      encoder_(single_texts(options_.whole), {}, tokenizer, options_.sequence_length) {
  require_plain_prompt(tokenizer, options_.prompt);
}

std::int64_t TextEmbedder::width() const {
  return options_.dimensions.value_or(model_.config().vector_width());
}

std::string TextEmbedder::note() const {
  std::vector<std::string> parts;
  if (windowed_ > 0)
    parts.push_back(
        fmt::format("{} of {} texts have more than {} tokens: their vectors are means over windows",
                    windowed_, counts_.examples, options_.sequence_length));
  if (counts_.blank.count > 0)
    parts.push_back(fmt::format("{} of {} texts are empty, or white space alone",
                                counts_.blank.count, counts_.examples));
  if (const std::string unknown = describe_unknown(counts_); !unknown.empty())
    parts.push_back(unknown);
  return fmt::format("{}", fmt::join(parts, "; "));
}

/// The vector of each window, [windows, vector_width] f32.
Tensor TextEmbedder::window_vectors(const TaskDataset& windows) const {
  const std::int64_t width = model_.config().vector_width();
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < windows.size(); ++i) lengths.push_back(windows.length(i));
  // Larger batches are no faster, and need more memory.
  constexpr std::int64_t max_batch_tokens = 8192;
  const auto all = batches_by_length(lengths, options_.batch_size, max_batch_tokens);
  Tensor result = Tensor::zeros({windows.size(), width}, DType::f32);
  const auto compute = [&](std::int64_t number) {
    check_interruption();
    const std::vector<std::int64_t>& samples = all[static_cast<std::size_t>(number)];
    const Batch batch = make_task_batch(windows, samples, samples);
    return model_.sentence_vectors(batch.input, options_.pooling)
        .value()
        .cast(DType::f32)
        .to_doubles();
  };
  Communicator alone;
  Communicator& processes = communicator_ != nullptr ? *communicator_ : alone;
  processes.share(std::ssize(all), compute,
                  [&](std::int64_t number, std::span<const double> found) {
                    auto next = found.begin();
                    for (const std::int64_t window : all[static_cast<std::size_t>(number)])
                      for (std::int64_t i = 0; i < width; ++i)
                        result.data<float>()[window * width + i] = static_cast<float>(*next++);
                  });
  return result;
}

Tensor TextEmbedder::operator()(std::span<const std::string> texts) {
  std::vector<Example> examples(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) examples[i].text = options_.prompt + texts[i];
  const TaskDataset windows = TaskDataset::from(encoder_, examples, false);
  const Tensor vectors = window_vectors(windows);
  const std::int64_t all = model_.config().vector_width(), kept = width();
  Tensor result = Tensor::empty({std::ssize(texts), kept}, DType::f32);
  std::int64_t window = 0;
  for (std::int64_t text = 0; text < std::ssize(texts); ++text) {
    std::vector<double> mean(static_cast<std::size_t>(kept), 0);
    const std::int64_t first = window;
    double tokens = 0;
    for (; window < windows.size() && windows.sample(window).example == text; ++window) {
      const auto weight = static_cast<double>(windows.length(window));
      const float* const vector = vectors.data<float>() + window * all;
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += weight * vector[i];
      tokens += weight;
    }
    windowed_ += window > first + 1;
    require_input(tokens > 0, "the text '{}' has no token, and so no vector; leave it out",
                  printable(texts[static_cast<std::size_t>(text)], 60));
    double squares = 0;
    for (double& value : mean) {
      value /= tokens;
      squares += value * value;
    }
    if (!std::isfinite(squares))
      throw DivergedError(fmt::format(
          "the vector of '{}' is not finite; compute it in f32, or train the model again",
          printable(texts[static_cast<std::size_t>(text)], 60)));
    // A vector of zeros has no direction, and stays.
    const double length = options_.normalize && squares > 0 ? std::sqrt(squares) : 1;
    float* const row = result.data<float>() + text * kept;
    for (std::size_t i = 0; i < mean.size(); ++i) row[i] = static_cast<float>(mean[i] / length);
  }
  counts_.add(windows.counts());
  return result;
}

void refuse_blank(const std::string& text, const Example& example) {
  if (is_blank(text)) throw BadRow(example.place() + ": a text is blank");
}

void TextBlocks::add(Example example) {
  require_input(example.pixels.empty(),
                "{}: an image has no vector; vectors are made of texts: leave task.format and "
                "task.recipe out",
                example.place());
  require_input(
      !example.pair || of_pairs_,
      "{}: has two texts, and vectors are made of single ones; leave task.columns.pair out, "
      "or name a recipe of single texts",
      example.place());
  constexpr std::int64_t batches = 64, max_bytes = std::int64_t{4} << 20;
  bytes_ += std::ssize(example.text) + std::ssize(example.pair.value_or(""));
  examples_.push_back(std::move(example));
  if (std::ssize(examples_) >= batches * embedder_.options().batch_size || bytes_ >= max_bytes)
    finish();
}

void TextBlocks::finish() {
  if (examples_.empty()) return;
  const std::vector<Example> examples = std::exchange(examples_, {});
  bytes_ = 0;
  std::vector<std::string> texts;
  for (const Example& example : examples) texts.push_back(example.text);
  use_(examples, embedder_(texts));
}

Tensor embed_all(TextEmbedder& embedder, const std::vector<std::string>& texts,
                 const std::function<void(std::int64_t)>& progress) {
  Tensor all = Tensor::empty({std::ssize(texts), embedder.width()}, DType::f32);
  float* next = all.data<float>();
  std::int64_t done = 0;
  TextBlocks blocks(embedder, [&](const std::vector<Example>&, const Tensor& vectors) {
    next = std::copy_n(vectors.data<float>(), vectors.numel(), next);
    done += vectors.dim(0);
    if (progress) progress(done);
  });
  for (const std::string& text : texts) {
    Example example;
    example.text = text;
    blocks.add(std::move(example));
  }
  blocks.finish();
  return all;
}

}  // namespace nystrom
