"""Writes tests/fixtures/nystrom: whole small encoders with `semantics: nystrom`, in float64.

    build/interop/bin/python tests/reference/make_nystrom_fixtures.py [CASE ...]

Needs torch 2.15 and safetensors; no network. The encoder below is meant to be read beside the
definition, so it takes one sequence, one head and one segment after another; gradients are
autograd's. Every case is seeded by its own name. A case is a folder with

    config.json           HF's keys and a `nystrom` object with our options model.safetensors
    float32, HF's names; norm pre adds nystromformer.embeddings.projection batch.safetensors
    norm post: input_ids, attention_mask, labels (int64; masked language model, or classes with
    pooling;
                          with towers the ids are [b, 2, n]) norm pre: features [b, n, embed_dim]
                          and loss_weights [b, hidden] (float32), attention_mask
    expected.safetensors  float64: norm post: last_hidden_state, logits, loss; norm pre: output [b,
    hidden], loss
                          = sum(output · loss_weights); both: grad.NAME

What is unspecified (last_hidden_state and logits at padded positions) is stored as 0 and not to be
compared. `output` is the last valid time step and 0 for a row without one."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

from common import SMALLEST_GAP, largest_gap, print_case, write_cases, write_tensors

PAD = 1
IGNORED = -100
VOCAB = 50
CLASSES = 3
HIDDEN = 16
INTERMEDIATE = 20
EMBED_DIM = 11
EPS = 1e-5
Tensors = dict[str, torch.Tensor]


@dataclass
class Case:
    length: int
    # Valid tokens of each row; "holes": about 2/3 of them at random; "left": padding on the left.
    rows: list[int | str]
    norm: str = "post"
    landmarks: int = 5
    kind: str = "nystrom"
    source: str = "queries_and_keys"
    inverse: str = "iterative"
    iterations: int = 6
    conv: int | None = 5
    peaky: bool = True
    heads: int = 2
    layers: int = 2
    act: str = "gelu_new"
    pooling: str | None = None  # first token or mean for a classifier; None: masked language model
    towers: bool = False  # classify pairs of the rows 2i and 2i + 1

    def attend(self, w: Tensors, layer: str, head: int, q, k, v, at) -> torch.Tensor:
        """One head of one sequence: its valid tokens [l, d], which stand at positions `at` [l]."""
        return attend_head(q, k, v, self)

    def attention_shapes(self) -> dict[str, tuple[int, ...]]:
        """Parameters of a layer's attention beside query, value and convolution."""
        return {"key.weight": (HIDDEN, HIDDEN), "key.bias": (HIDDEN,)}

    def attention_options(self) -> dict:
        return {}


MIXED = [22, 13, "holes", 3, 0]
PRE = dict(norm="pre", source="keys", conv=None)

CASES: dict[str, Case] = {
    "post_mixed": Case(22, MIXED),
    "post_mixed_flat_conv_33": Case(22, MIXED, conv=33, peaky=False, landmarks=4),
    "post_lengths_around_landmarks": Case(9, [4, 5, 6, 1, 9], conv=3, act="gelu"),
    "post_exact_inverse_no_conv": Case(
        19, [19, "holes", 12, 0], inverse="exact", conv=None, landmarks=3
    ),
    "post_identity": Case(17, [17, "holes", 9, 2], inverse="identity", act="relu"),
    "post_no_iterations": Case(17, [17, "left", 4], iterations=0),
    "post_ten_iterations_four_heads": Case(
        23, [23, "holes", 14], iterations=10, landmarks=7, heads=4
    ),
    "post_landmarks_of_keys": Case(20, [20, "left", "holes", 2], source="keys"),
    "post_one_landmark": Case(12, [12, "holes", 1, 0], landmarks=1),
    "post_softmax": Case(15, [15, "holes", 7, 0], kind="softmax"),
    "classify_first": Case(14, [14, 11, 9, 4], pooling="first", layers=1),
    "classify_mean": Case(22, MIXED, pooling="mean"),
    "classify_mean_pre": Case(
        18, [18, "holes", "left", 1], norm="pre", pooling="mean", layers=1, act="relu"
    ),
    "classify_towers": Case(22, [22, 13, "holes", 0, 3, 7], pooling="mean", towers=True),
    "classify_towers_first": Case(
        13, [13, 5, 9, 11], pooling="first", towers=True, kind="softmax", layers=1, act="gelu"
    ),
    "pre_mixed": Case(22, MIXED, **PRE),
    "pre_exact_inverse": Case(19, [19, "holes", "left", 4, 0], inverse="exact", **PRE),
    "pre_identity_flat": Case(16, [16, "holes", 11], inverse="identity", peaky=False, **PRE),
    "pre_softmax": Case(14, [14, "holes", 1, 0], kind="softmax", **PRE),
    "pre_queries_and_keys_conv": Case(21, [21, "holes", 15, 0], norm="pre", conv=33, act="gelu"),
}


