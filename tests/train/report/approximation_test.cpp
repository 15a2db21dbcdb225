// The studies of nystrom approximation: their mathematical properties, and the output of the
// command.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/allocator.h"
#include "tests/support/program_test.h"
#include "tests/support/tiny_checkpoint.h"
#include "train/objectives/corpus.h"
#include "train/objectives/evaluation.h"
#include "train/objectives/task_settings.h"
#include "train/report/approximation.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

// ---- Random matrices ----------------------------------------------------------------------------

/// A matrix of rank 10: ten independent rows and columns determine it.
TEST(MatrixStudy, RawScoresAreExactFromTheirRankOn) {
  const Study study = study_matrices({});
  ASSERT_EQ(study.tables[0].rows.size(), 50U);
  for (const auto& row : study.tables[0].rows) {
    const std::int64_t count = std::get<std::int64_t>(row[2]);
    const double mean = std::get<double>(row[3]), low = std::get<double>(row[5]);
    if (count < 10) {
      EXPECT_GT(low, 1e-3) << count;
    } else {
      EXPECT_LT(mean, 1e-11) << count;
    }
  }
  EXPECT_EQ(study.verdict.back(),
            "raw scores are a matrix of rank 10: 10 independent landmarks and the exact inverse "
            "give all of it");
}

TEST(MatrixStudy, WritesAnExampleWhoseFirstRowIsExact) {
  MatrixStudyOptions o;
  o.d_model = 2, o.length = 5;
  const std::vector<double> s =
      study_matrix(ScoreKernel::raw, study_rows(o, 0, "queries"), study_rows(o, 0, "keys"))
          .to_doubles();
  std::string row, zeros;
  for (std::size_t i = 0; i < 5; ++i) {
    row += fmt::format("{:>9.4f}", s[i]);
    zeros += "   0.0000";
  }
  const std::string text = study_matrices({}).text;
  expect_says(text, "S = Q Kᵀ\n" + row + "\n");
  expect_says(text, "approximation\n" + row + "\n");
  expect_says(text, "difference\n" + zeros + "\n");
}

double relative_error(const MatrixStudyOptions& o, LandmarkRule rule, Inverse inverse,
                      std::int64_t count, std::int64_t trial) {
  const Tensor q = study_rows(o, trial, "queries"), k = study_rows(o, trial, "keys"),
               s = study_matrix(o.kernel, q, k);
  const Tensor difference =
      (Var(approximate_matrix(o, rule, inverse, q, k, count, trial)) - s).value();
  return std::sqrt(sum(square(difference)).value().item() / sum(square(s)).value().item());
}

TEST(MatrixStudy, OneLandmarkGivesItsRowAndColumn) {
  MatrixStudyOptions o;
  o.d_model = 2, o.length = 5;
  const Tensor q = study_rows(o, 0, "queries"), k = study_rows(o, 0, "keys"),
               s = study_matrix(o.kernel, q, k);
  const auto got = approximate_matrix(o, LandmarkRule::first, Inverse::exact, q, k, 1, 0)
                       .to_doubles(),
             exact = s.to_doubles();
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(got[i], exact[i], 1e-12);
    EXPECT_NEAR(got[5 * i], exact[5 * i], 1e-12);
  }
  EXPECT_GT(std::abs(got[6] - exact[6]), 1e-3);
}

TEST(MatrixStudy, AsManyLandmarksAsRowsAndTheExactInverseAreExact) {
  MatrixStudyOptions o;
  o.kernel = ScoreKernel::softmax, o.d_model = 16, o.length = 12;
  for (std::int64_t trial = 0; trial < 5; ++trial) {
    for (const LandmarkRule rule : {LandmarkRule::first, LandmarkRule::random, LandmarkRule::means})
      EXPECT_LE(relative_error(o, rule, Inverse::exact, 12, trial), 1e-9)
          << enum_name(rule) << " " << trial;
  }
}

TEST(MatrixStudy, MoreSegmentMeansOfSmoothSequencesAreNoWorseOnAverage) {
  MatrixStudyOptions o;
  o.kernel = ScoreKernel::softmax, o.sequence = SequenceRule::smooth;
  double before = 1e9;
  for (const std::int64_t count : {2, 4, 8, 16, 32}) {
    double mean = 0;
    for (std::int64_t trial = 0; trial < 10; ++trial)
      mean += relative_error(o, LandmarkRule::means, Inverse::iterative, count, trial) / 10;
    EXPECT_LE(mean, before) << count;
    before = mean;
  }
  EXPECT_LT(before, 0.05);
}

