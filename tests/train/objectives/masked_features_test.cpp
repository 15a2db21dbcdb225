// Pretraining on features: masks and targets, runs on bags and on files of many samples, and what
// is refused.
#include "train/objectives/pretrain.h"

#include <cmath>
#include <map>

#include "data/tasks/task_loader.h"
#include "tests/support/bags.h"
#include "tests/support/finetune_fixture.h"
#include "tests/support/killed_run.h"
#include "tests/support/mpirun.h"
#include "tests/train/objectives/feature_task.h"

namespace nystrom::testing {
namespace {

constexpr hsize_t width = 6;

/// Writes bags whose rows share a vector, with noise, and slides.csv with the columns id, label and
/// patient. The label is the sign of the vector's first number.
void write_latent_bags(const fs::path& folder, int count, std::uint32_t seed) {
  fs::create_directories(folder / "bags");
  std::minstd_rand random(seed);
  std::normal_distribution<double> normal;
  std::string table = "id,label,patient\n";
  for (int i = 0; i < count; ++i) {
    std::vector<double> shared, features;
    for (hsize_t j = 0; j < width; ++j) shared.push_back(2 * normal(random));
    for (std::size_t row = 4 + random() % 9; row > 0; --row)
      for (const double number : shared) features.push_back(number + 0.3 * normal(random));
    write_bag(folder / "bags" / fmt::format("s{}.h5", i), width, features,
              i % 2 == 0 ? half_type() : H5T_IEEE_F32LE);
    table += fmt::format("s{},{},p{}\n", i, shared[0] > 0 ? "high" : "low", i / 2);
  }
  write_bytes(folder / "slides.csv", table);
}

class MaskedFeaturesRun : public ProgramTest {
 protected:
  void SetUp() override { write_latent_bags(folder_.path(), 60, 1); }

