// The same numbers in three ways: recorded during training, from `nystrom evaluate` on the
// checkpoint, and computed from the output of `nystrom predict`. The test covers each kind of task
// and of tokenizer. tests/reference/check_same_numbers.py checks a fourth way: transformers on the
// export.
#include <algorithm>
#include <cmath>

#include "data/tasks/answers.h"
#include "data/tasks/task_metrics.h"
#include "data/tokenizers/tokenizer_folder.h"
#include "tests/support/finetune_fixture.h"
#include "tests/support/fixtures.h"
#include "tests/support/named.h"
#include "tests/train/objectives/feature_task.h"
#include "train/config/config_io.h"
#include "train/objectives/corpus.h"
#include "train/objectives/evaluation.h"

namespace nystrom::testing {
namespace {

/// Each of these words is one token in every tokenizer of this test.
const std::vector<std::string> whole_words = {"that",   "with",  "said", "have", "were",  "they",
                                              "little", "like",  "this", "very", "would", "been",
                                              "when",   "which", "from", "about"};

struct Draw : Words {
  explicit Draw(std::uint32_t seed) : Words(seed, whole_words) {}
};

// ---- Tokenizers ---------------------------------------------------------------------------------

struct Kind : Named {
  /// Below fixtures/tokenizers/small. Empty: SentencePiece, trained on the words. Null: bytes.
  const char* fixture;
  bool answers = true;  ///< whether it has the token for no answer
  bool masks = true;
};

const Kind kinds[] = {{"SentencePiece", ""},      {"Unigram", "unigram"},
                      {"WordPiece", "wordpiece"}, {"ByteLevelBpe", "byte_level"},
                      {"Bpe", "suffixes"},        {"Bytes", nullptr, false, false}};

/// Creates the tokenizer in folder / "tokenizer" and returns the lines of YAML that name it.
std::string tokenizer_of(const Kind& kind, const fs::path& folder) {
  if (kind.fixture == nullptr) return "tokenizer: {builtin: bytes}\n";
  if (*kind.fixture != '\0') {
    fs::copy(fixture_folder() / "tokenizers" / "small" / kind.fixture, folder / "tokenizer");
    fs::remove(folder / "tokenizer" / "expected.json");
    return "tokenizer: {path: tokenizer}\n";
  }
  fs::create_directories(folder / "tokenizer");
  Draw draw(1);
  std::vector<std::string> lines;
  for (int i = 0; i < 300; ++i) lines.push_back(draw.text(3, 9));
  write_lines(folder / "text.txt", lines);
  TextReader reader({folder / "text.txt"}, Documents::lines);
  SentencePieceTraining options;
  options.vocab_size = 42;
  write_tokenizer(*train_sentencepiece(reader, options).tokenizer, folder / "tokenizer", 64);
  return "tokenizer: {path: tokenizer}\n";
}

// ---- Tasks --------------------------------------------------------------------------------------

using Numbers = std::vector<std::pair<std::string, double>>;

/// An example as the test knows it.
struct Sample {
  std::string line;   ///< its line of the file
  std::string label;  ///< the right label, value, answer or choice; for words a text of labels
};

double score_of(const json& guesses, const std::string& name, const std::string& wanted) {
  for (const json& guess : guesses)
    if (guess.at(name) == wanted) return guess.at("score");
  ADD_FAILURE() << wanted << " is missing in " << guesses;
  return 0;
}

/// The numbers of classes and choices; `name` selects the field.
Numbers numbers_of_classes(const std::vector<Sample>& samples, const json& predictions,
                           const std::string& name) {
  double right = 0, loss = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    right += predictions.at(i).at(0).at(name) == samples[i].label;
    loss -= std::log(score_of(predictions.at(i), name, samples[i].label));
  }
  const auto count = static_cast<double>(samples.size());
  return {{"accuracy", right / count}, {"loss", loss / count}};
}

/// Without the loss, which is that of single windows.
Numbers numbers_of_windows(const std::vector<Sample>& samples, const json& predictions) {
  return {numbers_of_classes(samples, predictions, "label")[0]};
}

Numbers numbers_of_values(const std::vector<Sample>& samples, const json& predictions) {
  std::vector<double> truth, values;
  double squares = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    truth.push_back(std::stod(samples[i].label));
    values.push_back(predictions.at(i).at("value"));
    squares += std::pow(truth.back() - values.back(), 2);
  }
  const double mse = squares / static_cast<double>(truth.size());
  return {{"pearson", pearson_correlation(truth, values)},
          {"spearman", spearman_correlation(truth, values)},
          {"mse", mse},
          {"loss", mse}};
}

