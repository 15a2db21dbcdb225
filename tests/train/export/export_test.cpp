// Exported folders: their content, rejected models, equality of the models, and no leftovers after
// errors.
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/named.h"
#include "tests/support/small_text.h"
#include "tests/train/export/export_fixture.h"
#include "train/config/config_io.h"
#include "train/export/forward.h"
#include "train/objectives/task_settings.h"
#include "train/state/sentence_modules.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

TEST_F(ExportTest, WritesConfigWeightsTokenizerAndCard) {
  const ExportResult result = run(write_model_with_tokenizer(masked_lm_config()));
  EXPECT_EQ(result.files,
            (Names{"README.md", "config.json", "configuration_nystrom.py", "model.safetensors",
                   "modeling_nystrom.py", "tokenizer.json", "tokenizer_config.json"}));
  EXPECT_EQ(names_in(target()), result.files);
  EXPECT_EQ(names_in(folder_.path()), (Names{"source", "target"}));
  EXPECT_EQ(read_json_file(target() / "tokenizer_config.json")["model_max_length"], 9);
}

TEST_F(ExportTest, KeepsTheConfiguration) {
  const ModelConfig config = masked_lm_config();
  run(write_model(config));
  EXPECT_EQ(read_bytes(target() / "config.json"), hf_config_text(config, NamedClasses::in_folder));
  EXPECT_EQ(config_json()["segment_means_seq_len"], 9);
}

TEST_F(ExportTest, KeepsWhetherTheModelLearnedBags) {
  ModelConfig config = masked_lm_config();
  make_sequence_block(config);
  config.head = Head::sequence_classification;
  const ModelFolder model = write_model(config);
  RunConfig run_config;
  run_config.model = config;
  run_config.data.sequence_length = 9;
  run_config.task.kind = TaskKind::features;
  for (const auto& [file, bags] : {std::pair("slides.csv", true), {"samples.h5", false}}) {
    run_config.task.train = {file};
    write_bytes(source() / "config.yaml", to_yaml(run_config));
    EXPECT_EQ(kept_task(model).at("bags"), bags) << file;
  }
  fs::remove(source() / "config.yaml");
  nlohmann::json root = read_json_file(source() / "config.json");
  for (const bool bags : {true, false}) {
    root["nystrom_task"] = {{"bags", bags}};
    write_bytes(source() / "config.json", root.dump());
    const ModelFolder told(source());
    EXPECT_EQ(settings_of(told, std::nullopt, {}).task.learned_bags, bags);
    EXPECT_EQ(kept_task(told).at("bags"), bags);
  }
}

TEST_F(ExportTest, KeepsHowTextIsCutIntoWords) {
  ModelConfig config = masked_lm_config();
  config.head = Head::token_classification;
  const ModelFolder model = write_model(config);
  RunConfig run_config;
  run_config.model = config;
  run_config.data.sequence_length = 9;
  run_config.task.kind = TaskKind::tokens;
  run_config.task.word_cut = WordCut::characters;
  write_bytes(source() / "config.yaml", to_yaml(run_config));
  run(model);
  EXPECT_EQ(config_json()["nystrom_task"]["word_cut"], "characters");
  const ModelFolder exported(target());
  EXPECT_EQ(settings_of(exported, std::nullopt, {}).task.word_cut, WordCut::characters);
  EXPECT_EQ(settings_of(exported, std::nullopt, {"task.word_cut=words"}).task.word_cut,
            WordCut::words);
  export_model(exported, folder_ / "again", {}, log_);
  EXPECT_EQ(read_json_file(folder_ / "again/config.json")["nystrom_task"]["word_cut"],
            "characters");
  nlohmann::json wrong = config_json();
  wrong["nystrom_task"]["word_cut"] = "letters";
  write_bytes(target() / "config.json", wrong.dump());
  EXPECT_EQ(input_error([&] { settings_of(ModelFolder(target()), std::nullopt, {}); }),
            (target() / "config.json").string() +
                ": --set task.word_cut=\"letters\": task.word_cut: got the text 'letters', "
                "expected spaces or words or ideographs or characters");
}

TEST_F(ExportTest, WritesF32WhateverTheSourceHolds) {
  run(write_model(masked_lm_config(), DType::f64));
  const auto file = TensorFile::open(target() / "model.safetensors");
  for (const StoredTensor& tensor : file.tensors())
    EXPECT_EQ(tensor.dtype, DType::f32) << tensor.name;
}