/// The exact inverse may diverge in a trial, so the test uses the median. Single steps may rise.
TEST(MatrixStudy, MedianOfTheExactInverseFallsAtEachDoublingOfSegmentMeans) {
  MatrixStudyOptions o;
  o.kernel = ScoreKernel::softmax, o.sequence = SequenceRule::smooth;
  for (o.seed = 0; o.seed < 4; ++o.seed) {
    double before = 1e9;
    for (const std::int64_t count : {2, 4, 8, 16, 32}) {
      std::vector<double> errors;
      for (std::int64_t trial = 0; trial < 10; ++trial)
        errors.push_back(relative_error(o, LandmarkRule::means, Inverse::exact, count, trial));
      const double median = summarise(errors).median;
      EXPECT_LE(median, before) << count << " landmarks, seed " << o.seed;
      before = median;
    }
    EXPECT_LT(before, 0.01);
  }
}

TEST(MatrixStudy, FollowsFromItsSeed) {
  MatrixStudyOptions o;
  o.length = 6, o.trials = 2, o.landmarks = {LandmarkRule::random};
  const std::string first = json_text(study_matrices(o));
  EXPECT_EQ(json_text(study_matrices(o)), first);
  o.seed = 1;
  EXPECT_NE(json_text(study_matrices(o)), first);
}

TEST(MatrixStudy, HoldsTheMatricesOfOneTrial) {
  Arena& arena = Arena::of(cpu_device);
  const auto most_memory = [&](std::int64_t trials) {
    MatrixStudyOptions o;
    o.length = 12, o.trials = trials;
    arena.reset_peak();
    study_matrices(o);
    return arena.statistics().peak_in_use_bytes;
  };
  const std::int64_t few = most_memory(2);
  EXPECT_LE(most_memory(20), few);
}

// ---- Cost ---------------------------------------------------------------------------------------

/// Memory is deterministic and can be tested. Times are only tested to exist.
TEST(CostStudy, MeasuresEveryKindAndFitsExponents) {
  CostStudyOptions o;
  o.shortest = 1024, o.longest = 4096, o.heads = 1, o.head_dim = 16, o.repeats = 1, o.train = false;
  o.attention.num_landmarks = 8, o.attention.num_features = 32, o.attention.projected_length = 8;
  const Study study = study_cost(o);
  const std::size_t kinds = enum_names(AttentionKind{}).size() - 1;  // none is no attention
  ASSERT_EQ(study.tables[0].rows.size(), 3 * kinds);
  for (const auto& row : study.tables[0].rows) {
    EXPECT_GT(std::get<double>(row[2]), 0);
    EXPECT_GT(std::get<std::int64_t>(row[3]), 0);
  }
  ASSERT_EQ(study.tables[1].rows.size(), kinds);
  for (const auto& row : study.tables[1].rows) {
    const std::string kind = std::get<std::string>(row[0]);
    EXPECT_LE(std::get<double>(row[2]), 1.15) << kind;
  }
}

TEST(CostStudy, RefusesAKindWithoutAttention) {
  CostStudyOptions o;
  o.kinds = {AttentionKind::none};
  EXPECT_EQ(input_error([&] { study_cost(o); }),
            "--kinds none: there is no attention to measure; leave it out");
}

TEST(CostStudy, RefusesTokensAndLengthsThatItWouldNotMeasure) {
  CostStudyOptions o;
  o.shortest = 16, o.longest = 40;
  EXPECT_EQ(input_error([&] { study_cost(o); }),
            "--longest 40: --shortest 16 doubled leads to 32 and 64; give one of them");
  o.longest = 32, o.tokens = 48;
  EXPECT_EQ(input_error([&] { study_cost(o); }),
            "--tokens 48 is no multiple of the length 32; give 32");
}

/// Two lengths are too few for an exponent.
TEST(CostStudy, FitsNothingToTooFewLengths) {
  CostStudyOptions o;
  o.kinds = {AttentionKind::softmax, AttentionKind::linear};
  o.shortest = 16, o.longest = 32, o.heads = 1, o.head_dim = 16, o.repeats = 1, o.train = false;
  const Study study = study_cost(o);
  for (const auto& row : study.tables[1].rows)
    EXPECT_TRUE(std::isnan(std::get<double>(row[1])) && std::isnan(std::get<double>(row[2])));
  ASSERT_EQ(study.verdict.size(), 3U);
  EXPECT_TRUE(study.verdict[0].starts_with("linear: ")) << study.verdict[0];
  EXPECT_EQ(study.verdict[1], "an exponent is fitted to 3 lengths; these are 2");
  for (const std::string& sentence : study.verdict) expect_hides(sentence, "nan");
}

TEST(CostStudy, SaysUnderItsChartsWhatWasMeasured) {
  CostStudyOptions o;
  o.kinds = {AttentionKind::softmax};
  o.shortest = o.longest = 16, o.batch = 3, o.heads = 2, o.head_dim = 8, o.repeats = 1,
  o.train = false;
  EXPECT_EQ(study_cost(o).charts.at(0).second.x_label, "tokens (batch 3, 2 heads of 8)");
}

