"""Writes tests/fixtures/hf: small models run by Hugging Face's own Nyströmformer classes in
float64.

    build/interop/bin/python tests/reference/make_hf_fixtures.py [CASE ...]

Needs torch 2.15, transformers 4.57.1 and safetensors; no network. Every case is seeded by its own
name, so one can be written anew without the others. A case is a folder with

    config.json, model.safetensors   what save_pretrained writes (float32; the tied decoder is not
    stored) batch.safetensors                the inputs of one call: int64, regression labels
    float32 expected.safetensors             float64: logits (start_logits, end_logits),
    last_hidden_state, loss, grad.NAME

The folder is loaded back with dtype float64 and run in eval() mode, so there is no dropout and
nothing but the stored weights enters. The oracle is never float32: oneDNN's float32 gradient of
long depthwise filters is wrong in torch 2.15. The last two columns printed tell what float32 (with
oneDNN off) loses, so that a tolerance can be judged.

A row whose mask is all zero (the `empty_row` cases): HF adds the most negative number of the dtype
to every score, which swallows the scores, so all positions, padding included, are attended to with
equal weight 1/n (checked below). Autograd still passes the softmax's gradient to the swallowed
scores, so queries and keys of such a row DO get gradients."""

from dataclasses import dataclass, field
from pathlib import Path

import torch
import transformers
from transformers import NystromformerConfig
from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention

from common import SMALLEST_GAP, largest_gap, print_case, write_cases, write_tensors

PAD = 1
IGNORED = -100
Tensors = dict[str, torch.Tensor]


@dataclass
class Case:
    head: str  # the class is NystromformerFor<head>
    length: int
    landmarks: int
    segments: int  # segment_means_seq_len; attention is exact if it equals landmarks
    mask: str = "right"  # none, right, holes, empty_row
    batch: int = 2
    peaky: bool = True  # otherwise attention is as flat as after transformers' initialization
    conv: int | None = 5
    act: str = "gelu_new"
    labels: int = 2
    choices: int = 0
    token_types: bool = False
    hidden: int = 16
    heads: int = 2
    intermediate: int = 17
    vocab: int = 50
    config: dict = field(default_factory=dict)


ODD = dict(hidden=15, heads=3, intermediate=37, vocab=53)

CASES: dict[str, Case] = {
    # Masked language model with exact attention: any length, also shorter than the landmarks.
    "mlm_exact_padded": Case("MaskedLM", 20, 8, 8, conv=33),
    "mlm_exact_flat_no_mask": Case("MaskedLM", 18, 8, 8, mask="none", peaky=False),
    "mlm_exact_odd_sizes_holes_relu": Case(
        "MaskedLM", 19, 4, 4, mask="holes", conv=3, act="relu", **ODD
    ),
    "mlm_exact_no_conv_gelu": Case("MaskedLM", 16, 64, 64, conv=None, act="gelu"),
    "mlm_exact_empty_row": Case("MaskedLM", 13, 8, 8, mask="empty_row", batch=3),
    "mlm_exact_conv_65": Case("MaskedLM", 34, 8, 8, conv=65),
    "mlm_exact_default_landmarks_types": Case("MaskedLM", 11, 64, 64, conv=65, token_types=True),
    # Masked language model with Nyström attention: length == segment_means_seq_len.
    "mlm_nystrom_padded": Case("MaskedLM", 32, 8, 32),
    "mlm_nystrom_flat_no_mask": Case("MaskedLM", 24, 6, 24, mask="none", peaky=False, conv=33),
    "mlm_nystrom_flat_padded_gelu": Case("MaskedLM", 24, 4, 24, peaky=False, act="gelu"),
    "mlm_nystrom_holes_gelu": Case("MaskedLM", 24, 4, 24, mask="holes", conv=3, act="gelu"),
    "mlm_nystrom_no_mask_relu_conv_65": Case(
        "MaskedLM", 40, 8, 40, mask="none", conv=65, act="relu"
    ),
    "mlm_nystrom_no_conv": Case("MaskedLM", 24, 6, 24, conv=None),
    "mlm_nystrom_empty_row": Case("MaskedLM", 16, 4, 16, mask="empty_row", batch=3),
    "mlm_nystrom_odd_sizes": Case("MaskedLM", 21, 7, 21, conv=33, **ODD),
    "mlm_nystrom_segments_of_two_types": Case(
        "MaskedLM", 24, 12, 24, token_types=True, config={"type_vocab_size": 3}
    ),
    "mlm_nystrom_one_head_wide": Case(
        "MaskedLM", 16, 4, 16, hidden=24, heads=1, config={"num_hidden_layers": 1}
    ),
    # The other heads with both kinds of attention.
    "sequence_exact_types": Case(
        "SequenceClassification", 17, 8, 8, labels=3, batch=3, token_types=True
    ),
    "sequence_nystrom_gelu": Case(
        "SequenceClassification", 32, 8, 32, labels=3, act="gelu", conv=33
    ),
    "regression_exact_relu": Case(
        "SequenceClassification", 12, 8, 8, labels=1, batch=3, act="relu"
    ),
    "regression_nystrom_holes": Case(
        "SequenceClassification", 24, 6, 24, labels=1, mask="holes", batch=3
    ),
    "tokens_exact_odd_sizes": Case("TokenClassification", 15, 64, 64, labels=5, **ODD),
    "tokens_nystrom": Case("TokenClassification", 28, 7, 28, labels=4, conv=None),
    "questions_exact": Case("QuestionAnswering", 14, 8, 8, batch=3),
    "questions_nystrom_types": Case("QuestionAnswering", 24, 8, 24, batch=3, token_types=True),
    "choice_exact": Case("MultipleChoice", 9, 4, 4, choices=3),
    "choice_nystrom_types": Case("MultipleChoice", 16, 4, 16, choices=3, token_types=True, conv=33),
}