# --- The encoder ----------------------------------------------------------------------------------


def segment_means(tokens: torch.Tensor, count: int) -> torch.Tensor:
    """Landmarks [count, d] of the valid tokens [l, d]: segment i covers floor(i·l/m) …
    floor((i+1)·l/m) - 1."""
    length = len(tokens)
    edges = [i * length // count for i in range(count + 1)]
    return torch.stack([tokens[begin:end].mean(0) for begin, end in zip(edges, edges[1:])])


def inverse(matrix: torch.Tensor, case: Case) -> torch.Tensor:
    if case.inverse == "identity":
        return torch.eye(len(matrix), dtype=matrix.dtype)
    if case.inverse == "exact":
        return torch.linalg.pinv(matrix)
    largest_column_sum = matrix.sum(0).max()
    if len(matrix) > 1:
        gap = largest_gap(matrix.detach().sum(0))
        assert gap > SMALLEST_GAP, (
            f"the largest column sum is nearly shared ({gap:.1e}); rename the case"
        )
    z = matrix.T / largest_column_sum
    one = torch.eye(len(matrix), dtype=matrix.dtype)
    for _ in range(case.iterations):
        az = matrix @ z
        z = z @ (13 * one - az @ (15 * one - az @ (7 * one - az))) / 4
    return z


def attend_head(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, case: Case) -> torch.Tensor:
    """One head of one sequence; only its valid tokens, each argument [l, d]."""
    scale = 1 / math.sqrt(q.shape[1])
    if case.kind == "softmax" or len(q) <= case.landmarks:
        return torch.softmax(scale * q @ k.T, dim=1) @ v
    ks = segment_means(k, case.landmarks)
    qs = ks if case.source == "keys" else segment_means(q, case.landmarks)
    f = torch.softmax(scale * q @ ks.T, dim=1)
    a = torch.softmax(scale * qs @ ks.T, dim=1)
    b = torch.softmax(scale * qs @ k.T, dim=1)
    return f @ (inverse(a, case) @ (b @ v))


def convolve(v: torch.Tensor, taps: torch.Tensor) -> torch.Tensor:
    """One filter [k] along the sequence [n, d], the same for all d channels, zeros beyond both
    ends."""
    half = len(taps) // 2
    padded = F.pad(v, (0, 0, half, half))
    return sum(tap * padded[i : i + len(v)] for i, tap in enumerate(taps))


def linear(w: Tensors, name: str, x: torch.Tensor) -> torch.Tensor:
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def layer_norm(w: Tensors, name: str, x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], EPS)


def activation(case: Case, x: torch.Tensor) -> torch.Tensor:
    if case.act == "relu":
        return torch.relu(x)
    return F.gelu(x, approximate="tanh" if case.act == "gelu_new" else "none")


