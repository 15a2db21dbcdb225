#include "train/config/config_io.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "tests/support/named.h"
#include "tests/support/places.h"
#include "tests/support/says.h"
#include "tests/support/start_defaults.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

RunConfig read(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_config(text, "run.yaml", start_defaults, overrides);
}

std::string errors_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return input_error([&] { read(text, overrides); });
}

struct Bad : testing::Named {
  std::string text;
  std::string expected;
};

class BadFile : public ::testing::TestWithParam<Bad> {};
TEST_P(BadFile, HasExactlyTheseErrors) {
  EXPECT_EQ(errors_of(GetParam().text), GetParam().expected);
}

class BadOverride : public ::testing::TestWithParam<Bad> {};
TEST_P(BadOverride, HasExactlyTheseErrors) {
  EXPECT_EQ(errors_of("seed: 1\n", {GetParam().text}), GetParam().expected);
}

#define SECTIONS                                                                        \
  "run_dir, seed, model, tokenizer, data, task, embedding_loss, pretraining, masking, " \
  "distillation, optimizer, schedule, training, evaluation, checkpoint, logging"
#define MODEL_KEYS                                                                      \
  "from, fresh_head, vocab_size, hidden_size, num_hidden_layers, num_attention_heads, " \
  "intermediate_size, hidden_act, max_position_embeddings, type_vocab_size, "           \
  "hidden_dropout_prob, layer_norm_eps, initializer_range, norm, final_norm, "          \
  "first_attention_norm, mlp, bias, positions, rope_theta, local_rope_theta, "          \
  "position_offset, embedding_size, transform_act, classifier_act, head_transform, "    \
  "tie_word_embeddings, pooling, pairs, embed_dim, attention, embedding"

const Bad keys[] = {
    {"MistypedInAnotherSection", "model:\n  hidden_size: 768\n  num_landmark: 32\n",
     "run.yaml:3:3: unknown key 'model.num_landmark'; did you mean 'num_landmarks'? (in "
     "'model.attention')"},
    {"MistypedKey", "optimizer: {lerning_rate: 1}",
     "run.yaml:1:13: unknown key 'optimizer.lerning_rate'; did you mean 'learning_rate'?"},
    {"NameElsewhere", "training: {class_weights: 1}",
     "run.yaml:1:12: unknown key 'training.class_weights'; did you mean 'task.balance'?"},
    {"MistypedSection", "modle: {}", "run.yaml:1:1: unknown key 'modle'; did you mean 'model'?"},
    {"KeyOfTheTopInASection", "model: {seed: 1}",
     "run.yaml:1:9: unknown key 'model.seed'; it belongs at the top"},
    {"ForeignKey", "schedule: {zzzzzzzz: 1}",
     "run.yaml:1:12: unknown key 'schedule.zzzzzzzz'; expected one of warmup_steps, warmup_share, "
     "decay, decay_share"},
    {"MisspeltSection", "tasks: {}", "run.yaml:1:1: unknown key 'tasks'; did you mean 'task'?"},
    {"LengthIsNoKey", "model: {segment_means_seq_len: 64}",
     "run.yaml:1:9: unknown key 'model.segment_means_seq_len'; expected one of " MODEL_KEYS},
    {"DuplicateInside", "model: {norm: pre, norm: post}",
     "run.yaml:1:20: duplicate key 'model.norm'; first given in line 1: remove one"},
    {"ControlCharacterInKey", "\"a\\nb\": 1",
     "run.yaml:1:1: unknown key 'a\\x0ab'; expected one of " SECTIONS},
    {"MergeKey", "model: {<<: {norm: pre}}",
     "run.yaml:1:9: unknown key 'model.<<'; expected one of " MODEL_KEYS},
    {"NullKey", "~: 1", "run.yaml:1:1: a key must be a word"},
    {"ListAsKey", "[a]: 1", "run.yaml:1:1: a key must be a word"},
};

