"""Which landmarks serve rotary positions? Errors of attention for several ways to turn them.

    build/interop/bin/python bench/rotated_landmarks.py runs/mine heldout.txt

`runs/mine` is a run of masked language modelling with ModernBERT's blocks (positions: rope, norm:
pre, mlp: geglu, bias: false), exact attention in every layer and no convolution. For each length
and number of landmarks it prints the relative error of each layer's attention against the exact
one, on sequences of the held-out text:

    middle              a segment's mean, turned as its middle is: nystrom's way
    mean rotation       a segment's mean, turned by the mean of its places' rotations
    mean of rotated     the mean of the segment's rotated queries or keys
    unrotated           scores of landmarks without positions
    slow alone, others unrotated / dropped   only columns whose period is above two segments turn;
                        the others keep their values in these scores, or are left out"""

import json
import math
from pathlib import Path

import torch
from nystrom_runs import parser_of
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import gelu, layer_norm

SIZES = ((512, 64), (2048, 64), (8192, 64), (512, 16))


class Model:
    """The parts of a checkpoint that the layers need."""

    def __init__(self, run: Path) -> None:
        folder = run / "checkpoints" / (run / "checkpoints/latest").read_text().strip()
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors = {
            name.removeprefix("nystromformer."): tensor.float()
            for name, tensor in load_file(folder / "model.safetensors").items()
        }
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.heads = self.config["num_attention_heads"]
        self.width = self.config["hidden_size"] // self.heads
        steps = torch.arange(0, self.width, 2) / self.width
        self.omega = 1 / self.config["nystrom"]["rope_theta"] ** steps

    def norm(self, x: Tensor, name: str) -> Tensor:
        weight = self.tensors[f"{name}.weight"]
        return layer_norm(x, weight.shape, weight, None, self.config["layer_norm_eps"])

    def linear(self, x: Tensor, name: str) -> Tensor:
        return x @ self.tensors[f"{name}.weight"].T

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(1, (self.heads, self.width)).transpose(0, 1)

    def turned(self, x: Tensor, places: Tensor, omega: Tensor) -> Tensor:
        angles = (places[:, None] * omega).repeat(1, 2)
        a, b = x.chunk(2, -1)
        return x * angles.cos() + torch.cat((-b, a), -1) * angles.sin()


def weights(q: Tensor, k: Tensor) -> Tensor:
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)


def pseudo_inverse(a: Tensor) -> Tensor:
    z, one = a.mT / a.sum(1).amax(-1)[:, None, None], torch.eye(a.shape[-1])
    for _ in range(6):
        az = a @ z
        z = 0.25 * z @ (13 * one - az @ (15 * one - az @ (7 * one - az)))
    return z


def ways(model: Model, plain: dict, m: int) -> dict[str, Tensor]:
    """The output of Nyström attention in each way. plain: y [n, hidden], and q, k, v [h, n, d]
    without positions, and the names of the projections of queries and keys."""
    n, omega = plain["q"].shape[1], model.omega
    bounds = [(i * n // m, (i + 1) * n // m) for i in range(m)]
    size = torch.tensor([end - begin for begin, end in bounds])[:, None]
    middle = torch.tensor([(begin + end - 1) / 2 for begin, end in bounds])
    places = torch.arange(n)

    def mean(x: Tensor) -> Tensor:
        return torch.stack([x[..., begin:end, :].mean(-2) for begin, end in bounds], -2)

    def nystrom(q: Tensor, k: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
        inverse = pseudo_inverse(weights(queries, keys))
        return weights(q, keys) @ (inverse @ (weights(queries, k) @ plain["v"]))

    def turn(x: Tensor, at: Tensor, by: Tensor = omega) -> Tensor:
        return model.turned(x, at, by)

    own = [model.split(model.linear(mean(plain["y"]), plain[name])) for name in ("query", "key")]
    q, k = (turn(plain[name], places) for name in "qk")
    slow = (2 * math.pi / omega > 2 * n / m).float()
    both = slow.repeat(2)
    damping = (torch.sin(size * omega / 2) / (size * torch.sin(omega / 2))).repeat(1, 2)
    middles = [turn(x, middle) for x in own]
    rows = [turn(plain[name], places, omega * slow) for name in "qk"]
    return {
        "mean rotation": nystrom(q, k, *(x * damping for x in middles)),
        "middle": nystrom(q, k, *middles),
        "mean of rotated": nystrom(q, k, mean(q), mean(k)),
        "unrotated": nystrom(plain["q"], plain["k"], *own),
        "slow alone, others unrotated": nystrom(
            *rows, *(turn(x, middle, omega * slow) for x in own)
        ),
        "slow alone, others dropped": nystrom(q * both, k * both, *(x * both for x in middles)),
    }


def errors(model: Model, ids: Tensor, m: int) -> list[dict[str, float]]:
    """The relative error of each way in each layer, of one sequence."""
    x = model.tensors["embeddings.word_embeddings.weight"][ids]
    x = model.norm(x, "embeddings.LayerNorm")
    places, found = torch.arange(len(ids)), []
    for layer in range(model.config["num_hidden_layers"]):
        name = f"encoder.layer.{layer}"
        y = model.norm(x, f"{name}.attention.output.LayerNorm")
        by = {each: f"{name}.attention.self.{each}" for each in ("query", "key", "value")}
        q, k, v = (model.split(model.linear(y, each)) for each in by.values())
        exact = weights(*(model.turned(each, places, model.omega) for each in (q, k))) @ v
        outputs = ways(model, {"y": y, "q": q, "k": k, "v": v} | by, m)
        found.append({way: float((o - exact).norm() / exact.norm()) for way, o in outputs.items()})
        x = x + model.linear(exact.transpose(0, 1).flatten(1), f"{name}.attention.output.dense")
        z = model.norm(x, f"{name}.output.LayerNorm")
        a, b = model.linear(z, f"{name}.intermediate.dense").chunk(2, -1)
        x = x + model.linear(gelu(a) * b, f"{name}.output.dense")
    return found


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("text", type=Path)
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    model = Model(options.run)
    text = options.text.read_text()
    ids = torch.tensor(model.tokenizer.encode(text, add_special_tokens=False).ids)
    for n, m in SIZES:
        parts = [part for part in ids.split(n)[: max(1, 2048 // n)] if len(part) == n]
        found = [errors(model, part, m) for part in parts]
        for way in found[0][0] if found else []:
            depth = range(len(found[0]))
            layers = [sum(each[i][way] for each in found) / len(found) for i in depth]
            own = " ".join(f"{error:.3f}" for error in layers)
            print(f"{n} tokens, {m} landmarks, {way}: {sum(layers) / len(layers):.3f} ({own})")


if __name__ == "__main__":
    main()