TEST(CostStudy, TheProgramDrawsItsBarOnceAtTheEnd) {
  const TemporaryFolder folder;
  const Outcome outcome =
      succeeded(run_program(folder,
                            "approximation cost --kinds softmax linear --shortest 16 "
                            "--longest 32 --repeats 1 --mode forward"));
  expect_says(outcome.err, "measurement 4/4");
  expect_hides(outcome.err, "measurement 1/4");
}

// ---- A model ------------------------------------------------------------------------------------

class ApproximationModelTest : public ProgramTest {
 protected:
  ApproximationModelTest() : tiny_(folder_ / "model") {
    write_lines(folder_ / "text.txt", tiny_lines(60, 7));
    fs::create_directory(folder_ / "tmp");
    environment_ = "TMPDIR=tmp ";
  }
  nlohmann::json result(const std::string& arguments) {
    run(study_ + arguments + " --json");
    EXPECT_TRUE(fs::is_empty(folder_ / "tmp"));
    return nlohmann::json::parse(last_.out);
  }
  static nlohmann::json variant(const nlohmann::json& study, const std::string& group,
                                const std::string& setting) {
    for (const auto& row : study.at("variants")) {
      if (row.at("group") == group && row.at("setting") == setting) return row;
    }
    ADD_FAILURE() << "no variant " << group << " " << setting;
    return {};
  }

  const std::string study_ = "approximation model model text.txt --quiet ";
  TinyCheckpoint tiny_;
};

TEST_F(ApproximationModelTest, ComparesWithExactAttention) {
  const auto found = result("--sequences 2");
  const auto exact = variant(found, "kind", "softmax");
  EXPECT_EQ(exact.at("worst_out_error"), 0);
  EXPECT_EQ(exact.at("change"), 0);
  const auto own = variant(found, "model", "nystrom"), six = variant(found, "steps", "6");
  EXPECT_GT(own.at("median_out_error"), 0);
  EXPECT_EQ(own.at("median_out_error"), six.at("median_out_error"))
      << "the configuration has six steps";
  EXPECT_EQ(own.at("loss"), six.at("loss"));
  EXPECT_NEAR(own.at("loss").get<double>() - exact.at("loss").get<double>(),
              own.at("change").get<double>(), 1e-9);
  EXPECT_EQ(found.at("heads").size(), 4U) << "two layers of two heads";
  for (const auto& head : found.at("heads")) {
    EXPECT_GE(head.at("effective_rank"), 1);
    EXPECT_LE(head.at("effective_rank"), found.at("settings").at("length"));
  }
}

TEST_F(ApproximationModelTest, ItsSentenceNamesTheErrorOfEachInverse) {
  const auto found = result("--sequences 2");
  const auto percent = [&](const char* group, const char* setting) {
    return fmt::format("{:.1f} %",
                       100 * variant(found, group, setting).at("median_out_error").get<double>());
  };
  EXPECT_EQ(found.at("verdict").at(2),
            fmt::format("by inverse, the median head's error is {} with 6 steps, {} with the exact "
                        "inverse and {} with none",
                        percent("steps", "6"), percent("inverse", "exact"),
                        percent("inverse", "identity")));
}

TEST_F(ApproximationModelTest, TakesIsolatedSequencesAlone) {
  const std::string lines = "--sequences 1 --set data.documents=lines --set data.packing=";
  EXPECT_EQ(result(lines + "isolated"), result(lines + "alone"));
}

/// The first layer has the same queries and keys under both semantics, and padding under one.
TEST_F(ApproximationModelTest, CountsNoPadding) {
  write_lines(folder_ / "text.txt", {"the sea was calm"});
  ModelConfig config = tiny_masked_lm();
  config.attention.semantics = Semantics::transformers;
  write_bytes(folder_ / "model" / "config.json", hf_config_text(config));
  const std::string lines = "--sequences 1 --set data.documents=lines";
  const auto padded = result(lines),
             plain = result(lines + " --set model.attention.semantics=nystrom");
  for (const char* figure : {"entropy", "effective_rank"})
    for (std::size_t head = 0; head < 2; ++head)
      EXPECT_NEAR(padded["heads"][head][figure].get<double>(),
                  plain["heads"][head][figure].get<double>(), 1e-9)
          << figure;
  for (std::size_t row = 0; row < plain["errors"].size(); ++row) {
    const auto &of_plain = plain["errors"][row], &of_padded = padded["errors"][row];
    if (of_plain["group"] == "model" || of_plain["layer"] != 0) continue;
    EXPECT_NEAR(of_padded["out_error"].get<double>(), of_plain["out_error"].get<double>(), 1e-9)
        << of_plain["setting"];
  }
}

