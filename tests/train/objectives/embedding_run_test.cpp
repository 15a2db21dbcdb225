// Runs of task.kind embeddings: they learn, resume, and do not depend on how a step is divided.

#include "tests/support/finetune_fixture.h"
#include "tests/support/mpirun.h"

namespace nystrom::testing {
namespace {

class EmbeddingTest : public FinetuneTest {
 protected:
  /// Writes pairs of texts: each second text has a word of the first one's topic.
  void write_pairs(const std::string& name, int count, std::uint32_t seed) {
    const char* topics[][2] = {{"sea", "sailed"}, {"men", "sang"}, {"pale", "calm"}};
    Words words(seed);
    std::string text = "query\tanswer\tother\tscore\n";
    for (int i = 0; i < count; ++i) {
      const auto topic = words.below(3), different = (topic + 1 + words.below(2)) % 3;
      const auto with = [&](const char* word) {
        return words.text(1, 3) + " " + word + " " + word;
      };
      text += with(topics[topic][0]) + "\t" + with(topics[topic][1]) + "\t" +
              with(topics[different][1]) + "\t" + (i % 2 == 0 ? "5" : "4.5") + "\n";
    }
    write_bytes(folder_ / name, text);
  }

  /// Configures a run on pairs. `rest` holds more sections.
  void configure(const std::string& columns = "text: query, pair: answer",
                 const std::string& rest = "", const std::string& task = "") {
    write_pairs("train.tsv", 96, 1);
    write_pairs("dev.tsv", 24, 2);
    write_bytes(folder_ / "run.yaml", tiny_model + "steps: 12}\nevaluation: {every: 6}\n" + rest +
                                          "task: {kind: embeddings, train: [train.tsv], "
                                          "validation: [dev.tsv], " +
                                          task + "columns: {" + columns + "}}\n");
  }

  /// Configures a run that is measured by retrieval from the folder beir.
  void configure_retrieval(const std::string& task = "") {
    configure();
    std::string queries, documents, judgements = "query-id\tcorpus-id\tscore\n";
    const char* topics[][2] = {{"sea", "sailed"}, {"men", "sang"}, {"pale", "calm"}};
    for (int i = 0; i < 12; ++i) {
      const auto id = std::to_string(i);
      const auto& [asked, found] = topics[i % 3];
      queries += R"({"_id": "q)" + id + R"(", "text": "the )" + asked + " " + asked + "\"}\n";
      documents += R"({"_id": "d)" + id + R"(", "text": ")" + found + " " + found + "\"}\n";
      judgements += "q" + id + "\td" + id + "\t1\n";
    }
    write_bytes(folder_ / "beir" / "queries.jsonl", queries);
    write_bytes(folder_ / "beir" / "corpus.jsonl", documents);
    write_bytes(folder_ / "beir" / "qrels" / "test.tsv", judgements);
    write_task_run("steps: 12}\nevaluation: {every: 6",
                   "kind: embeddings, train: [train.tsv], validation: [beir], " + task +
                       "columns: {text: query, pair: answer}");
  }

  /// The values of `key` in metrics.jsonl.
  std::vector<double> metric(const std::string& key) { return FinetuneTest::metric("run", key); }
  std::vector<double> losses(const std::string& options) {
    fs::remove_all(folder_ / "run");
    run("finetune run.yaml --threads 1 --set logging.every=1 " + options);
    return metric("loss");
  }

  using FinetuneTest::expect_refused;
  void expect_refused(const std::string& message, Caller caller = Caller::here()) {
    FinetuneTest::expect_refused("finetune run.yaml --quiet", message, caller);
  }
};

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double bound) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], bound) << "step " << i + 1;
}

TEST_F(EmbeddingTest, FindsTheTextsThatBelongTogether) {
  configure();
  run("finetune run.yaml --threads 1 --set training.steps=60 --set evaluation.every=30");
  const std::vector<double> ranks = metric("validation_mrr");
  ASSERT_EQ(ranks.size(), 2U);
  // By chance a positive is among the first of 24 one time in 24.
  EXPECT_GT(ranks.back(), 0.25);
}

