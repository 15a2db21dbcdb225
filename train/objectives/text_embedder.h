// Texts as vectors: encoding, windows of long texts, pooling, normalisation; streams of texts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/tasks/examples.h"
#include "data/tasks/task_dataset.h"
#include "data/tokenizers/tokenizer.h"
#include "nn/model.h"
#include "train/distributed/communicator.h"

namespace nystrom {

/// How texts become vectors.
struct EmbeddingOptions {
  SentencePooling pooling = SentencePooling::mean;
  bool normalize = true;
  std::optional<std::int64_t> dimensions = std::nullopt;  ///< the first ones; null: all
  std::string prompt = {};                                ///< put before each text
  std::int64_t sequence_length = 512;  ///< tokens of a window, with the special ones
  bool whole = true;                   ///< long texts in windows; false: their beginning alone
  std::int64_t batch_size = 32;        ///< windows that are computed at once, at most
};

/// Which of the model's prompts is put before texts.
enum class PromptKind { query, document, none };

/// The model's own options (model.embedding), with one of its prompts.
EmbeddingOptions embedding_options(const ModelConfig& config, PromptKind prompt,
                                   std::int64_t sequence_length);

/// Throws an InputError that begins with `where` if vectors compared so are not ranked by their
/// products: those of cosine at length 1, those of dot as they are.
void require_ranked(Similarity similarity, const std::string& where);

/// Throws an InputError if a prompt of `config` holds the name of a special token.
void require_plain_prompts(const Tokenizer& tokenizer, const EmbeddingConfig& config);

/// Turns texts into vectors.
class TextEmbedder {
 public:
  /// The model, the tokenizer and `communicator` must outlive the embedder. With `communicator` the
  /// processes share the work of each call. Throws an InputError for a model of features, for more
  /// dimensions than the model's vectors have, and for a sequence_length that the model does not
  /// take.
  TextEmbedder(const Model& model, const Tokenizer& tokenizer, EmbeddingOptions options,
               Communicator* communicator = nullptr);

  /// The vectors of `texts` in their order: [texts, width()] f32 on the CPU. A text of more tokens
  /// than a window becomes several windows without overlap, where options say so. Its vector is the
  /// mean of theirs, weighted by their tokens with the special ones. The mean comes before the cut
  /// to `dimensions`, and that before the normalisation (Kusupati et al., "Matryoshka
  /// Representation Learning", NeurIPS 2022). Texts of similar length share a batch. A batch has at
  /// most batch_size windows, and fewer where they are long. Throws an InputError for a vector that
  /// is not finite.
  Tensor operator()(std::span<const std::string> texts);

  /// The numbers of a vector.
  std::int64_t width() const;
  const EmbeddingOptions& options() const { return options_; }
  /// How the model compares vectors.
  Similarity similarity() const { return model_.config().embedding.similarity; }
  /// The texts so far (examples), and those that were read without their rest (truncated).
  const EncodingCounts& counts() const { return counts_; }
  /// "2 of 9 texts have more than 512 tokens: …", how many texts are empty, and how many tokens are
  /// unknown where those are many; else empty.
  std::string note() const;

 private:
  Tensor window_vectors(const TaskDataset& windows) const;

  const Model& model_;
  EmbeddingOptions options_;
  Communicator* communicator_;
  TaskEncoder encoder_;
  EncodingCounts counts_;
  std::int64_t windowed_ = 0;  // texts that are longer than a window
};

/// Throws a BadRow for a text of the example that is white space alone: its vector says nothing.
void refuse_blank(const std::string& text, const Example& example);

/// Turns a stream of texts into vectors, block by block. The blocks follow from the texts alone:
/// sorting by length pays within 64 batches, and their bytes bound the memory.
class TextBlocks {
 public:
  /// Called with the examples of a block in their order, and their vectors.
  using Use = std::function<void(const std::vector<Example>&, const Tensor&)>;

  /// `embedder` must outlive the object. `of_pairs`: examples may have a second text, for `use`.
  TextBlocks(TextEmbedder& embedder, Use use, bool of_pairs = false)
      : embedder_(embedder), use_(std::move(use)), of_pairs_(of_pairs) {}

  /// Adds an example, of which the text becomes a vector. Throws an InputError for an image, and
  /// for a pair of texts where there may be none.
  void add(Example example);
  /// Turns the rest into vectors.
  void finish();

 private:
  TextEmbedder& embedder_;
  Use use_;
  bool of_pairs_;
  std::vector<Example> examples_;
  std::int64_t bytes_ = 0;
};

/// The vectors of all texts at once: [texts, width] f32. `progress` is called with the texts done.
Tensor embed_all(TextEmbedder& embedder, const std::vector<std::string>& texts,
                 const std::function<void(std::int64_t)>& progress = {});

}  // namespace nystrom
