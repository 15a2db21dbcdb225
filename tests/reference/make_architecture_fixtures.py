"""Writes tests/fixtures/architectures: small encoders of BERT's family, run by transformers.

    build/interop/bin/python tests/reference/make_architecture_fixtures.py [CASE ...]

Needs torch 2.15, transformers 4.57.1 and safetensors; no network. Every case is seeded by its own
name, so one can be written anew without the others. A case is a folder with

    config.json, model.safetensors or shards   what save_pretrained writes, in float32; some cases
                           then get the names of older files
    batch.safetensors      the inputs of one call: int64, regression labels float32
    expected.safetensors   float64: logits (start_logits, end_logits), last_hidden_state, loss,
                           grad.NAME with transformers' name of the parameter

The folder is loaded back in float64 and run in eval() mode. Some tokens of a row without padding
are padding tokens all the same: RoBERTa's positions skip them. Losses of answers leave padding out,
which transformers' own count."""

from dataclasses import dataclass, field
from pathlib import Path
from types import MethodType

import torch
import transformers
from common import print_case, write_cases, write_tensors
from safetensors.torch import load_file, save_file

IGNORED = -100
VOCAB, LENGTH, WIDTH = 30, 9, 16
Tensors = dict[str, torch.Tensor]


@dataclass
class Case:
    model: str  # transformers' prefix of classes: "Bert"
    head: str = ""  # "ForMaskedLM"; empty: the class of the encoder alone
    rename: str = ""  # "gamma", "bare" (no prefix), "prefixed", "legacy", "shards"
    labels: int = 2
    config: dict = field(default_factory=dict)
    mask: str = "right"  # right, holes or none

    @property
    def choices(self) -> int:
        return 3 if self.head == "ForMultipleChoice" else 0


MLM, SEQUENCE, TOKENS = "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification"
QUESTIONS, CHOICE = "ForQuestionAnswering", "ForMultipleChoice"

BIASES = ("attention_bias", "mlp_bias", "norm_bias", "classifier_bias")