def make_model(case: Case) -> transformers.PreTrainedModel:
    settings = dict(
        vocab_size=case.vocab,
        hidden_size=case.hidden,
        num_hidden_layers=2,
        num_attention_heads=case.heads,
        intermediate_size=case.intermediate,
        hidden_act=case.act,
        max_position_embeddings=case.length,
        segment_means_seq_len=case.segments,
        num_landmarks=case.landmarks,
        conv_kernel_size=case.conv,
        pad_token_id=PAD,
        num_labels=case.labels,
    )
    config = NystromformerConfig(**(settings | case.config))
    model = getattr(transformers, "NystromformerFor" + case.head)(config)
    randomise(model, case.peaky)
    return model


@torch.no_grad()
def randomise(model: torch.nn.Module, peaky: bool) -> None:
    """Away from HF's initialisation, where biases are 0, LayerNorm weights 1 and every layer adds
    next to nothing."""
    for name, parameter in model.named_parameters():
        noise = torch.randn_like(parameter)
        if name.endswith("LayerNorm.weight"):
            parameter.add_(0.2 * noise)
        elif name.endswith("bias"):
            parameter.copy_(0.2 * noise)
        elif ".query." in name or ".key." in name:
            parameter.mul_(20.0 if peaky else 1.0)
        elif name.endswith("word_embeddings.weight"):
            # The padding row too: it starts at zero, but training changes it through the tied
            # decoder.
            parameter.copy_(0.2 * noise)
        else:
            parameter.mul_(10.0)


