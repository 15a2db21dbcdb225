#include "nn/model_config.h"

#include <gtest/gtest.h>

#include "tests/support/named.h"

namespace nystrom {
namespace {

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

using C = ModelConfig;

struct Case : testing::Named {
  void (*change)(C&);
  const char* expected = "";  // empty: the configuration is valid
};

class ModelProblems : public ::testing::TestWithParam<Case> {};

TEST_P(ModelProblems, AreExactly) {
  ModelConfig config;
  GetParam().change(config);
  EXPECT_EQ(joined(messages_of(problems(config))), GetParam().expected);
}

void make_features(ModelConfig& c) {
  c.positions = Positions::none;
  c.norm = Norm::pre;
  c.embed_dim = 287;
  c.head = Head::none;
}

void make_transformers(ModelConfig& c, std::int64_t landmarks, std::int64_t length) {
  c.attention.semantics = Semantics::transformers;
  c.attention.num_landmarks = landmarks;
  c.segment_means_seq_len = length;
}

const Case buildable[] = {
    {"Defaults", [](C&) {}},
    {"SequenceBlock", make_features},
    {"SequenceBlockWithClassifier",
     [](C& c) { make_features(c), c.head = Head::sequence_classification; }},
    {"PreNormOfTokens", [](C& c) { c.norm = Norm::pre; }},
    {"PostNormWithoutPositions", [](C& c) { c.positions = Positions::none; }},
    {"NoTokenTypes", [](C& c) { c.type_vocab_size = 0; }},
    {"NoConvolution", [](C& c) { c.attention.conv_kernel_size.reset(); }},
    {"NoLayers", [](C& c) { c.num_hidden_layers = 0; }},
    {"RotatedFeatures",
     [](C& c) {
       make_features(c), c.positions = Positions::rope, c.attention.kind = AttentionKind::softmax;
     }},
    {"RotatedLandmarks", [](C& c) { c.positions = Positions::rope; }},
    {"GatedWithoutBiases", [](C& c) { c.mlp = Mlp::geglu, c.bias = false, c.final_norm = true; }},
    {"AsManyLandmarksAsPositions", [](C& c) { c.attention.num_landmarks = 512; }},
    {"AnyLandmarksWithoutPositions",
     [](C& c) { c.positions = Positions::none, c.attention.num_landmarks = 900; }},
    {"SoftmaxNeedsNoLandmarks",
     [](C& c) { c.attention = {.kind = AttentionKind::softmax, .num_landmarks = 900}; }},
    {"RivalNeedsNoLandmarks",
     [](C& c) { c.attention = {.kind = AttentionKind::linear, .num_landmarks = 900}; }},
    {"TransformersSegments", [](C& c) { make_transformers(c, 64, 512); }},
    {"TransformersExact", [](C& c) { make_transformers(c, 900, 900); }},
    {"TransformersWithExactInverse",
     [](C& c) { make_transformers(c, 64, 512), c.attention.inverse = Inverse::exact; }},
    {"LengthOfTransformersIsIdleElsewhere", [](C& c) { c.segment_means_seq_len = 100; }},
};

/// The blocks of ModernBERT.
void make_modern(ModelConfig& c) {
  c.norm = Norm::pre;
  c.positions = Positions::rope;
  c.attention.kind = AttentionKind::softmax;
  c.attention.window = 128;
}

const Case unbuildable[] = {
    {"RotatedBaseline",
     [](C& c) { c.positions = Positions::rope, c.attention.kind = AttentionKind::linear; },
     "positions rope rotate queries and keys, which attention.kind linear does not score; choose "
     "nystrom or softmax"},
    {"OddHeadsRotated", [](C& c) { make_modern(c), c.hidden_size = 36; },
     "positions rope turn pairs of columns, but hidden_size 36 over num_attention_heads 12 makes "
     "heads of 3; expected an even width"},
    {"LocalThetaWithoutRotation", [](C& c) { c.local_rope_theta = 5; },
     "local_rope_theta is of positions: rope, and positions are absolute; leave it out"},
    {"ThetaWithoutRotation", [](C& c) { c.rope_theta = 160000; },
     "rope_theta is of positions: rope, and positions are absolute; leave it out"},
    {"LocalThetaWithoutWindow",
     [](C& c) { make_modern(c), c.local_rope_theta = 5, c.attention.window.reset(); },
     "local_rope_theta is of layers of kind softmax with a window, of which there are none; set "
     "attention.window, and their kind in attention.layers, or leave it out"},
    {"WindowOfOtherKinds",
     [](C& c) { c.attention.window = 64, c.attention.kind = AttentionKind::linear; },
     "attention.window 64 is of layers of kind softmax or nystrom, and there are none; add them to "
     "attention.layers"},
    {"WindowOfOne", [](C& c) { make_modern(c), c.attention.window = 1; },
     "attention.window is 1; expected a whole number at least 2"},
    {"WindowLayersWithoutWindow",
     [](C& c) { make_modern(c), c.attention.window.reset(), c.attention.window_layers = {"1-2"}; },
     "attention.window_layers names layers of a window, and attention.window is null; set it"},
    {"WindowInNoLayer", [](C& c) { make_modern(c), c.attention.window_layers = {"11-12"}; },
     "attention.window_layers '11-12' exceeds num_hidden_layers 12, whose layers count from 0; "
     "lower it"},
    {"WindowLayersThatAreNone",
     [](C& c) { make_modern(c), c.local_rope_theta = 5, c.attention.window_layers = {"5-2"}; },
     "attention.window_layers '5-2' names no layers; expected a layer or a range, such as 11 or "
     "0-3"},
    {"WindowInALayerOfAnotherKind",
     [](C& c) {
       c.attention.layers = {{"0-3", AttentionKind::softmax}, {"4", AttentionKind::linear}};
       c.attention.window = 64;
       c.attention.window_layers = {"3-4"};
     },
     "attention.window_layers '3-4' has layer 4 of kind linear; a window is of kind softmax or "
     "nystrom"},
    {"WindowLayersAsWords", [](C& c) { make_modern(c), c.attention.window_layers = {"all"}; },
     "attention.window_layers 'all' names no layers; expected a layer or a range, such as 11 or "
     "0-3"},
    {"WindowWithTransformersSemantics",
     [](C& c) { make_modern(c), c.attention.semantics = Semantics::transformers; },
     "attention.semantics transformers has no window and no positions: rope; set it to nystrom"},
    {"TransformOfTowers",
     [](C& c) {
       c.head = Head::sequence_classification, c.pairs = Pairs::towers, c.head_transform = true;
     },
     "head_transform reads one vector of hidden_size, and pairs: towers make four; set pairs to "
     "joined"},
    {"Heads", [](C& c) { c.hidden_size = 100; },
     "hidden_size 100 is not divisible by num_attention_heads 12; each head takes an equal share "
     "of the width"},
    {"NoHeads", [](C& c) { c.num_attention_heads = 0; },
     "num_attention_heads is 0; expected a whole number at least 1"},
    {"EvenConvolution", [](C& c) { c.attention.conv_kernel_size = 32; },
     "attention.conv_kernel_size is 32; expected an odd whole number at least 1"},
    {"Dropout", [](C& c) { c.hidden_dropout_prob = 1; },
     "hidden_dropout_prob is 1; expected a number at least 0 and below 1"},
    {"Epsilon", [](C& c) { c.layer_norm_eps = 0; },
     "layer_norm_eps is 0; expected a number between 1e-37 and 1"},
    {"BeyondF32",
     [](C& c) {
       c.layer_norm_eps = c.initializer_range = c.rope_theta = 1e300, c.local_rope_theta = 1e-60;
       make_modern(c);
     },
     "layer_norm_eps is 1e+300; expected a number between 1e-37 and 1\n"
     "initializer_range is 1e+300; expected a number between 0 and 1000\n"
     "rope_theta is 1e+300; expected a number between 1e-06 and 1000000000\n"
     "local_rope_theta is 1e-60; expected a number between 1e-06 and 1000000000"},
    {"Iterations", [](C& c) { c.attention.inverse_iterations = 1001; },
     "attention.inverse_iterations is 1001; expected a whole number between 0 and 1000"},
    {"Landmarks", [](C& c) { c.attention.num_landmarks = 600; },
     "attention.num_landmarks 600 exceeds max_position_embeddings 512; no sequence is long enough "
     "to have them"},
    {"RivalWithTransformersSemantics",
     [](C& c) {
       c.attention = {.kind = AttentionKind::performer, .semantics = Semantics::transformers};
     },
     "attention.kind performer has no attention.semantics transformers, which Hugging Face defines "
     "for nystrom and softmax alone; set attention.semantics to nystrom"},
    {"ProjectedLength",
     [](C& c) { c.attention = {.kind = AttentionKind::linformer, .projected_length = 513}; },
     "attention.projected_length 513 exceeds max_position_embeddings 512; linformer would make "
     "sequences longer"},
    {"Features", [](C& c) { c.attention.num_features = 0; },
     "attention.num_features is 0; expected a whole number between 1 and 65536"},
    {"PaddingId", [](C& c) { c.pad_token_id = 30000; },
     "pad_token_id 30000 is outside the vocabulary; expected an id below vocab_size 30000"},
    {"Segments", [](C& c) { make_transformers(c, 64, 100); },
     "attention.num_landmarks 64 does not divide segment_means_seq_len 100, as attention.semantics "
     "transformers needs (Hugging Face refuses it too); change it or set attention.semantics to "
     "nystrom"},
    {"SegmentsBeyondPositions", [](C& c) { make_transformers(c, 64, 1024); },
     "max_position_embeddings 512 is below segment_means_seq_len 1024, the only length that "
     "attention.semantics transformers accepts; raise it or set attention.semantics to nystrom"},
    {"FeaturesWithPostNorm", [](C& c) { make_features(c), c.norm = Norm::post; },
     "embed_dim 287 needs norm: pre; input features belong to the sequence block, and norm: post "
     "takes token ids"},
    {"FeaturesForMaskedLm", [](C& c) { make_features(c), c.head = Head::masked_lm; },
     "embed_dim 287 makes the input features, but the head NystromformerForMaskedLM needs token "
     "ids; leave embed_dim out or choose another head"},
    {"FeaturesWithPositions", [](C& c) { make_features(c), c.positions = Positions::absolute; },
     "positions are absolute, but input features (embed_dim) have no position embeddings; set "
     "positions to none or rope"},
    {"FeaturesWithNarrowEmbeddings", [](C& c) { make_features(c), c.embedding_size = 128; },
     "embedding_size 128 is the width of token embeddings, but the input is features (embed_dim); "
     "leave one of them out"},
    {"NoRowForPadding", [](C& c) { c.positions = Positions::skip_padding, c.position_offset = 0; },
     "positions are skip_padding, where padding reads the row before the first position; set "
     "position_offset to at least 1"},
    {"NoLabels", [](C& c) { c.head = Head::sequence_classification, c.labels.clear(); },
     "labels are empty; the head NystromformerForSequenceClassification needs at least one"},
    {"Huge", [](C& c) { c.hidden_size = 12'000'000'000'000'000; },
     "hidden_size 12000000000000000, intermediate_size 3072, num_hidden_layers 12, vocab_size "
     "30000, the lengths of tables and the widths of projections make about 6.9e+33 parameters; "
     "expected at most 1e+13: lower them"},
    {"HugeProjection", [](C& c) { c.embedding.projection = INT64_MAX; },
     "hidden_size 768, intermediate_size 3072, num_hidden_layers 12, vocab_size 30000, the lengths "
     "of tables and the widths of projections make about 7.1e+21 parameters; expected at most "
     "1e+13: lower them"},
    {"HugeLengthProjection",
     [](C& c) {
       c.attention.kind = AttentionKind::linformer;
       c.max_position_embeddings = c.attention.projected_length = 1'000'000'000'000;
     },
     "hidden_size 768, intermediate_size 3072, num_hidden_layers 12, vocab_size 30000, the lengths "
     "of tables and the widths of projections make about 1.2e+25 parameters; expected at most "
     "1e+13: lower them"},
    {"RangesBeforeRules",
     [](C& c) { c.hidden_size = 100, c.attention.num_landmarks = 600, c.type_vocab_size = -1; },
     "type_vocab_size is -1; expected a whole number at least 0"},
    {"AllRulesAtOnce", [](C& c) { c.hidden_size = 100, c.attention.num_landmarks = 600; },
     "hidden_size 100 is not divisible by num_attention_heads 12; each head takes an equal share "
     "of the width\n"
     "attention.num_landmarks 600 exceeds max_position_embeddings 512; no sequence is long enough "
     "to have them"},
};

INSTANTIATE_TEST_SUITE_P(Buildable, ModelProblems, ::testing::ValuesIn(buildable),
                         testing::case_name);
INSTANTIATE_TEST_SUITE_P(Unbuildable, ModelProblems, ::testing::ValuesIn(unbuildable),
                         testing::case_name);

TEST(EnumNames, OfHeadsAreHuggingFaceClasses) {
  EXPECT_STREQ(enum_name(Head::masked_lm), "NystromformerForMaskedLM");
}

TEST(Range, KeepsOddnessOfLargeWholeNumbers) {
  EXPECT_TRUE(odd_positive.contains(std::int64_t{9223372036854775807}));
}

}  // namespace
}  // namespace nystrom
