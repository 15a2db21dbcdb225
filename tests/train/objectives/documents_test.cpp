// Long documents in folders: read in windows, evaluated and predicted whole.
#include "tests/support/finetune_fixture.h"

namespace nystrom::testing {
namespace {

class DocumentTasks : public FinetuneTest {
 protected:
  /// Writes folder/water and folder/people. What tells a document's label stands at its end, behind
  /// the 32 tokens of a row.
  void write_documents(const std::string& folder, int count, std::uint32_t seed) {
    Words words(seed);
    for (int i = 0; i < count; ++i) {
      const std::string label = i % 2 == 0 ? "water" : "people";
      const std::string end = i % 2 == 0 ? "sea sea sea sea" : "men men men men";
      write_bytes(folder_ / folder / label / (std::to_string(i) + ".txt"),
                  words.text(40, 60) + "\n" + end + "\n");
    }
  }

  void configure(const std::string& windows) {
    write_documents("train", 96, 1);
    write_documents("dev", 24, 2);
    write_task_run("epochs: 8",
                   "kind: classification, format: folders, train: [train], validation: [dev], "
                   "stride: 8, windows: " +
                       windows);
  }
};

TEST_F(DocumentTasks, WindowsSeeWhatTheBeginningDoesNotShow) {
  configure("max");
  train();
  const double accuracy = measured("accuracy", "dev");
  EXPECT_GT(accuracy, 0.9);
  run("finetune run.yaml --threads 1 --set task.windows=first --set "
      "task.stride=null --set run_dir=first");
  EXPECT_LT(json::parse(run("evaluate first --quiet --json --file dev").out).at("accuracy"), 0.8);
}

TEST_F(DocumentTasks, FoldersArePredictedFileByFile) {
  configure("max");
  train();
  const double accuracy = measured("accuracy", "dev");
  double right = 0;
  const json predictions = predicted("dev");
  ASSERT_EQ(predictions.size(), 24u);
  for (const json& line : predictions) {
    const std::string file = line.at("document");
    right += file.find(line.at("prediction")[0].at("label").get<std::string>()) != file.npos;
  }
  EXPECT_EQ(right / 24, accuracy);
  EXPECT_EQ(predicted("dev/water/0.txt")[0].at("document"), "dev/water/0.txt");
  run("predict run --quiet dev/water/0.txt");
  EXPECT_TRUE(last_.out.starts_with("dev/water/0.txt\n  ")) << "the name, not the text";
}

TEST_F(DocumentTasks, AnyClassifierReadsThemOnRequest) {
  configure_classification("epochs: 1");
  train();
  write_documents("dev", 4, 2);
  EXPECT_EQ(predicted("--document dev").size(), 4u);
  EXPECT_EQ(predicted("--document dev/water/0.txt").size(), 1u);
  EXPECT_EQ(predicted("dev/water/0.txt").size(), 2u) << "otherwise a file is read line by line";
  run("evaluate run --quiet --file dev --document");
  expect_refused("predict run dev",
                 "dev: is a folder, and --document reads each file in it as one text; give a text, "
                 "or the name of a file; --as-text takes it for a text");
  expect_says(refusal("evaluate run --text dev/water/0.txt"),
              ": is no masked language model, which --text evaluates; it is a "
              "NystromformerForSequenceClassification: --file gives it the files of its task\n");
}

TEST_F(DocumentTasks, AModelThatLearnsNothingIsToldSo) {
  configure_classification("epochs: 1");
  run("finetune run.yaml --threads 1 --set optimizer.learning_rate=1.0e-9");
  expect_says(last_.err, "is no better than always the most frequent label (");
  expect_says(last_.err,
              "; try optimizer.learning_rate=0.001, the default of a model of this width\n");
}

}  // namespace
}  // namespace nystrom::testing