struct Task : Named {
  const char* file;     ///< its extension
  const char* options;  ///< options of the section task
  Sample (*draw)(Draw& draw, int number);
  const char* head;  ///< text before and after the lines of the file
  const char* foot;
  Numbers (*numbers)(const std::vector<Sample>& samples, const json& predictions);
  bool answers = false;
  const char* model = "";  ///< further options of the section model
};

Sample draw_class(Draw& draw, int) {
  const char* labels[] = {"bad", "fine", "good"};
  const std::string label = labels[draw.below(3)], text = draw.text(2, 8);
  return {label + "\t" + text + "\t" + draw.text(1, 4) + "\n", label};
}

Sample draw_long_class(Draw& draw, int) {
  const char* labels[] = {"bad", "fine", "good"};
  const std::string label = labels[draw.below(3)];
  return {label + "\t" + draw.text(3, 60) + "\n", label};
}

Sample draw_value(Draw& draw, int) {
  const std::string value = std::to_string(static_cast<double>(draw.below(1000)) / 250 - 2),
                    text = draw.text(2, 8);
  return {value + "\t" + text + "\t" + draw.text(1, 4) + "\n", value};
}

Sample draw_tags(Draw& draw, int) {
  Sample sample;
  for (std::size_t left = 2 + draw.below(5); left > 0; --left) {
    const std::string word = whole_words[draw.below(whole_words.size())],
                      label = draw.below(2) == 0 ? "long" : "short";
    sample.line += word + " " + label + "\n";
    sample.label += label + " ";
  }
  sample.line += "\n";
  return sample;
}

Sample draw_question(Draw& draw, int number) {
  const std::string before = draw.text(1, 30), answer = draw.text(1, 2);
  const json question = {{"id", std::to_string(number)},
                         {"question", "which were they"},
                         {"answers", {{{"text", answer}, {"answer_start", before.size() + 1}}}}};
  const json paragraph = {{"context", before + " " + answer + " " + draw.text(1, 5)},
                          {"qas", {question}}};
  return {(number > 0 ? "," : "") + paragraph.dump(), answer};
}

Sample draw_choice(Draw& draw, int) {
  json choices = json::array();
  for (int i = 0; i < 3; ++i)
    choices.push_back(draw.text(2, 4) + " " +
                      whole_words[static_cast<std::size_t>(i)]);  // all different
  const std::size_t right = draw.below(3);
  return {json{{"text", draw.text(1, 4)}, {"endings", choices}, {"label", right}}.dump() + "\n",
          choices[right]};
}

Numbers numbers_of_tags(const std::vector<Sample>& samples, const json& predictions) {
  double right = 0, all = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::istringstream truth(samples[i].label);
    std::size_t word = 0;
    for (std::string label; truth >> label; ++all)
      right += predictions.at(i).at(word++).at("label") == label;
  }
  return {{"accuracy", right / all}};
}

Numbers numbers_of_answers(const std::vector<Sample>& samples, const json& predictions) {
  AnswerScore sum;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const AnswerScore score = score_answer(std::span(&samples[i].label, 1),
                                           predictions.at(i).at(0).at("answer").get<std::string>());
    sum.exact += score.exact;
    sum.f1 += score.f1;
  }
  const auto count = static_cast<double>(samples.size());
  return {{"exact_match", sum.exact / count}, {"f1", sum.f1 / count}};
}

Numbers numbers_of_labels(const std::vector<Sample>& samples, const json& predictions) {
  return numbers_of_classes(samples, predictions, "label");
}
Numbers numbers_of_choices(const std::vector<Sample>& samples, const json& predictions) {
  return numbers_of_classes(samples, predictions, "choice");
}

