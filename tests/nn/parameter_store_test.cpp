// Parameters: their names, initialization and loading.
#include "nn/parameter_store.h"
#include "nn/weight_loading.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <set>

#include "core/kernels.h"
#include "core/threads.h"
#include "tests/support/errors.h"
#include "tests/support/models.h"
#include "tests/support/says.h"

namespace nystrom::testing {
namespace {

std::vector<std::string> names_of(const ParameterStore& store) {
  std::vector<std::string> names;
  for (const Parameter& parameter : store.parameters()) names.push_back(parameter.name());
  return names;
}

/// The names of a one-layer encoder as transformers saves it with a head.
std::vector<std::string> encoder_names() {
  std::vector<std::string> names;
  const std::string root = "nystromformer.", layer = root + "encoder.layer.0.";
  for (const char* name : {"word_embeddings.weight", "position_embeddings.weight",
                           "token_type_embeddings.weight", "LayerNorm.weight", "LayerNorm.bias"}) {
    names.push_back(root + "embeddings." + name);
  }
  for (const char* module : {"attention.self.query", "attention.self.key", "attention.self.value",
                             "attention.output.dense", "attention.output.LayerNorm",
                             "intermediate.dense", "output.dense", "output.LayerNorm"}) {
    for (const char* part : {".weight", ".bias"}) names.push_back(layer + module + part);
  }
  names.push_back(layer + "attention.self.conv.weight");
  return names;
}

struct HeadCase {
  Head head;
  std::vector<std::string> names;
};
void PrintTo(const HeadCase& test, std::ostream* out) {
  *out << enum_name(test.head);
}  // NOLINT: GoogleTest's name

const HeadCase head_cases[] = {
    {Head::none, {}},
    {Head::masked_lm,
     {"cls.predictions.bias", "cls.predictions.transform.dense.weight",
      "cls.predictions.transform.dense.bias", "cls.predictions.transform.LayerNorm.weight",
      "cls.predictions.transform.LayerNorm.bias"}},
    {Head::sequence_classification,
     {"classifier.dense.weight", "classifier.dense.bias", "classifier.out_proj.weight",
      "classifier.out_proj.bias"}},
    {Head::token_classification, {"classifier.weight", "classifier.bias"}},
    {Head::question_answering, {"qa_outputs.weight", "qa_outputs.bias"}},
    {Head::multiple_choice,
     {"pre_classifier.weight", "pre_classifier.bias", "classifier.weight", "classifier.bias"}},
};

class NamesOfHead : public ::testing::TestWithParam<HeadCase> {};

TEST_P(NamesOfHead, AreHuggingFaces) {
  ModelConfig config = tiny_config();
  config.num_hidden_layers = 1;
  config.head = GetParam().head;
  const Model model(config);
  auto expected = encoder_names();
  expected.insert(expected.end(), GetParam().names.begin(), GetParam().names.end());
  const auto got = names_of(model.parameters());
  EXPECT_EQ(std::multiset(got.begin(), got.end()), std::multiset(expected.begin(), expected.end()));
}

INSTANTIATE_TEST_SUITE_P(All, NamesOfHead, ::testing::ValuesIn(head_cases),
                         [](const auto& test) { return std::string(enum_name(test.param.head)); });

/// Runs start from them: no number of threads and no version may change a bit.
TEST(NormalValues, AreThoseOfOneThread) {
  constexpr std::uint64_t seed = 7;
  const int before = num_threads();
  for (const int threads : {1, 3, 16}) {
    set_num_threads(threads);
    for (const std::int64_t count : {1, 6, 300001}) {
      const std::vector<double> values = normal_values(seed, "a.weight", count, 0.02);
      ASSERT_EQ(std::ssize(values), count);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto block = philox(philox_key(seed, hash_of("a.weight")),
                                  {{static_cast<std::uint32_t>(i / 4), 0, 0, 0}});
        const std::size_t pair = i % 4 / 2 * 2;
        const double radius = std::sqrt(-2 * std::log(uniform_open(block.word[pair]))),
                     angle = 2 * std::numbers::pi * uniform_open(block.word[pair + 1]);
        ASSERT_EQ(values[i], 0.02 * radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle))) << i;
      }
    }
  }
  set_num_threads(before);
}

TEST(ParameterStore, RefusesMisuse) {
  ParameterStore store;
  const Parameter weight = (Scope(store) / "dense").parameter("weight", {2, 3});
  EXPECT_EQ(message_of([&] { Scope(store).parameter("dense.weight", {2}); }),
            "parameter dense.weight is declared twice");
  EXPECT_EQ(message_of([&] { weight.var(); }),
            "parameter dense.weight is used before its store was allocated");
  EXPECT_EQ(message_of([] { Parameter().var(); }),
            "parameter (none) is used before its store was allocated");
  store.allocate(DType::f32, StoreMode::inference);
  EXPECT_EQ(message_of([&] { store.allocate(DType::f32, StoreMode::inference); }),
            "the parameter store is allocated already");
  EXPECT_EQ(message_of([&] { Scope(store).parameter("late", {2}); }),
            "parameter late is declared after the store was allocated");
  EXPECT_EQ(message_of([&] { store.gradient("dense.weight"); }),
            "the store was allocated for inference and has no gradients");
  EXPECT_EQ(message_of([&] { store.master("dense.bias"); }), "there is no parameter dense.bias");
  EXPECT_EQ(message_of([&] {
              store.set("dense.weight", Tensor::zeros({3, 2}, DType::f32));
            }),
            "parameter dense.weight has shape [2, 3], got [3, 2]");
}

