#include "train/export/model_card.h"

#include "core/base/printable.h"
#include "core/check.h"
#include "train/export/export.h"

namespace nystrom {
namespace {

/// The names of a head's task on Hugging Face's hub and in its Auto classes.
struct Task {
  const char* pipeline;
  const char* auto_class;
  const char* words;
};

Task task_of(Head head) {
  switch (head) {
    case Head::masked_lm: return {"fill-mask", "AutoModelForMaskedLM", "masked language model"};
    case Head::sequence_classification:
      return {"text-classification", "AutoModelForSequenceClassification", "text classifier"};
    case Head::token_classification:
      return {"token-classification", "AutoModelForTokenClassification", "token classifier"};
    case Head::question_answering:
      return {"question-answering", "AutoModelForQuestionAnswering", "question answering model"};
    case Head::multiple_choice:
      return {"multiple-choice", "AutoModelForMultipleChoice", "multiple choice model"};
    case Head::none: break;
  }
  return {"feature-extraction", "AutoModel", "encoder without head"};
}

std::string front_matter(const ModelCard& card) {
  return fmt::format(
      "---\n"
      "library_name: transformers\n"
      "pipeline_tag: {}\n"
      "tags:\n"
      "- nystromformer\n"
      "# license: other (choose the licence of your weights and remove this remark)\n"
      "---\n\n",
      task_of(card.config.head).pipeline);
}

std::string describe_attention(const ModelConfig& config) {
  const AttentionConfig& attention = config.attention;
  const std::string conv = attention.conv_kernel_size
                               ? fmt::format("convolution of {} taps", *attention.conv_kernel_size)
                               : "no convolution";
  if (attention.kind == AttentionKind::softmax) return "exact softmax, " + conv;
  const std::string steps = attention.inverse == Inverse::iterative
                                ? fmt::format(" ({} steps)", attention.inverse_iterations)
                                : "";
  return fmt::format(
      "Nyström, {} landmarks of {}, inverse: {}{}, {}, semantics: {}", attention.num_landmarks,
      attention.landmark_source == LandmarkSource::keys ? "the keys" : "queries and keys",
      enum_name(attention.inverse), steps, conv, enum_name(attention.semantics));
}

std::string what_it_is(const ModelCard& card) {
  const ModelConfig& c = card.config;
  return fmt::format(
      "# {}\n\n"
      "A Nyströmformer: {}, written by `nystrom export`.\n\n"
      "| | |\n"
      "|---|---|\n"
      "| class | `{}` |\n"
      "| parameters | {} |\n"
      "| layers | {} of width {}, {} heads, feed-forward {} ({}) |\n"
      "| vocabulary | {} |\n"
      "| length | {} tokens, the special ones included; {} rows of positions |\n"
      "| attention | {} |\n"
      "| in transformers | {} |\n\n",
      printable(card.title), task_of(c.head).words, enum_name(c.head), card.parameters,
      c.num_hidden_layers, c.hidden_size, c.num_attention_heads, c.intermediate_size,
      enum_name(c.hidden_act), c.vocab_size, card.longest, c.max_position_embeddings,
      describe_attention(c),
      is_exact_in_transformers(c)
          ? "exact softmax attention, at any length up to the rows of positions"
          : fmt::format("Nyström attention, on rows of exactly {} positions",
                        c.segment_means_seq_len));
}

/// Keyword arguments of a tokenizer call.
std::string tokenizer_arguments(const ModelCard& card) {
  return fmt::format("truncation=True, max_length={}{}", card.longest,
                     is_exact_in_transformers(card.config) ? "" : ", padding=\"max_length\"");
}

std::string fill_mask_code(const ModelCard& card) {
  return fmt::format(
      "from transformers import pipeline\n\n"
      "length = dict({})\n"
      "fill_mask = pipeline(\"fill-mask\", model=\".\", tokenizer_kwargs=length)\n"
      "text = f\"She opened the {{fill_mask.tokenizer.mask_token}} and looked out.\"\n"
      "for guess in fill_mask(text):\n"
      "    print(round(guess[\"score\"], 4), guess[\"sequence\"])\n\n",
      tokenizer_arguments(card));
}

/// Code that calls the model directly.
std::string call_code(const ModelCard& card) {
  const ModelConfig& config = card.config;
  const Task task = task_of(config.head);
  std::string code = "import torch\n";
  if (!card.has_tokenizer) {
    const std::int64_t length = is_exact_in_transformers(config)
                                    ? std::min<std::int64_t>(3, card.longest)
                                    : config.segment_means_seq_len;
    code += fmt::format(
        "from transformers import {0}\n\n"
        "model = {0}.from_pretrained(\".\").eval()\n"
        "ids = torch.full((1, {1}), {2})  # a row of padding; put the ids of your text in front\n"
        "ids[0, :2] = torch.tensor([0, 0])\n"
        "inputs = dict(input_ids=ids, attention_mask=(torch.arange({1}) < 2).long()[None])\n",
        task.auto_class, length, config.pad_token_id);
  } else {
    code += fmt::format(
        "from transformers import {0}, AutoTokenizer\n\n"
        "tokenizer = AutoTokenizer.from_pretrained(\".\")\n"
        "model = {0}.from_pretrained(\".\").eval()\n"
        "inputs = tokenizer(\"The harbour was quiet before dawn.\", return_tensors=\"pt\", {1})\n",
        task.auto_class, tokenizer_arguments(card));
  }
  if (config.head == Head::multiple_choice)
    code += "inputs = {name: value[None] for name, value in inputs.items()}  # one choice\n";
  return code + "with torch.no_grad():\n    outputs = model(**inputs)\n";
}

std::string in_transformers(const ModelCard& card) {
  std::string text =
      "## With transformers\n\nUse version 4.57.1, which this folder's form was checked with.";
  const ModelConfig& config = card.config;
  const bool exact = is_exact_in_transformers(config);
  if (!exact) text += " Versions 5.x crash on padding masks in Nyström attention.";
  text += " The code runs in this folder.\n\n```python\n";
  if (config.head == Head::masked_lm && !card.mask_token.empty()) text += fill_mask_code(card);
  text += call_code(card) + "```\n\n";
  if (!card.has_tokenizer)
    text += "The model came without tokenizer; the ids must be those that it was trained with.\n\n";
  if (exact) return text;
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

std::string differences_of(const ModelCard& card) {
  const bool exact = is_exact_in_transformers(card.config);
  if (card.differences.empty()) {
    return "How large the difference is on sample texts tells\n\n    nystrom export THIS_FOLDER "
           "NEW_FOLDER --verify\n\n";
  }
  std::string text = fmt::format(
      "Measured on sample texts: the largest difference of any entry of `{}` at the text's tokens, "
      "between nystrom (the text as it is) and "
      "what "
      "transformers computes ({}).\n\n"
      "| tokens | positions in transformers | difference | relative to the largest entry |\n"
      "|---|---|---|---|\n",
      result_name(card.config), exact ? "the same" : "padded");
  for (const ExportDifference& each : card.differences) {
    text += fmt::format("| {} | {} | {:.2g} | {:.2g} |\n", each.tokens, each.positions,
                        each.absolute, each.relative);
  }
  return text + "\n";
}

std::string in_nystrom(const ModelCard& card) {
  const ModelConfig& config = card.config;
  const bool predicts = config.head == Head::masked_lm && !card.mask_token.empty();
  std::string text = fmt::format(
      "## With nystrom\n\n"
      "Every command takes this folder as its MODEL; the block `nystrom` in config.json restores "
      "all options, and stays there when "
      "transformers "
      "saves the model again.\n\n"
      "    nystrom {}\n\n",
      predicts ? fmt::format("predict THIS_FOLDER \"She opened the {} and looked out.\"",
                             card.mask_token)
               : "info THIS_FOLDER");
  if (!config.attention.conv_kernel_size) {
    text +=
        "The model has no convolution. For transformers, which always has one, the weights hold a "
        "kernel of one tap that is zero.\n\n";
  }
  text += "## Differences between the two\n\n";
  if (config.attention.semantics == Semantics::transformers) {
    text +=
        "- nystrom runs this model as transformers does; what is measured below is against `--set "
        "model.attention.semantics=nystrom`\n";
  }
  for (const std::string& note : card.notes) text += "- " + note + "\n";
  if (text.ends_with("\n\n")) text += "- none: both compute the same\n";
  return text + "\n" + differences_of(card);
}

}  // namespace

std::string model_card(const ModelCard& card) {
  return front_matter(card) + what_it_is(card) + in_transformers(card) + in_nystrom(card);
}

}  // namespace nystrom