const Task tasks[] = {
    {"Classification", "tsv", "kind: classification, columns: {text: a, label: label}", draw_class,
     "label\ta\tb\n", "", numbers_of_labels},
    {"Windows", "tsv",
     "kind: classification, windows: max, stride: 5, columns: {text: a, label: label}",
     draw_long_class, "label\ta\n", "", numbers_of_windows},
    {"Pairs", "tsv", "kind: classification, columns: {text: a, pair: b, label: label}", draw_class,
     "label\ta\tb\n", "", numbers_of_labels},
    {"MeanPooling", "tsv", "kind: classification, columns: {text: a, label: label}", draw_class,
     "label\ta\tb\n", "", numbers_of_labels, false, "pooling: mean, "},
    {"Towers", "tsv", "kind: classification, columns: {text: a, pair: b, label: label}", draw_class,
     "label\ta\tb\n", "", numbers_of_labels, false, "pairs: towers, "},
    {"Regression", "tsv", "kind: regression, columns: {text: a, label: label}", draw_value,
     "label\ta\tb\n", "", numbers_of_values},
    {"Tokens", "conll", "kind: tokens, metric: accuracy", draw_tags, "", "", numbers_of_tags},
    {"Questions", "json", "kind: questions, stride: 8", draw_question,
     R"({"data": [{"title": "", "paragraphs": [)", "]}]}", numbers_of_answers, true},
    {"Choice", "jsonl", "kind: choice, columns: {text: text, choices: [endings], label: label}",
     draw_choice, "", "", numbers_of_choices},
};

class SameNumber : public FinetuneTest {
 protected:
  void SetUp() override {}

  std::vector<Sample> write_file(const Task& task, const std::string& name, int count,
                                 std::uint32_t seed) {
    Draw draw(seed);
    std::vector<Sample> samples;
    std::string text = task.head;
    for (int i = 0; i < count; ++i) text += samples.emplace_back(task.draw(draw, i)).line;
    write_bytes(folder_ / name, text + task.foot);
    return samples;
  }

  std::string model_of(const std::string& more) {
    return "model: {" + more +
           "hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16, "
           "max_position_embeddings: 64, "
           "initializer_range: 0.3, attention: {num_landmarks: 4, conv_kernel_size: 3}}\n"
           "data: {sequence_length: 64, cache: cache}\nrun_dir: run\noptimizer: "
           "{learning_rate: 3.0e-3}\n"
           /// Evaluates only at the end, so that the best checkpoint is the last.
           "logging: {tensorboard: false}\nevaluation: {every: 6}\n";
  }

  /// The last recorded value of a metric.
  double recorded(const std::string& name) {
    const std::vector<double> values = metric("run", "validation_" + name);
    EXPECT_FALSE(values.empty()) << name;
    return values.empty() ? NAN : values.back();
  }
  json evaluated(const std::string& arguments) {
    run("evaluate run --quiet --json --threads 1 " + arguments);
    json found = json::parse(last_.out, nullptr, false);
    for (const char* table : {"labels", "confusion", "classes"})
      found.erase(table);  // not one number
    return found;
  }
};

// ---- Tasks in three ways ------------------------------------------------------------------------

class SameNumberOf : public SameNumber,
                     public ::testing::WithParamInterface<std::tuple<Kind, Task>> {};