TEST_F(ExportTest, AnExportExportsToTheSame) {
  run(write_model_with_tokenizer(masked_lm_config()), {.softmax = true});
  export_model(ModelFolder(target()), folder_ / "again", {}, log_);
  for (const std::string& name : names_in(target())) {
    if (name == "README.md") continue;
    EXPECT_EQ(read_bytes(folder_ / "again" / name), read_bytes(target() / name)) << name;
  }
}

TEST_F(ExportTest, SoftmaxLeavesWindowsWhereTheyWere) {
  ModelConfig config = masked_lm_config();
  config.num_hidden_layers = 3;
  config.attention.conv_kernel_size.reset();
  config.attention.window = 4;
  config.attention.layers = {{"1", AttentionKind::softmax}};
  run(write_model(config), {.softmax = true});
  const ModelConfig written = ModelFolder(target()).config;
  for (std::int64_t layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(written.kind_of(layer), AttentionKind::softmax);
    EXPECT_EQ(written.has_window(layer), layer == 1) << layer;
  }
}

TEST_F(ExportTest, SoftmaxMakesTransformersExactAtAnyLength) {
  run(write_model_with_tokenizer(masked_lm_config()), {.softmax = true});
  EXPECT_EQ(config_json()["segment_means_seq_len"], 3);
  EXPECT_EQ(config_json()["num_landmarks"], 3);
  EXPECT_EQ(config_json()["nystrom"]["attention"]["kind"], "softmax");
  EXPECT_EQ(read_json_file(target() / "tokenizer_config.json")["model_max_length"], 9)
      << "the length of training stays";
}

TEST_F(ExportTest, SoftmaxEqualsTheModelWithExactAttention) {
  ModelConfig exact = masked_lm_config();
  const ModelFolder model = write_model(exact);
  run(model, {.softmax = true});
  exact.attention.kind = AttentionKind::softmax;
  const Layout layout{{"1111111", "1111111"}};
  const auto expected = (*make_model(exact, DType::f64))(input_of(exact, layout)).logits.value();
  const auto ours = load_model(ModelFolder(target()), DType::f64, StoreMode::inference);
  EXPECT_LE(max_difference((*ours)(input_of(exact, layout)).logits.value(), expected), 1e-12);
  EXPECT_LE(
      max_difference((*model_in_transformers(DType::f64))(input_of(exact, layout)).logits.value(),
                     expected),
      1e-12);
}

TEST_F(ExportTest, SoftmaxMakesEveryLayerExact) {
  ModelConfig config = masked_lm_config();
  config.attention.layers = {{"0", AttentionKind::linear}};
  const ModelFolder model = write_model(config);
  run(model, {.softmax = true, .verify = true});
  EXPECT_TRUE(ModelFolder(target()).config.has_only(AttentionKind::softmax));
  EXPECT_EQ(config_json()["nystrom"]["attention"]["layers"], nlohmann::json::object());
  EXPECT_EQ(config_json()["model_type"], "nystromformer");
}

TEST_F(ExportTest, TransformersComputesWhatItDidForTheSource) {
  for (const char* name : {"mlm_nystrom_padded", "mlm_nystrom_no_conv"}) {
    SCOPED_TRACE(name);
    const fs::path fixture = fixture_folder() / "hf" / name;
    fs::remove_all(target());
    run(ModelFolder(fixture), plain);
    const auto expected = read_tensors(fixture / "expected.safetensors").at("logits");
    for (const auto& [output, value] :
         run_forward(*model_in_transformers(DType::f32),
                     read_tensors(fixture / "batch.safetensors"), false)) {
      if (output != "logits") continue;
      EXPECT_LE(max_difference(value, expected) / largest(expected), 1e-4);
    }
  }
}

// ---- The classes of the folder -----------------------------------------------------------------

struct ClassesCase : Named {
  void (*change)(ModelConfig&);
  bool classes, theirs;  // whether the folder holds classes, and names transformers' own
};

