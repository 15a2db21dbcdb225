#include "train/export/onnx_model.h"

#include "core/check.h"
#include "train/export/onnx_modules.h"

namespace nystrom {
namespace {

/// Builds the graph of a model, from inputs to outputs.
class OnnxWriter {
 public:
  explicit OnnxWriter(OnnxModules modules)
      : modules_(std::move(modules)), graph_(modules_.graph), config_(modules_.model.config()) {}

  void write() {
    const OnnxValue x = encode();
    write_head(x);
    const OnnxDimension rows = several_rows() ? OnnxDimension("rows") : batch_;
    graph_.output(x, "last_hidden_state", {rows, length_, config_.hidden_size});
  }

 private:
  void write_head(const OnnxValue& x) {
    switch (config_.head) {
      case Head::masked_lm: return masked_lm(x);
      case Head::replaced_tokens: return judge(x);
      case Head::sequence_classification: return classify(x);
      case Head::token_classification:
        return graph_.output(modules_.linear(transformed(x), "classifier"), "logits",
                             {batch_, length_, config_.num_labels()});
      case Head::question_answering: return answer(x);
      case Head::multiple_choice: return choose(x);
      case Head::masked_features:
      case Head::none: break;
    }
    if (config_.embed_dim)
      graph_.output(last_token(x), "pooler_output", {batch_, config_.hidden_size});
    else if (config_.embedding.pooling != SentencePooling::landmarks)
      graph_.output(sentence_vector(x), "sentence_embedding", {batch_, config_.vector_width()});
  }

  bool several_rows() const {
    return config_.head == Head::multiple_choice || config_.has_towers();
  }

  /// Declares an input of one number for each token, and returns it as rows [·, n].
  OnnxValue input(const char* name) {
    OnnxShape shape{batch_};
    if (config_.head == Head::multiple_choice) shape.push_back("num_choices");
    if (config_.has_towers()) shape.push_back(2);
    shape.push_back(length_);
    const OnnxValue value = graph_.input(name, OnnxType::i64, shape);
    if (!several_rows()) return value;
    const auto module = graph_.enter(name);
    if (row_shape_.empty()) {
      const OnnxValue length = graph_("Shape", {value}, {{"start", 2}, {"end", 3}});
      row_shape_ = graph_("Concat", {graph_.integers({-1}), length}, {{"axis", 0}});
      choices_ = graph_("Shape", {value}, {{"start", 0}, {"end", 2}});
    }
    return graph_("Reshape", {value, row_shape_});
  }

  /// The encoder: [b, n, hidden].
  OnnxValue encode() {
    const auto module = graph_.enter("nystromformer");
    OnnxValue ids;
    if (!config_.embed_dim) ids = input("input_ids");
    const OnnxValue mask = input("attention_mask");
    OnnxAttention attention;
    {
      const auto tokens = graph_.enter("tokens");
      tokens_ = onnx_tokens(graph_, mask);
      attention = onnx_attention(modules_, tokens_);
    }
    OnnxValue x = config_.embed_dim ? project_features() : embed(ids);
    for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
      const auto layer = graph_.enter("encoder.layer." + std::to_string(i));
      const bool normed = config_.norm == Norm::post || i > 0 || config_.first_attention_norm;
      x = block(x, "attention.output", normed, [&](const OnnxValue& y) {
        const auto self = graph_.enter("attention.self");
        return attention(i, y);
      });
      x = block(x, "output", true, [&](const OnnxValue& y) {
        const OnnxValue wide = modules_.linear(y, "intermediate.dense");
        const auto intermediate = graph_.enter("intermediate");
        return activated(wide);
      });
    }
    return config_.final_norm ? modules_.layer_norm(x, "final_norm") : x;
  }

