// ONNX files: libonnx accepts them for every option, names, weights, data beside the file, and
// refusals. Their results are compared in tests/reference/check_onnx.py.
#include "train/export/onnx_model.h"
#include "train/export/onnx_modules.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <numeric>
#include <set>

#include "autograd/ops.h"
#include "data/tokenizers/protobuf_reader.h"
#include "tests/support/errors.h"
#include "tests/support/program_test.h"
#include "tests/train/export/export_fixture.h"
#include "train/objectives/evaluation.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;
using Numbers = std::vector<std::int64_t>;

/// A TensorProto.
struct OnnxTensor {
  Numbers shape;
  std::string bytes;                           // inside the file
  std::map<std::string, std::string> outside;  // where they are otherwise

  std::int64_t count() const {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  }
};

/// What the tests need of a ModelProto.
struct OnnxFile {
  std::vector<std::string> nodes, operators;
  std::map<std::string, OnnxTensor> weights;

  explicit OnnxFile(const fs::path& path) : bytes_(read_bytes(path)) {
    for_each(bytes_, [&](const WireField& field) {
      if (field.number == 7) read_graph(field.bytes);
    });
  }

 private:
  template <class F>
  static void for_each(std::string_view message, F&& f) {
    for_each_field(message, 0, "model.onnx", f);
  }

  void read_graph(std::string_view graph) {
    for_each(graph, [&](const WireField& field) {
      if (field.number == 5) read_weight(field.bytes);
      if (field.number != 1) return;
      for_each(field.bytes, [&](const WireField& part) {
        if (part.number == 3) nodes.emplace_back(part.bytes);
        if (part.number == 4) operators.emplace_back(part.bytes);
      });
    });
  }

  void read_weight(std::string_view message) {
    OnnxTensor tensor;
    std::string name;
    for_each(message, [&](const WireField& field) {
      if (field.number == 1) tensor.shape.push_back(static_cast<std::int64_t>(field.value));
      if (field.number == 8) name = field.bytes;
      if (field.number == 9) tensor.bytes = field.bytes;
      if (field.number != 13) return;
      std::string key;
      for_each(field.bytes, [&](const WireField& part) {
        (part.number == 1 ? key : tensor.outside[key]) = part.bytes;
      });
    });
    EXPECT_TRUE(weights.emplace(name, tensor).second) << name << " is stored twice";
  }

  std::string bytes_;
};

/// Heads of even width, as rotary positions need them.
void widen(ModelConfig& c) { c.hidden_size = 8; }

/// Names and settings of options that ONNX files can hold.
constexpr std::pair<const char*, void (*)(ModelConfig&)> every_option[] = {
    {"defaults", [](ModelConfig&) {}},
    {"no iterations", [](ModelConfig& c) { c.attention.inverse_iterations = 0; }},
    {"identity", [](ModelConfig& c) { c.attention.inverse = Inverse::identity; }},
    {"keys", [](ModelConfig& c) { c.attention.landmark_source = LandmarkSource::keys; }},
    {"no convolution", [](ModelConfig& c) { c.attention.conv_kernel_size.reset(); }},
    {"pre", [](ModelConfig& c) { c.norm = Norm::pre; }},
    {"no positions", [](ModelConfig& c) { c.positions = Positions::none; }},
    {"positions skip padding", [](ModelConfig& c) { c.positions = Positions::skip_padding; }},
    {"first position row", [](ModelConfig& c) { c.position_offset = 0; }},
    {"no type", [](ModelConfig& c) { c.type_vocab_size = 0; }},
    {"narrow embeddings", [](ModelConfig& c) { c.embedding_size = 10; }},
    {"tanh", [](ModelConfig& c) { c.classifier_act = c.transform_act = Activation::tanh; }},
    {"one type", [](ModelConfig& c) { c.type_vocab_size = 1; }},
    {"mean", [](ModelConfig& c) { c.pooling = Pooling::mean; }},
    {"towers", [](ModelConfig& c) { c.pairs = Pairs::towers; }},
    {"relu", [](ModelConfig& c) { c.hidden_act = Activation::relu; }},
    {"silu", [](ModelConfig& c) { c.hidden_act = Activation::silu; }},
    {"gelu", [](ModelConfig& c) { c.hidden_act = Activation::gelu; }},
    {"softmax", [](ModelConfig& c) { c.attention.kind = AttentionKind::softmax; }},
    {"double", [](ModelConfig& c) { c.attention.kind = AttentionKind::double_softmax; }},
    {"linear", [](ModelConfig& c) { c.attention.kind = AttentionKind::linear; }},
    {"performer", [](ModelConfig& c) { c.attention.kind = AttentionKind::performer; }},
    {"linformer",
     [](ModelConfig& c) {
       c.attention.kind = AttentionKind::linformer;
       c.attention.projected_length = 4;
     }},
    {"kinds by layer",
     [](ModelConfig& c) {
       c.attention.layers = {{"1", AttentionKind::softmax}};
     }},
    {"modern blocks",
     [](ModelConfig& c) {
       c.norm = Norm::pre;
       c.positions = Positions::rope;
       c.mlp = Mlp::geglu;
       c.final_norm = c.head_transform = true;
       c.bias = c.first_attention_norm = false;
       widen(c);
     }},
    {"window", [](ModelConfig& c) { c.attention.window = 6; }},
    {"windows of rope",
     [](ModelConfig& c) {
       c.positions = Positions::rope;
       c.local_rope_theta = 20;
       widen(c);
       c.attention.window = 6;
       c.attention.layers = {{"1", AttentionKind::softmax}};
     }},
    {"transformers", [](ModelConfig& c) { c.attention.semantics = Semantics::transformers; }},
};

