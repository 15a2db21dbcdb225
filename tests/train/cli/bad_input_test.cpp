// All errors that a user can make, through the program. Each gives one exact line and exit code 2,
// and leaves nothing behind.
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/fixtures.h"
#include "tests/support/named.h"
#include "tests/support/program_test.h"
#include "tests/support/tiny_checkpoint.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

fs::path model_folder() { return fixture_folder() / "hf" / "mlm_exact_padded"; }

/// Creates a fixture (`model`, `batch.safetensors`) and broken copies of it.
void furnish_models(const TemporaryFolder& folder) {
  fs::create_directory_symlink(model_folder(), folder / "model");
  fs::copy_file(model_folder() / "batch.safetensors", folder / "batch.safetensors");
  for (const char* name : {"weightless", "truncated", "occupied", "tmp"})
    fs::create_directory(folder / name);
  for (const char* name : {"weightless", "truncated"})
    fs::copy_file(model_folder() / "config.json", folder / name / "config.json");
  const std::string weights = read_bytes(model_folder() / "model.safetensors");
  write_bytes(folder / "truncated" / "model.safetensors", weights.substr(0, weights.size() - 1));
}

/// Creates a valid run, `run.yaml` with `text.txt`, and files that are not valid.
void furnish_run(const TemporaryFolder& folder) {
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += "the sea was calm and the old ships sailed home under pale stars\n";
  write_bytes(folder / "text.txt", text);
  write_bytes(folder / "latin1.txt", "caf\xe9\n");
  write_bytes(folder / "empty.txt", "");
  write_bytes(folder / "fake.gz", "not gzip");
  write_bytes(folder / "run.yaml",
              "model: {hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, "
              "intermediate_size: 32, max_position_embeddings: 32,\n"
              "        attention: {num_landmarks: 4}}\n"
              "tokenizer: {train: {vocab_size: 26}}\n"
              "data: {train: [text.txt], validation_fraction: 0.1, documents: lines, "
              "sequence_length: 32, cache: occupied}\n"
              "schedule: {warmup_steps: 1}\n"
              "training: {steps: 2, batch_size: 4, micro_batch_size: 4, dtype: f32}\n");
  write_bytes(folder / "two_errors.yaml", "sead: 1\nmodel: {hidden_size: -4}\n");
}

/// The folder of a model with its tokenizer, created once for all tests.
fs::path base_model() {
  struct Made {
    fs::path path =
        fs::path(::testing::TempDir()) / ("nystrom-bad-input-" + std::to_string(::getpid()));
    Made() { TinyCheckpoint made(path); }
    ~Made() { fs::remove_all(path); }
  };
  static const Made made;
  return made.path;
}

/// Creates a valid task, `task.yaml` with `train.tsv`, a model to start from, `base`, and a file
/// with unknown labels, `other.tsv`.
void furnish_task(const TemporaryFolder& folder) {
  fs::create_directory_symlink(base_model(), folder / "base");
  write_bytes(folder / "train.tsv", "sentence\tlabel\nthe sea\twater\nold men\tpeople\n");
  write_bytes(folder / "other.tsv", "sentence\tlabel\nthe stars\tsky\n");
  write_bytes(folder / "two.jsonl",
              "{\"text\": \"the sea\", \"endings\": [\"was calm\", \"sang\"], \"label\": 0}\n");
  write_bytes(
      folder / "three.jsonl",
      "{\"text\": \"the sea\", \"endings\": [\"was calm\", \"sang\", \"sailed\"], \"label\": 0}\n");
  write_bytes(folder / "image.bin", std::string(3073, '\0') + std::string(3073, '\1'));
  write_bytes(folder / "base.yaml", "model: {from: base}\nrun_dir: tuned\n");
  write_bytes(folder / "task.yaml",
              "model: {from: base}\nrun_dir: tuned\n"
              "task: {kind: classification, train: [train.tsv], validation: [train.tsv], columns: "
              "{text: sentence, label: label}}\n");
}

struct Case : Named {
  const char* arguments;
  const char* message;  // after "nystrom: "
};

#define COMMANDS                                                                           \
  "doctor, config, check, prepare, pretrain, finetune, evaluate, predict, embed, search, " \
  "export, extend, convert, listops, info, forward, bench, approximation, "                \
  "report, cache"
#define FORWARD "forward model --quiet --input batch.safetensors --output out.safetensors "
#define PREPARE "prepare run.yaml --quiet --set "
#define PRETRAIN "pretrain run.yaml --quiet --set "