const ClassesCase classes_cases[] = {
    {"nystrom", [](ModelConfig&) {}, true, false},
    {"pre_norm", [](ModelConfig& c) { c.norm = Norm::pre; }, true, false},
    {"baseline", [](ModelConfig& c) { c.attention.kind = AttentionKind::linear; }, true, false},
    {"indivisible", [](ModelConfig& c) { c.segment_means_seq_len = 8; }, true, false},
    {"features", make_sequence_block, true, false},
    {"their_semantics", [](ModelConfig& c) { c.attention.semantics = Semantics::transformers; },
     false, true},
    {"softmax",
     [](ModelConfig& c) {
       c.attention.kind = AttentionKind::softmax;
       c.attention.conv_kernel_size.reset();
     },
     false, true},
    {"mixed",
     [](ModelConfig& c) {
       c.attention.layers = {{"0", AttentionKind::softmax}};
     },
     true, false},
    {"all_layers_named",
     [](ModelConfig& c) {
       c.attention.layers = {{"0-1", AttentionKind::softmax}};
       c.attention.conv_kernel_size.reset();
     },
     false, true},
    // transformers' own class computes it but for padding.
    {"softmax_with_convolution", [](ModelConfig& c) { c.attention.kind = AttentionKind::softmax; },
     true, true},
};

class ExportClasses : public ExportTest, public ::testing::WithParamInterface<ClassesCase> {};

TEST_P(ExportClasses, AreWrittenWhereTransformersComputesSomethingElse) {
  ModelConfig config = masked_lm_config();
  GetParam().change(config);
  run(write_model(config), {.verify = true});
  for (const EmbeddedFile& file : model_classes()) {
    EXPECT_EQ(fs::exists(target() / file.name), GetParam().classes) << file.name;
    if (GetParam().classes) {
      EXPECT_EQ(read_bytes(target() / file.name), file.text);
    }
  }
  EXPECT_EQ(config_json().contains("auto_map"), GetParam().classes);
  EXPECT_EQ(config_json()["model_type"], GetParam().theirs ? "nystromformer" : "nystrom");
  EXPECT_EQ(names_transformers_class(config_json()), GetParam().theirs);
  EXPECT_EQ(card().find("trust_remote_code=True") != std::string::npos, GetParam().classes);
}

INSTANTIATE_TEST_SUITE_P(All, ExportClasses, ::testing::ValuesIn(classes_cases), case_name);

TEST(ModelClasses, AreTheFilesOfTheRepository) {
  ASSERT_EQ(model_classes().size(), 2U);
  for (const EmbeddedFile& file : model_classes())
    EXPECT_EQ(read_bytes(fixture_folder() / "../../python/export" / file.name), file.text);
}

TEST_F(ExportTest, AModelWithoutConvolutionHasNoZeroKernelsForTheFoldersClasses) {
  ModelConfig config = masked_lm_config();
  config.attention.conv_kernel_size.reset();
  run(write_model(config));
  EXPECT_FALSE(read_tensors(target() / "model.safetensors").contains(first_kernel));
  EXPECT_NO_THROW(load_model(ModelFolder(target()), DType::f32, StoreMode::inference));
}

TEST_F(ExportTest, TheSentenceOrderHeadStaysForTheFoldersClasses) {
  ModelConfig config = masked_lm_config();
  config.sentence_order = true;
  for (const AttentionKind kind : {AttentionKind::nystrom, AttentionKind::softmax}) {
    config.attention.kind = kind;
    const ModelFolder model = write_model(config);
    const auto keeps_head = [&](const ExportOptions& options) {
      fs::remove_all(target());
      run(model, options);
      return read_tensors(target() / "model.safetensors").contains("cls.seq_relationship.weight");
    };
    EXPECT_TRUE(keeps_head({.verify = true})) << enum_name(kind);
    EXPECT_FALSE(keeps_head(verified)) << enum_name(kind);
  }
}

TEST_F(ExportTest, AnEditedClassIsReportedAndReplaced) {
  run(write_model(masked_lm_config()));
  write_bytes(target() / "modeling_nystrom.py", "# mine\n");
  EXPECT_EQ(foreign_classes(target()), "modeling_nystrom.py");
  run("export target again");
  EXPECT_TRUE(
      last_.err.starts_with("note: modeling_nystrom.py of target was edited, or is of another "
                            "version; the export has this version's\n"))
      << last_.err;
  EXPECT_EQ(foreign_classes(folder_ / "again"), "");
}

TEST_F(ExportTest, AClassThatWasWrittenOtherwiseIsFound) {
  const auto model = make_model(masked_lm_config(), DType::f32);
  run(write_model(masked_lm_config()));
  write_bytes(target() / "modeling_nystrom.py", "# mine\n");
  EXPECT_EQ(message_of([&] { verify_export(target(), *model, nullptr, 9); }),
            "modeling_nystrom.py was written, but read back otherwise");
}