TEST_F(ApproximationModelTest, OfOneSequenceKnowsNoStandardError) {
  write_lines(folder_ / "text.txt", {tiny_lines(1, 7)});
  const auto found = result("--sequences 1 --set data.documents=lines");
  EXPECT_TRUE(variant(found, "model", "nystrom").at("standard_error").is_null());
  expect_says(found.at("verdict").at(1).get<std::string>(),
              "; the standard error of one sequence is unknown: give more text");
}

TEST_F(ApproximationModelTest, LeavesOutWhatRotaryPositionsExclude) {
  ModelConfig config = tiny_masked_lm();
  config.hidden_size = 8;
  config.positions = Positions::rope;
  const auto model = make_model(config, DType::f32);
  write_bytes(folder_ / "model" / "config.json", hf_config_text(config));
  write_safetensors(folder_ / "model" / "model.safetensors", weight_tensors(*model));
  for (const auto& row : result("--sequences 1").at("variants")) {
    EXPECT_NE(row.at("group"), "semantics");
    EXPECT_NE(row.at("setting"), "performer");
  }
}

TEST_F(ApproximationModelTest, CountsItsPartsUpToTheLast) {
  Log log(true);
  const ModelFolder model = open_model((folder_ / "model").string(), {}, log);
  const RunConfig config = masked_lm_settings(model, {});
  const auto tokens = tokenize_text_option({folder_ / "text.txt"}, config, tiny_.tokenizer,
                                           folder_ / "tokens", log);
  std::vector<std::int64_t> counted, expected;
  std::int64_t all = 0;
  study_model(model, masked_samples(tokens, tiny_.tokenizer, config), 2,
              [&](std::int64_t done, std::int64_t total) {
                counted.push_back(done);
                all = total;
              });
  for (std::int64_t part = 1; part <= all; ++part) expected.push_back(part);
  EXPECT_EQ(counted, expected);
}

/// The loss of a variant equals that of evaluate with the same option when both use every sequence.
TEST_F(ApproximationModelTest, LossesAreThoseOfEvaluate) {
  write_lines(folder_ / "text.txt", {tiny_lines(60, 7)[0]});  // a single line
  const auto found = result("--sequences 1 --set data.documents=lines");
  for (const auto& [group, setting, option] :
       {std::tuple("kind", "linear", "model.attention.kind=linear"),
        std::tuple("inverse", "identity", "model.attention.inverse=identity")}) {
    run(std::string(
            "evaluate model --text text.txt --quiet --json --set data.documents=lines --set ") +
        option);
    const auto evaluated = nlohmann::json::parse(last_.out);
    EXPECT_NEAR(variant(found, group, setting).at("loss").get<double>(),
                evaluated.at("loss").get<double>(), 1e-5)
        << setting;
  }
}

/// Without a key projection there is no exact attention to compare the loss with. The errors of
/// other kinds are still known.
TEST_F(ApproximationModelTest, OfAModelWithParametersOfItsOwnSaysWhatItCan) {
  ModelConfig config = tiny_masked_lm();
  config.attention.kind = AttentionKind::reformer;
  const auto model = make_model(config, DType::f32);
  write_bytes(folder_ / "model" / "config.json", hf_config_text(config));
  write_safetensors(folder_ / "model" / "model.safetensors", weight_tensors(*model));
  const auto found = result("--sequences 1");
  const auto own = variant(found, "model", "reformer"), nystrom = variant(found, "steps", "6");
  EXPECT_GT(own.at("loss"), 0);
  EXPECT_TRUE(own.at("change").is_null() && own.at("median_out_error").is_null());
  EXPECT_GT(nystrom.at("median_out_error"), 0);
  EXPECT_TRUE(nystrom.at("loss").is_null());
}

TEST_F(ApproximationModelTest, WritesFiles) {
  run(study_ + "--sequences 1 --output study");
  for (const char* name :
       {"model.json", "model-heads.csv", "model-variants.csv", "model-errors.csv",
        "model-residuals.csv", "model-spectrum.csv", "model-landmarks.svg", "model-steps.svg",
        "model-residuals.svg", "model-spectrum.svg"})
    EXPECT_TRUE(fs::exists(folder_ / "study" / name)) << name;
}

TEST_F(ApproximationModelTest, RefusesTextsThatAreNotThere) {
  EXPECT_TRUE(refusal("approximation model model absent.txt --quiet")
                  .starts_with("nystrom: 'absent.txt' matches no file"))
      << last_.err;
  EXPECT_TRUE(fs::is_empty(folder_ / "tmp"));
}

}  // namespace
}  // namespace nystrom::testing