const Case command_lines[] = {
    {"no_command", "", "no command given; expected one of " COMMANDS "; see nystrom --help"},
    {"unknown_command", "forwrd",
     "unknown command forwrd; did you mean 'forward'?; expected one of " COMMANDS
     "; see nystrom --help"},
    {"unknown_option_of_program", "--bogus", "unknown option --bogus; see nystrom --help"},
    {"unknown_shell", "--completion tcsh",
     "--completion tcsh: unknown shell; expected bash, zsh, fish"},
    {"overrides_of_the_doctor", "doctor --set seed=1",
     "unknown option --set; see nystrom doctor --help"},
    {"seeds_beside_folds", "finetune run.yaml --seeds 2 --folds all",
     "--seeds excludes --folds; see nystrom finetune --help"},
    {"batch_beside_tokens_of_a_benchmark", "bench --batch 7 --tokens 64 --length 32",
     "--batch excludes --tokens; see nystrom bench --help"},
    {"training_options_of_a_benchmark", "bench --set training.steps=8",
     "--set training.steps=8: unknown key 'training'; expected one of model"},
    {"task_of_masks", "predict base 'the [MASK]' --set task.kind=classification",
     "--set task.kind=classification: a masked language model has no task; only options of model "
     "and data.text_column apply"},
    {"other_option_of_masks_in_a_mapping",
     "predict base 'the [MASK]' --set 'data={text_column: a, documents: lines}'",
     "--set data={text_column: a, documents: lines}: a masked language model has no task; only "
     "options of model and data.text_column apply"},
    {"configuration_of_masks", "predict base 'the [MASK]' --config task.yaml",
     "--config: a masked language model has no task; leave it out"},
    {"configuration_of_a_text", "evaluate base --text text.txt --config task.yaml",
     "--config requires --file; see nystrom evaluate --help"},
    {"no_shell", "--completion",
     "--completion: 1 required {bash,zsh,fish} missing; see nystrom --help"},
    {"unknown_option_with_a_value", "--bogus=1", "unknown option --bogus; see nystrom --help"},
    {"report_of_nothing", "report absent",
     "absent: no such folder; expected the run_dir of nystrom pretrain or finetune"},
    {"report_of_a_file", "report run.yaml",
     "run.yaml: is no folder; expected the run_dir of nystrom pretrain or finetune"},
    {"report_of_another_folder", "report model",
     "model: holds no run (no config.yaml); expected the run_dir of nystrom pretrain or finetune"},
    {"comparison_with_no_run", "report occupied model",
     "occupied: holds no run (no config.yaml); expected the run_dir of nystrom pretrain or "
     "finetune"},
    {"text_for_several_reports", "report occupied model --text [MASK]",
     "--text: goes with one run"},
    {"overrides_of_a_report", "report occupied --set seed=1",
     "unknown option --set; see nystrom report --help"},
    {"mistyped_file", "predict base nofile.tsv",
     "nofile.tsv: no such file or folder; --as-text takes it for a text"},
    {"mistyped_file_among_texts", "predict base 'the [MASK]' absent/texts.jsonl.zst",
     "absent/texts.jsonl.zst: no such file or folder; --as-text takes it for a text"},
    {"mistyped_folder", "predict base inbo/",
     "inbo/: no such file or folder; --as-text takes it for a text"},
    {"pattern_of_texts", "predict base 'inbox/**'",
     "inbox/**: no such file or folder; a shell expands patterns without quotes; --as-text takes "
     "it for a text"},
    {"standard_input", "predict base -",
     "-: texts are not read from standard input; give texts or files, or --as-text"},
    {"folder_as_text", "predict base base",
     "base: is a folder, and a masked language model fills masks line by line; give a text, or the "
     "name of a file; --as-text takes it for a text"},
    {"empty_text", "predict base ''", "TEXT is empty; give a text, or the name of a file"},
    {"rules_named_twice", "approximation matrices --landmarks first means first",
     "--landmarks: first is named twice; name each once"},
    {"inverses_named_twice", "approximation matrices --inverse exact exact",
     "--inverse: exact is named twice; name each once"},
    {"kinds_named_twice", "approximation cost --kinds nystrom nystrom",
     "--kinds: nystrom is named twice; name each once"},
    {"study_into_a_file", "approximation matrices --trials 100000 --length 1024 --output run.yaml",
     "run.yaml: is no folder; name another place"},
    {"study_below_a_file", "approximation cost --longest 1048576 --output run.yaml/study",
     "run.yaml: is no folder; name another place"},
    {"study_of_a_model_into_a_file", "approximation model base text.txt --output run.yaml",
     "run.yaml: is no folder; name another place"},
    {"no_study", "approximation", "A subcommand is required; see nystrom approximation --help"},
    {"unknown_study", "approximation matrixes",
     "unexpected argument matrixes; did you mean 'matrices'?; see nystrom approximation --help"},
    {"unknown_option_of_a_study", "approximation matrices --kernl raw",
     "unknown option --kernl; did you mean '--kernel'?; see nystrom approximation matrices --help"},
    {"iterative_inverse_of_raw_scores", "approximation matrices --inverse iterative",
     "--inverse iterative needs --kernel softmax: its first step is scaled for matrices whose rows "
     "sum to 1"},
    {"overrides_of_a_study", "approximation cost --set model.hidden_size=3",
     "unknown option --set; see nystrom approximation cost --help"},
    {"lengths_of_a_study", "approximation cost --shortest 64 --longest 32",
     "--shortest 64 is more than --longest 32"},
    {"nothing_to_show", "config",
     "config needs exactly one of RECIPE, --list, --explain KEY, --schema, --markdown; got 0; see "
     "nystrom config --help"},
    {"two_things_to_show", "config small --list",
     "config needs exactly one of RECIPE, --list, --explain KEY, --schema, --markdown; got 2; see "
     "nystrom config --help"},
    {"unknown_recipe", "config smal",
     "unknown recipe smal; did you mean 'small'?; expected one of quickstart, small, overnight, "
     "base, base-1024, base-2048, base-4096, modern-small, modern-base, warm-start, sst2, "
     "long-document, ner, squad, features, bags, embeddings, lra-listops, lra-text, lra-retrieval, "
     "lra-image, lra-pathfinder"},
    {"unknown_key_to_explain", "config --explain training.batch_sise",
     "unknown option training.batch_sise; did you mean 'training.batch_size'?; nystrom config "
     "--markdown lists all"},
    {"unknown_option", FORWARD "--bogus", "unknown option --bogus; see nystrom forward --help"},
    {"misspelt_option", "forward model --inptu batch.safetensors --output o",
     "unknown option --inptu; did you mean '--input'?; see nystrom forward --help"},
    {"surplus_argument", "info model other", "unexpected argument other; see nystrom info --help"},
    {"no_model", "forward --input batch.safetensors --output o",
     "MODEL is required; see nystrom forward --help"},
    {"no_input", "forward model --output o", "--input is required; see nystrom forward --help"},
    {"type", FORWARD "--dtype f8",
     "--dtype: f8 not in {f32,bf16,f16,f64}; see nystrom forward --help"},
    {"f16_without_a_gpu", FORWARD "--quiet --dtype f16",
     "f16 is computed only on GPUs; use bf16 or f32, or --device cuda"},
    {"gradients_in_f16", FORWARD "--quiet --grad --dtype f16",
     "--grad: f16 holds no small gradients; use --dtype bf16 or f32"},
    {"bench_of_f16_without_a_gpu", "bench --dtype f16",
     "f16 is computed only on GPUs; use bf16 or f32, or --device cuda"},
    {"unknown_device", FORWARD "--device tpu",
     "--device tpu: unknown device; expected cpu, cuda or cuda:N"},
    {"bench_heads", "bench --hidden 100 --heads 12",
     "bench: model.hidden_size 100 is not divisible by num_attention_heads 12; each head "
     "takes an equal share of the width"},
    {"bench_convolution", "bench --conv 4",
     "bench: model.attention.conv_kernel_size is 4; expected an odd whole number at least 1"},
    {"bench_vocabulary", "bench --set model.vocab_size=4",
     "--set model.vocab_size=4: bench reads random tokens, of a vocabulary of at least 5; leave it "
     "out"},
    {"bench_of_features",
     "bench --mode encode --set model.embed_dim=4 --set model.norm=pre --set model.positions=none",
     "--set model.embed_dim=4: bench reads random tokens, of a vocabulary of at least 5; leave it "
     "out"},
    {"attention_of_an_export", "export model new --attention linear",
     "--attention: linear not in {softmax}; see nystrom export --help"},
    {"format_of_an_export", "export model new --format onnx",
     "--format: onnx not in {auto,nystrom,transformers,bert,camembert,distilbert,electra,"
     "modernbert,roberta,xlm-roberta}; see nystrom export --help"},
    {"bench_steps", "bench --steps 0",
     "--steps: Value 0 not in range 1 to 2147483648; see nystrom bench --help"},
};