CASES: dict[str, Case] = {
    "bert_mlm": Case("Bert", MLM, config={"hidden_act": "gelu_new"}),
    "bert_mlm_gamma_beta": Case("Bert", MLM, rename="legacy", mask="holes"),
    "bert_mlm_without_prefix": Case("Bert", MLM, rename="bare"),
    "bert_pretraining": Case("Bert", "ForPreTraining"),
    "bert_model": Case("Bert"),
    "bert_model_with_prefix": Case("Bert", rename="prefixed"),
    "bert_sequence": Case("Bert", SEQUENCE, labels=3, mask="holes"),
    "bert_regression_relu": Case("Bert", SEQUENCE, labels=1, config={"hidden_act": "relu"}),
    "bert_tokens_in_shards": Case("Bert", TOKENS, rename="shards", labels=4),
    "bert_questions": Case("Bert", QUESTIONS, config={"type_vocab_size": 3}),
    "bert_choice": Case("Bert", CHOICE),
    "roberta_mlm": Case("Roberta", MLM),
    "roberta_mlm_relu": Case("Roberta", MLM, config={"hidden_act": "relu", "type_vocab_size": 2}),
    "roberta_mlm_gamma_beta": Case("Roberta", MLM, rename="legacy"),
    "roberta_model": Case("Roberta", config={"pad_token_id": 3}),
    "roberta_sequence": Case("Roberta", SEQUENCE, labels=3, mask="holes"),
    "roberta_tokens": Case("Roberta", TOKENS, labels=4),
    "roberta_questions": Case("Roberta", QUESTIONS),
    "roberta_choice": Case("Roberta", CHOICE),
    "xlm_roberta_mlm": Case("XLMRoberta", MLM, mask="holes"),
    "xlm_roberta_tokens": Case("XLMRoberta", TOKENS, labels=4),
    "camembert_mlm": Case("Camembert", MLM),
    "camembert_sequence": Case("Camembert", SEQUENCE),
    "distilbert_mlm": Case("DistilBert", MLM, mask="holes"),
    "distilbert_mlm_gamma_beta": Case("DistilBert", MLM, rename="legacy"),
    "distilbert_model": Case("DistilBert", config={"sinusoidal_pos_embds": True}),
    "distilbert_sequence": Case("DistilBert", SEQUENCE, labels=3),
    "distilbert_tokens": Case("DistilBert", TOKENS, labels=4),
    "distilbert_questions": Case("DistilBert", QUESTIONS),
    "distilbert_choice": Case("DistilBert", CHOICE),
    "electra_generator": Case("Electra", MLM, mask="holes"),
    "electra_generator_relu": Case(
        "Electra", MLM, rename="legacy", config={"embedding_size": WIDTH, "hidden_act": "relu"}
    ),
    "electra_discriminator": Case("Electra", "ForPreTraining"),
    "electra_sequence": Case("Electra", SEQUENCE, labels=3, config={"hidden_act": "relu"}),
    "electra_tokens": Case("Electra", TOKENS, labels=4),
    "electra_questions": Case("Electra", QUESTIONS),
    "electra_choice": Case("Electra", CHOICE, config={"embedding_size": WIDTH}),
    "modernbert_mlm": Case("ModernBert", MLM),
    "modernbert_mlm_biases": Case(
        "ModernBert", MLM, config=dict.fromkeys(BIASES, True) | {"tie_word_embeddings": False}
    ),
    "modernbert_model": Case("ModernBert", rename="bare", config={"local_rope_theta": 50.0}),
    "modernbert_sequence": Case("ModernBert", SEQUENCE, labels=3),
    "modernbert_sequence_mean": Case(
        "ModernBert",
        SEQUENCE,
        config={"classifier_pooling": "mean", "global_attn_every_n_layers": 1},
    ),
    "modernbert_tokens": Case("ModernBert", TOKENS, labels=4, config={"local_attention": 2}),
    "modernbert_questions": Case("ModernBert", QUESTIONS, config={"hidden_activation": "relu"}),
    "modernbert_choice": Case("ModernBert", CHOICE, config={"classifier_activation": "relu"}),
}

ROBERTA = dict(max_position_embeddings=LENGTH + 2, type_vocab_size=1, layer_norm_eps=1e-5)
ARCHITECTURES = {
    "Bert": {},
    "Roberta": ROBERTA,
    "XLMRoberta": ROBERTA,
    "Camembert": ROBERTA,
    "Electra": dict(embedding_size=12),
    "ModernBert": dict(
        num_hidden_layers=4,
        intermediate_size=12,
        local_attention=4,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
    ),
    "DistilBert": dict(n_layers=2, n_heads=2, dim=WIDTH, hidden_dim=WIDTH),
}


def make_model(case: Case) -> transformers.PreTrainedModel:
    settings = dict(vocab_size=VOCAB, max_position_embeddings=LENGTH, num_labels=case.labels)
    if case.model != "DistilBert":
        settings |= dict(hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=2)
        settings |= dict(intermediate_size=WIDTH)
    settings |= ARCHITECTURES[case.model] | case.config
    if case.config.get("pad_token_id", 1) > 1:  # positions begin behind the padding's
        settings["max_position_embeddings"] += case.config["pad_token_id"]
    config = getattr(transformers, case.model + "Config")(**settings)
    model = getattr(transformers, case.model + (case.head or "Model"))(config)
    randomise(model)
    return model


@torch.no_grad()
def randomise(model: torch.nn.Module) -> None:
    """Away from the initialisation, where biases are 0 and every layer adds next to nothing."""
    for name, parameter in model.named_parameters():
        noise = torch.randn_like(parameter)
        if "norm" in name.lower() and name.endswith("weight"):
            parameter.add_(0.2 * noise)
        elif name.endswith("bias") or "embeddings.weight" in name:
            parameter.copy_(0.2 * noise)
        else:
            parameter.mul_(10.0)