/// Calls f(config, name) for each of them with each head.
template <class F>
void for_every_option_and_head(const F& f) {
  for (const auto& [name, change] : every_option) {
    for (const auto& head : enum_names(Head{})) {
      if (head.value == Head::masked_features) continue;  // which is not exported
      ModelConfig config = tiny_config();
      config.head = head.value;
      change(config);
      f(config, std::string(name) + ", " + std::string(head.name));
    }
  }
}

class OnnxTest : public ::testing::Test {
 protected:
  fs::path write(const ModelConfig& config, const OnnxOptions& options = {}) {
    const auto model = make_model(config, DType::f32);
    write_onnx(*model, folder_.path(), options);
    return folder_ / (options.int8 ? "model_int8.onnx" : "model.onnx");
  }
  /// What libonnx says against the files.
  std::string check(const std::string& files) {
    return run_command(folder_, "'" + build_folder().string() + "/onnx_check' " + files).err;
  }
  TemporaryFolder folder_;
};

TEST_F(OnnxTest, LibonnxAcceptsEveryOption) {
  for_every_option_and_head([&](const ModelConfig& config, const std::string& name) {
    write(config);
    write(config, {.int8 = true});
    EXPECT_EQ(check("model.onnx model_int8.onnx"), "") << name;
  });
  ModelConfig features = tiny_config();
  make_sequence_block(features);
  write(features);
  EXPECT_EQ(check("model.onnx"), "");
}

TEST_F(OnnxTest, TheCheckFindsErrors) {
  std::string bytes = read_bytes(write(masked_lm_config()));
  bytes.replace(bytes.find("LayerNormalization\x2a"), 5, "Later");
  write_bytes(folder_ / "other.onnx", bytes);
  expect_says(check("other.onnx"), "LaterNormalization");
}

TEST_F(OnnxTest, NodesHaveTheNamesOfModules) {
  const OnnxFile file(write(masked_lm_config()));
  const std::set<std::string> names(file.nodes.begin(), file.nodes.end());
  EXPECT_EQ(names.size(), file.nodes.size()) << "each is unique";
  for (const char* name :
       {"nystromformer.embeddings.word_embeddings.Gather",
        "nystromformer.embeddings.LayerNorm.LayerNormalization",
        "nystromformer.encoder.layer.1.attention.self.query.MatMul",
        "nystromformer.encoder.layer.1.attention.self.conv.Conv",
        "nystromformer.encoder.layer.1.attention.output.dense.Add",
        "nystromformer.encoder.layer.1.intermediate.Tanh",
        "nystromformer.encoder.layer.1.output.LayerNorm.LayerNormalization",
        "cls.predictions.transform.LayerNorm.LayerNormalization", "cls.predictions.decoder.MatMul"})
    EXPECT_TRUE(names.contains(name)) << name;
  for (const std::string& name : names)
    EXPECT_TRUE(name.starts_with("nystromformer.") || name.starts_with("cls.")) << name;
}

