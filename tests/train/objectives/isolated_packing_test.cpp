// Documents that share a sequence's place give what they give alone.
#include <gtest/gtest.h>

#include "data/pretraining/loader.h"
#include "tests/data/tokenizers/token_sets.h"
#include "tests/support/models.h"
#include "tests/support/temporary_folder.h"

namespace nystrom::testing {
namespace {

/// Sequence `i` of a batch, as a batch of its own.
Batch alone(const Batch& batch, std::size_t i) {
  const std::int64_t first = batch.input.offsets[i], end = batch.input.offsets[i + 1],
                     number = static_cast<std::int64_t>(i);
  Batch result;
  result.input.input_ids = batch.input.input_ids.slice(0, first, end).contiguous();
  result.input.offsets = {0, end - first};
  result.labels = batch.labels.slice(0, first, end).contiguous();
  result.sample_ids = batch.sample_ids.slice(0, number, number + 1).contiguous();
  return result;
}

TEST(IsolatedPacking, LossesAreThoseOfTheDocumentsAlone) {
  const TemporaryFolder folder;
  write_set(folder / "x", documents_of({9, 3, 4, 20, 7, 2, 30, 5}, 1, 40), default_shard_tokens,
            small_info(40));
  const MaskedSamples source{
      std::make_shared<const Packing>(open_set(folder / "x"),
                                      PackingOptions{.sequence_length = 24, .isolated = true}),
      std::make_shared<const MaskingTable>(40, 4, ids_of(small_info().special)),
      {.probability = 0.5},
      42};
  const std::vector<SampleUse> uses{{0, 0, 0}, {1, 0, 1}, {2, 0, 2}};
  const Batch batch = make_batch({&source, 1}, uses);
  ASSERT_GT(batch.input.sequences(), std::ssize(uses)) << "some share a place";
  ModelConfig config = tiny_config();
  config.head = Head::masked_lm;
  config.vocab_size = 40;
  config.pad_token_id = 0;
  config.max_position_embeddings = 24;
  const auto gradients = [&](const std::vector<Batch>& batches) {
    const auto model = make_model(config, DType::f64);
    double loss = 0;
    for (const Batch& each : batches) {
      const RunContext run{true, false, 3, 4, each.sample_ids};
      Tape tape;
      const Var part = model->masked_lm(each.input, each.labels, 9, run).loss;
      tape.backward(part);
      loss += part.value().item();
    }
    std::vector<double> numbers = model->parameters().gradients().to_doubles();
    numbers.push_back(loss);
    return numbers;
  };
  std::vector<Batch> documents;
  for (std::size_t i = 0; i + 1 < batch.input.offsets.size(); ++i) {
    const Batch document = alone(batch, i);
    const auto* label = document.labels.data<std::int64_t>();
    if (std::any_of(label, label + document.labels.numel(),
                    [](std::int64_t l) { return l != ignore_index; }))
      documents.push_back(document);
  }
  const std::vector<double> together = gradients({batch}), apart = gradients(documents);
  ASSERT_EQ(together.size(), apart.size());
  for (std::size_t i = 0; i < apart.size(); ++i) EXPECT_NEAR(together[i], apart[i], 1e-12);
}

}  // namespace
}  // namespace nystrom::testing