def make_batch(case: Case, pad: int) -> Tensors:
    rows = 2 * max(1, case.choices)
    ids = torch.randint(pad + 1, VOCAB, (rows, LENGTH))
    mask = torch.ones(rows, LENGTH, dtype=torch.int64)
    for row in range(1, rows):  # the first row stays full
        if case.mask == "none":
            continue
        if case.mask == "right":
            mask[row, LENGTH - 1 - row % 4 :] = 0
        else:
            mask[row, 1:] = (torch.rand(LENGTH - 1) < 0.7).long()
            mask[row, 2 + row] = 0
    ids[mask == 0] = pad
    ids[0, LENGTH // 2] = pad  # a padding token that the mask marks as valid
    batch = {"input_ids": ids, "attention_mask": mask}
    types = case.config.get("type_vocab_size", 2 if case.model in ("Bert", "Electra") else 1)
    if types > 1:
        batch["token_type_ids"] = torch.randint(0, types, ids.shape)
    if case.choices:
        batch = {name: tensor.view(2, case.choices, LENGTH) for name, tensor in batch.items()}
    return batch | make_targets(case, ids, mask)


def make_targets(case: Case, ids: torch.Tensor, mask: torch.Tensor) -> Tensors:
    if case.head == MLM or (case.head == "ForPreTraining" and case.model == "Bert"):
        chosen = torch.rand(ids.shape) < 0.3
        chosen[:, 0] = True
        if case.model == "ModernBert":  # nystrom computes no padding there
            chosen &= mask == 1
        return {"labels": torch.where(chosen, torch.randint(0, VOCAB, ids.shape), IGNORED)}
    if case.head == "ForPreTraining":
        return {"labels": torch.where(mask == 0, IGNORED, torch.randint(0, 2, ids.shape))}
    if case.head == TOKENS:
        ignored = (mask == 0) | (torch.rand(ids.shape) < 0.2)
        return {"labels": torch.where(ignored, IGNORED, torch.randint(0, case.labels, ids.shape))}
    if case.head == QUESTIONS:
        return {
            "start_positions": torch.tensor([1, LENGTH + 7]),
            "end_positions": torch.tensor([4, 3]),
        }
    if case.head == CHOICE:
        return {"labels": torch.tensor([2, 0])}
    if case.head == SEQUENCE:
        return {"labels": torch.randn(2) if case.labels == 1 else torch.tensor([1, 0])}
    return {}


def exact_rotation(module, x, position_ids, layer_type=None):
    """ModernBERT's cosines and sines in x's type, of angles in float32 as its own forward has.
    transformers 5 asks by the type of layer."""
    inverse = getattr(module, f"{layer_type}_inv_freq" if layer_type else "inv_freq")
    angles = position_ids[..., None].float() * inverse.float()
    angles = torch.cat((angles, angles), dim=-1).to(x.dtype)
    return angles.cos(), angles.sin()


def loss_of_answers(output, batch: Tensors) -> torch.Tensor:
    """transformers' own, of tokens without padding."""
    losses = []
    for name in ("start", "end"):
        mask = batch["attention_mask"]
        logits = output[f"{name}_logits"].masked_fill(mask == 0, -torch.inf)
        places = batch[f"{name}_positions"]
        at = places.clamp(max=mask.shape[1] - 1)
        outside = (places != at) | (mask.gather(1, at[:, None])[:, 0] == 0)
        places = places.masked_fill(outside, IGNORED)  # beyond the row, or at padding
        losses.append(torch.nn.functional.cross_entropy(logits, places))
    return sum(losses) / 2


def run(case: Case, folder: Path, batch: Tensors, dtype: torch.dtype) -> Tensors:
    # Of BERT's two heads the program has the masked language model.
    both = case.head == "ForPreTraining" and case.model == "Bert"
    head = MLM if both else case.head
    model_class = getattr(transformers, case.model + (head or "Model"))
    # ModernBERT's eager attention has a softmax in float32, also in a model of float64.
    attention = "sdpa" if case.model == "ModernBert" else "eager"
    model = model_class.from_pretrained(folder, dtype=dtype, attn_implementation=attention).eval()
    last = []
    for module in model.modules():
        if type(module).__name__ == "ModernBertRotaryEmbedding":
            module.forward = MethodType(exact_rotation, module)
    if case.model == "ModernBert":  # its hidden_states are those before the last norm
        getattr(model, "model", model).final_norm.register_forward_hook(
            lambda module, inputs, output: last.append(output)
        )
    inputs = {k: x.to(dtype) if x.is_floating_point() else x for k, x in batch.items()}
    output = model(**inputs, output_hidden_states=True)
    results = {"last_hidden_state": last[0] if last else output.hidden_states[-1]}
    for name in ("logits", "start_logits", "end_logits"):
        if name in output:
            results[name] = output[name]
    if "loss" not in output:
        return results
    loss = output.loss
    if case.model == "ModernBert" and case.head == MLM:  # its own loss rounds logits to float32
        loss = torch.nn.functional.cross_entropy(output.logits.mT, batch["labels"])
    if case.head == "ForPreTraining" and not both:  # its own loss is rounded to float32
        valid = batch["labels"] != IGNORED
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            output.logits[valid], batch["labels"][valid].to(dtype)
        )
    if case.head == QUESTIONS and case.model != "Nystromformer":
        loss = loss_of_answers(output, batch)
    loss.backward()
    results["loss"] = loss.reshape(1)
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return results | {"grad." + name: gradient for name, gradient in gradients.items()}