const Case models[] = {
    {"no_folder", "forward absent --input batch.safetensors --output o",
     "absent: no such folder; expected a Hugging Face folder, a run directory or a checkpoint; a "
     "model of the hub is fetched by: hf download absent"},
    {"no_yaml", "info absent.yaml", "absent.yaml: cannot open: No such file or directory"},
    {"no_config", "info occupied",
     "occupied: holds neither config.json nor checkpoints; expected a Hugging Face folder, a run "
     "directory or a checkpoint"},
    {"no_weights", "forward weightless --quiet --input batch.safetensors --output o",
     "weightless: has none of model.safetensors, model.safetensors.index.json, pytorch_model.bin "
     "and pytorch_model.bin.index.json"},
    {"truncated_weights", "forward truncated --quiet --input batch.safetensors --output o",
     "truncated/model.safetensors: tensor nystromformer.encoder.layer.1.output.dense.weight ends "
     "at byte 20640 of the data, but the file has only 20639: it is cut short"},
    {"no_batch", "forward model --quiet --input absent.safetensors --output o",
     "absent.safetensors: cannot open: No such file or directory"},
    {"no_output_folder", "forward model --quiet --input batch.safetensors --output absent/o",
     "absent/o: cannot create: No such file or directory"},
    {"output_is_a_folder", "forward model --quiet --input batch.safetensors --output occupied",
     "occupied: exists already; remove it, or give --output another name"},
    {"unknown_key", FORWARD "--set model.attention.landmarks=3",
     "--set model.attention.landmarks=3: unknown key 'model.attention.landmarks'; expected one of "
     "kind, layers, window, window_layers, semantics, num_landmarks, landmark_source, inverse, "
     "inverse_iterations, conv_kernel_size, num_features, projected_length, projection_sharing, "
     "num_hashes, bucket_size, random_seed"},
    {"no_key", FORWARD "--set foo",
     "--set foo: expected key=value, such as optimizer.learning_rate=3e-4"},
};