def make_mask(case: Case, rows: int) -> torch.Tensor:
    mask = torch.ones(rows, case.length, dtype=torch.int64)
    for row in range(1, rows):  # the first row stays full
        if case.mask in ("right", "empty_row"):
            mask[row, case.length - (case.length * row) // (2 * rows) - 1 :] = 0
        elif case.mask == "holes":
            mask[row, 1:] = (torch.rand(case.length - 1) < 0.7).long()
            mask[row, 2 + row] = 0
    if case.mask == "empty_row":
        mask[1] = 0
    return mask


def make_batch(case: Case) -> Tensors:
    rows = case.batch * max(1, case.choices)
    ids = torch.randint(2, case.vocab, (rows, case.length))
    mask = make_mask(case, rows)
    ids[mask == 0] = PAD
    ids[0, case.length // 2] = PAD  # a padding token that the mask marks as valid
    batch = {"input_ids": ids}
    if case.mask != "none":
        batch["attention_mask"] = mask
    if case.token_types:
        types = case.config.get("type_vocab_size", 2)
        batch["token_type_ids"] = torch.randint(0, types, ids.shape)
    if case.choices:
        shape = (case.batch, case.choices, case.length)
        batch = {name: tensor.view(shape) for name, tensor in batch.items()}
    return batch | make_targets(case, ids, mask)


def make_targets(case: Case, ids: torch.Tensor, mask: torch.Tensor) -> Tensors:
    if case.head == "MaskedLM":
        # Three of ten positions, with padding: transformers uses every label.
        chosen = torch.rand(ids.shape) < 0.3
        chosen[:, 0] = True
        return {"labels": torch.where(chosen, torch.randint(0, case.vocab, ids.shape), IGNORED)}
    if case.head == "TokenClassification":
        ignored = (mask == 0) | (torch.rand(ids.shape) < 0.2)
        return {"labels": torch.where(ignored, IGNORED, torch.randint(0, case.labels, ids.shape))}
    if case.head == "QuestionAnswering":
        starts = torch.randint(0, case.length // 2, (case.batch,))
        ends = starts + torch.randint(0, case.length // 2, (case.batch,))
        starts[0] = case.length + 7  # beyond the row: clamped to its length and ignored
        ends[1] = case.length
        return {"start_positions": starts, "end_positions": ends}
    if case.head == "MultipleChoice":
        return {"labels": torch.randint(0, case.choices, (case.batch,))}
    if case.labels == 1:
        return {"labels": torch.randn(case.batch)}
    return {"labels": torch.randint(0, case.labels, (case.batch,))}


def run(case: Case, folder: Path, batch: Tensors, dtype: torch.dtype) -> Tensors:
    model_class = getattr(transformers, "NystromformerFor" + case.head)
    model = model_class.from_pretrained(folder, dtype=dtype).eval()
    inputs = {
        name: tensor.to(dtype) if tensor.is_floating_point() else tensor
        for name, tensor in batch.items()
    }
    output = model(**inputs, output_hidden_states=True)
    output.loss.backward()

    results = {"last_hidden_state": output.hidden_states[-1], "loss": output.loss.reshape(1)}
    for name in ("logits", "start_logits", "end_logits"):
        if name in output:
            results[name] = output[name]
    # Shared parameters appear once, under the name in the file. Their gradient is the sum.
    results |= {"grad." + name: parameter.grad for name, parameter in model.named_parameters()}
    return results


class ColumnSums:
    """Watches HF's inverse: the batch-wide largest column sum must be a clear winner, for its
    gradient goes to one column."""

    def __enter__(self):
        self.gap = float("inf")
        self.original = NystromformerSelfAttention.iterative_inv

        def watched(attention, matrix, n_iter=6):
            self.gap = min(self.gap, largest_gap(matrix.detach().sum(-2)))
            return self.original(attention, matrix, n_iter)

        NystromformerSelfAttention.iterative_inv = watched
        return self

    def __exit__(self, *_):
        NystromformerSelfAttention.iterative_inv = self.original


def check_empty_row_is_uniform(folder: Path, batch: Tensors, row: int) -> None:
    """What the header says about HF's treatment of a row without any valid position."""
    model = transformers.NystromformerModel.from_pretrained(folder, dtype=torch.float64).eval()
    attention = model.encoder.layer[0].attention.self
    if attention.num_landmarks != attention.seq_len:
        return
    probabilities = model(
        batch["input_ids"], batch["attention_mask"], output_attentions=True
    ).attentions[0][row]
    assert torch.all(probabilities == 1 / batch["input_ids"].shape[1]), (
        "an empty row is not attended to evenly"
    )


def write_case(folder: Path, case: Case) -> None:
    make_model(case).save_pretrained(folder, safe_serialization=True)
    batch = make_batch(case)
    write_tensors(folder / "batch.safetensors", batch)

    with ColumnSums() as sums:
        expected = run(case, folder, batch, torch.float64)
    assert sums.gap > SMALLEST_GAP, (
        f"{folder.name}: the largest column sum is nearly shared ({sums.gap:.1e}); rename the case"
    )
    write_tensors(folder / "expected.safetensors", expected)
    if case.mask == "empty_row":
        check_empty_row_is_uniform(folder, batch, row=1)

    with torch.backends.mkldnn.flags(enabled=False):
        print_case(folder, expected, run(case, folder, batch, torch.float32))


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    write_cases("hf", CASES, write_case)