def older_name(name: str) -> str:
    """LayerNorm's names before transformers 1.0."""
    weight, bias = "LayerNorm.weight", "LayerNorm.bias"
    return name.replace(weight, "LayerNorm.gamma").replace(bias, "LayerNorm.beta")


def legacy(tensors: Tensors, base: str) -> Tensors:
    """What published files hold besides: tied copies, buffers, and a pooler that nothing reads."""
    words = tensors[f"{base}.embeddings.word_embeddings.weight"]
    extra = {f"{base}.embeddings.position_ids": torch.arange(LENGTH)[None]}
    if base == "bert":
        extra["cls.predictions.decoder.weight"] = words
        extra["cls.seq_relationship.weight"] = torch.ones(2, WIDTH)
        extra["cls.seq_relationship.bias"] = torch.ones(2)
    if base == "roberta":
        extra["lm_head.decoder.weight"] = words
        extra["lm_head.decoder.bias"] = tensors["lm_head.bias"]
    if base == "distilbert":
        extra["vocab_projector.weight"] = words
    if base == "electra":
        extra["generator_lm_head.weight"] = words
    if base in ("bert", "roberta"):
        extra[f"{base}.pooler.dense.weight"] = torch.ones(WIDTH, WIDTH)
        extra[f"{base}.pooler.dense.bias"] = torch.ones(WIDTH)
    return {older_name(name): tensor for name, tensor in tensors.items()} | extra


def rename(case: Case, folder: Path, base: str) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    if case.rename == "legacy":
        tensors = legacy(tensors, base)
    elif case.rename == "bare":
        tensors = {name.removeprefix(base + "."): tensor for name, tensor in tensors.items()}
    elif case.rename == "prefixed":
        tensors = {f"{base}.{name}": tensor for name, tensor in tensors.items()}
    save_file({k: x.contiguous().clone() for k, x in tensors.items()}, path, {"format": "pt"})


def write_case(folder: Path, case: Case) -> None:
    model = make_model(case)
    for old in folder.glob("*"):
        old.unlink()
    shards = {"max_shard_size": "8KB"} if case.rename == "shards" else {}
    model.save_pretrained(folder, safe_serialization=True, **shards)
    batch = make_batch(case, model.config.pad_token_id)
    write_tensors(folder / "batch.safetensors", batch)
    expected = run(case, folder, batch, torch.float64)
    write_tensors(folder / "expected.safetensors", expected)
    rounded = run(case, folder, batch, torch.float32)
    # transformers does not read all of these names; the answers are those of the new ones.
    if case.rename and not shards:
        rename(case, folder, model.base_model_prefix)
    print_case(folder, expected, rounded)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    write_cases("architectures", CASES, write_case)
