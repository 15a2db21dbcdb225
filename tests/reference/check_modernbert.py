"""ModernBERT's heads in transformers against `nystrom forward`: outputs, losses and the gradients
of the embeddings in float64, for windows at whose ends the texts end, with padding.

usage: check_modernbert.py [--program build/release/nystrom]

Runs with transformers 4.57.1 and 5.x, whose rotations are computed in float64 here; attention is
sdpa, since the eager one has a softmax in float32."""

import subprocess

import torch
import transformers
from common import deviation, script, write_tensors
from make_architecture_fixtures import exact_rotation, loss_of_answers
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy
from transformers.models.modernbert import modeling_modernbert

F64 = 1e-9
HEADS = {
    "Model": {},
    "ForMaskedLM": {"tie_word_embeddings": False},
    "ForSequenceClassification": {"num_labels": 3, "classifier_pooling": "mean"},
    "ForTokenClassification": {"num_labels": 4},
    "ForQuestionAnswering": {},
    "ForMultipleChoice": {},
}
WINDOW = 128
LENGTHS = (64, WINDOW, WINDOW + 1, WINDOW + 2, 3 * WINDOW + 16)  # of the rows of a batch


def compute_rotations_in_float64() -> None:
    def rotate(q, k, cos, sin, *_, **__):
        half = modeling_modernbert.rotate_half
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        return q * cos + half(q) * sin, k * cos + half(k) * sin

    modeling_modernbert.ModernBertRotaryEmbedding.forward = exact_rotation
    if transformers.__version__.startswith("5"):
        modeling_modernbert.apply_rotary_pos_emb = rotate


def make_model(head: str, options: dict) -> torch.nn.Module:
    config = transformers.ModernBertConfig(
        vocab_size=60, hidden_size=32, num_hidden_layers=5, num_attention_heads=4,
        intermediate_size=40, max_position_embeddings=max(LENGTHS), local_attention=WINDOW,
        pad_token_id=0, cls_token_id=1, bos_token_id=1, sep_token_id=2, eos_token_id=2, **options,
    )  # fmt: skip
    model = getattr(transformers, f"ModernBert{head}")(config)
    with torch.no_grad():
        for name, x in model.named_parameters():
            noise = torch.randn_like(x)
            if x.ndim > 1:
                x.copy_(noise if "embeddings" in name else 1.6 * noise / x.shape[-1] ** 0.5)
            else:
                x.add_(0.2 * noise)
    return model


def make_batch(head: str, labels: int) -> dict:
    lengths = torch.tensor([*LENGTHS, max(LENGTHS)])
    mask = (torch.arange(max(LENGTHS)) < lengths[:, None]).long()
    ids = torch.randint(3, 60, mask.shape) * mask
    batch = {"input_ids": ids, "attention_mask": mask}
    rows = len(lengths)
    if head == "ForMultipleChoice":
        batch = {name: x.view(3, 2, -1) for name, x in batch.items()}
        batch["labels"] = torch.tensor([1, 0, 1])
    elif head == "ForSequenceClassification":
        batch["labels"] = torch.randint(0, labels, (rows,))
    elif head == "ForQuestionAnswering":
        batch["start_positions"] = torch.randint(0, 64, (rows,))
        batch["end_positions"] = torch.randint(0, 64, (rows,))
    elif head != "Model":
        chosen = (mask == 1) & (torch.rand(mask.shape) < 0.4)
        batch["labels"] = torch.where(chosen, torch.randint(0, labels, mask.shape), -100)
    return batch


def results_of(model: torch.nn.Module, batch: dict) -> dict[str, torch.Tensor]:
    last = []
    base = getattr(model, "model", model)
    base.final_norm.register_forward_hook(lambda _, __, output: last.append(output))
    output = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    results = {"last_hidden_state": last[0]}
    for name in ("logits", "start_logits", "end_logits"):
        if getattr(output, name, None) is not None:
            results[name] = getattr(output, name)
    if "labels" in batch:
        logits, labels = results["logits"], batch["labels"]
        results["loss"] = cross_entropy(logits.flatten(0, logits.ndim - 2), labels.flatten())
    elif "start_positions" in batch:
        results["loss"] = loss_of_answers(results, batch)
    if "loss" in results:
        results["loss"].backward()
        table = base.embeddings.tok_embeddings.weight.grad
        results["grad.nystromformer.embeddings.word_embeddings.weight"] = table
    return {name: x.detach() for name, x in results.items()}


@script(__doc__)
def main(arguments, check, scratch):
    torch.set_num_threads(1)
    compute_rotations_in_float64()
    for head, options in HEADS.items():
        torch.manual_seed(len(head))
        folder, model = scratch / head, make_model(head, options)
        model.save_pretrained(folder)
        batch = make_batch(head, 60 if head == "ForMaskedLM" else model.config.num_labels)
        write_tensors(scratch / "batch.safetensors", batch)
        double = type(model).from_pretrained(
            folder, dtype=torch.float64, attn_implementation="sdpa"
        ).eval()
        expected = results_of(double, batch)
        output = scratch / f"{head}.safetensors"
        gradients = ["--grad"] if "loss" in expected else []
        subprocess.run(
            [arguments.program, "forward", folder, "--input", scratch / "batch.safetensors",
             "--output", output, "--dtype", "f64", "--threads", "1", "--quiet", *gradients],
            check=True,
        )  # fmt: skip
        got, valid, worst = load_file(output), batch["attention_mask"].flatten(0, -2) == 1, 0.0
        for name, tensor in expected.items():
            ours = got[name].view(tensor.shape)
            if tensor.shape[:2] == valid.shape:
                ours, tensor = ours[valid], tensor[valid]
            worst = max(worst, deviation(ours, tensor, 1e-6))
        told = f"ModernBert{head} {options or ''}: {worst:.1e} of {len(expected)} tensors"
        check(worst <= F64, told)
