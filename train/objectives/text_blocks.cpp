#include "train/objectives/text_blocks.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "data/tasks/text_range.h"
#include "data/text/line_reader.h"

namespace nystrom {

bool is_full_block(std::int64_t texts, std::int64_t bytes, std::int64_t batch_size) {
  constexpr std::int64_t batches = 64, max_bytes = std::int64_t{4} << 20;
  return texts >= batches * batch_size || bytes >= max_bytes;
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
      !example.pair,
      "{}: has two texts, and vectors are made of single ones; leave task.columns.pair out, "
      "or name a recipe of single texts",
      example.place());
  bytes_ += std::ssize(example.text);
  examples_.push_back(std::move(example));
  if (is_full_block(std::ssize(examples_), bytes_, embedder_.options().batch_size)) finish();
}

void TextBlocks::add_all(ExampleReader& reader) {
  while (auto example = reader.next()) add(std::move(*example));
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
