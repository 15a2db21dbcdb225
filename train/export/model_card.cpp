#include "train/export/export.h"

#include "core/base/printable.h"
#include "core/check.h"
#include "nn/layer_kinds.h"

namespace nystrom {
namespace {

/// The name of a head's task on Hugging Face's hub.
struct Task {
  const char* pipeline;  // null: none
  const char* words;
};

Task hub_task_of(const ModelConfig& config) {
  if (config.embed_dim) return {nullptr, "model of feature sequences"};
  if (config.has_towers()) return {nullptr, "classifier of pairs of texts"};
  switch (config.head) {
    case Head::masked_lm: return {"fill-mask", "masked language model"};
    case Head::replaced_tokens: return {nullptr, "detector of replaced tokens"};
    case Head::sequence_classification: return {"text-classification", "text classifier"};
    case Head::token_classification: return {"token-classification", "token classifier"};
    case Head::question_answering: return {"question-answering", "question answering model"};
    case Head::multiple_choice: return {"multiple-choice", "multiple choice model"};
    case Head::masked_features:
    case Head::none: break;
  }
  return {"feature-extraction", "encoder without head"};
}

std::string front_matter(const ModelCard& card) {
  const char* const pipeline = hub_task_of(card.config).pipeline;
  return fmt::format(
      "---\n"
      "library_name: transformers\n"
      "{}tags:\n"
      "- {}\n"
      "{}# license: other (choose the licence of your weights and remove this remark)\n"
      "---\n\n",
      pipeline ? fmt::format("pipeline_tag: {}\n", pipeline) : "",
      card.architecture ? card.architecture->model_type : "nystromformer",
      card.makes_vectors ? "- sentence-transformers\n" : "");
}

std::string describe_attention(const ModelConfig& config) {
  const AttentionConfig& attention = config.attention;
  std::string conv = attention.conv_kernel_size
                         ? fmt::format("convolution of {} taps", *attention.conv_kernel_size)
                         : "no convolution";
  if (attention.window) conv += fmt::format(", window {}", *attention.window);
  if (!config.has_kind(AttentionKind::nystrom))
    return fmt::format(
        "{}, {}",
        config.has_only(AttentionKind::softmax) ? "exact softmax" : describe_kinds(config), conv);
  const std::string steps = attention.inverse == Inverse::iterative
                                ? fmt::format(" ({} steps)", attention.inverse_iterations)
                                : "";
  const std::string mixed =
      config.has_only(AttentionKind::nystrom) ? "" : "; by layer: " + describe_kinds(config);
  return fmt::format(
      "Nyström, {} landmarks of {}, inverse: {}{}, {}, semantics: {}{}", attention.num_landmarks,
      attention.landmark_source == LandmarkSource::keys ? "the keys" : "queries and keys",
      enum_name(attention.inverse), steps, conv, enum_name(attention.semantics), mixed);
}

std::string what_it_is(const ModelCard& card) {
  const ModelConfig& c = card.config;
  const bool theirs = !card.has_classes || computed_by_transformers(c);
  const std::string class_name = card.architecture ? architecture_class(*card.architecture, c.head)
                                 : theirs          ? enum_name(c.head)
                                                   : own_class(c.head);
  const char* input = c.embed_dim ? "steps of features" : "tokens, the special ones included";
  return fmt::format(
      "# {}\n\n"
      "{}: {}, written by `nystrom export`.\n\n"
      "| | |\n"
      "|---|---|\n"
      "| class | `{}` |\n"
      "| parameters | {} |\n"
      "| layers | {} of width {}, {} heads, feed-forward {} ({}) |\n"
      "{}"
      "| length | {} {}; {} |\n"
      "| attention | {} |\n"
      "| in transformers | {} |\n\n",
      printable(card.title),
      card.architecture
          ? fmt::format("{} {}", card.architecture->class_prefix == "Electra" ? "An" : "A",
                        card.architecture->class_prefix)
          : "A Nyströmformer",
      hub_task_of(c).words, class_name, card.parameters, c.num_hidden_layers, c.hidden_size,
      c.num_attention_heads, c.intermediate_size, enum_name(c.hidden_act),
      c.embed_dim ? "" : fmt::format("| vocabulary | {} |\n", c.vocab_size), card.longest, input,
      c.has_position_table() ? fmt::format("{} rows of positions", c.max_position_embeddings)
      : c.positions == Positions::rope ? "rotary positions"
                                       : "no positions",
      describe_attention(c),
      takes_one_length(card) ? fmt::format("Nyström attention, on rows of exactly {} positions",
                                           c.segment_means_seq_len)
      : card.has_classes     ? "the same, by the classes in this folder"
      : c.has_position_table()
          ? "exact softmax attention, at any length up to the rows of positions"
          : "the same attention, at any length");
}

/// Keyword arguments of a tokenizer call.
std::string tokenizer_arguments(const ModelCard& card) {
  return fmt::format("truncation=True, max_length={}{}", card.longest,
                     takes_one_length(card) ? ", padding=\"max_length\"" : "");
}

/// The argument that makes transformers run the classes of the folder.
const char* trust(const ModelCard& card) {
  return card.has_classes ? ", trust_remote_code=True" : "";
}

std::string fill_mask_code(const ModelCard& card) {
  return fmt::format(
      "from transformers import pipeline\n\n"
      "length = dict({})\n"
      "fill_mask = pipeline(\"fill-mask\", model=\".\", tokenizer_kwargs=length{})\n"
      "text = f\"She opened the {{fill_mask.tokenizer.mask_token}} and looked out.\"\n"
      "for guess in fill_mask(text):\n"
      "    print(round(guess[\"score\"], 4), guess[\"sequence\"])\n\n",
      tokenizer_arguments(card), trust(card));
}

/// Code that makes `inputs` of a model without tokenizer.
std::string inputs_code(const ModelCard& card) {
  const ModelConfig& config = card.config;
  const std::int64_t length = takes_one_length(card) ? config.segment_means_seq_len
                                                     : std::min<std::int64_t>(3, card.longest);
  std::string code;
  if (config.embed_dim)
    code = fmt::format("inputs = dict(features=torch.zeros(1, {0}, {1}))  # your steps in front\n",
                       length, *config.embed_dim);
  else
    code = fmt::format(
        "ids = torch.full((1, {}), {})  # a row of padding; put the ids of your text in front\n"
        "ids[0, :2] = torch.tensor([0, 0])\n"
        "inputs = dict(input_ids=ids)\n",
        length, config.pad_token_id.value_or(0));
  return code +
         fmt::format("inputs[\"attention_mask\"] = (torch.arange({}) < 2).long()[None]\n", length);
}

/// Code that calls the model directly.
std::string call_code(const ModelCard& card) {
  const ModelConfig& config = card.config;
  const std::string auto_model = auto_class(config.head);
  std::string code = fmt::format(
      "import torch\n"
      "from transformers import {}{}\n\n"
      "model = {}.from_pretrained(\".\"{}).eval()\n",
      auto_model, card.has_tokenizer ? ", AutoTokenizer" : "", auto_model, trust(card));
  if (card.has_tokenizer)
    code += fmt::format(
        "tokenizer = AutoTokenizer.from_pretrained(\".\"{})\n"
        "inputs = tokenizer(\"The harbour was quiet before dawn.\", return_tensors=\"pt\", {})\n",
        trust(card), tokenizer_arguments(card));
  else
    code += inputs_code(card);
  if (config.head == Head::multiple_choice)
    code += "inputs = {name: value[None] for name, value in inputs.items()}  # one choice\n";
  if (config.has_towers())
    code += "inputs = {name: torch.stack([x, x], 1) for name, x in inputs.items()}  # two texts\n";
  code += "with torch.no_grad():\n    outputs = model(**inputs)\n";
  if (config.multi_label)
    code += fmt::format(
        "for label, score in zip(model.config.id2label.values(), outputs.logits[0].sigmoid()):\n"
        "    print(label, round(score.item(), 4))  # each by itself; a text has those from {:g} "
        "on\n",
        card.threshold);
  return code;
}

/// How transformers loads the folder, and with which classes.
std::string loading(const ModelCard& card) {
  if (card.architecture)
    return "transformers' own class computes this model, in versions 4.57.1 and 5.x.";
  if (!card.has_classes)
    return std::string("Use version 4.57.1, which this folder's form was checked with.") +
           (takes_one_length(card) ? " Versions 5.x crash on padding masks in Nyström attention."
                                   : "");
  std::string text =
      "`modeling_nystrom.py` computes this model as nystrom does, with any padding, in versions "
      "4.57.1 and 5.x. Read it, then allow it with `trust_remote_code=True`.";
  const ModelConfig& config = card.config;
  if (computed_by_transformers(config))
    return text +
           " Without that, transformers runs its own class, whose convolution reads padding: the "
           "results are the same for one text at a time. With it, transformers remarks that "
           "config.json names another type of model; nothing is wrong.";
  if (config.has_kind(AttentionKind::reformer))
    text += " It needs memory for a mask of all pairs of positions.";
  if (export_obstacle(config).empty())
    text +=
        " A folder for transformers' own class, which computes another attention, is made by\n\n"
        "    nystrom export THIS_FOLDER NEW_FOLDER --format transformers\n\n";
  return text;
}

std::string in_transformers(const ModelCard& card) {
  const ModelConfig& config = card.config;
  std::string text = "## With transformers\n\n" + loading(card);
  if (!text.ends_with("\n")) text += " ";
  text += "The code runs in this folder.\n\n```python\n";
  if (config.head == Head::masked_lm && !card.mask_token.empty()) text += fill_mask_code(card);
  text += call_code(card) + "```\n\n";
  if (!card.has_tokenizer && !config.embed_dim)
    text += "The model came without tokenizer; the ids must be those that it was trained with.\n\n";
  if (!takes_one_length(card)) return text;
  return text +
         fmt::format(
             "Pad every text to {0} positions, as the code does. transformers cuts rows into {1} "
             "segments of {2} by a reshape that takes "
             "{0} positions for granted: one text of another length fails there, or in a batch "
             "whose positions add up to a multiple of {0} "
             "the texts are mixed into each other without an error (two texts of {3}, say).\n\n",
             config.segment_means_seq_len, config.attention.num_landmarks,
             config.segment_means_seq_len / config.attention.num_landmarks,
             config.segment_means_seq_len / 2);
}

std::string in_sentence_transformers(const ModelCard& card) {
  if (!card.makes_vectors) return "";
  const EmbeddingConfig& embedding = card.config.embedding;
  const bool prompts = !embedding.query_prompt.empty() || !embedding.document_prompt.empty();
  return fmt::format(
      "## With sentence-transformers\n\n"
      "```python\n"
      "from sentence_transformers import SentenceTransformer\n\n"
      "model = SentenceTransformer(\".\"{})\n"
      "{}"
      "```\n\n",
      trust(card),
      prompts ? "queries = model.encode_query([\"Who was at the port?\"])\n"
                "documents = model.encode_document([\"The harbour was quiet.\"])\n"
                "print(model.similarity(queries, documents))\n"
              : "vectors = model.encode([\"The harbour was quiet.\", \"Nobody was at the "
                "port.\"])\n"
                "print(model.similarity(vectors, vectors))\n");
}

std::string in_onnx_runtime(const ModelCard& card) {
  if (!card.has_onnx) return "";
  return fmt::format(
      "## With ONNX Runtime\n\n"
      "`onnx/model.onnx` computes the same{}, for any {}. Its inputs are {}, "
      "`attention_mask`{}; its outputs have the names of transformers'.\n\n",
      card.config.attention.semantics == Semantics::nystrom ? " as nystrom" : " as transformers",
      card.config.attends_by_distance() ? "length; padding goes behind the tokens"
                                        : "mask and length",
      card.config.embed_dim ? "`features`" : "`input_ids`",
      card.config.type_vocab_size > 1 && !card.config.embed_dim ? ", `token_type_ids`" : "");
}

std::string differences_of(const ModelCard& card) {
  const bool exact = card.config.exact_in_transformers();
  if (card.differences.empty())
    return fmt::format(
        "How large the difference is on sample texts tells\n\n    nystrom export THIS_FOLDER "
        "NEW_FOLDER{} --verify\n\n",
        computed_by_transformers(card.config) ? "" : " --format transformers");
  std::string text = fmt::format(
      "Measured on sample texts: the largest difference of any entry of `{}` at the text's tokens, "
      "between nystrom (the text as it is) and what transformers computes ({}).\n\n"
      "| tokens | positions in transformers | difference | relative to the largest entry |\n"
      "|---|---|---|---|\n",
      card.config.head == Head::none ? "last_hidden_state" : "logits",
      exact ? "the same" : "padded");
  for (const ExportDifference& each : card.differences)
    text += fmt::format("| {} | {} | {:.2g} | {:.2g} |\n", each.tokens, each.positions,
                        each.absolute, each.relative);
  return text + "\n";
}

std::string in_nystrom(const ModelCard& card) {
  const ModelConfig& config = card.config;
  const bool predicts = config.head == Head::masked_lm && !card.mask_token.empty();
  std::string text = fmt::format(
      "## With nystrom\n\n"
      "Every command takes this folder as its MODEL{}.\n\n"
      "    nystrom {}\n\n",
      card.architecture ? ""
                        : "; the block `nystrom` in config.json restores all options, and stays "
                          "there when transformers saves the model again",
      predicts ? fmt::format("predict THIS_FOLDER \"She opened the {} and looked out.\"",
                             card.mask_token)
               : "info THIS_FOLDER");
  std::string notes;
  for (const std::string& note : card.notes) notes += "- " + note + "\n";
  if (card.architecture || (card.has_classes && !computed_by_transformers(config)))
    return notes.empty() ? text : text + notes + "\n";
  if (!config.attention.conv_kernel_size && !card.has_classes)
    text +=
        "The model has no convolution. For transformers, which always has one, the weights hold a "
        "kernel of one tap that is zero.\n\n";
  text += "## Differences between the two\n\n";
  if (config.attention.semantics == Semantics::transformers)
    text +=
        "- nystrom runs this model as transformers does; what is measured below is against `--set "
        "model.attention.semantics=nystrom`\n";
  text += notes;
  if (text.ends_with("\n\n")) text += "- none: both compute the same\n";
  return text + "\n" + differences_of(card);
}

}  // namespace

bool takes_one_length(const ModelCard& card) {
  return !card.has_classes && !card.architecture && !card.config.exact_in_transformers();
}

std::string model_card(const ModelCard& card) {
  return front_matter(card) + what_it_is(card) + in_transformers(card) +
         in_sentence_transformers(card) + in_onnx_runtime(card) + in_nystrom(card);
}

}  // namespace nystrom
