// Metrics of classes compared with scikit-learn, and their edge cases.
// tests/reference/make_class_metrics.py wrote fixtures/tasks/class_metrics.jsonl.
#include "data/tasks/task_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/places.h"

namespace nystrom {
namespace {

using Json = nlohmann::json;
using Classes = std::vector<std::int64_t>;
using Rows = std::vector<std::vector<double>>;

TEST(ClassMetrics, EqualThoseOfScikitLearn) {
  std::ifstream file(testing::source_folder() / "tests/fixtures/tasks/class_metrics.jsonl");
  int cases = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    const Json test = Json::parse(line);
    const auto truth = test["truth"].get<Classes>(), predicted = test["predicted"].get<Classes>();
    const auto logits = test["logits"].get<Rows>();
    const auto expect = [&](const Json& expected, double got) {
      EXPECT_NEAR(expected.get<double>(), got, 1e-12) << line;
    };
    const ClassMetrics metrics = class_metrics(truth, predicted);
    expect(test["balanced_accuracy"], metrics.balanced_accuracy);
    expect(test["kappa"], metrics.kappa);
    const auto figures =
        class_figures(truth, predicted, logits, static_cast<std::int64_t>(logits[0].size()));
    expect(test["auc"], mean_auc(figures));
    for (std::size_t c = 0; c < figures.size(); ++c) {
      expect(test["precision"][c], figures[c].score.precision);
      expect(test["recall"][c], figures[c].score.recall);
      expect(test["f1"][c], figures[c].score.f1);
      EXPECT_EQ(test["support"][c], figures[c].support);
    }
  }
  EXPECT_EQ(cases, 18);
}

TEST(ClassMetrics, AreUndefinedWithoutBothClasses) {
  const Classes ones{1, 1, 1};
  EXPECT_TRUE(std::isnan(class_metrics(ones, ones).kappa));
  EXPECT_EQ(class_metrics(ones, ones).balanced_accuracy, 1);
  EXPECT_TRUE(std::isnan(roc_auc({true, true}, std::vector<double>{1, 2})));
  EXPECT_TRUE(std::isnan(roc_auc({}, {})));
  EXPECT_TRUE(std::isnan(roc_auc({true, false}, std::vector<double>{1, std::nan("")})));
}

TEST(ClassMetrics, OrderLogitsWhoseProbabilitiesAreOne) {
  const Rows logits{{0, 800}, {0, 900}, {0, 1000}};
  const auto figures = class_figures(Classes{0, 1, 1}, Classes{1, 1, 1}, logits, 2);
  EXPECT_EQ(figures[1].auc, 1);
  EXPECT_EQ(mean_auc(class_figures(Classes{0, 1}, Classes{1, 1}, {}, 2)), 0.5);
}

}  // namespace
}  // namespace nystrom