TEST_F(EmbeddingTest, PairsAreRankedAsTheModelCompares) {
  configure();
  const auto rank = [&](const std::string& similarity) {
    losses(
        "--set training.steps=1 --set model.embedding.normalize=false "
        "--set model.embedding.similarity=" +
        similarity);
    return metric("validation_mrr").back();
  };
  EXPECT_NE(rank("cosine"), rank("dot"));
  FinetuneTest::expect_refused(
      "finetune run.yaml --quiet --set model.embedding.similarity=euclidean",
      "task.validation: model.embedding.similarity is euclidean, and nystrom compares by cosine or "
      "dot; --set model.embedding.similarity=cosine");
}

TEST_F(EmbeddingTest, RetrievalMeasuresARun) {
  configure_retrieval();
  run("finetune run.yaml --threads 1 --set training.steps=60 --set evaluation.every=30");
  const std::vector<double> gains = metric("validation_ndcg_at_10");
  ASSERT_EQ(gains.size(), 2U);
  // The four documents of the right topic are equal: found at random, they give 0.64.
  EXPECT_GT(gains.back(), 0.5);
  const json scores = json::parse(run("evaluate run --retrieval beir --json --threads 1").out);
  EXPECT_NEAR(scores["ndcg_at_10"].get<double>(), std::max(gains[0], gains[1]), 1e-6);
}

TEST_F(EmbeddingTest, JudgementsForDevelopmentArePreferred) {
  configure_retrieval("metric: map_at_100, ");
  write_bytes(folder_ / "beir" / "qrels" / "dev.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\n");
  expect_says(run("check run.yaml --data").out,
              "validation: 1 queries of qrels/dev.tsv and the documents in beir/corpus.jsonl");
}

TEST_F(EmbeddingTest, RetrievalDoesNotDependOnProcesses) {
  configure_retrieval();
  const std::string command =
      "finetune run.yaml --threads 1 --set training.dtype=f64 --set training.micro_batch_size=4";
  run(command);
  const std::vector<double> alone = metric("validation_map_at_100");
  fs::remove_all(folder_ / "run");
  succeeded(run_command(folder_, mpirun + "-np 2 " + program_word() + command));
  expect_near(alone, metric("validation_map_at_100"), 1e-9);
}

TEST_F(EmbeddingTest, WrongValidationFoldersAreRefused) {
  configure_retrieval("metric: mrr, ");
  expect_refused(
      "task.metric mrr: task.validation holds queries with documents, which are measured by "
      "ndcg_at_10, mrr_at_10, recall_at_100 or map_at_100");
  configure_retrieval();
  fs::remove(folder_ / "beir" / "queries.jsonl");
  const std::string missing =
      "beir/queries.jsonl: no such file; beir is no folder of BEIR's form: queries.jsonl, "
      "corpus.jsonl and qrels/*.tsv";
  expect_refused(missing);
  expect_refused("check run.yaml", "run.yaml: task.validation: " + missing);
}

TEST_F(EmbeddingTest, LossDoesNotDependOnMicroBatches) {
  for (const char* loss : {"multiple_negatives_ranking, symmetric: true", "triplet"}) {
    SCOPED_TRACE(loss);
    configure("text: query, pair: answer, negatives: [other]",
              std::string("embedding_loss: {name: ") + loss + "}\n");
    const std::string exact =
        "--set training.dtype=f64 --set model.hidden_dropout_prob=0.1 --set "
        "training.micro_batch_size=";
    const std::vector<double> whole = losses(exact + "16"), cached = losses(exact + "4");
    expect_near(whole, cached, 1e-9);
    EXPECT_EQ(whole.size(), 12U);
  }
}

TEST_F(EmbeddingTest, LossDoesNotDependOnProcesses) {
  configure();
  const std::string options = "--set training.dtype=f64 --set training.micro_batch_size=4";
  const std::vector<double> alone = losses(options);
  for (const int processes : {2, 4}) {
    fs::remove_all(folder_ / "run");
    succeeded(
        run_command(folder_, mpirun + "-np " + std::to_string(processes) + " " + program_word() +
                                 "finetune run.yaml --threads 1 --set logging.every=1 " + options));
    expect_near(alone, metric("loss"), 1e-9);
  }
}