def attention(
    w: Tensors, layer: str, x: torch.Tensor, valid: torch.Tensor, case: Case
) -> torch.Tensor:
    """One sequence [n, hidden] through all heads and the output projection; padded positions get no
    attention."""
    keys = "key" if f"{layer}.attention.self.key.weight" in w else "query"
    q, k, v = (linear(w, f"{layer}.attention.self.{name}", x) for name in ("query", keys, "value"))
    v = v * valid.unsqueeze(1)
    at = valid.nonzero().squeeze(1)
    width = HIDDEN // case.heads
    heads = []
    for head in range(case.heads):
        columns = slice(head * width, (head + 1) * width)
        context = torch.zeros_like(v[:, columns])
        if len(at) > 0:
            own = (x[at, columns] for x in (q, k, v))
            context = context.index_put((at,), case.attend(w, layer, head, *own, at))
        if case.conv is not None:
            context = context + convolve(
                v[:, columns], w[f"{layer}.attention.self.conv.weight"][head, 0, :, 0]
            )
        heads.append(context)
    return linear(w, layer + ".attention.output.dense", torch.cat(heads, dim=1))


def feed_forward(w: Tensors, layer: str, x: torch.Tensor, case: Case) -> torch.Tensor:
    return linear(
        w, layer + ".output.dense", activation(case, linear(w, layer + ".intermediate.dense", x))
    )


def encode(w: Tensors, x: torch.Tensor, valid: torch.Tensor, case: Case) -> torch.Tensor:
    for index in range(case.layers):
        layer = f"nystromformer.encoder.layer.{index}"
        first, second = layer + ".attention.output.LayerNorm", layer + ".output.LayerNorm"
        if case.norm == "post":
            x = layer_norm(w, first, x + attention(w, layer, x, valid, case))
            x = layer_norm(w, second, x + feed_forward(w, layer, x, case))
        else:
            x = x + attention(w, layer, layer_norm(w, first, x), valid, case)
            x = x + feed_forward(w, layer, layer_norm(w, second, x), case)
    return x


def embed(w: Tensors, ids: torch.Tensor) -> torch.Tensor:
    prefix = "nystromformer.embeddings"
    x = F.embedding(ids, w[prefix + ".word_embeddings.weight"], padding_idx=PAD)
    # Position i reads row i + 2.
    x = x + w[prefix + ".position_embeddings.weight"][2 : 2 + len(ids)]
    x = x + w[prefix + ".token_type_embeddings.weight"][0]
    return layer_norm(w, prefix + ".LayerNorm", x)


def pool(state: torch.Tensor, valid: torch.Tensor, case: Case) -> torch.Tensor:
    """One vector of a sequence [n, hidden]; the mean of no tokens is 0."""
    if case.pooling == "first":
        return state[0]
    return state[valid].mean(0) if valid.any() else torch.zeros_like(state[0])


def run_classifier(w: Tensors, batch: Tensors, case: Case) -> Tensors:
    states, pooled = [], []
    rows = (batch[name].reshape(-1, case.length) for name in ("input_ids", "attention_mask"))
    for ids, mask in zip(*rows):
        state = encode(w, embed(w, ids), mask == 1, case)
        states.append(state * mask.unsqueeze(1))
        pooled.append(pool(state, mask == 1, case))
    if case.towers:
        pooled = [torch.cat([a, b, a * b, a - b]) for a, b in zip(pooled[::2], pooled[1::2])]
    hidden = [activation(case, linear(w, "classifier.dense", x)) for x in pooled]
    logits = torch.stack([linear(w, "classifier.out_proj", x) for x in hidden])
    return {
        "last_hidden_state": torch.stack(states),
        "logits": logits,
        "loss": F.cross_entropy(logits, batch["labels"]),
    }


def run_masked_lm(w: Tensors, batch: Tensors, case: Case) -> Tensors:
    states, logits = [], []
    for ids, mask in zip(batch["input_ids"], batch["attention_mask"]):
        state = encode(w, embed(w, ids), mask == 1, case)
        hidden = activation(case, linear(w, "cls.predictions.transform.dense", state))
        hidden = layer_norm(w, "cls.predictions.transform.LayerNorm", hidden)
        words = w["nystromformer.embeddings.word_embeddings.weight"]
        scores = hidden @ words.T + w["cls.predictions.bias"]
        states.append(state * mask.unsqueeze(1))
        logits.append(scores * mask.unsqueeze(1))
    logits = torch.stack(logits)
    loss = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=IGNORED)
    return {"last_hidden_state": torch.stack(states), "logits": logits, "loss": loss}