TEST_F(ExportTest, SoftmaxOfWeightsThatDoNotFitItIsRefused) {
  ModelConfig linformer = masked_lm_config(), reformer = linformer, gated = linformer;
  linformer.attention.kind = AttentionKind::linformer;
  reformer.attention.kind = AttentionKind::reformer;
  gated.attention.window = 4;
  const auto error = [](const ModelConfig& config) {
    return input_error([&] { exported_config(config, {.softmax = true}); });
  };
  const auto refusal = [](const char* reason) {
    return fmt::format(
        "cannot be exported with exact attention: layer 0 has {}, with weights of its own; leave "
        "the option out",
        reason);
  };
  EXPECT_EQ(error(linformer), refusal("linformer"));
  EXPECT_EQ(error(reformer), refusal("reformer"));
  EXPECT_EQ(error(gated), refusal("a window beside its landmarks"));
}

// ---- sentence-transformers ----------------------------------------------------------------------

TEST_F(ExportTest, SentenceTransformersGetsItsFiles) {
  run(write_model_with_tokenizer(masked_lm_config()),
      {.sentence_transformers = true, .pooling = SentencePooling::cls});
  const auto modules = read_json_file(target() / "modules.json");
  ASSERT_EQ(modules.size(), 3U);
  EXPECT_EQ(modules[0]["type"], "sentence_transformers.models.Transformer");
  EXPECT_EQ(modules[1]["path"], "1_Pooling");
  EXPECT_EQ(modules[2]["type"], "sentence_transformers.models.Normalize");
  const auto pooling = read_json_file(target() / "1_Pooling" / "config.json");
  EXPECT_EQ(pooling["word_embedding_dimension"], 6);
  EXPECT_EQ(pooling["pooling_mode_cls_token"], true);
  EXPECT_EQ(pooling["pooling_mode_mean_tokens"], false);
  EXPECT_EQ(read_json_file(target() / "sentence_bert_config.json")["max_seq_length"], 9);
  EXPECT_EQ(read_json_file(target() / "config_sentence_transformers.json")["similarity_fn_name"],
            "cosine");
  expect_says(card(), "SentenceTransformer(\".\", trust_remote_code=True)");
}

TEST_F(ExportTest, SentenceTransformersGetsTheProjectionAndThePrompts) {
  ModelConfig config = masked_lm_config();
  config.embedding.pooling = SentencePooling::cls;
  config.embedding.projection = 4;
  config.embedding.query_prompt = "query: ";
  config.embedding.document_prompt = "passage: ";
  run(write_model_with_tokenizer(config), {.sentence_transformers = true});
  const auto modules = read_json_file(target() / "modules.json");
  ASSERT_EQ(modules.size(), 4U);
  EXPECT_EQ(modules[2]["path"], "2_Dense");
  EXPECT_EQ(modules[3]["path"], "3_Normalize");
  const auto dense = read_json_file(target() / "2_Dense" / "config.json");
  EXPECT_EQ(dense["in_features"], 6);
  EXPECT_EQ(dense["out_features"], 4);
  EXPECT_EQ(dense["activation_function"], "torch.nn.modules.linear.Identity");
  const auto weights = TensorFile::open(target() / "2_Dense" / "model.safetensors");
  EXPECT_EQ(weights.stored("linear.weight").shape, Shape({4, 6}));
  EXPECT_EQ(weights.stored("linear.bias").shape, Shape({4}));
  const auto prompts = read_json_file(target() / "config_sentence_transformers.json")["prompts"];
  EXPECT_EQ(prompts["query"], "query: ");
  EXPECT_EQ(prompts["document"], "passage: ");
  EXPECT_EQ(ModelFolder(target()).config.embedding, config.embedding);
}

TEST_F(ExportTest, SentenceTransformersGetsNoPromptWithTheNameOfASpecialToken) {
  ModelConfig config = masked_lm_config();
  config.embedding.document_prompt = "[MASK] ";
  const ModelFolder model = write_model_with_tokenizer(config);
  expect_says(message_of([&] { run(model, {.sentence_transformers = true}); }),
              "the prompt '[MASK] ' holds the name of a special token");
  EXPECT_FALSE(fs::exists(target()));
}