  /// The input of the last layer of a feed-forward block.
  OnnxValue activated(const OnnxValue& x) {
    if (config_.mlp == Mlp::gelu) return modules_.activate(x, config_.hidden_act);
    const std::int64_t width = config_.intermediate_size;
    const std::vector<OnnxValue> halves =
        graph_.outputs(2, "Split", {x, graph_.integers({width, width})}, {{"axis", -1}});
    return graph_("Mul", {modules_.activate(halves[0], config_.hidden_act), halves[1]});
  }

  OnnxValue embed(const OnnxValue& ids) {
    const bool typed = config_.type_vocab_size > 1;
    const OnnxValue types = typed ? input("token_type_ids") : graph_.integer(0);
    const auto module = graph_.enter("embeddings");
    OnnxValue x = modules_.embed_words(ids);
    if (config_.has_position_table()) x = graph_("Add", {x, embed_positions(ids)});
    if (config_.type_vocab_size > 0) {
      const auto type_table = graph_.enter("token_type_embeddings");
      x = graph_("Add", {x, graph_("Gather", {modules_.parameter("weight"), types})});
    }
    x = modules_.layer_norm(x, "LayerNorm");
    return config_.embedding_width() == config_.hidden_size ? x : modules_.linear(x, "projection");
  }

  OnnxValue embed_positions(const OnnxValue& ids) {
    const auto module = graph_.enter("position_embeddings");
    const OnnxValue table = modules_.parameter("weight");
    if (config_.positions == Positions::absolute) {
      const OnnxValue length = graph_("Shape", {ids}, {{"start", 1}, {"end", 2}});
      const OnnxValue first = graph_.integers({config_.position_offset});
      return graph_("Slice", {table, first, graph_("Add", {length, first}), graph_.integers({0})});
    }
    // Padding reads the row before the first position.
    const OnnxValue padding = graph_("Equal", {ids, graph_.integer(config_.pad_token_id.value())});
    const OnnxValue counted = graph_.cast(graph_("Not", {padding}), OnnxType::i64);
    const OnnxValue places = graph_("CumSum", {counted, graph_.integer(1)});
    const OnnxValue before = graph_.integer(config_.position_offset - 1);
    return graph_("Gather", {table, graph_("Add", {graph_("Mul", {places, counted}), before})});
  }

  /// Padding may hold anything.
  OnnxValue project_features() {
    const OnnxValue features =
        graph_.input("features", OnnxType::f32, {batch_, length_, *config_.embed_dim});
    const auto module = graph_.enter("embeddings");
    const OnnxValue valid = graph_("Unsqueeze", {tokens_.valid, graph_.integers({2})});
    return modules_.linear(graph_("Where", {valid, features, graph_.number(0)}), "projection");
  }

  /// A residual block with its last layer `name`.dense and, if `normed`, `name`.LayerNorm.
  template <class F>
  OnnxValue block(const OnnxValue& x, const char* name, bool normed, F&& inner) {
    const bool pre = config_.norm == Norm::pre;
    const std::string norm = std::string(name) + ".LayerNorm";
    const OnnxValue y = inner(pre && normed ? modules_.layer_norm(x, norm) : x);
    const OnnxValue dense = modules_.linear(y, std::string(name) + ".dense");
    const auto module = graph_.enter(name);
    const OnnxValue sum = graph_("Add", {dense, x});
    return pre ? sum : modules_.layer_norm(sum, "LayerNorm");
  }

  /// x [b, n, hidden] at one place of the row: [b, hidden].
  OnnxValue at(const OnnxValue& x, std::int64_t place) {
    return graph_("Gather", {x, graph_.integer(place)}, {{"axis", 1}});
  }

  /// Σ weights x over the positions, for weights [b, n] f32: [b, hidden].
  OnnxValue weighted_sum(const OnnxValue& weights, const OnnxValue& x) {
    const OnnxValue row = graph_("Unsqueeze", {weights, graph_.integers({1})});
    return graph_("Squeeze", {graph_("MatMul", {row, x}), graph_.integers({1})});
  }