TEST_P(SameNumberOf, InTrainingEvaluationAndPrediction) {
  const auto& [kind, task] = GetParam();
  if (task.answers && !kind.answers) return;  // an error: tests/data/tasks/encoder_test.cpp
  const std::string tokenizer = tokenizer_of(kind, folder_.path()),
                    train_file = std::string("train.") + task.file,
                    file = std::string("dev.") + task.file;
  write_file(task, train_file, 48, 1);
  const std::vector<Sample> samples = write_file(task, file, 24, 2);
  write_bytes(folder_ / "run.yaml",
              tokenizer + model_of(task.model) + "task: {" + task.options + ", train: [" +
                  train_file + "], validation: [" + file +
                  "]}\ntraining: {dtype: f32, steps: 6, batch_size: 16, micro_batch_size: 8}\n");
  train();
  const json evaluation = evaluated("--file " + file);
  // All classes; of answers as many as evaluation asks for.
  const Numbers numbers =
      task.numbers(samples, predicted(file + (task.answers ? "" : " --top-k 10")));
  for (const auto& [name, value] : numbers) {
    EXPECT_NEAR(evaluation.at(name).get<double>(), recorded(name), 2e-5)
        << name << ", by evaluate and in training";
    EXPECT_NEAR(value, recorded(name), 2e-5) << name << ", of predictions and in training";
  }
  EXPECT_NEAR(evaluation.at("loss").get<double>(), recorded("loss"), 2e-5);
  run("export run exported --verify --json --quiet");
  const json score = json::parse(last_.out).at("scores").at(0);
  EXPECT_EQ(score.at("runtime"), "nystrom");
  EXPECT_NEAR(score.at("loss").get<double>(), recorded("loss"), 2e-5);
  const auto& [metric, value] = numbers[0];
  if (score.contains(metric)) {
    EXPECT_NEAR(score.at(metric).get<double>(), recorded(metric), 2e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SameNumberOf,
                         ::testing::Combine(::testing::ValuesIn(kinds), ::testing::ValuesIn(tasks)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) +
                                  std::get<1>(test.param).name;
                         });

// ---- Masked language models in three ways -------------------------------------------------------

/// The text of a row of ids in which masks replace tokens of `line`, with or without the space
/// before a token.
std::string masked_text(const Tokenizer& tokenizer, const std::string& line,
                        std::span<const std::int64_t> ids, bool with_space) {
  const std::string& mask = tokenizer.piece(tokenizer.special().mask);
  std::string text;
  std::size_t done = 0, place = 1;  // after cls
  for (const Token& token : tokenizer.encode_with_offsets(line)) {
    if (ids[place++] != tokenizer.special().mask) continue;
    std::size_t begin = token.begin;
    while (begin < token.end && line[begin] == ' ') ++begin;
    if (with_space && begin > done && line[begin - 1] == ' ') --begin;
    text += line.substr(done, begin - done) + mask;
    done = token.end;
  }
  return text + line.substr(done);
}

class SameNumberOfMasks : public SameNumber, public ::testing::WithParamInterface<Kind> {};

TEST_P(SameNumberOfMasks, InTrainingEvaluationAndPrediction) {
  const std::string yaml = tokenizer_of(GetParam(), folder_.path());
  Draw draw(3);
  std::vector<std::string> train_lines, lines;
  for (int i = 0; i < 60; ++i) train_lines.push_back(draw.text(4, 12));
  for (int i = 0; i < 20; ++i) lines.push_back(draw.text(4, 12));
  write_lines(folder_ / "train.txt", train_lines);
  write_lines(folder_ / "dev.txt", lines);
  std::string config_text = model_of("");
  config_text.replace(config_text.find("data: {"), 7,
                      "data: {train: [train.txt], validation: [dev.txt], documents: lines, ");
  write_bytes(folder_ / "run.yaml",
              yaml + config_text +
                  "masking: {probability: 0.3, mask: 1.0, random: 0.0}\n"
                  "training: {dtype: f32, steps: 6, batch_size: 16, micro_batch_size: 8}\n");
  run("pretrain run.yaml --threads 1");
  const json evaluation = evaluated("--text dev.txt");
  EXPECT_NEAR(evaluation.at("loss").get<double>(), recorded("loss"), 2e-5);
  EXPECT_NEAR(evaluation.at("accuracy").get<double>(), recorded("accuracy"), 2e-5);

  // The rows with the masks of training, as equivalent texts.
  const auto tokenizer = open_tokenizer(folder_ / "tokenizer");
  Log log(true);
  const RunConfig config = read_resolved_config((folder_ / "run" / "config.yaml").string());
  RunConfig lines_of_files = config;
  lines_of_files.data.documents = Documents::lines;
  const MaskedSamples rows =
      masked_samples(tokenize_text_option({folder_ / "dev.txt"}, lines_of_files, *tokenizer,
                                          folder_ / "tokens", log),
                     *tokenizer, config);
  ASSERT_EQ(rows.packing->size(), static_cast<std::int64_t>(lines.size())) << "a line a row";
  std::vector<std::string> texts;
  std::vector<std::vector<std::int64_t>> asked;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const SampleUse use{static_cast<std::int64_t>(i), 0, 0};
    const Batch row = make_batch(std::span(&rows, 1), std::span(&use, 1));
    const std::span ids(row.input.input_ids.data<std::int64_t>(),
                        static_cast<std::size_t>(row.tokens));
    asked.emplace_back();
    for (std::size_t at = 0; at < ids.size(); ++at) {
      const std::int64_t label = row.labels.data<std::int64_t>()[at];
      if (label >= 0) asked.back().push_back(label);
    }
    for (const bool with_space : {false, true}) {
      const std::string text = masked_text(*tokenizer, lines[i], ids, with_space);
      const auto again = tokenizer->wrap(tokenizer->encode(text, SpecialNames::tokens)).ids;
      if (!std::ranges::equal(again, ids)) continue;
      texts.push_back(text);
      break;
    }
    ASSERT_EQ(texts.size(), i + 1) << "no text has the tokens of row " << i << ": " << lines[i];
  }
  write_lines(folder_ / "masked.txt", texts);

  const json predictions =
      predicted("masked.txt --top-k " + std::to_string(config.model.vocab_size));
  double loss = 0, right = 0, count = 0;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const json& masks = asked[i].size() == 1 ? json::array({predictions.at(i)}) : predictions.at(i);
    ASSERT_EQ(masks.size(), asked[i].size());
    for (std::size_t m = 0; m < masks.size(); ++m, ++count) {
      right += masks[m].at(0).at("token") == asked[i][m];
      const auto fill = std::ranges::find_if(
          masks[m], [&](const json& each) { return each.at("token") == asked[i][m]; });
      loss -= std::log(fill->at("score").get<double>());
    }
  }
  EXPECT_EQ(evaluation.at("tokens"), count);
  EXPECT_NEAR(loss / count, recorded("loss"), 2e-5);
  EXPECT_NEAR(right / count, recorded("accuracy"), 2e-5);
}