const Bad values[] = {
    {"QuotedNumber", "seed: \"1\"",
     "run.yaml:1:7: seed: got the text '1', expected a whole number at least 0"},
    {"TooLarge", "seed: 9223372036854775808",
     "run.yaml:1:7: seed: got '9223372036854775808', expected a whole number at least 0, and "
     "smaller than 2^63"},
    {"Nul", "run_dir: \"a\\0b\"",
     "run.yaml:1:10: run_dir: got the text 'a\\x00b', expected a text without the character NUL"},
    {"Inexact", "seed: 1e17",
     "run.yaml:1:7: seed: got '1e17', expected a whole number at least 0, above 2^53 in digits "
     "alone"},
    {"TwoSigns", "seed: +-1", "run.yaml:1:7: seed: got '+-1', expected a whole number at least 0"},
    {"TwoSignsOfAFraction", "embedding_loss: {false_negative_margin: +-1.5}",
     "run.yaml:1:41: embedding_loss.false_negative_margin: got '+-1.5', expected a number between "
     "-2 and 2, or null"},
    {"ListForNumber", "seed: [1]",
     "run.yaml:1:7: seed: got a list, expected a whole number at least 0"},
    {"NullForNumber", "seed:", "run.yaml:1:1: seed: got null, expected a whole number at least 0"},
    {"NaN", "optimizer: {epsilon: .nan}",
     "run.yaml:1:22: optimizer.epsilon: got '.nan', expected a number at least 1e-37"},
    {"ZeroInF32", "optimizer: {epsilon: 1e-50}",
     "run.yaml:1:22: optimizer.epsilon: got '1e-50', expected a number at least 1e-37"},
    {"Infinity", "optimizer: {learning_rate: .inf}",
     "run.yaml:1:28: optimizer.learning_rate: got '.inf', expected a number greater than 0"},
    {"Overflow", "optimizer: {learning_rate: 1e999}",
     "run.yaml:1:28: optimizer.learning_rate: got '1e999', expected a number greater than 0"},
    {"KindOfLayers", "model: {attention: {layers: {0-3: softmx}}}",
     "run.yaml:1:35: model.attention.layers.0-3: got 'softmx', expected nystrom or softmax or "
     "double_softmax or linear or performer or linformer or reformer or none; did you mean "
     "'softmax'?"},
    {"ListOfLayers", "model: {attention: {layers: [0, 1]}}",
     "run.yaml:1:29: model.attention.layers: got a list, expected a mapping such as {a: b}"},
    {"NullForLayers", "model: {attention: {layers: {0-3: }}}",
     "run.yaml:1:30: model.attention.layers.0-3: got null, expected nystrom or softmax or "
     "double_softmax or linear or performer or linformer or reformer or none"},
    {"LayersTwice", "model: {attention: {layers: {3: softmax, 3: linear}}}",
     "run.yaml:1:42: duplicate key 'model.attention.layers.3'; first given in line 1: remove one"},
    {"LayersBeyond", "model: {attention: {layers: {8-12: softmax}}}",
     "run.yaml:1:21: model.attention.layers '8-12' exceeds num_hidden_layers 12, whose layers "
     "count from 0; lower it"},
    {"OverlappingLayers", "model: {attention: {layers: {0-3: softmax, 3: linear}}}",
     "run.yaml:1:21: model.attention.layers '3' and '0-3' both name layer 3; name each layer once"},
    {"NoRangeOfLayers", "model: {attention: {layers: {3-0: softmax}}}",
     "run.yaml:1:21: model.attention.layers '3-0' names no layers; expected a layer or a range, "
     "such as 11 or 0-3"},
    {"CapitalBoolean", "training: {deterministic: True}",
     "run.yaml:1:27: training.deterministic: got 'True', expected true or false"},
    {"QuotedBoolean", "training: {deterministic: 'true'}",
     "run.yaml:1:27: training.deterministic: got the text 'true', expected true or false"},
    {"MistypedWord", "model: {norm: psot}",
     "run.yaml:1:15: model.norm: got 'psot', expected post or pre; did you mean 'post'?"},
    {"Type", "training: {dtype: fp32}",
     "run.yaml:1:19: training.dtype: got 'fp32', expected bf16 or f16 or f32 or f64; did you mean "
     "'f32'?"},
    {"NullForWord", "model: {norm: null}",
     "run.yaml:1:9: model.norm: got null, expected post or pre"},
    {"ListForText", "run_dir: [a]", "run.yaml:1:10: run_dir: got a list, expected a text"},
    {"NullForText", "run_dir: ~", "run.yaml:1:1: run_dir: got null, expected a text"},
    {"NumberForList", "optimizer: {betas: 0.9}",
     "run.yaml:1:20: optimizer.betas: got '0.9', expected a list such as [a, b]"},
    {"EmptySection", "model:\nseed: 1\n",
     "run.yaml:1:1: model: got null, expected a mapping of options"},
    {"ListForSection", "model: {attention: [1]}",
     "run.yaml:1:20: model.attention: got a list, expected a mapping of options"},
};

const Bad rules[] = {
    {"HeadsGivenLater", "model:\n  hidden_size: 100\n  num_attention_heads: 3\n",
     "run.yaml:3:3: model.hidden_size 100 is not divisible by num_attention_heads 3; each head "
     "takes an equal share of the width"},
    {"Landmarks", "model: {attention: {num_landmarks: 600}}",
     "run.yaml:1:21: model.attention.num_landmarks 600 exceeds max_position_embeddings 512; no "
     "sequence is long enough to have them"},
    {"EmptyRunDir", "run_dir: ''",
     "run.yaml:1:1: run_dir is empty; expected a folder such as runs/base"},
    {"Variable", "run_dir: ${HOME}/runs",
     "run.yaml:1:1: run_dir is '${HOME}/runs', and only a shell replaces variables; write the "
     "folder out, such as /home/me/runs"},
    {"QuoteWithoutEnd", "run_dir: \"runs/a\nseed: 7\n",
     "run.yaml:2:8: not valid YAML: illegal EOF in scalar"},
    {"EmptyCache", "data: {cache: \"\"}",
     "run.yaml:1:8: data.cache is empty; expected a folder such as runs/cache"},
    {"NeitherStepsNorEpochs", "training: {steps: null}",
     "run.yaml:1:12: training.steps and training.epochs are both null; give one of them"},
    {"Betas", "optimizer: {betas: [0.9]}",
     "run.yaml:1:13: optimizer.betas needs 2 numbers, such as [0.9, 0.999]; got 1"},
    {"Warmup", "training: {steps: 500}\nschedule: {warmup_steps: 600}",
     "run.yaml:2:12: schedule.warmup_steps 600 exceeds training.steps 500; the learning rate would "
     "never reach its peak"},
    {"DecayShare", "schedule: {decay_share: 0.2}",
     "run.yaml:1:12: schedule.decay_share is for schedule.decay wsd, and decay is linear"},
    {"MicroBatch", "training: {batch_size: 100, micro_batch_size: 32}",
     "run.yaml:1:29: training.batch_size 100 is not divisible by micro_batch_size 32; a step is a "
     "whole number of micro-batches"},
    {"NothingFollowsFromAnUnknownKey", "model: {hidden_size: 100, num_attention_head: 10}",
     "run.yaml:1:27: unknown key 'model.num_attention_head'; did you mean 'num_attention_heads'?"},
    {"NothingFollowsFromABadValue", "model: {hidden_size: 100, num_attention_heads: ten}",
     "run.yaml:1:48: model.num_attention_heads: got 'ten', expected a whole number at least 1"},
};