TEST_F(EmbeddingTest, StoppedRunsEndInTheSameBits) {
  configure("text: query, pair: answer",
            "checkpoint: {every: 6}\nschedule: {warmup_steps: 0, decay: constant}\n");
  const auto weights = [&] {
    return read_bytes(folder_ / "run" / "checkpoints" / "step-12" / "model.safetensors");
  };
  run("finetune run.yaml --threads 1");
  const std::string straight = weights();
  fs::remove_all(folder_ / "run");
  run("finetune run.yaml --threads 1 --set training.steps=6");
  run("finetune run.yaml --threads 1");
  EXPECT_EQ(weights(), straight);
}

TEST_F(EmbeddingTest, LearnsTheOrderOfScores) {
  for (const char* loss : {"cosent", "angle", "cosine_similarity"}) {
    SCOPED_TRACE(loss);
    configure("text: query, pair: answer, label: score",
              std::string("embedding_loss: {name: ") + loss + "}\n", "max_score: 5, ");
    losses("");
    EXPECT_EQ(metric("validation_spearman").size(), 2U);
  }
}

TEST_F(EmbeddingTest, LearnsFromTextsAlone) {
  configure();
  for (const char* views : {"dropout", "crops"}) {
    SCOPED_TRACE(views);
    write_bytes(folder_ / "texts.txt",
                "the old men sang\n\nthe sea was calm and pale\nthey sailed home under the sea\n"
                "a pale morning and the old home\n");
    const std::vector<double> all =
        losses(std::string("--set task.train=[texts.txt] --set training.batch_size=4 --set "
                           "training.micro_batch_size=4 --set model.hidden_dropout_prob=0.1 --set "
                           "task.views=") +
               views);
    EXPECT_EQ(all.size(), 12U);
    EXPECT_GT(all[0], 0);
  }
}

/// Each file has some of the columns.
TEST_F(EmbeddingTest, LabelledTextsAreMeasuredByPairs) {
  configure("text: query, pair: answer, label: topic");
  std::string labelled = "query,topic\n";
  for (const char* text : {"the sea", "sea sea", "men sang", "old men", "the men", "calm sea"})
    labelled += text + std::string(std::string(text).find("sea") != std::string::npos ? ",sea\n"
                                                                                      : ",men\n");
  write_bytes(folder_ / "labelled.csv", labelled);
  const std::string train = "--set task.train=[labelled.csv] --set embedding_loss.name=";
  EXPECT_EQ(losses(train + "multiple_negatives_ranking").size(), 12U);
  EXPECT_EQ(metric("validation_mrr").size(), 2U);
  expect_refused("finetune run.yaml --quiet --set run_dir=other --set task.columns.label=tropic",
                 "task.columns.label: no file of task.train and task.validation has the column "
                 "'tropic'; correct it, or leave it out");
}

TEST_F(EmbeddingTest, WrongInputsAreRefused) {
  const auto set = [&](const std::string& columns, const std::string& loss,
                       const std::string& task = "") {
    configure(columns, loss.empty() ? "" : "embedding_loss: {" + loss + "}\n", task);
  };
  set("text: query, pair: answer, label: score", "", "max_score: 5, ");
  expect_refused(
      "task.train: its files hold scored pairs, which embedding_loss.name "
      "multiple_negatives_ranking cannot learn from; use cosent, angle or cosine_similarity");
  set("text: query, pair: answer", "name: cosent");
  expect_refused(
      "task.train: its files hold pairs of texts, which embedding_loss.name cosent cannot learn "
      "from; use multiple_negatives_ranking or triplet");
  set("text: query, pair: answer", "name: triplet");
  expect_refused(
      "task.train: its samples have 2 texts, and embedding_loss.name triplet takes 3; name "
      "task.columns.pair and one of task.columns.negatives");
  set("text: query", "", "views: crops, ");
  expect_refused(
      "task.validation: the files hold single texts, which say nothing about similarity; name "
      "pairs "
      "(task.columns.pair) in task.validation, with or without a score (task.columns.label)");
  set("text: query, pair: answer", "", "metric: spearman, ");
  expect_refused(
      "task.metric spearman: task.validation holds pairs of texts, which are measured by mrr or "
      "accuracy");
  set("text: query, pair: answer", "matryoshka_dimensions: [64]");
  expect_refused(
      "embedding_loss.matryoshka_dimensions has 64, and vectors have 32 dimensions; leave it out");
  set("text: query, pair: answer, label: score", "name: cosent, symmetric: true", "max_score: 5, ");
  expect_refused(
      "embedding_loss.symmetric: the loss cosent has no such option; leave it out, "
      "or choose another loss");
  set("text: query, pair: answer, negatives: [other]", "name: triplet, triplet_margin: 5");
  expect_refused(
      "embedding_loss.triplet_margin 5: distances of vectors of length 1 differ by "
      "at most 2; choose less, for example 0.5");
  set("text: query, pair: answer", "", "views: crops, ");
  expect_refused(
      "task.views crops: task.train holds pairs of texts, and only texts alone become two views; "
      "leave task.views out");
  set("text: query, negatives: [other]", "");
  expect_refused(
      "run.yaml:9:92: task.columns.negatives is for tasks of kind embeddings with pairs; give "
      "task.columns.pair, or leave it out");
  set("text: query, label: answer", "");
  write_bytes(folder_ / "train.tsv", "query\tanswer\na\tx\nb\tx\nc\ty\n");
  expect_refused(
      "train.tsv: only one text has the label 'y', and texts of one label are to be alike");
  set("text: query, pair: answer", "");
  write_bytes(folder_ / "train.tsv", "query\tanswer\na\t \n");
  expect_refused("train.tsv:2: a text is blank");
}