  void configure(const std::string& task, const std::string& model = "pooling: mean") {
    write_bytes(
        folder_ / "run.yaml",
        "run_dir: run\nmodel: {hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, "
        "intermediate_size: 16, initializer_range: 0.2, hidden_dropout_prob: 0.0, attention: "
        "{num_landmarks: 4, landmark_source: keys, conv_kernel_size: null}, " +
            model + "}\ntask: {kind: features, " + task +
            "}\noptimizer: {learning_rate: 1.0e-2}\nlogging: {tensorboard: false, every: 1}\n"
            "training: {dtype: f32, epochs: 40, batch_size: 8, micro_batch_size: 2}\n"
            "checkpoint: {every: 1000}\n");
  }
  void configure_table(const std::string& model = "pooling: mean") {
    const std::string here = folder_.path().string() + "/";
    configure("train: [" + here + "slides.csv], features_folder: " + here +
                  "bags, folds: 3, columns: {group: patient}",
              model);
  }
  /// An error message of one line.
  std::string refusal(const std::string& arguments, Caller caller = Caller::here()) {
    ProgramTest::refusal(arguments, caller);
    EXPECT_EQ(std::ranges::count(last_.err, '\n'), 1) << last_.err;
    return last_.err;
  }
  RunSpec spec() { return resolve(config_file(folder_ / "run.yaml"), {}, RunKind::pretraining); }
};

/// The loss of always the mean, as the last evaluation records it.
double last_of(const std::vector<double>& values) { return values.empty() ? NAN : values.back(); }

TEST(MaskFeatures, TargetsAreStandardisedRowsAndTheirPlacesZeros) {
  Batch batch;
  batch.input.offsets = {0, 1, 4, 9};
  batch.samples = {4, 2, 0};
  batch.sample_ids = Tensor::from(std::vector<std::int64_t>{14, 12, 10}, {3});
  std::vector<float> rows;
  for (int i = 0; i < 9 * 3; ++i) rows.push_back(static_cast<float>(i * i % 17) + 1000);
  for (int i = 0; i < 3; ++i) rows[static_cast<std::size_t>(3 * 7 + i)] = 12345.678f;
  batch.input.features = Tensor::from(rows, {9, 3});
  const MaskedFeatures masked = mask_features(batch, {0.9, 1, 5});
  std::vector<std::int64_t> expected;
  for (const auto& [first, count, sample] : {std::array{0, 1, 4}, {1, 3, 2}, {4, 5, 0}})
    for (const std::int64_t row :
         masked_rows(count, 0.9, {1, 2, static_cast<std::uint64_t>(sample)}))
      expected.push_back(first + row);
  EXPECT_EQ(masked.rows, expected) << "of epoch 2; one row alone is masked too";
  ASSERT_EQ(masked.rows.size(), 7U);
  for (std::size_t i = 0; i < masked.rows.size(); ++i) {
    const float* row = rows.data() + 3 * masked.rows[i];
    double mean = 0, variance = 0;
    for (int j = 0; j < 3; ++j) mean += static_cast<double>(row[j]) / 3;
    for (int j = 0; j < 3; ++j) variance += std::pow(static_cast<double>(row[j]) - mean, 2) / 3;
    for (std::int64_t j = 0; j < 3; ++j) {
      const double target = (static_cast<double>(row[j]) - mean) / std::sqrt(variance + 1e-12);
      EXPECT_NEAR(masked.targets.data<double>()[static_cast<std::int64_t>(i) * 3 + j], target,
                  1e-8);
      EXPECT_EQ(masked.input.features.data<float>()[masked.rows[i] * 3 + j], 0);
    }
  }
}

TEST(MaskFeatures, TargetsDoNotDependOnTheUnit) {
  std::vector<double> expected;
  for (const float unit : {1.F, 0x1p-20F, 0x1p-50F, 0x1p-100F, 0x1p50F}) {
    Batch batch;
    batch.input.offsets = {0, 2};
    batch.samples = {0};
    batch.sample_ids = Tensor::from(std::vector<std::int64_t>{0}, {1});
    std::vector<float> rows;
    for (const float number : {1.F, 2.F, -5.F, 3.F, 7.F, 4.F}) rows.push_back(number * unit);
    batch.input.features = Tensor::from(rows, {2, 3});
    const std::vector<double> targets = mask_features(batch, {0.5, 1, 1}).targets.to_doubles();
    if (expected.empty()) expected = targets;
    ASSERT_EQ(targets.size(), expected.size());
    for (std::size_t i = 0; i < targets.size(); ++i) EXPECT_NEAR(targets[i], expected[i], 1e-12);
  }
}

TEST_F(MaskedFeaturesRun, MasksDoNotDependOnRanksAndMicroBatches) {
  configure_table();
  const FeatureSets sets = open_features(spec());
  EXPECT_EQ(sets.train->size(), 20);
  EXPECT_EQ(sets.validation->size(), 20);
  const FeatureMasking masking{0.15, 1, sets.train->size()};
  using Masks = std::map<std::int64_t, std::vector<std::int64_t>>;
  const auto masks = [&](std::int64_t micro_batch, int ranks, std::int64_t first) {
    Masks all;
    for (int rank = 0; rank < ranks; ++rank) {
      TaskLoaderOptions options{.batch_size = 8, .micro_batch_size = micro_batch};
      options.unlabelled = true;
      options.rank = rank;
      options.world_size = ranks;
      TaskLoader loader(sets.train, options, first);
      for (std::int64_t step = first; step < 6; ++step) {
        for (const Batch& batch : loader.next()) {
          const std::vector<std::int64_t> rows = masked_rows(batch, masking);
          for (std::size_t i = 0; i < batch.samples.size(); ++i)
            for (const std::int64_t row : rows)
              if (row >= batch.input.offsets[i] && row < batch.input.offsets[i + 1])
                all[batch.sample_ids.data<std::int64_t>()[i]].push_back(row -
                                                                        batch.input.offsets[i]);
        }
      }
    }
    return all;
  };
  const Masks expected = masks(8, 1, 0);
  EXPECT_EQ(expected.size(), 48U) << "each sample has a masked row";
  EXPECT_EQ(masks(2, 1, 0), expected);
  EXPECT_EQ(masks(2, 3, 0), expected);
  for (const auto& [id, rows] : masks(2, 2, 3)) EXPECT_EQ(rows, expected.at(id)) << "from step 3";
}

TEST_F(MaskedFeaturesRun, LearnsWhatRowsShareAndFineTunes) {
  configure_table();
  // The test part is not read: its features may be broken. Labels may be missing too.
  BagParts parts = part_bags(*spec().inputs, 42, Labelled::for_parts);
  std::map<fs::path, std::string> kept;
  for (const Bag& bag : parts.test) {
    kept[bag.file] = read_bytes(bag.file);
    write_bytes(bag.file, "broken");
  }
  run("pretrain run.yaml --threads 1 --set run_dir=self");
  const double best = std::ranges::min(metric("self", "validation_loss")),
               baseline = last_of(metric("self", "validation_baseline"));
  EXPECT_NEAR(baseline, 1, 0.15);
  EXPECT_LE(best, 0.3 * baseline);
  expect_says(last_.err, "always the mean row: ");
  expect_hides(last_.err, "no better");
  for (const auto& [file, bytes] : kept) write_bytes(file, bytes);
  run("report self --quiet");
  expect_says(read_bytes(folder_ / "self/report.html"), "pretraining on features");
  expect_says(run("info self").out, "NystromformerForMaskedFeatures\noutput: logits [b, n, 6]");
  run("finetune run.yaml --threads 1 --set training.epochs=2 --set run_dir=tuned --set "
      "model.from=self --set model.pooling=token");
  expect_says(last_.err, "fresh: nystromformer.embeddings.class_token.weight, classifier.");
  expect_says(last_.err, "unused: feature_predictions.");
  const std::string advice =
      "says masked rows of features and does no task; nystrom finetune with model.from trains one "
      "on it\n";
  for (const char* command : {"predict self bags/s0.h5", "evaluate self --file slides.csv",
                              "evaluate self --text slides.csv"})
    EXPECT_TRUE(refusal(std::string(command) + " --quiet").ends_with(advice)) << last_.err;
  expect_says(refusal("export self out --quiet"), "cannot be exported: it says masked rows");
}

TEST_F(MaskedFeaturesRun, KilledRunsEndInTheSameBits) {
  configure("train: [bags/*.h5], validation_fraction: 0.2", "embed_dim: 6, pooling: token");
  const std::string command =
      "pretrain run.yaml --threads 1 --set checkpoint.every=7 --set training.epochs=3 --set "
      "masking.probability='{0: 0.5, end: 0.2}' --set model.hidden_dropout_prob=0.1 --set run_dir=";
  expect_same_bits_after_a_kill(folder_, command, 18);
}

TEST_F(MaskedFeaturesRun, LossesAreThoseOfOneProcess) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not installed";
  configure_table("pooling: token");
  const std::string command = program_word() +
                              "pretrain run.yaml --threads 1 --set training.epochs=2 --set "
                              "training.dtype=f64 --set evaluation.every=2 --set run_dir=";
  succeeded(run_command(folder_, command + "alone"));
  succeeded(run_command(folder_, mpirun + "-np 3 " + command + "three"));
  for (const char* name : {"loss", "grad_norm", "validation_loss", "validation_baseline"}) {
    const auto expected = metric("alone", name), got = metric("three", name);
    ASSERT_EQ(got.size(), expected.size());
    ASSERT_GE(got.size(), 2U) << name;
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-10) << name;
  }
}