const Bad tasks[] = {
    {"UnknownRecipe", "task: {recipe: sst}",
     "run.yaml:1:8: task.recipe 'sst' is unknown; did you mean 'sst2'?; expected one of sst2, "
     "cola, mrpc, stsb, qqp, mnli, qnli, rte, imdb, trec, listops, aan, cifar10, pathfinder"},
    {"KindBesideRecipe", "task: {recipe: stsb, kind: classification}",
     "run.yaml:1:22: task.kind classification does not fit task.recipe stsb, which is regression; "
     "leave it out"},
    {"FormatOfAnotherKind", "task: {kind: tokens, format: squad}",
     "run.yaml:1:22: task.format squad does not hold a task of kind tokens; expected one of conll, "
     "jsonl, json, lines"},
    {"MetricOfAnotherKind", "task: {kind: regression, metric: accuracy}",
     "run.yaml:1:26: task.metric accuracy does not measure a task of kind regression; expected one "
     "of pearson, spearman, loss"},
    {"ShareBesideFolds", "task: {kind: features, folds: 3, validation_fraction: 0.1}",
     "run.yaml:1:34: task.validation_fraction holds examples out, but task.folds parts those of "
     "task.train; leave it out"},
    {"BalanceOfSeveralLabels", "task: {kind: classification, multi_label: true, balance: weights}",
     "run.yaml:1:49: task.balance weights is for one label an example, and task.multi_label gives "
     "it any number; leave one of them out"},
    {"SeveralLabelsOfBags", "task: {kind: features, columns: {labels: [a, b]}}",
     "run.yaml:1:34: task.multi_label is for tasks of kind classification; this one is of kind "
     "features"},
    {"NameWithoutHeader", "task: {kind: classification, header: false, columns: {text: sentence}}",
     "run.yaml:1:55: task.columns.text 'sentence' is no number; without a header columns are "
     "numbers from 1"},
    {"NoChoices", "task: {kind: choice}",
     "run.yaml:1:1: task.columns.choices is empty; name the columns of the continuations, such as "
     "[ending0, ending1]"},
    {"ChoicesOfAnotherKind", "task: {kind: regression, columns: {choices: [a, b]}}",
     "run.yaml:1:36: task.columns.choices is for tasks of kind choice; this one is of kind "
     "regression"},
    {"PairOfWords", "task: {kind: tokens, columns: {pair: b}}",
     "run.yaml:1:32: task.columns.pair: a task of kind tokens has no second text"},
    {"TextAndLabelOfOneColumn", "task: {kind: classification, columns: {text: label}}",
     "run.yaml:1:40: task.columns.text and task.columns.label are both 'label'; each needs a "
     "column of its own"},
    {"PairAndLabelOfOneColumn", "task: {recipe: rte, columns: {pair: label}}",
     "run.yaml:1:31: task.columns.pair and task.columns.label are both 'label'; each needs a "
     "column of its own"},
    {"TextAndPairOfOneColumn", "task: {kind: regression, columns: {pair: text}}",
     "run.yaml:1:36: task.columns.text and task.columns.pair are both 'text'; each needs a column "
     "of its own"},
    {"ChoiceTwice", "task: {kind: choice, columns: {choices: [a, b, a]}}",
     "run.yaml:1:32: task.columns.choices has 'a' twice"},
    {"LabelsOfNumbers", "task: {kind: regression, labels: [a, b]}",
     "run.yaml:1:26: task.labels: a task of kind regression has no labels"},
    {"OneLabel", "task: {kind: classification, labels: [a]}",
     "run.yaml:1:30: task.labels has 1 entry, 'a'; a choice needs two"},
    {"LabelTwice", "task: {kind: classification, labels: [a, b, a]}",
     "run.yaml:1:30: task.labels has 'a' twice"},
    {"EmptyLabel", "task: {kind: classification, labels: [a, '']}",
     "run.yaml:1:30: task.labels holds an empty label"},
    {"SeveralLabelsOfNumbers", "task: {kind: regression, multi_label: true}",
     "run.yaml:1:26: task.multi_label is for tasks of kind classification; this one is of kind "
     "regression"},
    {"SeparatorOfOneLabel",
     "task: {kind: classification, multi_label: false, label_separator: '|'}",
     "run.yaml:1:50: task.multi_label is false, and task.label_separator is for several labels per "
     "text; leave one of them out"},
    {"ThresholdOfOneLabel", "task: {kind: classification, threshold: 0.7}",
     "run.yaml:1:30: task.threshold is for several labels per text (task.multi_label); a text with "
     "one gets the most probable: leave it out"},
    {"MetricOfOneLabel", "task: {kind: classification, multi_label: true, metric: accuracy}",
     "run.yaml:1:49: task.metric accuracy does not measure a task of kind classification with "
     "several labels per text; expected one of f1_micro, f1_macro, mean_average_precision, "
     "exact_match, loss"},
    {"SeparatorInALabel", "task: {kind: classification, label_separator: ',', labels: [a, 'b,c']}",
     "run.yaml:1:52: task.labels: 'b,c' holds task.label_separator ','; choose another one"},
    {"EmptySeparator", "task: {kind: classification, label_separator: ''}",
     "run.yaml:1:30: task.label_separator is empty; give a character, such as ;"},
    {"SeparatorBesideColumns",
     "task: {kind: classification, label_separator: '|', columns: {labels: [a, b]}}",
     "run.yaml:1:62: task.columns.labels and task.label_separator exclude each other; labels stand "
     "in one column, or in one each"},
    {"OneColumnBesideSeveral",
     "task: {kind: classification, columns: {label: topic, labels: [a, b]}}",
     "run.yaml:1:54: task.columns.labels and task.columns.label exclude each other; labels stand "
     "in one column, or in one each"},
    {"NumbersOfColumnsWithoutLabels",
     "task: {kind: classification, header: false, columns: {text: '1', labels: ['2', '3']}}",
     "run.yaml:1:66: task.columns.labels are numbers of columns; name their labels in task.labels"},
    {"ColumnsOfOtherLabels",
     "task: {kind: classification, labels: [a, c], columns: {labels: [a, b]}}",
     "run.yaml:1:56: task.columns.labels and task.labels name different labels; a column's name is "
     "its label: leave task.labels out"},
    {"MoreLabelsThanColumns",
     "task: {kind: classification, labels: [a, b, c], columns: {labels: [a, b]}}",
     "run.yaml:1:59: task.columns.labels has 2 entries, task.labels 3; give one for each"},
    {"AColumnOfLabelsTwice", "task: {kind: classification, columns: {labels: [a, a]}}",
     "run.yaml:1:40: task.columns.labels has 'a' twice"},
    {"AColumnOfLabelsAndText", "task: {kind: classification, columns: {labels: [a, text]}}",
     "run.yaml:1:40: task.columns.text and task.columns.labels are both 'text'; each needs a "
     "column of its own"},
    {"LongerThanARotaryModel",
     "model: {positions: rope, max_position_embeddings: 512}\ndata: {sequence_length: 2000}\ntask: "
     "{kind: classification}",
     "run.yaml:2:8: data.sequence_length 2000 exceeds model.max_position_embeddings 512; shorten "
     "the sequences or raise the latter, of a trained model by nystrom extend"},
    {"StrideOfOneWindow", "task: {kind: classification, stride: 8}",
     "run.yaml:1:30: task.stride is what windows share, and with task.windows first there is one; "
     "set task.windows to mean or max, or task.stride to null"},
    {"NoAnswerElsewhere", "task: {kind: choice, no_answer: true, columns: {choices: [a, b]}}",
     "run.yaml:1:22: task.no_answer is for tasks of kind questions; this one is of kind choice"},
};