/// The lines of metrics.jsonl say what evaluate says of the model that they chose.
TEST_F(EmbeddingTest, ScoredPairsAreMeasuredAsByEvaluate) {
  configure("text: query, pair: answer, label: score", "embedding_loss: {name: cosent}\n",
            "max_score: 5, ");
  // Longer than a window: the end of a text decides where it is read.
  std::string pairs = "query\tanswer\tscore\n";
  const std::string filler = Words(5).text(40, 40);
  for (const char* end : {"sea sailed", "men sang", "pale calm", "old home", "sea calm"})
    pairs +=
        filler + " " + end + "\t" + std::string(end) + "\t" + std::to_string(end[0] % 5) + "\n";
  write_bytes(folder_ / "dev.tsv", pairs);
  run("finetune run.yaml --threads 1 --set training.steps=1 --set evaluation.every=1");
  run("evaluate run --pairs dev.tsv --json --threads 1 --set task.columns.text=query --set "
      "task.columns.pair=answer --set task.columns.label=score");
  expect_says(last_.err, "means over windows");
  const json scores = json::parse(last_.out);
  EXPECT_NEAR(scores["spearman"].get<double>(), metric("validation_spearman").back(), 1e-9);
  EXPECT_NEAR(scores["pearson"].get<double>(), metric("validation_pearson").back(), 1e-6);
}

TEST_F(EmbeddingTest, OverlapOfTrainingAndValidationIsNamed) {
  configure();
  fs::copy_file(folder_ / "train.tsv", folder_ / "dev.tsv", fs::copy_options::overwrite_existing);
  const std::string warning =
      "validation: 96 of its pairs are in the training data too; their score is no test";
  for (const char* command :
       {"check run.yaml --data", "finetune run.yaml --set training.steps=1"}) {
    run(command);
    expect_says(last_.out + last_.err, warning);
  }
}

TEST_F(EmbeddingTest, TripletsOfCutVectorsHaveTheMarginOfUnitVectors) {
  configure("text: query, pair: answer, negatives: other",
            "embedding_loss: {name: triplet, matryoshka_dimensions: [8, 16]}\n");
  const std::string one = "--set training.steps=1 --set model.hidden_dropout_prob=0 ";
  const double cut = losses(one + "--set model.embedding.normalize=false")[0];
  EXPECT_NEAR(cut, losses(one + "--set model.embedding.normalize=true")[0], 1e-4);
}

TEST_F(EmbeddingTest, TwoEqualViewsAreRefused) {
  configure("text: query");
  write_bytes(folder_ / "texts.txt", "the sea\nthe men\n");
  expect_refused(
      "finetune run.yaml --quiet --set task.train=[texts.txt] --set model.hidden_dropout_prob=0",
      "task.views dropout: without dropout both views of a text are equal; set "
      "model.hidden_dropout_prob, for example to 0.1, or task.views to crops");
}

TEST_F(EmbeddingTest, PredictNamesTheCommandForVectors) {
  configure();
  losses("");
  expect_says(refusal("predict run text"),
              "is a model of vectors; nystrom embed computes them, and");
}

}  // namespace
}  // namespace nystrom::testing