TEST_F(OnnxTest, EveryParameterIsStoredOnceAndNothingElseOfItsSize) {
  const ModelConfig config = masked_lm_config();
  const OnnxFile file(write(config));
  std::int64_t stored = 0;
  for (const auto& [name, tensor] : file.weights) {
    const bool constant = name.starts_with("float ") || name.starts_with("int64 ");
    EXPECT_EQ(constant, tensor.count() <= 4 && !name.ends_with("weight")) << name;
    if (!constant) stored += tensor.count();
  }
  const auto model = make_model(config, DType::f32);
  EXPECT_EQ(stored, model->parameters().count());
  const std::string query = "nystromformer.encoder.layer.0.attention.self.query.weight";
  const Tensor transposed =
      model->parameters().master(query).cast(DType::f32).transpose(0, 1).contiguous();
  EXPECT_EQ(file.weights.at(query).bytes,
            std::string(reinterpret_cast<const char*>(transposed.data<float>()), 6 * 6 * 4));
}

TEST_F(OnnxTest, UnusedNodesAreLeftOut) {
  ModelConfig config = masked_lm_config();
  config.attention.kind = AttentionKind::softmax;
  config.attention.conv_kernel_size.reset();
  const OnnxFile file(write(config));
  EXPECT_EQ(std::count(file.operators.begin(), file.operators.end(), "CumSum"), 0);
}

TEST_F(OnnxTest, LargeWeightsAreBesideTheFile) {
  ModelConfig config = masked_lm_config();
  config.vocab_size = 300;
  const OnnxFile whole(write(config));
  EXPECT_FALSE(fs::exists(folder_ / "model.onnx_data"));
  const OnnxFile file(write(config, {.max_bytes = 1000}));
  const std::string data = read_bytes(folder_ / "model.onnx_data");
  std::size_t outside = 0;
  for (const auto& [name, tensor] : file.weights) {
    const std::string& bytes = whole.weights.at(name).bytes;
    if (bytes.size() < 1024) {
      EXPECT_EQ(tensor.bytes, bytes) << name;
      continue;
    }
    ++outside;
    EXPECT_EQ(tensor.outside.at("location"), "model.onnx_data");
    const std::size_t offset = std::stoul(tensor.outside.at("offset"));
    EXPECT_EQ(offset % 4096, 0U) << "at a page";
    EXPECT_EQ(data.substr(offset, std::stoul(tensor.outside.at("length"))), bytes) << name;
  }
  EXPECT_EQ(outside, 2U) << "the word table and the decoder's bias";
  EXPECT_EQ(check("model.onnx"), "");
  fs::remove(folder_ / "model.onnx_data");
  expect_says(check("model.onnx"), "model.onnx_data");
}

TEST_F(OnnxTest, Int8RoundsEveryOutputChannelByItself) {
  const ModelConfig config = masked_lm_config();
  const auto model = make_model(config, DType::f32);
  const OnnxFile file(write(config, {.int8 = true}));
  for (const auto& [name, transposed] :
       {std::pair<std::string, bool>{"nystromformer.encoder.layer.1.output.dense.weight", true},
        {"nystromformer.embeddings.word_embeddings.weight", false}}) {
    const Tensor values = model->parameters().master(name);
    const std::int64_t rows = values.dim(0), width = values.dim(1);
    const std::vector<double> expected = values.to_doubles();
    const std::string& bytes = file.weights.at(name).bytes;
    const std::string& scales = file.weights.at(name + "_scale").bytes;
    ASSERT_EQ(std::ssize(bytes), rows * width);
    for (std::int64_t row = 0; row < rows; ++row) {
      float scale = 0;
      std::memcpy(&scale, scales.data() + row * 4, 4);
      int largest = 0;
      for (std::int64_t i = 0; i < width; ++i) {
        const auto q =
            std::bit_cast<std::int8_t>(bytes[transposed ? i * rows + row : row * width + i]);
        largest = std::max(largest, std::abs(q));
        EXPECT_NEAR(q * scale, expected[row * width + i], 0.5001 * scale) << name;
      }
      EXPECT_EQ(largest, 127);
    }
  }
}