const Bad texts[] = {
    {"Empty", "", "run.yaml:1:1: got nothing, expected sections such as 'model:'"},
    {"OnlyAComment", "# nothing\n",
     "run.yaml:1:1: got nothing, expected sections such as 'model:'"},
    {"List", "- a\n", "run.yaml:1:1: got a list, expected sections such as 'model:'"},
    {"Scalar", "hello", "run.yaml:1:1: got 'hello', expected sections such as 'model:'"},
    {"Unclosed", "model: {norm: pre\n", "run.yaml:1:1: not valid YAML: end of map flow not found"},
    {"Alias", "model: *m",
     "run.yaml:1:8: not valid YAML: the referenced anchor is not defined; quote patterns that "
     "begin with *, as in '**/*.txt'"},
    {"Tag", "seed: !!int 3", "run.yaml:1:7: tags (!name) are not supported; write the plain value"},
    {"Deep", "model: " + std::string(40, '[') + std::string(40, ']'),
     "run.yaml:1:39: nested deeper than 32 levels"},
    {"CutOffInAKey", "model:\n  hidden_size: 16\n  from",
     "run.yaml:3:3: 'from' has no colon and no value; is the file cut off?"},
    {"KeyAloneInBraces", "evaluation: {early_stop_patience, every: 1}",
     "run.yaml:1:14: 'early_stop_patience' has no colon and no value; write 'key: value'"},
    {"ColonWithoutABlank", "masking: {probability: {0:0.3,end:0.15}}",
     "run.yaml:1:25: '0:0.3' has no blank behind its colon; write 'key: value'"},
    {"Surrogates", "{\"run_dir\": \"run\\ud83d\\ude00\"}",
     "run.yaml:1:23: not valid YAML: invalid unicode: 55357; write the character itself, as "
     "json.dumps(…, ensure_ascii=False) does"},
    {"NotUtf8", "seed: 1\nrun_dir: \xff",
     "run.yaml:2:10: not UTF-8: byte 0xff; save the file as UTF-8"},
    {"OverlongUtf8", "run_dir: \xc0\x80",
     "run.yaml:1:10: not UTF-8: byte 0xc0; save the file as UTF-8"},
    {"ControlCharacter", "seed: 1 \x04", "run.yaml:1:9: control character 0x04; remove it"},
    {"TooLong", "#" + std::string(1 << 20, 'x'),
     "run.yaml:1:1: larger than 1 MiB; a configuration is a short text"},
    {"AllAtOnceInOrder",
     "training: {dtype: fp16}\nmodel:\n  norm: 1\n  hidden_siz: 3\nseed: x\nseed: 2\n",
     "run.yaml:1:19: training.dtype: got 'fp16', expected bf16 or f16 or f32 or f64; did you mean "
     "'f16'?\n"
     "run.yaml:3:9: model.norm: got '1', expected post or pre\n"
     "run.yaml:4:3: unknown key 'model.hidden_siz'; did you mean 'hidden_size'?\n"
     "run.yaml:5:7: seed: got 'x', expected a whole number at least 0\n"
     "run.yaml:6:1: duplicate key 'seed'; first given in line 5: remove one"},
};

