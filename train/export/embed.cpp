#include "train/export/embed.h"

#include <algorithm>
#include <cstring>

#include "core/base/printable.h"
#include "core/check.h"
#include "train/pretrain/text_batches.h"

namespace nystrom {
namespace {

using Ids = std::vector<std::int32_t>;

/// The ids of each text with the special tokens, at most `max_length`.
std::vector<Ids> ids_of(const Tokenizer& tokenizer, std::span<const std::string> texts,
                        std::int64_t max_length) {
  const auto special = std::ssize(tokenizer.wrap({}).ids);
  require_input(max_length > special, "max_length {}: {} special tokens leave no place for a text",
                max_length, special);
  std::vector<Ids> result;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Ids ids = with_context(fmt::format("text {}", i), [&] { return tokenizer.encode(texts[i]); });
    ids.resize(std::min(ids.size(), static_cast<std::size_t>(max_length - special)));
    result.push_back(tokenizer.wrap(ids).ids);
    // A tokenizer without special tokens has none for an empty text.
    require_input(!result.back().empty(), "text {} has no tokens", i);
  }
  return result;
}

}  // namespace

Tensor embed_texts(const Model& model, const Tokenizer& tokenizer,
                   std::span<const std::string> texts, const EmbedOptions& options) {
  const ModelConfig& config = model.config();
  require_input(!config.embed_dim, "the model reads features; it makes no vectors of texts");
  const auto longest = config.longest_sequence();
  require_input(!longest || options.max_length <= *longest,
                "max_length {}: the model takes at most {} tokens", options.max_length,
                longest.value_or(0));
  const std::vector<Ids> ids = ids_of(tokenizer, texts, options.max_length);
  const Pooling pooling = options.pooling == SentencePooling::mean ? Pooling::mean : Pooling::first;
  const std::int64_t width = config.hidden_size;
  Tensor vectors = Tensor::empty({std::ssize(texts), width}, DType::f32);
  std::size_t done = 0;
  for_each_batch(
      {ids.begin(), ids.end()}, config, tokenizer.special().pad, options.batch_size,
      [&](const TextBatch& batch) {
        const Tensor rows =
            model.pooled(batch.input, pooling).value().to(cpu_device).contiguous().cast(DType::f32);
        for (std::size_t row = 0; row < batch.texts.size(); ++row) {
          const auto to = static_cast<std::int64_t>(batch.texts[row]) * width;
          std::copy_n(rows.data<float>() + static_cast<std::int64_t>(row) * width, width,
                      vectors.data<float>() + to);
        }
        done += batch.texts.size();
        if (options.progress) options.progress(done);
      });
  return vectors;
}

}  // namespace nystrom