TEST_F(OnnxTest, RoundToInt8RoundsWhatTheFileHoldsInInt8) {
  for_every_option_and_head([&](const ModelConfig& config, const std::string& name) {
    const auto model = make_model(config, DType::f32);
    round_to_int8(*model);
    const OnnxFile file(write(config, {.int8 = true}));
    for (const Parameter& parameter : model->parameters().parameters()) {
      EXPECT_EQ(parameter.is_int8(), file.weights.contains(parameter.name() + "_scale"))
          << name << ", " << parameter.name();
    }
  });
}

TEST_F(OnnxTest, TheSameModelGivesTheSameBytes) {
  for (const bool int8 : {false, true}) {
    const std::string first = read_bytes(write(masked_lm_config(), {.int8 = int8}));
    EXPECT_EQ(read_bytes(write(masked_lm_config(), {.int8 = int8})), first);
  }
}

TEST_F(OnnxTest, WhatOnnxCannotExpressIsRefused) {
  ModelConfig config = masked_lm_config();
  EXPECT_EQ(onnx_obstacle(config), "");
  config.attention.inverse = Inverse::exact;
  EXPECT_EQ(input_error([&] { write(config); }),
            "cannot be written as ONNX: attention.inverse is exact, and ONNX has no singular value "
            "decomposition; --set model.attention.inverse=iterative exports the model with the "
            "iterative inverse");
  config.attention.kind = AttentionKind::reformer;
  EXPECT_EQ(input_error([&] { write(config); }),
            "cannot be written as ONNX: attention.kind is reformer, which sorts tokens by random "
            "hashes, and ONNX has no stable sort; export the model without ONNX");
  config.attention.kind = AttentionKind::softmax;
  EXPECT_EQ(onnx_obstacle(config), "") << "it has no inverse";
  config.attention.kind = AttentionKind::nystrom;
  config.attention.semantics = Semantics::transformers;
  config.segment_means_seq_len = config.attention.num_landmarks;
  EXPECT_EQ(onnx_obstacle(config), "") << "nor has the exact case";
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(OnnxTest, EncodersMakeVectorsOfTexts) {
  ModelConfig config = masked_lm_config();
  config.head = Head::none;
  config.embedding.projection = 5;
  const auto has = [&](const char* name) {
    write_onnx(*make_model(config, DType::f32), folder_.path());
    return read_bytes(folder_ / "model.onnx").find(name) != std::string::npos;
  };
  EXPECT_TRUE(has("sentence_embedding"));
  EXPECT_TRUE(has("embedding.projection.weight"));
  EXPECT_TRUE(has("ReduceL2"));
  config.embedding.normalize = false;
  EXPECT_FALSE(has("ReduceL2"));
  config.embedding.pooling = SentencePooling::landmarks;
  EXPECT_FALSE(has("sentence_embedding"));
}

// ---- nystrom export --onnx ----------------------------------------------------------------------

class OnnxExportTest : public ExportTest {};

TEST_F(OnnxExportTest, FilesStandInAFolderOfTheExport) {
  write_model(masked_lm_config());
  const std::pair<const char*, Names> cases[] = {
      {"--onnx", {"onnx/model.onnx"}},
      {"--onnx int8", {"onnx/model.onnx", "onnx/model_int8.onnx"}}};
  for (const auto& [option, files] : cases) {
    fs::remove_all(target());
    run(std::string("export source target --quiet --json ") + option);
    Names written;
    const auto result = nlohmann::json::parse(last_.out);
    for (const std::string name : result["files"]) {
      if (name.starts_with("onnx")) written.push_back(name);
    }
    EXPECT_EQ(written, files);
    write_onnx(*make_model(masked_lm_config(), DType::f32), folder_.path());
    EXPECT_EQ(read_bytes(target() / "onnx/model.onnx"), read_bytes(folder_ / "model.onnx"));
  }
}

TEST_F(OnnxExportTest, Int8ComesWithTheChangeOfTheResults) {
  write_model_with_tokenizer(masked_lm_config());
  write_bytes(folder_ / "text.txt", "The boats left with the tide, and nine came back.\n");
  run("export source target --onnx int8 --text text.txt --quiet --json");
  const auto scores = nlohmann::json::parse(last_.out)["scores"];
  ASSERT_EQ(scores.size(), 2U);
  EXPECT_EQ(scores[0]["runtime"], "nystrom");
  EXPECT_EQ(scores[1]["runtime"], "ONNX int8");
  EXPECT_NE(scores[1]["loss"], scores[0]["loss"]);
  EXPECT_NEAR(scores[1]["loss"].get<double>(), scores[0]["loss"].get<double>(), 0.1);
  EXPECT_TRUE(scores[1].contains("accuracy"));
}

/// The range that a file rounds by is that of all rows, though the loss is of the masked ones.
TEST_F(OnnxExportTest, Int8IsMeasuredOfAllRows) {
  ModelConfig config = masked_lm_config();
  config.max_position_embeddings = 24;
  const ModelFolder folder = write_model_with_tokenizer(config);
  write_bytes(folder_ / "text.txt", "The boats left with the tide, and nine came back.\n");
  run("export source target --onnx int8 --text text.txt --quiet --json");
  const double reported = nlohmann::json::parse(last_.out)["scores"][1]["loss"];

  TextSamples text(folder, {(folder_ / "text.txt").string()}, {});
  text.tokenize(log_);
  const auto model = load_model(ModelFolder(target()), DType::f32, StoreMode::inference);
  round_to_int8(*model);
  double of_all_rows = 0, of_masked_rows = 0, targets = 0;
  Prefetcher batches = evaluation_batches(text.samples, {1, 1});
  while (const auto batch = batches.next()) {
    const auto count = static_cast<double>(batch->targets);
    const Var loss = cross_entropy((*model)(batch->input).logits, batch->labels);
    of_all_rows += count * loss.value().item();
    of_masked_rows += model->masked_lm(batch->input, batch->labels, 1, {}).loss.value().item();
    targets += count;
  }
  EXPECT_NEAR(reported, of_all_rows / targets, 1e-5);
  EXPECT_GT(std::abs(reported - of_masked_rows / targets), 1e-5);
}

TEST_F(OnnxExportTest, WithoutDataNoChangeIsMeasuredAndTheProgramSaysSo) {
  write_model(masked_lm_config());
  run("export source target --onnx int8 --quiet");
  EXPECT_TRUE(last_.out.ends_with(
      "no loss was measured: no file of validation data was found; --text FILE gives one\n"))
      << last_.out;
}

TEST_F(OnnxExportTest, SoftmaxHoldsForTheOnnxFileToo) {
  ModelConfig config = masked_lm_config();
  run(write_model(config), {.softmax = true, .onnx = OnnxExport::f32});
  config.attention.kind = AttentionKind::softmax;
  write_onnx(*make_model(config, DType::f32), folder_.path());
  EXPECT_EQ(read_bytes(target() / "onnx/model.onnx"), read_bytes(folder_ / "model.onnx"));
}

TEST(OnnxGraph, RefusesTwoValuesOfOneName) {
  const OnnxShape shape = {std::int64_t{2}};
  OnnxGraph graph("graph", "");
  const OnnxValue x = graph.input("x", OnnxType::f32, shape);
  graph.output(graph("Relu", {x}), "y", shape);
  EXPECT_EQ(message_of([&] { graph.output(graph("Abs", {x}), "y", shape); }),
            "two values of the graph are named y");
}

TEST_F(OnnxExportTest, ARefusalComesBeforeAnyFile) {
  ModelConfig config = masked_lm_config();
  config.attention.inverse = Inverse::exact;
  const ModelFolder model = write_model(config);
  EXPECT_EQ(input_error([&] { run(model, {.onnx = OnnxExport::f32}); }),
            source().string() + ": cannot be written as ONNX: " + onnx_obstacle(config));
  EXPECT_EQ(names_in(folder_.path()), Names{"source"});
}

}  // namespace
}  // namespace nystrom::testing