const Bad overrides[] = {
    {"MistypedKey", "optimizer.lerning_rate=3e-4",
     "--set optimizer.lerning_rate=3e-4: unknown key 'optimizer.lerning_rate'; did you mean "
     "'learning_rate'?"},
    {"WrongType", "training.steps=many",
     "--set training.steps=many: training.steps: got 'many', expected a whole number at least 1, "
     "or null"},
    {"Empty", "training.batch_size=",
     "--set training.batch_size=: has no value; give one, or null, or an empty text: "
     "'training.batch_size=\"\"'"},
    {"BlockHeader", "run_dir=|-",
     "--set run_dir=|-: of '|-' YAML drops a comment, a mark or blanks at its ends; put it in "
     "double quotes: 'run_dir=\"|-\"'"},
    {"Comment", "run_dir=exp #2",
     "--set run_dir=exp #2: of 'exp #2' YAML drops a comment, a mark or blanks at its ends; put it "
     "in double quotes: 'run_dir=\"exp #2\"'"},
    {"Blank", "seed= 3",
     "--set seed= 3: of ' 3' YAML drops a comment, a mark or blanks at its ends; put it in double "
     "quotes: 'seed=\" 3\"'"},
    {"BeginOfADocument", "run_dir=--- r5",
     "--set run_dir=--- r5: of '--- r5' YAML drops a comment, a mark or blanks at its ends; put it "
     "in double quotes: 'run_dir=\"--- r5\"'"},
    {"EndOfADocument", "run_dir=...",
     "--set run_dir=...: of '...' YAML drops a comment, a mark or blanks at its ends; put it in "
     "double quotes: 'run_dir=\"...\"'"},
    {"Directive", "run_dir=%5",
     "--set run_dir=%5: of '%5' YAML drops a comment, a mark or blanks at its ends; put it in "
     "double quotes: 'run_dir=\"%5\"'"},
    {"EmptyTag", "run_dir=! r5",
     "--set run_dir=! r5: of '! r5' YAML drops a comment, a mark or blanks at its ends; put it in "
     "double quotes: 'run_dir=\"! r5\"'"},
    {"Tag", "run_dir=!r5",
     "--set run_dir=!r5: of '!r5' YAML drops a comment, a mark or blanks at its ends; put it in "
     "double quotes: 'run_dir=\"!r5\"'"},
    {"ControlByte", "data.length_schedule.\x1b=a",
     "--set data.length_schedule.\\x1b=a: data.length_schedule.\\x1b: got 'a', expected a whole "
     "number at least 8"},
    {"Mark", "seed=,", "--set seed=,: seed: got the text ',', expected a whole number at least 0"},
    {"NoEquals", "seed", "--set seed: expected key=value, such as optimizer.learning_rate=3e-4"},
    {"NoKey", "=3", "--set =3: expected key=value, such as optimizer.learning_rate=3e-4"},
    {"EmptyPart", "model..norm=pre",
     "--set model..norm=pre: expected key=value, such as optimizer.learning_rate=3e-4"},
    {"BeyondALeaf", "seed.x=3",
     "--set seed.x=3: seed: got a mapping, expected a whole number at least 0"},
    {"NotYaml", "optimizer.betas=[0.9",
     "--set optimizer.betas=[0.9: not valid YAML: end of sequence flow not found"},
    {"DuplicateInMapping", "model={norm: pre, norm: post}",
     "--set model={norm: pre, norm: post}: duplicate key 'model.norm'; first given in line 1: "
     "remove one"},
    {"Rule", "schedule.warmup_steps=600000",
     "--set schedule.warmup_steps=600000: schedule.warmup_steps 600000 exceeds training.steps "
     "500000; the learning rate would never reach its peak"},
    {"ControlCharacter", "a\n=1",
     "--set a\\x0a=1: unknown key 'a\\x0a'; expected one of " SECTIONS},
};

INSTANTIATE_TEST_SUITE_P(Keys, BadFile, ::testing::ValuesIn(keys), testing::case_name);
INSTANTIATE_TEST_SUITE_P(Values, BadFile, ::testing::ValuesIn(values), testing::case_name);
INSTANTIATE_TEST_SUITE_P(Rules, BadFile, ::testing::ValuesIn(rules), testing::case_name);
INSTANTIATE_TEST_SUITE_P(Tasks, BadFile, ::testing::ValuesIn(tasks), testing::case_name);
INSTANTIATE_TEST_SUITE_P(Texts, BadFile, ::testing::ValuesIn(texts), testing::case_name);
INSTANTIATE_TEST_SUITE_P(Overrides, BadOverride, ::testing::ValuesIn(overrides),
                         testing::case_name);

TEST(ConfigErrors, OfFileAndOverridesComeTogether) {
  EXPECT_EQ(errors_of("sed: 1\n", {"seed=x", "run_dir=[]"}),
            "run.yaml:1:1: unknown key 'sed'; did you mean 'seed'?\n"
            "--set seed=x: seed: got 'x', expected a whole number at least 0\n"
            "--set run_dir=[]: run_dir: got a list, expected a text");
}

TEST(ConfigErrors, EndAfterFiftyLines) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "unheard_of_" + std::to_string(i) + ": 1\n";
  const std::string errors = errors_of(text);
  EXPECT_TRUE(errors.ends_with("\n… and 10 more")) << errors;
}

TEST(ConfigText, EmptyMappingMeansDefaults) { EXPECT_EQ(to_yaml(read("{}")), to_yaml({})); }

TEST(ConfigText, WholeNumbersMayHaveAnExponent) { EXPECT_EQ(read("seed: 1.5e3").seed, 1500); }
TEST(ConfigText, NumbersMayBeWhole) {
  EXPECT_EQ(read("optimizer: {clip_norm: 2}").optimizer.clip_norm, 2.0);
}
TEST(ConfigText, NullTurnsAnOptionOff) {
  EXPECT_FALSE(read("optimizer: {clip_norm: null}").optimizer.clip_norm);
}
TEST(ConfigText, WordsMayStandInQuotes) {
  EXPECT_EQ(read("model: {norm: 'pre'}").model.norm, Norm::pre);
}
TEST(ConfigText, NumbersAreTextsToo) { EXPECT_EQ(read("run_dir: 2024").run_dir, "2024"); }

TEST(ConfigText, ATaskDecidesTheHeadAndTheDefaults) {
  const RunConfig config = read("task: {kind: tokens}\nseed: 1\n");
  EXPECT_EQ(config.model.head, Head::token_classification);
  EXPECT_EQ(config.training.epochs, 4);
  EXPECT_EQ(config.training.steps, std::nullopt);
  EXPECT_EQ(config.schedule.warmup_share, 0.1);
  EXPECT_EQ(config.optimizer.learning_rate, 3e-5);
  for (const auto& [width, rate] : std::initializer_list<std::pair<int, double>>{
           {64, 1e-3}, {128, 1e-3}, {192, 4.8e-4}, {256, 2.7e-4}, {512, 6.8e-5}, {1024, 1.7e-5}})
    EXPECT_EQ(finetuning_rate(width), rate) << width;
  EXPECT_EQ(config.evaluation.every, std::nullopt);
}