TEST_F(ExportTest, AnEncoderHasItsModulesHoweverItIsNamed) {
  run(write_model_with_tokenizer(masked_lm_config()),
      {.sentence_transformers = true, .pooling = SentencePooling::cls});
  const fs::path encoder = folder_ / "encoder", inside = target() / "0_Transformer";
  fs::copy(source(), inside);
  write_bytes(target() / "modules.json",
              R"([{"type": "sentence_transformers.models.Transformer", "path": "0_Transformer"},
                  {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}])");
  fs::create_directory_symlink(inside, encoder);
  for (const fs::path& name : {inside, inside / "", inside / ".", encoder}) {
    const auto modules = read_sentence_modules(name);
    ASSERT_TRUE(modules.has_value()) << name;
    EXPECT_EQ(modules->embedding.pooling, SentencePooling::cls);
  }
  EXPECT_FALSE(read_sentence_modules(source()).has_value());
}

TEST_F(ExportTest, ATokenizerNamesNoTypesBesideAModelWithoutThem) {
  ModelConfig config = masked_lm_config();
  config.type_vocab_size = 0;
  run(write_model_with_tokenizer(config), {.verify = true});
  EXPECT_EQ(read_json_file(target() / "tokenizer_config.json")["model_input_names"],
            nlohmann::json({"input_ids", "attention_mask"}));
}

TEST_F(ExportTest, VectorsOfOneLengthAreRefused) {
  const std::string error = input_error([&] {
    run(write_model_with_tokenizer(masked_lm_config()),
        {.format = ExportFormat::transformers, .sentence_transformers = true});
  });
  expect_says(error, "takes rows of 9 tokens alone; leave out --format");
}

TEST_F(ExportTest, AFolderKeepsTheLengthOfItsVectors) {
  run(write_model_with_tokenizer(masked_lm_config()), {.sentence_transformers = true});
  write_bytes(target() / "sentence_bert_config.json", R"({"max_seq_length": 5})");
  const fs::path again = folder_ / "again";
  export_model(ModelFolder(target()), again, {}, log_);
  EXPECT_EQ(trained_length(ModelFolder(again)), 5);
}

TEST_F(ExportTest, SentenceTransformersHasNoLandmarks) {
  ModelConfig config = masked_lm_config();
  config.embedding.pooling = SentencePooling::landmarks;
  const ModelFolder model = write_model_with_tokenizer(config);
  EXPECT_EQ(input_error([&] { run(model, {.sentence_transformers = true}); }),
            source().string() +
                ": model.embedding.pooling is landmarks, which sentence-transformers lacks; "
                "--sentence-transformers mean or cls exports another pooling");
  EXPECT_FALSE(fs::exists(target()));
  run(model, {.sentence_transformers = true, .pooling = SentencePooling::mean});
  EXPECT_EQ(ModelFolder(target()).config.embedding.pooling, SentencePooling::mean);
}

TEST_F(ExportTest, TheCardNamesTheOnnxFile) {
  run(write_model(masked_lm_config()), {.onnx = OnnxExport::f32});
  EXPECT_TRUE(fs::exists(target() / "onnx" / "model.onnx"));
  expect_says(card(), "`onnx/model.onnx` computes the same as nystrom");
}

TEST_F(ExportTest, SentenceTransformersNeedsATokenizer) {
  const ModelFolder model = write_model(masked_lm_config());
  EXPECT_EQ(
      input_error([&] { run(model, {.sentence_transformers = true}); }),
      source().string() + ": has no tokenizer, and --sentence-transformers makes vectors of texts");
  EXPECT_FALSE(fs::exists(target()));
}

// ---- Refusals -----------------------------------------------------------------------------------

struct Refusal : Named {
  void (*change)(ModelConfig&);
  const char* message;
};