const Case configurations[] = {
    {"an_argument_behind_values", "evaluate --text a.txt model --quiet",
     "MODEL is required; --text takes the words behind it: put arguments in front of it; see "
     "nystrom "
     "evaluate --help"},
    {"no_configuration", "pretrain", "CONFIG is required; see nystrom pretrain --help"},
    {"absent_configuration", "pretrain absent.yaml",
     "absent.yaml: cannot open: No such file or directory"},
    {"folder_as_configuration", "pretrain occupied", "occupied: is not a regular file"},
    {"text_as_configuration", "pretrain text.txt",
     "text.txt:1:1: got 'the sea was calm and the old ships sailed home under pale stars the sea "
     "was calm…', expected sections such as 'model:'"},
    {"several_errors", "pretrain two_errors.yaml",
     "two_errors.yaml:1:1: unknown key 'sead'; did you mean 'seed'?\n"
     "two_errors.yaml:2:22: model.hidden_size: got '-4', expected a whole number at least 1"},
    {"run_of_f16_without_a_gpu", PRETRAIN "training.dtype=f16",
     "training.dtype: f16 is computed only on GPUs; use bf16 or f32, or --device cuda"},
    {"zero_and_lamb", PRETRAIN "training.zero=1 --set optimizer.name=lamb",
     "--set optimizer.name=lamb: training.zero 1 and optimizer.name lamb exclude each other; lamb "
     "needs whole parameters: set training.zero to 0, or optimizer.name to adamw"},
    {"generator", PRETRAIN "pretraining.generator.hidden_size=7",
     "--set pretraining.generator.hidden_size=7: pretraining.generator.hidden_size is for "
     "pretraining.objective replaced_tokens; leave it out"},
    {"discriminator_of_swapped_text",
     PRETRAIN "pretraining.objective=replaced_tokens --set masking.sentence_order=true",
     "--set masking.sentence_order=true: pretraining.objective replaced_tokens and "
     "masking.sentence_order exclude each other; its head beside it is that of a masked language "
     "model"},
    {"texts_that_a_discriminator_does_not_fill",
     PRETRAIN "pretraining.objective=replaced_tokens --set 'logging.fill_masks=[\"a [MASK]\"]'",
     "logging.fill_masks is for pretraining.objective masked; leave it out"},
    {"masking_beyond_the_run", PRETRAIN "'masking.probability={0: 0.3, 5: 0.15}'",
     "--set masking.probability={0: 0.3, 5: 0.15}: masking.probability reaches step 5 of a run of "
     "2; begin earlier, or write end"},
    {"masking_of_a_wrong_share", PRETRAIN "'masking.probability={0: 0.3, end: 2}'",
     "--set masking.probability={0: 0.3, end: 2}: masking.probability.end: got '2', expected a "
     "number greater than 0 and at most 1"},
    {"spans_cut", PRETRAIN "'masking.span={mean: 12}'",
     "--set masking.span={mean: 12}: masking.span.mean 12 exceeds masking.span.max 10; most spans "
     "would be cut: raise max"},
    {"order_across_documents",
     PRETRAIN "masking.sentence_order=true --set data.cross_documents=true",
     "--set data.cross_documents=true: masking.sentence_order and data.cross_documents exclude "
     "each other; both segments come from one document"},
    {"isolated_across_documents", PRETRAIN "data.packing=isolated --set data.cross_documents=true",
     "--set data.cross_documents=true: data.packing isolated and "
     "data.cross_documents exclude each other; isolated pieces are each of one document"},
    {"order_of_isolated_pieces", PRETRAIN "data.packing=isolated --set masking.sentence_order=true",
     "--set masking.sentence_order=true: data.packing isolated and "
     "masking.sentence_order exclude each other; the order is predicted for a whole sequence"},
    {"order_without_types", PRETRAIN "masking.sentence_order=true --set model.type_vocab_size=1",
     "--set model.type_vocab_size=1: masking.sentence_order needs model.type_vocab_size 2, got 1; "
     "each segment has a type of its own"},
    {"causal", PRETRAIN "model.causal=true",
     "--set model.causal=true: unknown key 'model.causal'; a causal Nyström model cannot be built: "
     "landmarks are means over the whole sequence, so every position would see the future"},
    {"vast", PRETRAIN "model.hidden_size=4000000000",
     "--set model.hidden_size=4000000000: model.hidden_size 4000000000, intermediate_size 32, "
     "num_hidden_layers 1, vocab_size 26, the lengths of tables and the widths of projections make "
     "about 6.4e+19 parameters; expected at most 1e+13: lower them"},
    {"long_sequences", PRETRAIN "data.sequence_length=64",
     "--set data.sequence_length=64: data.sequence_length 64 exceeds model.max_position_embeddings "
     "32; shorten the sequences or enlarge the model's position table"},
    {"two_validations", PRETRAIN "'data.validation=[text.txt]'",
     "--set data.validation=[text.txt]: data.validation_fraction and data.validation exclude each "
     "other; give one of them"},
    {"no_validation", PRETRAIN "data.validation_fraction=null",
     "data.validation is empty; name held-out text files, or set data.validation_fraction, such as "
     "0.01"},
    {"run_in_a_file", PRETRAIN "run_dir=text.txt/run",
     "text.txt: is no folder; name another place"},
    {"run_in_a_foreign_folder", PRETRAIN "run_dir=weightless",
     "weightless: is not empty and holds no run; choose another run_dir"},
    {"group_without_match", PRETRAIN "'optimizer.groups=[{parameters: \"*.convolution.weight\"}]'",
     "optimizer.groups[0].parameters '*.convolution.weight' matches no parameter of the model; "
     "nystrom info lists the names, such as cls.predictions.bias"},
    {"group_of_another_rate",
     PRETRAIN "'optimizer.groups=[{parameters: \"*\", learning_rate_factor: -1}]'",
     "--set optimizer.groups=[{parameters: \"*\", learning_rate_factor: -1}]: "
     "optimizer.groups[0].learning_rate_factor: got '-1', expected a number greater than 0"},
    {"group_of_negative_decay",
     PRETRAIN "'optimizer.groups=[{parameters: \"*\", weight_decay: -0.1}]'",
     "--set optimizer.groups=[{parameters: \"*\", weight_decay: -0.1}]: "
     "optimizer.groups[0].weight_decay: got '-0.1', expected a number at least 0, or null"},
    {"group_with_another_option", PRETRAIN "'optimizer.groups=[{parameters: \"*\", rate: 2}]'",
     "--set optimizer.groups=[{parameters: \"*\", rate: 2}]: unknown key "
     "'optimizer.groups[0].rate'; expected one of parameters, learning_rate_factor, weight_decay, "
     "freeze"},
    {"groups_as_a_mapping", PRETRAIN "'optimizer.groups={parameters: \"*\"}'",
     "--set optimizer.groups={parameters: \"*\"}: optimizer.groups: got a mapping, expected a list "
     "such as [a, b]"},
    {"lengths_without_steps", PRETRAIN "'data.length_schedule={soon: 16}'",
     "data.length_schedule 'soon' is no number of steps; "
     "expected whole numbers, as in {0: 16, 300: 32}"},
    {"lengths_from_later", PRETRAIN "'data.length_schedule={1: 32}'",
     "data.length_schedule begins after 1 steps; give the "
     "number of the first ones, as in {0: 32, …}"},
    {"lengths_of_half_steps", PRETRAIN "'data.length_schedule={0: 8, 1: 16, 1.5: 32}'",
     "data.length_schedule '1.5' is no number "
     "of steps; expected whole numbers, as in {0: 16, 300: 32}"},
    {"lengths_of_descending_steps",
     PRETRAIN "'data.length_schedule={0: 8, 9: 16, 5: 32}' --set training.steps=20",
     "data.length_schedule has 5 after 9; its steps must ascend"},
    {"lengths_that_fall", PRETRAIN "'data.length_schedule={0: 32, 1: 32}'",
     "data.length_schedule 1: 32 is not more than 32 before; its numbers must grow"},
    {"lengths_that_end_short", PRETRAIN "'data.length_schedule={0: 8, 1: 16}'",
     "data.length_schedule ends with 16, but data.sequence_length is 32; make them equal"},
    {"lengths_that_do_not_divide", PRETRAIN "'data.length_schedule={0: 12, 1: 32}'",
     "data.length_schedule 0: 12 does not divide data.sequence_length 32"},
    {"lengths_after_the_end", PRETRAIN "'data.length_schedule={0: 16, 2: 32}'",
     "data.length_schedule reaches 32 after 2 "
     "steps, but training.steps is 2; begin earlier, or give more steps"},
    {"batches_that_do_not_divide",
     PRETRAIN "training.batch_size=8 --set 'training.batch_schedule={0: 3, 1: 8}'",
     "training.batch_schedule 0: 3 does not divide training.batch_size 8"},
    {"batches_of_parts_of_a_sequence",
     PRETRAIN "'training={batch_size: 8, micro_batch_size: 2, batch_schedule: {0: 2, 1: 8}}'",
     "training.batch_schedule 0: 2 is 1/4 of batch_size 8, and so are its micro-batches, but "
     "training.micro_batch_size 2 is not divisible by 4"},
    {"no_teacher", PRETRAIN "distillation.logits=2",
     "--set distillation.logits=2: distillation.logits is for a distillation.teacher, which is "
     "null; "
     "leave it out"},
    {"teacher_of_another_tokenizer", PRETRAIN "distillation.teacher=model",
     "distillation.teacher needs a run with the teacher's tokenizer; name its folder in "
     "tokenizer.path"},
    {"teacher_without_weight",
     PRETRAIN "'distillation={teacher: model, logits: 0, attention_output: 0}'",
     "--set distillation={teacher: model, logits: 0, attention_output: 0}: distillation.logits and "
     "distillation.attention_output are both 0; give one of them a weight, or leave the teacher "
     "out"},
    {"teacher_of_sentence_order",
     PRETRAIN "distillation.teacher=model --set masking.sentence_order=true",
     "--set masking.sentence_order=true: distillation.teacher and masking.sentence_order exclude "
     "each other; the teacher reads the text in its order"},
    {"negative_threads", "pretrain run.yaml --threads -1",
     "--threads: Value -1 not in range 0 to 4096; see nystrom pretrain --help"},
};