TEST(ConfigText, StepsTakeThePlaceOfEpochs) {
  const RunConfig config =
      read("{task: {kind: tokens}, training: {steps: 7}, schedule: {warmup_steps: 2}}");
  EXPECT_EQ(config.training.steps, 7);
  EXPECT_EQ(config.training.epochs, std::nullopt);
  EXPECT_EQ(config.schedule.warmup_steps, 2);
  EXPECT_EQ(config.schedule.warmup_share, std::nullopt);
}

TEST(ConfigText, ATaskToldOfNoWarmUpTakesThatOfPretraining) {
  const RunConfig config = read("{task: {kind: tokens}, schedule: {warmup_share: null}}");
  EXPECT_EQ(config.schedule.warmup_steps, std::nullopt);
  EXPECT_EQ(config.schedule.warmup_share, std::nullopt);
}

TEST(ConfigText, EpochsAreRoundedUpToWholeSteps) {
  RunConfig config = read("training: {epochs: 1.5, batch_size: 32}");
  EXPECT_EQ(total_steps(config.training, 100), 5) << "150 sequences";
  config.evaluation.every.reset();
  EXPECT_EQ(evaluation_interval(config, 100), 4);
}

/// std::stod and others heed the decimal point of the locale that a caller has set.
TEST(ConfigNumbers, AreReadInEveryLocaleAlike) {
  for (const char* room : {"core", "autograd", "nn", "data", "train", "python"})
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(testing::source_folder() / room)) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") continue;
      const std::string text = read_bytes(entry.path());
      for (const char* name : {"std::stod", "std::stof", "strtod", "atof", "sscanf"})
        EXPECT_EQ(text.find(name + std::string("(")), text.npos) << entry.path() << ": " << name;
    }
}

/// The option paths that the rules in a source file list.
std::vector<std::string> options_of_rules(const char* file) {
  const std::string text = read_bytes(testing::source_folder() / file);
  const std::regex list(R"(found(?:, |\.push_back\(\s*\{)\{([^}]*)\})"),
      word(R"re("([a-z_.]*[a-z_])")re");
  std::vector<std::string> paths;
  for (std::sregex_iterator at(text.begin(), text.end(), list), end; at != end; ++at) {
    const std::string words = (*at)[1];
    for (std::sregex_iterator w(words.begin(), words.end(), word); w != end; ++w)
      paths.push_back((*w)[1]);
  }
  return paths;
}

TEST(ConfigRules, NameOptionsThatExist) {
  std::set<std::string> known = {"task"};
  RunConfig task;
  task.task.kind = TaskKind::tokens;
  for (const RunConfig& config : {RunConfig(), task})
    for (const auto& [path, value] : option_values(config)) known.insert(path);
  int count = 0;
  for (const auto& [file, prefix] : {std::pair("train/config/validation.cpp", ""),
                                     std::pair("data/tasks/task_problems.cpp", "task."),
                                     std::pair("nn/model_config.cpp", "model.")}) {
    for (const std::string& path : options_of_rules(file)) {
      EXPECT_TRUE(known.contains(prefix + path)) << file << ": " << path;
      ++count;
    }
  }
  EXPECT_GE(count, 70);
}

TEST(ConfigText, FeaturesGetTheirHead) {
  EXPECT_EQ(read("model: {norm: pre, embed_dim: 287, positions: none}").model.head, Head::none);
}

TEST(ConfigText, SegmentsAreOfTheLongestSequence) {
  EXPECT_EQ(read("{model: {max_position_embeddings: 1024}, data: {sequence_length: 1024}}")
                .model.segment_means_seq_len,
            1024);
}

TEST(ConfigOverrides, TheLastWins) { EXPECT_EQ(read("seed: 1", {"seed=2", "seed=3"}).seed, 3); }

TEST(ConfigOverrides, TakeLists) {
  EXPECT_EQ(read("seed: 1", {"optimizer.betas=[0.8, 0.95]"}).optimizer.betas,
            (std::vector<double>{0.8, 0.95}));
}

TEST(ConfigOverrides, AMappingLeavesOtherOptions) {
  const AttentionConfig attention =
      read("model: {attention: {conv_kernel_size: 5}}", {"model.attention={num_landmarks: 32}"})
          .model.attention;
  EXPECT_EQ(attention.num_landmarks, 32);
  EXPECT_EQ(attention.conv_kernel_size, 5);
}

TEST(ConfigOverrides, TakeLayers) {
  const RunConfig config = read("seed: 1", {"model.attention.layers={0-3: softmax, 11: linear}"});
  EXPECT_EQ(config.model.attention.layers,
            (LayerKinds{{"0-3", AttentionKind::softmax}, {"11", AttentionKind::linear}}));
  EXPECT_EQ(parse_resolved_config(to_yaml(config), "again.yaml").model.attention.layers,
            config.model.attention.layers);
}

TEST(ConfigOverrides, OfOneKeyLeaveTheOthers) {
  const std::vector<std::string> one = {"model.attention.layers.1=linear",
                                        "model.attention.layers.2=linear",
                                        "model.attention.layers.1=softmax"};
  EXPECT_EQ(read("model: {attention: {layers: {0: softmax}}}", one).model.attention.layers,
            (LayerKinds{{"0", AttentionKind::softmax},
                        {"1", AttentionKind::softmax},
                        {"2", AttentionKind::linear}}));
}