const Refusal refusals[] = {
    {"features", make_sequence_block, "embed_dim is 5, and transformers' Nyströmformer has null"},
    {"pre_norm", [](ModelConfig& c) { c.norm = Norm::pre; },
     "norm is \"pre\", and transformers' Nyströmformer has \"post\""},
    {"baseline", [](ModelConfig& c) { c.attention.kind = AttentionKind::linear; },
     "attention.kind is linear, and transformers' Nyströmformer has Nyström "
     "and exact attention only"},
    {"baseline_in_a_layer",
     [](ModelConfig& c) {
       c.attention.layers = {{"1", AttentionKind::linear}};
     },
     "attention.kind is linear, and transformers' Nyströmformer has Nyström "
     "and exact attention only"},
    {"mixed",
     [](ModelConfig& c) {
       c.attention.layers = {{"1", AttentionKind::softmax}};
     },
     "attention.layers mixes Nyström and exact attention, and transformers' Nyströmformer has one "
     "kind in all layers"},
    {"no_positions", [](ModelConfig& c) { c.positions = Positions::none; },
     "positions is \"none\", and transformers' Nyströmformer has \"absolute\""},
    {"indivisible", [](ModelConfig& c) { c.segment_means_seq_len = 8; },
     "num_landmarks 3 does not divide the sequence length 8 (segment_means_seq_len), which "
     "transformers cuts into equal segments"},
    {"too_long", [](ModelConfig& c) { c.segment_means_seq_len = 12; },
     "segment_means_seq_len 12 exceeds max_position_embeddings 9, and "
     "transformers needs rows of just that length"},
    {"mean_pooling",
     [](ModelConfig& c) { c.head = Head::sequence_classification, c.pooling = Pooling::mean; },
     "pooling is \"mean\", and transformers' Nyströmformer has \"first\""},
    {"mean_pooling_of_choices",
     [](ModelConfig& c) { c.head = Head::multiple_choice, c.pooling = Pooling::mean; },
     "pooling is \"mean\", and transformers' Nyströmformer has \"first\""},
    {"towers",
     [](ModelConfig& c) { c.head = Head::sequence_classification, c.pairs = Pairs::towers; },
     "pairs is \"towers\", and transformers' Nyströmformer has \"joined\""},
};

class ExportRefusal : public ::testing::TestWithParam<Refusal> {};

TEST_P(ExportRefusal, SaysWhy) {
  ModelConfig config = masked_lm_config();
  GetParam().change(config);
  EXPECT_EQ(input_error([&] { exported_config(config, plain); }),
            std::string("cannot be exported for transformers' own class: ") + GetParam().message +
                "; leave out --format transformers, and the folder holds a class that computes it");
}

INSTANTIATE_TEST_SUITE_P(All, ExportRefusal, ::testing::ValuesIn(refusals), case_name);

TEST_F(ExportTest, PoolingOfAHeadThatHasNoneIsNoObstacle) {
  ModelConfig config = masked_lm_config();
  config.pairs = Pairs::towers;
  config.pooling = Pooling::mean;
  EXPECT_NO_THROW(exported_config(config, plain));
}

TEST_F(ExportTest, AnyLengthGoesWithSoftmax) {
  ModelConfig config = masked_lm_config();
  config.segment_means_seq_len = 8;
  EXPECT_EQ(exported_config(config, {ExportFormat::transformers, true}).segment_means_seq_len, 3);
}

TEST_F(ExportTest, ARefusalLeavesNothing) {
  ModelConfig config = masked_lm_config();
  config.segment_means_seq_len = 8;
  const ModelFolder model = write_model(config);
  EXPECT_TRUE(input_error([&] {
                run(model, plain);
              }).starts_with(source().string() + ": cannot be exported"))
      << "and it names the source";
  EXPECT_EQ(names_in(folder_.path()), Names{"source"});
}

TEST_F(ExportTest, AFailureHalfWayLeavesNothing) {
  const ModelFolder model = write_model(masked_lm_config());
  fs::create_directory(source() / "vocab.txt");  // copied after config and weights were written
  EXPECT_EQ(input_error([&] { run(model); }),
            (source() / "vocab.txt").string() + ": is not a regular file");
  EXPECT_EQ(names_in(folder_.path()), Names{"source"});
}

TEST_F(ExportTest, AFileIsNoPlaceForAFolder) {
  const ModelFolder model = write_model(masked_lm_config());
  write_bytes(target(), "mine");
  EXPECT_EQ(input_error([&] { run(model); }),
            target().string() + ": exists and is no folder; name a new one");
  EXPECT_EQ(read_bytes(target()), "mine");
}

TEST_F(ExportTest, AnEmptyFolderIsFilledAndParentsAreMade) {
  const ModelFolder model = write_model(masked_lm_config());
  fs::create_directory(target());
  EXPECT_EQ(run(model, plain).files, (Names{"README.md", "config.json", "model.safetensors"}));
  EXPECT_EQ(names_in(target()).size(), 3U);
  export_model(model, folder_ / "deep" / "er/", {}, log_);
  EXPECT_EQ(names_in(folder_ / "deep"), Names{"er"});
}