def run_sequence_block(w: Tensors, batch: Tensors, case: Case) -> Tensors:
    dtype = w["nystromformer.embeddings.projection.weight"].dtype
    outputs = []
    for features, mask in zip(batch["features"].to(dtype), batch["attention_mask"]):
        x = linear(w, "nystromformer.embeddings.projection", features)
        state = encode(w, x, mask == 1, case)
        valid = mask.nonzero()
        outputs.append(state[valid[-1, 0]] if len(valid) > 0 else torch.zeros(HIDDEN, dtype=dtype))
    output = torch.stack(outputs)
    return {"output": output, "loss": (output * batch["loss_weights"]).sum()}


def run(weights: Tensors, batch: Tensors, case: Case, dtype: torch.dtype) -> Tensors:
    w = {name: tensor.to(dtype).requires_grad_() for name, tensor in weights.items()}
    compute = run_masked_lm if case.norm == "post" else run_sequence_block
    results = (run_classifier if case.pooling else compute)(w, batch, case)
    results["loss"].backward()
    results["loss"] = results["loss"].reshape(1)
    return results | {"grad." + name: tensor.grad for name, tensor in w.items()}


# --- Weights, inputs, files -----------------------------------------------------------------------


def parameter_shapes(case: Case) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}

    def add_linear(name: str, inputs: int, outputs: int) -> None:
        shapes[name + ".weight"], shapes[name + ".bias"] = (outputs, inputs), (outputs,)

    def add_norm(name: str) -> None:
        shapes[name + ".weight"], shapes[name + ".bias"] = (HIDDEN,), (HIDDEN,)

    prefix = "nystromformer.embeddings"
    if case.norm == "post" or case.pooling:
        shapes[prefix + ".word_embeddings.weight"] = (VOCAB, HIDDEN)
        shapes[prefix + ".position_embeddings.weight"] = (case.length + 2, HIDDEN)
        shapes[prefix + ".token_type_embeddings.weight"] = (2, HIDDEN)
        add_norm(prefix + ".LayerNorm")
        if case.pooling:
            add_linear("classifier.dense", 4 * HIDDEN if case.towers else HIDDEN, HIDDEN)
            add_linear("classifier.out_proj", HIDDEN, CLASSES)
        else:
            add_linear("cls.predictions.transform.dense", HIDDEN, HIDDEN)
            add_norm("cls.predictions.transform.LayerNorm")
            shapes["cls.predictions.bias"] = (VOCAB,)
    else:
        add_linear(prefix + ".projection", EMBED_DIM, HIDDEN)
    for index in range(case.layers):
        layer = f"nystromformer.encoder.layer.{index}"
        add_linear(f"{layer}.attention.self.query", HIDDEN, HIDDEN)
        for name, shape in case.attention_shapes().items():
            shapes[f"{layer}.attention.self.{name}"] = shape
        for name in ("self.value", "output.dense"):
            add_linear(f"{layer}.attention.{name}", HIDDEN, HIDDEN)
        if case.conv is not None:
            shapes[layer + ".attention.self.conv.weight"] = (case.heads, 1, case.conv, 1)
        add_norm(layer + ".attention.output.LayerNorm")
        add_linear(layer + ".intermediate.dense", HIDDEN, INTERMEDIATE)
        add_linear(layer + ".output.dense", INTERMEDIATE, HIDDEN)
        add_norm(layer + ".output.LayerNorm")
    return shapes