TEST(ModelOverrides, ChangeAModel) {
  ModelConfig model;
  const std::string semantics[] = {"model.attention.semantics=transformers"};
  override_model(model, "config.json", semantics);
  EXPECT_EQ(model.attention.semantics, Semantics::transformers);
}

TEST(Config, DefaultsFollowFromOtherOptions) {
  const auto model = [](const std::string& yaml) { return read(yaml).model; };
  for (const auto& [width, heads] :
       {std::pair(768, 12), {128, 2}, {256, 4}, {512, 8}, {1024, 16}, {100, 2}, {32, 1}, {7, 1}}) {
    const ModelConfig given = model(fmt::format("model: {{hidden_size: {}}}", width));
    EXPECT_EQ(given.num_attention_heads, heads) << width;
    EXPECT_EQ(given.intermediate_size, 4 * width);
  }
  EXPECT_EQ(model("data: {sequence_length: 2048}").max_position_embeddings, 2048);
  EXPECT_EQ(model("data: {sequence_length: 64}").max_position_embeddings, 512);
  const auto micro = [](const std::string& training) {
    const RunConfig config = read("training: {" + training + "}");
    return config.training.micro_batch_size;
  };
  EXPECT_EQ(micro(""), 32);
  EXPECT_EQ(micro("batch_size: 8"), 8);
  EXPECT_EQ(micro("batch_size: 48"), 24);
  EXPECT_EQ(micro("batch_size: 37"), 1);
  EXPECT_EQ(micro("batch_size: 48, micro_batch_size: 3"), 3);
  const ModelConfig features = model("task: {kind: features}");
  EXPECT_EQ(features.norm, Norm::pre);
  EXPECT_EQ(features.positions, Positions::none);
  // What is given is no default's to change, and refused.
  EXPECT_THROW(model("task: {kind: features}\nmodel: {norm: post}"), InputError);
}

TEST(Config, AFractionValidatesWhereNothingElseIsNamed) {
  EXPECT_EQ(read("data: {train: a.txt}").data.validation_fraction, 0.05);
  EXPECT_EQ(patterns_of(read("data: {train: a.txt}").data.train),
            std::vector<std::string>{"a.txt"});
  EXPECT_EQ(read("data: {validation: b.txt}").data.validation_fraction, std::nullopt);
  EXPECT_EQ(read("data: {train: a.txt, validation_fraction: null}").data.validation_fraction,
            std::nullopt);
  const RunConfig task = read("task: {kind: classification, train: a.tsv}");
  EXPECT_EQ(task.task.validation_fraction, 0.1);
  EXPECT_EQ(task.data.validation_fraction, std::nullopt);
  EXPECT_EQ(read("task: {kind: tokens, validation: b.tsv}").task.validation_fraction, std::nullopt);
  for (const char* parted : {"folds: 3", "splits: [s.csv]"}) {
    const std::string yaml = fmt::format(
        "model: {{norm: pre, positions: none, embed_dim: 4}}\n"
        "task: {{kind: features, train: a.csv, {}}}",
        parted);
    EXPECT_EQ(read(yaml).task.validation_fraction, std::nullopt) << parted;
  }
}

TEST(ModelOverrides, CheckTheResult) {
  ModelConfig model;
  const std::string heads[] = {"model.num_attention_heads=5"};
  EXPECT_EQ(input_error([&] { override_model(model, "config.json", heads); }),
            "--set model.num_attention_heads=5: model.hidden_size 768 is not divisible by "
            "num_attention_heads 5; each head takes an equal share of the width");
}

/// A visitor that gives one option another value: the `target`-th in the order of the fields.
struct OptionChanger {
  std::size_t target, at = 0;
  std::string changed = {};  // the name of that option

  template <class T, class... Ranges>
  void operator()(T& member, const char* name, const char*, const Ranges&...) {
    if constexpr (Section<T>) {
      fields(*this, member);
    } else if (at++ == target) {
      changed = name;
      change(member);
    }
  }

  static void change(bool& value) { value = !value; }
  static void change(std::string& value) { value += "\"ä b\"\n\\: #"; }
  static void change(double& value) { value = value == 0 ? 0.1 + 0.2 : value / 3; }
  static void change(Ramp& value) { change(value.points[0].second); }
  template <std::integral T>
  static void change(T& value) {
    value += 8;
  }
  template <class T>
  requires std::is_enum_v<T>
  static void change(T& value) {
    const auto names = enum_names(value);
    value = names[0].value == value ? names[1].value : names[0].value;
  }
  template <class T>
  static void change(std::optional<T>& value) {
    T changed = value.value_or(T());
    change(changed);
    value = changed;
  }
  template <class T>
  static void change(std::vector<std::pair<std::string, T>>& mapping) {
    mapping.emplace_back("1", T());
    change(mapping.back().second);
  }
  template <Section T>
  static void change(T& section) {
    auto each = [](auto& member, const char*, const char*, const auto&...) { change(member); };
    fields(each, section);
  }
  template <class T>
  static void change(std::vector<T>& list) {
    const bool was_empty = list.empty();
    if (was_empty) list.emplace_back();
    if (!was_empty || Section<T>)
      for (T& value : list) change(value);
  }
};