// ---- Tokenizers ---------------------------------------------------------------------------------

TEST_F(ExportTest, ATokenizerOfAnotherModelIsRefused) {
  const ModelFolder model = write_model(masked_lm_config());
  fs::copy_file(fixture_folder() / "tokenizers" / "albert" / "spiece.model",
                source() / "spiece.model");
  EXPECT_EQ(
      input_error([&] { run(model); }),
      source().string() +
          ": the tokenizer has 30000 pieces, the model only 9 rows; they do not belong together");
}

TEST_F(ExportTest, TokenizersOfEveryKindBecomeTokenizerJson) {
  ModelConfig config = masked_lm_config();
  config.vocab_size = 501;
  const ModelFolder model = write_model(config);
  const fs::path tokenizer = fixture_folder() / "tokenizers/small/byte_level";
  for (const char* name : {"tokenizer.json", "vocab.json", "merges.txt"})
    fs::copy_file(tokenizer / name, source() / name);
  write_bytes(source() / "optimizer.safetensors", "no part of it");
  EXPECT_EQ(run(model, verified).files, (Names{"README.md", "config.json", "model.safetensors",
                                               "tokenizer.json", "tokenizer_config.json"}));
  EXPECT_EQ(read_json_file(target() / "tokenizer_config.json")["mask_token"], "<mask>");
  expect_says(card(), "tokenizer = AutoTokenizer.from_pretrained(\".\")");
  expect_says(card(), "nystrom predict THIS_FOLDER \"She opened the <mask> and looked out.\"");
}

TEST_F(ExportTest, ATokenizerThatIsNoneIsRefused) {
  const ModelFolder model = write_model(masked_lm_config());
  write_bytes(source() / "tokenizer.json", "{}");
  EXPECT_EQ(input_error([&] { run(model); }),
            (source() / "tokenizer.json").string() + ": 'model' is missing");
  EXPECT_FALSE(fs::exists(target()));
}

// ---- The program --------------------------------------------------------------------------------

TEST_F(ExportTest, TheProgramPrintsOneObject) {
  write_model(masked_lm_config());
  EXPECT_EQ(run("export source target --verify --json --quiet --format transformers").err, "");
  const auto result = nlohmann::json::parse(last_.out);
  EXPECT_EQ(result["folder"], "target");
  EXPECT_EQ(result["parameters"], Model(masked_lm_config()).parameters().count());
  EXPECT_EQ(result["files"], (Names{"README.md", "config.json", "model.safetensors"}));
  EXPECT_EQ(result["differences"].back()["tokens"], 9);
}

TEST_F(ExportTest, TheProgramSaysWhatIsDifferent) {
  write_model(masked_lm_config());
  EXPECT_EQ(run("export source target --format transformers").err,
            "note: source has no tokenizer, so neither has the export\n"
            "note: transformers computes another Nyström attention than nystrom: landmarks and "
            "convolution see padding, and the texts of a batch share a scaling factor\n");
  EXPECT_EQ(last_.out, "target: " + std::to_string(Model(masked_lm_config()).parameters().count()) +
                           " parameters; README.md, config.json, model.safetensors\n");
}

/// A trained run without convolution, so that its checkpoint has zero kernels, is resumed and
/// exported by its run directory.
TEST_F(ExportTest, ARunDirectoryIsExported) {
  write_small_run(folder_,
                  "run_dir: run\n"
                  "schedule: {warmup_steps: 1}\n"
                  "training: {steps: 2, batch_size: 4, micro_batch_size: 4, dtype: f32}\n",
                  "num_landmarks: 4, conv_kernel_size: null");
  for (const char* command :
       {"pretrain run.yaml --quiet", "pretrain run.yaml --quiet --set training.steps=3",
        "export run target --quiet --format transformers"})
    run(command);
  const fs::path checkpoint = folder_ / "run" / "checkpoints" / "step-3";
  EXPECT_TRUE(read_tensors(checkpoint / "model.safetensors").contains(first_kernel));
  EXPECT_EQ(read_bytes(target() / "model.safetensors"),
            read_bytes(checkpoint / "model.safetensors"));
  EXPECT_EQ(read_bytes(target() / "tokenizer_config.json"),
            read_bytes(checkpoint / "tokenizer_config.json"));
  EXPECT_EQ(config_json()["segment_means_seq_len"], 32);
}

}  // namespace
}  // namespace nystrom::testing
