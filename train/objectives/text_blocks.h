// Streams of texts as vectors, in bounded memory.
#pragma once

#include <functional>
#include <vector>

#include "data/tasks/examples.h"
#include "train/objectives/text_embedder.h"

namespace nystrom {

/// Whether `texts` texts with `bytes` bytes are a block to turn into vectors at once. Sorting by
/// length pays within 64 batches. The bytes bound the memory.
bool is_full_block(std::int64_t texts, std::int64_t bytes, std::int64_t batch_size);

/// Throws a BadRow for a text of the example that is white space alone: its vector says nothing.
void refuse_blank(const std::string& text, const Example& example);

/// Turns a stream of texts into vectors, block by block. The blocks follow from the texts alone.
class TextBlocks {
 public:
  /// Called with the examples of a block in their order, and their vectors.
  using Use = std::function<void(const std::vector<Example>&, const Tensor&)>;

  /// `embedder` must outlive the object.
  TextBlocks(TextEmbedder& embedder, Use use) : embedder_(embedder), use_(std::move(use)) {}

  /// Adds an example, of which the text becomes a vector. Throws an InputError for an image, and
  /// for a pair of texts.
  void add(Example example);
  /// Adds all examples of a reader, and finishes.
  void add_all(ExampleReader& reader);
  /// Turns the rest into vectors.
  void finish();

 private:
  TextEmbedder& embedder_;
  Use use_;
  std::vector<Example> examples_;
  std::int64_t bytes_ = 0;
};

/// The vectors of all texts at once: [texts, width] f32. `progress` is called with the texts done.
Tensor embed_all(TextEmbedder& embedder, const std::vector<std::string>& texts,
                 const std::function<void(std::int64_t)>& progress = {});

}  // namespace nystrom