/// The error in reading back what was written of a configuration; "" if it is the same.
std::string round_trip_error(const RunConfig& config) {
  const std::string text = to_yaml(config);
  try {
    return to_yaml(parse_resolved_config(text, "written.yaml")) == text ? "" : "is read otherwise";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(ConfigRoundTrip, KeepsEveryOption) {
  for (std::size_t target = 0;; ++target) {
    std::string changed;
    std::vector<std::string> errors;
    for (const std::optional<TaskKind> kind :
         {std::optional<TaskKind>(), {TaskKind::classification}, {TaskKind::embeddings}}) {
      RunConfig config;
      config.task.kind = kind;
      OptionChanger changer{target};
      fields(changer, config);
      changed = changer.changed;
      errors.push_back(round_trip_error(config));
    }
    if (changed.empty()) break;
    // The other value may break a rule, whose message names the option.
    const bool kept = std::ranges::any_of(errors, [&](const std::string& error) {
      return error.empty() || error.find(changed) != error.npos;
    });
    EXPECT_TRUE(kept) << changed << ": " << fmt::format("{}", fmt::join(errors, "; "));
  }
}

TEST(ConfigRoundTrip, KeepsGroupsAndLengths) {
  RunConfig config;
  config.optimizer.groups = {{"*.conv.weight", 10, 0.0}, {"a: [b]*", 1, std::nullopt, true}};
  config.data.length_schedule = {{"0", 128}, {"700", 512}};
  const RunConfig read = parse_resolved_config(to_yaml(config), "written.yaml");
  ASSERT_EQ(read.optimizer.groups.size(), 2U);
  EXPECT_EQ(read.optimizer.groups[0].learning_rate_factor, 10);
  EXPECT_EQ(read.optimizer.groups[0].weight_decay, 0.0);
  EXPECT_EQ(read.optimizer.groups[1].parameters, "a: [b]*");
  EXPECT_TRUE(read.optimizer.groups[1].freeze);
  EXPECT_EQ(read.data.length_schedule, config.data.length_schedule);
}

TEST(Stages, AreOfLengthsAndBatches) {
  RunConfig config;
  config.data.sequence_length = 512;
  config.data.length_schedule = {{"0", 128}, {"700", 512}};
  config.training.batch_size = 64;
  config.training.batch_schedule = {{"0", 16}, {"100", 32}, {"700", 64}};
  std::vector<std::vector<std::int64_t>> found;
  const auto collect = [&] {
    found.clear();
    for (const Stage& s : stages_of(config))
      found.push_back({s.begin, s.length, s.sequences, s.first});
  };
  collect();
  using Rows = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(found, (Rows{{0, 128, 64, 0}, {100, 128, 128, 6400}, {700, 512, 64, 0}}));
  config.training.batch_schedule = {{"0", 32}, {"900", 64}};
  collect();
  EXPECT_EQ(found, (Rows{{0, 128, 128, 0}, {700, 512, 32, 0}, {900, 512, 64, 6400}}));
  config.data.length_schedule.clear();
  collect();
  EXPECT_EQ(found, (Rows{{0, 512, 32, 0}, {900, 512, 64, 28800}}));
}

TEST(Stages, MakeTheStepsOfEpochs) {
  TrainingConfig training;
  training.steps = std::nullopt;
  training.batch_size = 8;
  training.batch_schedule = {{"0", 2}, {"10", 4}, {"20", 8}};
  for (const auto& [epochs, steps] :
       {std::pair(0.1, 5), {0.2, 10}, {0.21, 11}, {0.6, 20}, {1.0, 25}}) {
    training.epochs = epochs;
    EXPECT_EQ(total_steps(training, 100), steps) << epochs;
  }
  RunConfig config;
  config.training = training;
  config.evaluation.every = std::nullopt;
  EXPECT_EQ(evaluation_interval(config, 100), 25);
}

TEST(TotalSteps, OfAShareOfAnEpochAreNotRoundedUpTwice) {
  TrainingConfig training;
  training.steps = std::nullopt;
  training.batch_size = 11;
  training.epochs = 1.1;  // times 110 that is 121.00000000000001
  EXPECT_EQ(total_steps(training, 110), 11);
}

TEST(ConfigRoundTrip, KeepsNumbersThatChangeWithTheSteps) {
  RunConfig config;
  expect_says(to_yaml(config), "probability: 0.15");
  config.masking.probability.points = {{"0", 0.3}, {"700", 0.2}, {"end", 0.15}};
  const RunConfig read = parse_resolved_config(to_yaml(config), "written.yaml");
  EXPECT_EQ(read.masking.probability, config.masking.probability);
  const std::string exponents =
      "masking: {probability: {0: 0.3, 7e2: 0.2, end: 0.15}}\n"
      "training: {batch_schedule: {0: 8, 7e2: 32}}";
  const RunConfig other = parse_config(exponents, "run.yaml", start_defaults);
  EXPECT_EQ(other.masking.probability, read.masking.probability);
  EXPECT_EQ(other.training.batch_schedule, (StepSchedule{{"0", 8}, {"700", 32}}));
}

TEST(ConfigRoundTrip, KeepsExtremeNumbers) {
  RunConfig config;
  config.seed = 9223372036854775807;
  config.model.initializer_range = 1e-300;
  config.optimizer.learning_rate = 1e10;
  config.optimizer.weight_decay = 5e-324;
  const RunConfig read = parse_resolved_config(to_yaml(config), "written.yaml");
  EXPECT_EQ(read.seed, config.seed);
  EXPECT_EQ(read.model.initializer_range, config.model.initializer_range);
  EXPECT_EQ(read.optimizer.learning_rate, config.optimizer.learning_rate);
  EXPECT_EQ(read.optimizer.weight_decay, config.optimizer.weight_decay);
}

TEST(ConfigRoundTrip, WritesOptionsUnderTheirSections) {
  EXPECT_TRUE(
      to_yaml({}).starts_with("run_dir: runs/base\nseed: 42\nmodel:\n  from: null\n  fresh_head: "
                              "false\n  vocab_size: 30000\n"))
      << to_yaml({});
}

TEST(ConfigFile, OfMoreThanAMegabyteIsAnError) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "large.yaml").string();
  std::ofstream(path) << std::string(3 << 20, '#');
  EXPECT_EQ(input_error([&] { config_file(path); }),
            path + ": the file has 3145728 bytes; at most 1048576 are read");
}

}  // namespace
}  // namespace nystrom