  /// Token number `place` of each row, from 1; padding may precede it. 0 for a row without any.
  OnnxValue token(const OnnxValue& x, const OnnxValue& place) {
    const OnnxValue there = graph_("Equal", {tokens_.places, place});
    const OnnxValue chosen = graph_("And", {there, tokens_.valid});
    return weighted_sum(graph_.cast(chosen, OnnxType::f32), x);
  }
  OnnxValue last_token(const OnnxValue& x) { return token(x, tokens_.count); }

  OnnxValue mean_token(const OnnxValue& x) {
    const OnnxValue count =
        graph_.cast(graph_("Max", {tokens_.count, graph_.integer(1)}), OnnxType::f32);
    return weighted_sum(graph_("Div", {tokens_.ones, count}), x);
  }

  /// The hidden states of each row as one vector: [b, hidden].
  OnnxValue pooled(const OnnxValue& x) {
    switch (config_.embedding.pooling) {
      case SentencePooling::cls: return token(x, graph_.integer(1));
      case SentencePooling::lasttoken: return last_token(x);
      case SentencePooling::mean_sqrt_len_tokens:
        return graph_("Mul",
                      {mean_token(x), graph_("Sqrt", {graph_.cast(tokens_.count, OnnxType::f32)})});
      case SentencePooling::weightedmean: {
        const OnnxValue places =
            graph_("Mul", {graph_.cast(tokens_.places, OnnxType::f32), tokens_.ones});
        const OnnxValue total = graph_("ReduceSum", {places, graph_.integers({1})});
        return weighted_sum(graph_("Div", {places, graph_("Max", {total, graph_.number(1e-9)})}),
                            x);
      }
      case SentencePooling::max: {
        const OnnxValue valid = graph_("Unsqueeze", {tokens_.valid, graph_.integers({2})});
        const OnnxValue shown = graph_("Where", {valid, x, graph_.number(-3e38)});
        return graph_("ReduceMax", {shown},
                      {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", 0}});
      }
      case SentencePooling::mean:
      case SentencePooling::landmarks: break;
    }
    return mean_token(x);
  }

  /// The vector of each text, as `nystrom embed` computes it.
  OnnxValue sentence_vector(const OnnxValue& x) {
    const EmbeddingConfig& options = config_.embedding;
    OnnxValue vector = pooled(x);
    const auto module = graph_.enter("embedding");
    for (std::size_t i = 0; i < options.dense.size(); ++i)
      vector = modules_.activate(modules_.linear(vector, fmt::format("dense.{}", i)),
                                 options.dense[i].activation);
    if (options.projection)
      vector = modules_.activate(modules_.linear(vector, "projection"), options.projection_act);
    if (!options.normalize) return vector;
    // A vector of zeros has no direction, and stays.
    const OnnxValue length = graph_("ReduceL2", {vector}, {{"axes", std::vector<std::int64_t>{1}}});
    return graph_("Div", {vector, graph_("Max", {length, graph_.number(1e-12)})});
  }

  /// The module `transform`: the first part of the masked-LM head, and with head_transform of the
  /// others.
  OnnxValue transform(const OnnxValue& x) {
    const OnnxValue dense = modules_.linear(x, "transform.dense");
    const auto module = graph_.enter("transform");
    return modules_.layer_norm(modules_.activate(dense, config_.transform_activation()),
                               "LayerNorm");
  }

  OnnxValue transformed(const OnnxValue& x) { return config_.head_transform ? transform(x) : x; }

  /// x through the first layer of a head, which head_transform replaces.
  OnnxValue head_dense(const OnnxValue& x, std::string_view name) {
    return config_.head_transform
               ? x
               : modules_.activate(modules_.linear(x, name), config_.classifier_activation());
  }

  void masked_lm(OnnxValue x) {
    const auto module = graph_.enter("cls.predictions");
    x = transform(x);
    {
      const auto decoder = graph_.enter("decoder");
      x = modules_.decode_words(x);
    }
    graph_.output(graph_("Add", {x, modules_.parameter("bias")}), "logits",
                  {batch_, length_, config_.vocab_size});
  }

  /// [a, b, a ∘ b, a − b] of the two rows of each sample.
  OnnxValue tower_features(const OnnxValue& rows) {
    const OnnxValue pairs =
        graph_("Reshape", {rows, graph_.integers({-1, 2, config_.hidden_size})});
    const OnnxValue a = at(pairs, 0), b = at(pairs, 1);
    return graph_("Concat", {a, b, graph_("Mul", {a, b}), graph_("Sub", {a, b})}, {{"axis", 1}});
  }

  OnnxValue pooled_token(const OnnxValue& x) {
    return config_.pooling == Pooling::mean ? mean_token(x)
           : config_.embed_dim              ? last_token(x)
                                            : at(x, 0);
  }

  void classify(const OnnxValue& x) {
    OnnxValue pooled = pooled_token(x);
    pooled = config_.has_towers() ? tower_features(pooled) : transformed(pooled);
    const auto module = graph_.enter("classifier");
    graph_.output(modules_.linear(head_dense(pooled, "dense"), "out_proj"), "logits",
                  {batch_, config_.num_labels()});
  }

  void answer(const OnnxValue& x) {
    const OnnxValue both = modules_.linear(transformed(x), "qa_outputs");
    const auto module = graph_.enter("qa_outputs");
    for (const auto& [place, name] : {std::pair(0, "start_logits"), std::pair(1, "end_logits")})
      graph_.output(graph_("Gather", {both, graph_.integer(place)}, {{"axis", 2}}), name,
                    {batch_, length_});
  }

  void judge(const OnnxValue& x) {
    const auto module = graph_.enter("discriminator_predictions");
    const OnnxValue y = modules_.activate(modules_.linear(x, "dense"), config_.hidden_act);
    const OnnxValue logits = modules_.linear(y, "dense_prediction");
    graph_.output(graph_("Squeeze", {logits, graph_.integers({2})}), "logits", {batch_, length_});
  }

  void choose(const OnnxValue& x) {
    const OnnxValue y = head_dense(transformed(pooled_token(x)), "pre_classifier");
    const OnnxValue scores = modules_.linear(y, "classifier");
    graph_.output(graph_("Reshape", {scores, choices_}), "logits", {batch_, "num_choices"});
  }

  OnnxModules modules_;
  OnnxGraph& graph_;
  const ModelConfig& config_;
  const OnnxDimension batch_ = "batch_size";
  const OnnxDimension length_ =
      config_.fixed_length() ? OnnxDimension(*config_.fixed_length()) : "sequence_length";
  OnnxTokens tokens_;
  // Where a sample has several rows: [-1, n], and [b, choices].
  OnnxValue row_shape_, choices_;
};

}  // namespace

std::string onnx_obstacle(const ModelConfig& config) {
  const AttentionConfig& attention = config.attention;
  if (config.has_kind(AttentionKind::reformer))
    return "attention.kind is reformer, which sorts tokens by random hashes, and ONNX has no "
           "stable sort; export the model without ONNX";
  const bool exact_case = attention.semantics == Semantics::transformers && !config.fixed_length();
  if (config.has_kind(AttentionKind::nystrom) && attention.inverse == Inverse::exact && !exact_case)
    return "attention.inverse is exact, and ONNX has no singular value decomposition; --set "
           "model.attention.inverse=iterative exports the model with the iterative inverse";
  return "";
}

void write_onnx(const Model& model, const std::filesystem::path& folder,
                const OnnxOptions& options) {
  const std::string obstacle = onnx_obstacle(model.config());
  require_input(obstacle.empty(), "cannot be written as ONNX: {}", obstacle);
  OnnxGraph graph("nystromformer",
                  fmt::format("{}, written by nystrom. attention_mask is 1 at tokens and 0 at "
                              "padding.",
                              enum_name(model.config().head)));
  OnnxWriter({graph, model, options.int8}).write();
  graph.save(folder / (options.int8 ? "model_int8.onnx" : "model.onnx"), options.max_bytes);
}

}  // namespace nystrom