/// Files of many samples with lengths, and without labels.
TEST_F(MaskedFeaturesRun, ReadsFilesOfManySamples) {
  write_features(folder_ / "train.h5", true, 64, 1);
  write_features(folder_ / "dev.h5", false, 16, 2);
  configure("train: [train.h5], validation: [dev.h5], metric: loss, balance: sampling");
  run("pretrain run.yaml --threads 1 --set data.sequence_length=8 --set training.epochs=1");
  expect_says(last_.err, "training: 64 samples with ");
  expect_says(last_.err, "is no better than always the mean row", "the rows share nothing");
}

TEST_F(MaskedFeaturesRun, IsChecked) {
  write_bytes(folder_ / "unlabelled.csv", "id\ns0\ns1\ns2\ns3\ns4\n");
  configure("train: [unlabelled.csv], validation_fraction: 0.2, features_folder: bags");
  run("check run.yaml --pretraining");
  run("check run.yaml --pretraining --data");
  expect_says(last_.out, "data: 4 sequences; the run goes over them 40.00 times");
  expect_says(last_.out, "training: 4 samples with ");
  expect_says(refusal("check run.yaml --data"), "there is no column 'label'");
  expect_says(refusal("check run.yaml --pretraining --set masking.mask=0.5"), "masking.mask is");
}

TEST_F(MaskedFeaturesRun, RefusesOptionsThatItDoesNotRead) {
  configure_table();
  for (const char* option :
       {"tokenizer.builtin=bytes", "data.cross_documents=true", "data.documents=lines",
        "pretraining.objective=replaced_tokens", "masking.mask=0.7", "masking.span.mean=3",
        "training.z_loss=0.1", "logging.fill_masks=[a]", "tokenizer.train.kind=bpe",
        "data.cache=there"}) {
    const std::string name = std::string(option).substr(0, std::string(option).find('='));
    expect_says(refusal(std::string("pretrain run.yaml --set ") + option),
                name + " is for pretraining on texts, and task.kind is features; leave it out");
  }
  expect_says(refusal("pretrain run.yaml --set model.attention.kind=none"),
              "model.attention.kind is none, and a masked row is known");
  expect_says(refusal("prepare run.yaml"), "there is nothing to prepare");
  write_bytes(folder_ / "one.csv", "id,patient\no0,a\no1,b\no2,c\no3,d\n");
  for (int i = 0; i < 4; ++i)
    write_bag(folder_ / "bags" / fmt::format("o{}.h5", i), 2, {1.0 * i, 2});
  expect_says(refusal("pretrain run.yaml --set task.train=[one.csv]"),
              "task.train: every sample has a single row");
  for (int i = 0; i < 4; ++i)
    write_bag(folder_ / "bags" / fmt::format("o{}.h5", i), 1, {1.0 * i, 2});
  expect_says(refusal("pretrain run.yaml --set task.train=[one.csv]"), "model.embed_dim is 1");
}

}  // namespace
}  // namespace nystrom::testing