INSTANTIATE_TEST_SUITE_P(All, SameNumberOfMasks,
                         ::testing::ValuesIn(std::begin(kinds), std::end(kinds) - 1), case_name);

// ---- Features without a tokenizer ---------------------------------------------------------------

class SameNumberOfFeatures : public SameNumber, public ::testing::WithParamInterface<bool> {};

TEST_P(SameNumberOfFeatures, InTrainingEvaluationAndPrediction) {
  const bool classes = GetParam();
  write_features(folder_ / "train.h5", classes, 64, 7);
  const std::vector<double> truth = write_features(folder_ / "dev.h5", classes, 32, 8);
  write_bytes(folder_ / "run.yaml", features_model);
  run("finetune run.yaml --threads 1 --set training.epochs=3 --set evaluation.every=6");
  const json evaluation = evaluated("--file dev.h5");
  for (const auto& [name, value] : evaluation.items()) {
    if (name == "examples") continue;
    EXPECT_NEAR(value.get<double>(), recorded(name), 2e-5)
        << name << ", by evaluate and in training";
  }
  std::vector<Sample> samples;
  for (const double label : truth)
    samples.push_back({"", classes ? std::to_string(std::lround(label)) : std::to_string(label)});
  const json predictions = predicted("dev.h5");
  for (const auto& [name, value] :
       classes ? numbers_of_labels(samples, predictions) : numbers_of_values(samples, predictions))
    EXPECT_NEAR(value, recorded(name), 2e-5) << name << ", of predictions and in training";
}

INSTANTIATE_TEST_SUITE_P(All, SameNumberOfFeatures, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Classes" : "Values"; });

// ---- bf16 ---------------------------------------------------------------------------------------

/// A fresh model, whose outputs hardly differ. Rounded outputs would be equal, and Pearson's
/// correlation would change.
TEST_F(SameNumber, OfARunInBf16) {
  const Task& task =
      *std::ranges::find(tasks, std::string_view("Regression"),
                         [](const Task& each) { return std::string_view(each.name); });
  const std::string tokenizer = tokenizer_of(kinds[0], folder_.path());
  write_file(task, "train.tsv", 48, 1);
  write_file(task, "dev.tsv", 64, 2);
  write_bytes(folder_ / "run.yaml",
              tokenizer + model_of("hidden_dropout_prob: 0.0, ") + "task: {" + task.options +
                  ", train: [train.tsv], validation: [dev.tsv]}\n"
                  "training: {dtype: bf16, steps: 18, batch_size: 16, micro_batch_size: 8}\n");
  run("finetune run.yaml --threads 1 --set model.initializer_range=0.1");
  const json rounded = evaluated("--file dev.tsv --dtype bf16"),
             exact = evaluated("--file dev.tsv");
  for (const char* name : {"pearson", "spearman", "mse", "loss"}) {
    EXPECT_NEAR(rounded.at(name).get<double>(), recorded(name), 1e-6)
        << name << ": the same computation";
    EXPECT_NEAR(exact.at(name).get<double>(), recorded(name), 0.1)
        << name << ", in f32 and in training";
  }
}

}  // namespace
}  // namespace nystrom::testing