const Case texts[] = {
    {"folder", PREPARE "'data.train=[occupied]'",
     "data.train: 'occupied' is a folder; name the files in it, as in 'occupied/*.txt', or all "
     "below it: 'occupied/**'"},
    {"latin1", PREPARE "'data.train=[latin1.txt]'",
     "tokenizer: there is no text to train on (1 files, 0 bytes, 0 documents; left out: 1 not "
     "UTF-8 (first: latin1.txt:1))"},
    {"gzip", PREPARE "'data.train=[fake.gz]'",
     "fake.gz: not valid gzip data (incorrect header check); unpack it by hand or make it anew"},
    {"small_vocabulary", PREPARE "tokenizer.train.vocab_size=16",
     "tokenizer: vocab_size 16 is smaller than the 22 characters and special tokens of the text; "
     "raise it"},
    {"no_tokenizer", PREPARE "tokenizer.path=absent",
     "tokenizer.path: absent: no such file or folder"},
    {"cache_in_a_file", PREPARE "data.cache=text.txt/cache",
     "data.cache: text.txt: is no folder; name another place"},
};

#define FINETUNE "finetune task.yaml --quiet --set "

const Case tasks[] = {
    {"no_task", "finetune base.yaml --quiet",
     "task names neither recipe nor kind; name one, such as task: {kind: classification, …}"},
    {"texts_and_a_task_for_pretraining", "pretrain task.yaml --quiet --set 'data.train=[text.txt]'",
     "data.train is for text files to pretrain on, and section task names the files here; leave it "
     "out"},
    {"batches_of_a_task", FINETUNE "'training.batch_schedule={0: 1, 1: 2}'",
     "training.batch_schedule is for pretraining, and a task learns from its labels; leave it out"},
    {"fraction_of_texts_beside_a_task", FINETUNE "data.validation_fraction=0.2",
     "data.validation_fraction is for text files to pretrain on, and section task names the files "
     "here; leave it out"},
    {"batch_beyond_all_text", PRETRAIN "training.batch_size=288230376151711744",
     "--set training.batch_size=288230376151711744: training.batch_size 288230376151711744, "
     "data.sequence_length 32 and the steps make about 1.8e+19 tokens; expected at most 1e+18: "
     "lower them"},
    {"steps_beyond_all_text", PRETRAIN "'data.length_schedule={0: 16, 9223372036854775807: 32}'",
     "--set data.length_schedule={0: 16, 9223372036854775807: 32}: training.batch_size 4, "
     "data.sequence_length 32 and the steps make about 1.2e+21 tokens; expected at most 1e+18: "
     "lower them"},
    {"masks_of_a_task", FINETUNE "masking.probability=0.3",
     "masking.probability is for pretraining, and a task learns from its labels; leave it out"},
    {"words_that_a_task_does_not_mask", FINETUNE "masking.whole_word=true",
     "masking.whole_word is for pretraining, and a task learns from its labels; leave it out"},
    {"texts_that_a_task_does_not_fill", FINETUNE "'logging.fill_masks=[\"a [MASK]\"]'",
     "logging.fill_masks is for pretraining, and a task learns from its labels; leave it out"},
    {"pooling_of_words", FINETUNE "model.pooling=mean --set task.kind=tokens",
     "model.pooling mean is of heads that read one vector of a text, which a task of kind tokens "
     "has not; leave it out"},
    {"pooling_of_vectors", FINETUNE "model.pooling=mean --set task.kind=embeddings",
     "model.pooling mean is of heads that read one vector of a text, which a task of kind "
     "embeddings has not; set model.embedding.pooling"},
    {"new_head_of_a_new_model", PRETRAIN "model.fresh_head=true",
     "--set model.fresh_head=true: model.fresh_head is for a model that starts from a folder, and "
     "model.from is null; name one, or leave it out"},
    {"option_of_a_task_without_one", PRETRAIN "task.stride=3",
     "section task has options, but names neither kind nor recipe; name one, or leave it out"},
    {"option_of_questions", FINETUNE "task.max_answer_length=3",
     "--set task.max_answer_length=3: task.max_answer_length is for tasks of kind questions; this "
     "one is of kind classification"},
    {"option_of_vectors", FINETUNE "task.max_score=5",
     "--set task.max_score=5: task.max_score is for tasks of kind embeddings; this one is of kind "
     "classification"},
    {"loss_of_inputs",
     "pretrain task.yaml --quiet --set task.kind=embeddings --set embedding_loss.temperature=0.1",
     "embedding_loss.temperature is for nystrom finetune, and pretraining reads the inputs alone; "
     "leave it out"},
    {"loss_of_vectors", FINETUNE "embedding_loss.temperature=0.1",
     "--set embedding_loss.temperature=0.1: embedding_loss.temperature is for tasks of kind "
     "embeddings; leave it out"},
    {"momentum_of_another_optimizer", FINETUNE "optimizer.momentum=0.9",
     "--set optimizer.momentum=0.9: optimizer.momentum is for optimizer.name muon; leave it out"},
    {"inputs_without_a_tokenizer", "pretrain task.yaml --quiet --set model.from=null",
     "pretraining on the inputs of a task trains no tokenizer; name one in tokenizer.path or "
     "tokenizer.builtin, or start from a model"},
    {"no_training_files", FINETUNE "'task.train=[]'",
     "task.train is empty; name the files to train on"},
    {"no_validation_files", FINETUNE "'task.validation=[]' --set task.validation_fraction=null",
     "task.validation is empty; name held-out files, which choose the best checkpoint, or set "
     "task.validation_fraction, such as 0.1"},
    {"column", FINETUNE "task.columns.text=txt",
     "train.tsv:1: there is no column 'txt'; columns: 'sentence', 'label'; name the column by "
     "task.columns.text"},
    {"unknown_label", FINETUNE "'task.labels=[good,bad]'",
     "train.tsv:2: unknown label 'water'; labels are 'good' and 'bad'"},
    {"label_of_validation_alone", FINETUNE "'task.validation=[other.tsv]'",
     "other.tsv:2: unknown label 'sky'; labels are 'people' and 'water'"},
    {"not_a_number_to_learn", FINETUNE "task.kind=regression",
     "train.tsv:2: the label 'water' is no finite number"},
    {"metric", FINETUNE "task.metric=pearson",
     "--set task.metric=pearson: task.metric pearson does not measure a task of kind "
     "classification; expected one of accuracy, f1, "
     "f1_macro, matthews, auc, balanced_accuracy, kappa, loss"},
    {"metric_of_two_labels", FINETUNE "task.metric=f1 --set 'task.labels=[water,people,sky]'",
     "task.metric f1 does not measure this task: it has 3 labels; expected one of accuracy, "
     "f1_macro, matthews, auc, balanced_accuracy, kappa, loss"},
    {"metric_of_two_labels_in_check",
     "check task.yaml --data --set task.metric=f1 --set 'task.labels=[water,people,sky]'",
     "task.metric f1 does not measure this task: it has 3 labels; expected one of accuracy, "
     "f1_macro, matthews, auc, balanced_accuracy, kappa, loss"},
    {"other_number_of_choices",
     FINETUNE "task.kind=choice --set 'task.columns={text: text, choices: [endings]}' --set "
              "'task.train=[two.jsonl]' --set 'task.validation=[three.jsonl]'",
     "task.validation: its examples have 3 choices, those of task.train 2; all need as many"},
    {"task_without_kind", "finetune base.yaml --set 'task.train=[train.tsv]'",
     "--set task.train=[train.tsv]: task.kind is missing; expected classification, regression, "
     "tokens, questions, choice, features or embeddings, or a task.recipe"},
    {"task_without_kind_in_check", "check base.yaml --set 'task.train=[train.tsv]'",
     "--set task.train=[train.tsv]: task.kind is missing; expected classification, regression, "
     "tokens, questions, choice, features or embeddings, or a task.recipe"},
    {"small_model_in_check", "check task.yaml --set model.vocab_size=35",
     "task.yaml: model.from: model.vocab_size 35 is below the tokenizer's 36 pieces; raise it, or "
     "leave it out"},
    {"another_model_in_check", "check task.yaml --set model.type_vocab_size=1",
     "task.yaml: model.from: base: the weights do not fit the model; mismatched: "
     "nystromformer.embeddings.token_type_embeddings.weight is [2, 6], expected [1, 6]"},
    {"another_model_to_pretrain_in_check",
     "check base.yaml --set model.type_vocab_size=1 --set 'data.train=[text.txt]' --set "
     "data.validation_fraction=0.1",
     "base.yaml: model.from: base: the weights do not fit the model; mismatched: "
     "nystromformer.embeddings.token_type_embeddings.weight is [2, 6], expected [1, 6]"},
    {"wide_stride_in_check", "check task.yaml --set task.kind=questions --set task.stride=128",
     "task.yaml: task.stride 128 is too large for data.sequence_length 24: a window has 11 tokens "
     "of context beside a long question\n"
     "task.yaml: task.train: train.tsv: a cell of it is one text; questions with answers are read "
     "from JSON: SQuAD's own, or rows with its columns (.jsonl)\n"
     "task.yaml: task.validation: train.tsv: a cell of it is one text; questions with answers are "
     "read from JSON: SQuAD's own, or rows with its columns (.jsonl)"},
    {"choices_of_masks", "predict base '[MASK]' --choice a",
     "--choice goes with a text on the command line, for a task; this is a masked language model"},
    {"steps_and_epochs", FINETUNE "training.steps=3 --set training.epochs=2",
     "--set training.epochs=2: training.steps 3 and training.epochs 2 exclude each other; set one "
     "of them to null"},
    {"rolling_back_in_a_task", FINETUNE "training.on_loss_spike=roll_back",
     "training.on_loss_spike is for pretraining, and a task learns from its labels; leave it out"},
    {"two_warmups", FINETUNE "schedule.warmup_steps=1 --set schedule.warmup_share=0.2",
     "--set schedule.warmup_share=0.2: schedule.warmup_steps 1 and schedule.warmup_share 0.2 "
     "exclude each other; set one of them to null"},
    {"nothing_to_start_from", FINETUNE "model.from=null",
     "model.from is null and tokenizer.path too; start from a model, or name a folder with a "
     "tokenizer"},
    {"two_tokenizers", FINETUNE "tokenizer.builtin=bytes --set tokenizer.path=tokenizer",
     "--set tokenizer.path=tokenizer: tokenizer.builtin bytes and tokenizer.path exclude each "
     "other; give one of them"},
    {"objective_of_a_task", FINETUNE "pretraining.objective=replaced_tokens",
     "pretraining.objective is for pretraining, and a task learns from its labels; leave it out"},
    {"stream_of_bytes", PREPARE "tokenizer.builtin=bytes --set data.cross_documents=true",
     "tokenizer.builtin: the tokenizer has no tokens around a text; leave masking.sentence_order "
     "and "
     "data.cross_documents false"},
    {"towers_of_one_text", FINETUNE "model.pairs=towers",
     "model.pairs towers: task.columns.pair is null; name the column of the second text, or set "
     "model.pairs to joined"},
    {"towers_of_questions", FINETUNE "model.pairs=towers --set task.kind=questions",
     "model.pairs towers: a task of kind questions is read as one sequence; set it to joined"},
    {"towers_of_features",
     FINETUNE
     "model.pairs=towers --set model.norm=pre --set model.positions=none --set model.embed_dim=5",
     "--set model.embed_dim=5: model.pairs are towers, but input features (embed_dim) come one "
     "sequence a sample; set pairs to joined"},
    {"images_of_other_tokens",
     FINETUNE "'task.train=[image.bin]' --set task.recipe=cifar10 --set "
              "'task.validation=[image.bin]' --set 'task.columns={text: null, label: null}'",
     "images are read as bytes, one a pixel, and the tokenizer is another; set tokenizer.builtin: "
     "bytes"},
    {"listops_into_a_folder_in_use", "listops base", "base: is not empty; name a new folder"},
    {"listops_without_end", "listops data --max-depth 1000000",
     "max_depth 1000000 and max_arguments 10 must be at most 1000"},
    {"listops_of_one_argument", "listops data --max-args 1",
     "--max-args: Value 1 not in range 2 to 1073741824; see nystrom listops --help"},
    {"listops_of_a_negative_seed", "listops data --seed=-1",
     "--seed: Value -1 not in range 0 to 4611686018427387904; see nystrom listops --help"},
    {"listops_with_options", "listops data --set seed=1",
     "unknown option --set; see nystrom listops --help"},
    {"absent_model", FINETUNE "model.from=absent",
     "model.from: absent: no such folder; expected a Hugging Face folder, a run directory or a "
     "checkpoint; a model of the hub is fetched by: hf download absent"},
    {"another_model", FINETUNE "model.type_vocab_size=1",
     "model.from: base: the weights do not fit the model; mismatched: "
     "nystromformer.embeddings.token_type_embeddings.weight is [2, 6], expected [1, 6]"},
    {"another_number_of_positions", FINETUNE "model.max_position_embeddings=64",
     "model.from: model.max_position_embeddings is 64, but base has 24; nystrom extend makes a "
     "folder with a "
     "longer table"},
    {"longer_than_the_model", FINETUNE "data.sequence_length=48",
     "--set data.sequence_length=48: data.sequence_length 48 exceeds model.max_position_embeddings "
     "24; shorten the sequences or enlarge the model's position table"},
    {"width_without_features",
     FINETUNE "task.kind=features --set 'task.columns={text: null, label: null}'",
     "task.train: train.tsv:1: there is no column 'file'; columns: 'sentence', 'label'; name the "
     "column by task.columns.file"},
    {"grid_without_values", "finetune task.yaml --grid learning_rate",
     "--grid learning_rate: expected option=value,value, such as learning_rate=2e-5,3e-5"},
    {"grid_of_nothing", "finetune task.yaml --grid learning_rat=1,2",
     "--grid: unknown option learning_rat; did you mean 'optimizer.learning_rate'?; nystrom config "
     "--markdown lists all"},
    {"ambiguous_grid", "finetune task.yaml --grid every=1,2",
     "--grid: every may be evaluation.every or checkpoint.every or logging.every; name one"},
    {"grid_of_folders", "finetune task.yaml --grid run_dir=a,b",
     "--grid run_dir=a,b: run_dir is chosen for each run; --seeds N gives several seeds"},
    {"empty_value_in_a_grid", "finetune task.yaml --grid learning_rate=1e-3,,2",
     "--grid learning_rate=1e-3,,2: a value is empty"},
    {"value_named_twice_in_a_grid", "finetune task.yaml --grid learning_rate=1e-3,1e-4,1e-3",
     "--grid learning_rate=1e-3,1e-4,1e-3: 1e-3 is named twice; name each once"},
    {"value_in_two_spellings_in_a_grid", "finetune task.yaml --grid learning_rate=1e-3,0.001",
     "--grid: learning_rate=1e-3 and learning_rate=0.001 are the same settings; leave one out"},
    {"option_named_twice_in_a_grid",
     "finetune task.yaml --grid learning_rate=1e-3 --grid optimizer.learning_rate=1e-4",
     "--grid: optimizer.learning_rate is named twice; name each once"},
    {"bad_value_in_a_grid", "finetune task.yaml --grid learning_rate=1e-3,-2",
     "--set optimizer.learning_rate=-2: optimizer.learning_rate: got '-2', expected a number "
     "greater than 0"},
    {"no_seeds", "finetune task.yaml --seeds 0",
     "--seeds: Value 0 not in range 1 to 1000; see nystrom finetune --help"},
    {"nothing_to_evaluate", "evaluate base",
     "nothing to evaluate on; give text files (nystrom evaluate base --text heldout.txt), or files "
     "of the model's task (nystrom evaluate base --file dev.tsv)"},
    {"text_without_tokens", "evaluate base --quiet --text empty.txt",
     "no document with a token was taken: 1 files, 0 bytes, 0 documents; left out: 1 empty (first: "
     "empty.txt:1)"},
    {"option_of_training_for_a_text", "evaluate base --text text.txt --set training.steps=3",
     "--set training.steps=3: this command takes options of model, data, masking, seed"},
    {"text_longer_than_the_model", "evaluate base --text text.txt --set data.sequence_length=25",
     "--set data.sequence_length=25: data.sequence_length 25 exceeds model.max_position_embeddings "
     "24; shorten the sequences or enlarge the model's position table"},
    {"another_length_than_the_one_of_transformers",
     "evaluate base --quiet --text text.txt --set model.attention.semantics=transformers --set "
     "data.sequence_length=16",
     "data.sequence_length 16: with attention.semantics transformers this model takes only 24; "
     "--set data.sequence_length=24, or --set model.attention.semantics=nystrom"},
    {"no_cache", "cache absent",
     "absent: no such folder; name the one that data.cache of your runs names"},
    {"task_of_a_masked_lm", "evaluate base --quiet --file train.tsv",
     "base: is a masked language model and does no task; --text and --minimal-pairs evaluate it"},
    {"option_of_training", "evaluate base --quiet --file train.tsv --set training.steps=3",
     "--set training.steps=3: this command takes options of model, task, data"},
    {"way_to_extend", "extend base longer --length 48 --positions zeros",
     "--positions: zeros not in {tile,interpolate}; see nystrom extend --help"},
};

class BadInput : public ProgramTest, public ::testing::WithParamInterface<Case> {};

TEST_P(BadInput, EndsInOneLineAndCode2AndLeavesNothing) {
  environment_ = "TMPDIR=tmp ";
  furnish_models(folder_);
  furnish_run(folder_);
  furnish_task(folder_);
  const auto before = paths_below(folder_.path());
  expect_refused(GetParam().arguments, GetParam().message);
  EXPECT_EQ(paths_below(folder_.path()), before);
}

INSTANTIATE_TEST_SUITE_P(CommandLines, BadInput, ::testing::ValuesIn(command_lines), case_name);
INSTANTIATE_TEST_SUITE_P(Models, BadInput, ::testing::ValuesIn(models), case_name);
INSTANTIATE_TEST_SUITE_P(Configurations, BadInput, ::testing::ValuesIn(configurations), case_name);
INSTANTIATE_TEST_SUITE_P(Texts, BadInput, ::testing::ValuesIn(texts), case_name);
INSTANTIATE_TEST_SUITE_P(Tasks, BadInput, ::testing::ValuesIn(tasks), case_name);

}  // namespace
}  // namespace nystrom::testing