TEST(ParameterStore, KeepsMastersOfARangeAlone) {
  ParameterStore whole, part;
  for (ParameterStore* store : {&whole, &part}) {
    Scope(*store).parameter("a", {20});  // elements 0 … 31 of the slabs
    Scope(*store).parameter("b", {3, 8});
  }
  whole.allocate(DType::bf16, StoreMode::training);
  part.allocate(DType::bf16, StoreMode::training, cpu_device, SlabRange{16, 48});
  whole.initialise(1, 1);
  part.initialise(1, 1);
  EXPECT_EQ(part.values().to_doubles(), whole.values().to_doubles());
  EXPECT_EQ(part.masters().to_doubles(), whole.masters({16, 48}).to_doubles());
  EXPECT_EQ(part.masters({32, 40}).to_doubles(), whole.masters({32, 40}).to_doubles());
  EXPECT_EQ(message_of([&] {
              part.masters({0, 20});
            }),
            "the store keeps masters 16 to 48, not 0 to 20");
  EXPECT_EQ(message_of([&] { part.master("b"); }),
            "the store keeps a part of the masters, not the whole of b");
  Tensor masters = part.masters();
  kernels::fill(masters, 2);
  part.round_masters();
  EXPECT_EQ(part.values().slice(0, 16, 48).contiguous().to_doubles(), std::vector<double>(32, 2));
  EXPECT_EQ(part.values().slice(0, 0, 16).contiguous().to_doubles(),
            whole.values().slice(0, 0, 16).contiguous().to_doubles());
}

TEST(ParameterStore, InitialisesToItsDeviationWithZeroRowAndBias) {
  ParameterStore store;
  const Scope scope(store);
  scope.parameter("table", {300, 100}, {Init::Kind::normal, 7});
  scope.parameter("bias", {5}, {Init::Kind::zeros}, false);
  scope.parameter("gain", {5}, {Init::Kind::ones}, false);
  store.allocate(DType::f64, StoreMode::inference);
  store.initialise(3, 0.02);
  const auto table = store.master("table").to_doubles();
  double sum = 0, squares = 0;
  for (const double v : table) sum += v, squares += v * v;
  const double count = 299 * 100;
  EXPECT_NEAR(sum / count, 0, 4 * 0.02 / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(squares / count), 0.02, 4 * 0.02 / std::sqrt(2 * count));
  EXPECT_EQ(largest(store.master("table").slice(0, 7, 8).contiguous()), 0);
  EXPECT_GT(largest(store.master("table").slice(0, 6, 7).contiguous()), 0);
  EXPECT_EQ(store.master("bias").to_doubles(), std::vector<double>(5, 0));
  EXPECT_EQ(store.master("gain").to_doubles(), std::vector<double>(5, 1));
}

TEST(ParameterStore, InitialValuesFollowFromSeedAndNameAlone) {
  const auto values = [](const std::vector<const char*>& order, std::uint64_t seed) {
    ParameterStore store;
    for (const char* name : order) Scope(store).parameter(name, {7});
    store.allocate(DType::f32, StoreMode::inference);
    store.initialise(seed, 1);
    return store.master("b").to_doubles();
  };
  EXPECT_EQ(values({"a", "b"}, 1), values({"b", "c", "a"}, 1));
  EXPECT_NE(values({"a", "b"}, 1), values({"a", "b"}, 2));
}

TEST(ParameterStore, BiasesAndLayerNormDoNotDecay) {
  const Model model(masked_lm_config());
  for (const Parameter& parameter : model.parameters().parameters()) {
    const std::string& name = parameter.name();
    const bool spared = name.ends_with("bias") || name.find("LayerNorm") != std::string::npos;
    EXPECT_EQ(parameter.decays(), !spared) << name;
  }
}

TEST(ParameterStore, RangesCoverTheSlabWithoutWhatIsFrozen) {
  ParameterStore store;
  const Scope scope(store);
  for (const char* name : {"a", "b", "c", "d"}) scope.parameter(name, {20});
  EXPECT_EQ(store.range_of("b").begin, 32);
  EXPECT_EQ(store.range_of("b").end, 64);
  const auto ranges = [&](SlabRange within) {
    std::vector<std::pair<std::int64_t, std::int64_t>> found;
    for (const SlabRange& range : store.trained_ranges(within))
      found.emplace_back(range.begin, range.end);
    return found;
  };
  using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(ranges({0, store.slab_size()}), (Ranges{{0, 128}}));
  store.freeze("b");
  EXPECT_EQ(ranges({0, store.slab_size()}), (Ranges{{0, 32}, {64, 128}}));
  EXPECT_EQ(ranges({16, 80}), (Ranges{{16, 32}, {64, 80}}));
  EXPECT_EQ(ranges({32, 64}), Ranges{});
  EXPECT_EQ(store.count(), 80);
  EXPECT_EQ(store.trained_count(), 60);
}