def make_weights(case: Case) -> Tensors:
    weights = {}
    for name, shape in parameter_shapes(case).items():
        noise = torch.randn(shape)
        if name.endswith("LayerNorm.weight"):
            weights[name] = 1 + 0.2 * noise
        elif ".query.weight" in name or ".key.weight" in name:
            weights[name] = (0.45 if case.peaky else 0.06) * noise
        else:
            weights[name] = 0.2 * noise
    return weights


def make_mask(case: Case) -> torch.Tensor:
    mask = torch.zeros(len(case.rows), case.length, dtype=torch.int64)
    for row, valid in zip(mask, case.rows):
        if valid == "holes":
            row[torch.randperm(case.length)[: 2 * case.length // 3]] = 1
        elif valid == "left":
            row[case.length // 3 :] = 1
        else:
            row[:valid] = 1
    return mask


def make_batch(case: Case) -> Tensors:
    mask = make_mask(case)
    if case.norm == "pre" and not case.pooling:
        features = torch.randn(*mask.shape, EMBED_DIM)
        return {
            "features": features,
            "attention_mask": mask,
            "loss_weights": torch.randn(len(mask), HIDDEN),
        }
    ids = torch.randint(2, VOCAB, mask.shape)
    # Random tokens stay at masked positions and must have no effect. One padding token is not
    # masked.
    ids[0, 2] = PAD
    if case.pooling:
        shape = (-1, 2, case.length) if case.towers else mask.shape
        batch = {"input_ids": ids.reshape(shape), "attention_mask": mask.reshape(shape)}
        return batch | {"labels": torch.randint(0, CLASSES, (len(batch["input_ids"]),))}
    chosen = (torch.rand(mask.shape) < 0.4) & (mask == 1)
    labels = torch.where(chosen, torch.randint(0, VOCAB, mask.shape), IGNORED)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def make_config(case: Case) -> dict:
    ids = case.norm == "post" or case.pooling is not None
    model = "ForSequenceClassification" if case.pooling else "ForMaskedLM" if ids else "Model"
    classifier = (
        {"id2label": {str(i): f"class {i}" for i in range(CLASSES)}} if case.pooling else {}
    )
    return classifier | {
        "architectures": ["Nystromformer" + model],
        "attention_probs_dropout_prob": 0.1,
        "bos_token_id": 0,
        "conv_kernel_size": case.conv,
        "eos_token_id": 2,
        "hidden_act": case.act,
        "hidden_dropout_prob": 0.1,
        "hidden_size": HIDDEN,
        "initializer_range": 0.02,
        "intermediate_size": INTERMEDIATE,
        "layer_norm_eps": EPS,
        "max_position_embeddings": case.length,
        "model_type": "nystromformer",
        "num_attention_heads": case.heads,
        "num_hidden_layers": case.layers,
        "num_landmarks": case.landmarks,
        "pad_token_id": PAD,
        "segment_means_seq_len": case.length,
        "type_vocab_size": 2,
        "vocab_size": VOCAB,
        "nystrom": {
            "norm": case.norm,
            "embed_dim": None if ids else EMBED_DIM,
            "positions": "absolute" if ids else "none",
            **(
                {"pooling": case.pooling, "pairs": "towers" if case.towers else "joined"}
                if case.pooling
                else {}
            ),
            "attention": {
                "kind": case.kind,
                "semantics": "nystrom",
                "num_landmarks": case.landmarks,
                "landmark_source": case.source,
                "inverse": case.inverse,
                "inverse_iterations": case.iterations,
                "conv_kernel_size": case.conv,
                **case.attention_options(),
            },
        },
    }


def write_case(folder: Path, case: Case) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    weights, batch = make_weights(case), make_batch(case)
    (folder / "config.json").write_text(json.dumps(make_config(case), indent=2) + "\n")
    write_tensors(folder / "model.safetensors", weights)
    write_tensors(folder / "batch.safetensors", batch)
    expected = run(weights, batch, case, torch.float64)
    write_tensors(folder / "expected.safetensors", expected)
    print_case(folder, expected, run(weights, batch, case, torch.float32))


if __name__ == "__main__":
    write_cases("nystrom", CASES, write_case)