/// A source of random weights with the given entries.
WeightSource source_of(std::vector<WeightSource::Entry> entries) {
  WeightSource source{std::move(entries), {}};
  source.read = [entries = source.entries](const std::string& name) {
    for (const auto& entry : entries) {
      if (entry.name == name) return random_normal(entry.shape, hash_of(name));
    }
    return Tensor{};
  };
  return source;
}

void declare(ParameterStore& store) {
  const Scope scope = Scope(store) / "nystromformer";
  scope.parameter("query.weight", {4, 4});
  scope.parameter("query.bias", {4});
  scope.parameter("LayerNorm.weight", {4});
}

TEST(LoadWeights, ReportsEverythingAtOnce) {
  ParameterStore store;
  declare(store);
  const auto source = source_of({{"nystromformer.query.weight", {4, 5}},
                                 {"nystromformer.qeury.bias", {4}},
                                 {"surplus", {1}}});
  EXPECT_EQ(message_of([&] { check_weights(store, source); }),
            "the weights do not fit the model; mismatched: nystromformer.query.weight is [4, 5], "
            "expected [4, 4]; unexpected: nystromformer.qeury.bias; did you mean "
            "'nystromformer.query.bias'?, surplus; missing: nystromformer.query.bias, "
            "nystromformer.LayerNorm.weight");
}

TEST(LoadWeights, NamesNoMoreThanTwentyOfAKind) {
  ParameterStore store;
  for (int i = 0; i < 23; ++i) Scope(store).parameter("p" + std::to_string(i), {1});
  const std::string message = message_of([&] { check_weights(store, source_of({})); });
  EXPECT_TRUE(message.ends_with(", p18, p19 and 3 more")) << message;
}

/// They would take minutes: each name is compared with all that are missing.
TEST(LoadWeights, LooksForNoNearNamesAmongThousands) {
  ParameterStore store;
  for (int i = 0; i < 1001; ++i) Scope(store).parameter("nystromformer." + std::to_string(i), {1});
  const std::string message = message_of([&] {
    check_weights(store, source_of({{"nystromformer.1001", {1}}}));
  });
  expect_says(message, "unexpected: nystromformer.1001; missing");
}

TEST(LoadWeights, PassesOverCopiesThatFilesHold) {
  ParameterStore store;
  declare(store);
  store.allocate(DType::f64, StoreMode::inference);
  const auto source = source_of({{"nystromformer.query.weight", {4, 4}},
                                 {"nystromformer.query.bias", {4}},
                                 {"nystromformer.LayerNorm.weight", {4}},
                                 {"cls.predictions.decoder.weight", {9, 4}},
                                 {"cls.predictions.decoder.bias", {9}},
                                 {"nystromformer.embeddings.position_ids", {1, 9}},
                                 {"nystromformer.embeddings.token_type_ids", {1, 9}}});
  load_weights(store, source);
  for (const auto& name : names_of(store))
    EXPECT_EQ(store.master(name).to_doubles(), source.read(name).to_doubles()) << name;
}

TEST(LoadWeights, KeepsFullMastersUnderBf16) {
  ParameterStore store;
  declare(store);
  store.allocate(DType::bf16, StoreMode::training);
  const Tensor values = random_normal({4}, 1).cast(DType::f32);
  store.set("nystromformer.query.bias", values);
  EXPECT_EQ(store.master("nystromformer.query.bias").to_doubles(), values.to_doubles());
  EXPECT_EQ(store.parameters()[1].var().value().to_doubles(),
            values.cast(DType::bf16).to_doubles());
}

/// bf16 rounds 1000.7 to 1000, by more than values may differ.
TEST(Linear, AnExactBiasIsNotRounded) {
  for (const bool exact : {true, false}) {
    const double expected = exact ? static_cast<double>(1000.7F) : 1000;
    ParameterStore store;
    Linear out(Scope(store) / "out", 1, 1);
    if (exact) out.keep_bias_exact();
    store.allocate(DType::bf16, StoreMode::inference);
    store.set("out.weight", Tensor::zeros({1, 1}, DType::f32));
    store.set("out.bias", Tensor::full({1}, 1000.7, DType::f32));
    const Var x = Tensor::zeros({2, 1}, DType::bf16);
    EXPECT_EQ(out.unrounded(x).value().to_doubles(), (std::vector<double>(2, expected)));
    EXPECT_EQ(store.master("out.bias").item(), expected);  // which files get
  }
}

TEST(ParameterStore, RefusesNumbersThatNoWeightHas) {
  ParameterStore store;
  EXPECT_EQ(message_of([&] { LayerNorm(Scope(store) / "negative", 4, -1); }),
            "epsilon -1; expected a number greater than 0");
  store.allocate(DType::f32, StoreMode::inference);
  EXPECT_EQ(message_of([&] { store.initialise(1, std::nan("")); }),
            "standard_deviation nan; expected a number of at least 0");
}

}  // namespace
}  // namespace nystrom::testing
