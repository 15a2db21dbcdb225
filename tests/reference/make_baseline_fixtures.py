"""Writes tests/fixtures/baselines: whole small encoders with the other attention kinds, in float64.

    build/interop/bin/python tests/reference/make_baseline_fixtures.py [CASE ...]

Encoder, files and conventions are make_nystrom_fixtures.py's; here stands what one head of one
sequence computes, as the papers define it: full matrices, a token after the other. Random numbers
are those that nystrom draws (core/rng.h's Philox, nn/parameter_store.h's normal_values), so that
its fixed features and rotations are the same."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from common import write_cases
from make_nystrom_fixtures import Case, Tensors, write_case

MASK32, MASK64 = 2**32 - 1, 2**64 - 1


# --- Random numbers -------------------------------------------------------------------------------


def mix64(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & MASK64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK64
    return x ^ (x >> 31)


def philox(key: list[int], counter: list[int]) -> list[int]:
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK32, (a >> 32) ^ c[3] ^ k[1], a & MASK32]
        k = [(k[0] + 0x9E3779B9) & MASK32, (k[1] + 0xBB67AE85) & MASK32]
    return c


def normal_values(seed: int, name: str, count: int) -> np.ndarray:
    stream = 0xCBF29CE484222325
    for byte in name.encode():
        stream = ((stream ^ byte) * 0x100000001B3) & MASK64
    k = mix64(mix64(seed) ^ stream)
    values = []
    for block in range((count + 3) // 4):
        u = [(word + 0.5) / 2**32 for word in philox([k & MASK32, k >> 32], [block, 0, 0, 0])]
        for radius, angle in ((u[0], u[1]), (u[2], u[3])):
            r, a = math.sqrt(-2 * math.log(radius)), 2 * math.pi * angle
            values += [r * math.cos(a), r * math.sin(a)]
    return np.array(values[:count])


# --- The definitions: q, k, v [l, d] of one head --------------------------------------------------


def double_softmax(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Shen et al.: the softmax of queries goes over features, that of keys over positions."""
    return (torch.softmax(q, dim=1) @ torch.softmax(k, dim=0).T) @ v


def linear_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Katharopoulos et al., equation 5, with elu(x) + 1 as feature map."""
    weights = (torch.nn.functional.elu(q) + 1) @ (torch.nn.functional.elu(k) + 1).T
    return (weights / weights.sum(1, keepdim=True)) @ v


def orthogonal_features(name: str, count: int, width: int, seed: int) -> torch.Tensor:
    directions = normal_values(seed, name + ".directions", count * width).reshape(count, width)
    lengths = np.linalg.norm(
        normal_values(seed, name + ".lengths", count * width).reshape(count, width), axis=1
    )
    blocks = []
    for first in range(0, count, width):
        block, triangle = np.linalg.qr(directions[first : first + width].T)
        blocks.append((block * np.sign(np.diag(triangle))).T)
    return torch.from_numpy(np.concatenate(blocks) * lengths[:, None])


def performer(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, features: torch.Tensor
) -> torch.Tensor:
    """Choromanski et al., lemma 1: SM(x, y) = E exp(w·x − |x|²/2) exp(w·y − |y|²/2)."""
    x, y = q / q.shape[1] ** 0.25, k / k.shape[1] ** 0.25
    phi = [
        torch.exp(z @ features.T - (z * z).sum(1, keepdim=True) / 2) / math.sqrt(len(features))
        for z in (x, y)
    ]
    weights = phi[0] @ phi[1].T
    return (weights / weights.sum(1, keepdim=True)) @ v


def linformer(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, e: torch.Tensor, f: torch.Tensor
) -> torch.Tensor:
    """Wang et al., equation 7; e and f [k, l] are the columns of the tokens' positions."""
    return torch.softmax(q @ (e @ k).T / math.sqrt(q.shape[1]), dim=1) @ (f @ v)


def rotation_parts(length: int, chunk: int) -> list[slice]:
    """Which directions make a rotation: one, or two where there would be more than 64 buckets."""
    half = max(1, math.ceil(length / chunk))
    if half <= 32:
        return [slice(0, half)]
    root = math.ceil(math.sqrt(half / 2))
    return [slice(0, root), slice(root, 2 * root)]


def reformer(q: torch.Tensor, v: torch.Tensor, rotations: np.ndarray, chunk: int) -> torch.Tensor:
    """Kitaev et al., section 2 and appendix A; rotations [directions, rounds, d]."""
    length, width = q.shape
    rounds = rotations.shape[1]
    k = q / torch.sqrt((q * q).mean(1, keepdim=True) + 1e-6)
    visible = []
    for r in range(rounds):
        bucket = np.zeros(length, dtype=int)
        for part in reversed(rotation_parts(length, chunk)):
            rotated = q.detach().numpy() @ rotations[part, r].T
            nearest = np.concatenate([rotated, -rotated], axis=1).argmax(1)
            bucket = bucket * 2 * rotated.shape[1] + nearest
        order = sorted(range(length), key=lambda t: (bucket[t], t))
        place = {t: s // chunk for s, t in enumerate(order)}
        chunks = [(place[i] - 1, place[i]) for i in range(length)]
        visible.append([[j for j in range(length) if place[j] in near] for near in chunks])
    rows = []
    for i in range(length):
        seen = [(r, j) for r in range(rounds) for j in visible[r][i]]
        times = {j: sum(other == j for _, other in seen) for _, other in seen for j in [other]}
        scores = [
            q[i] @ k[j] / math.sqrt(width) - (1e5 if i == j else math.log(times[j]))
            for _, j in seen
        ]
        values = torch.stack([v[j] for _, j in seen])
        rows.append(torch.softmax(torch.stack(scores), dim=0) @ values)
    return torch.stack(rows)


# --- Cases ----------------------------------------------------------------------------------------


@dataclass
class BaselineCase(Case):
    features: int = 11
    projected: int = 6
    sharing: str = "shared"
    rounds: int = 2
    chunk: int = 3
    seed: int = 0

    def attend(self, w: Tensors, layer: str, head: int, q, k, v, at) -> torch.Tensor:
        name, dtype, width = f"{layer}.attention.self", q.dtype, q.shape[1]
        if self.kind == "double_softmax":
            return double_softmax(q, k, v)
        if self.kind == "linear":
            return linear_attention(q, k, v)
        if self.kind == "performer":
            drawn = orthogonal_features(name + ".features", self.features, width, self.seed)
            return performer(q, k, v, drawn.to(dtype))
        if self.kind == "linformer":
            e, f = (w[f"{name}.{which}_projection.weight"] for which in ("key", "value"))
            if self.sharing == "per_head":
                e, f = e[head], f[head]
            return linformer(q, k, v, e[:, at], f[:, at])
        directions = rotation_parts(len(q), self.chunk)[-1].stop
        shape = (directions, self.heads, self.rounds, width)
        drawn = normal_values(self.seed, name + ".rotations", math.prod(shape)).reshape(shape)
        return reformer(q, v, drawn[:, head], self.chunk)

    def attention_shapes(self) -> dict[str, tuple[int, ...]]:
        if self.kind == "reformer":
            return {}
        shapes = super().attention_shapes()
        if self.kind == "linformer":
            shape = (self.projected, self.length)
            shape = (self.heads, *shape) if self.sharing == "per_head" else shape
            shapes |= {"key_projection.weight": shape, "value_projection.weight": shape}
        return shapes

    def attention_options(self) -> dict:
        return {
            "num_features": self.features,
            "projected_length": self.projected,
            "projection_sharing": self.sharing,
            "num_hashes": self.rounds,
            "bucket_size": self.chunk,
            "random_seed": self.seed,
        }


ROWS = [13, 7, "holes", 1, 0]

CASES: dict[str, BaselineCase] = {
    "double_softmax": BaselineCase(13, ROWS, kind="double_softmax", layers=1),
    "linear": BaselineCase(13, ROWS, kind="linear", layers=1),
    "performer": BaselineCase(13, ROWS, kind="performer"),
    "performer_fewer_features_than_width": BaselineCase(
        13, [13, "left", 4], kind="performer", features=5, seed=7, layers=1, conv=None
    ),
    "linformer": BaselineCase(13, ROWS, kind="linformer", layers=1),
    "linformer_per_head": BaselineCase(
        13, ROWS, kind="linformer", sharing="per_head", layers=1, conv=None
    ),
    "reformer": BaselineCase(13, ROWS, kind="reformer"),
    "reformer_one_round": BaselineCase(
        14, [14, "left", 4], kind="reformer", rounds=1, chunk=4, seed=3, layers=1
    ),
    "reformer_two_rotations": BaselineCase(
        40, [40, 36, "holes"], kind="reformer", chunk=1, layers=1
    ),
    "reformer_three_rounds_four_heads": BaselineCase(
        14, [14, "holes", 2], kind="reformer", rounds=3, chunk=2, heads=4, layers=1, conv=None
    ),
}


if __name__ == "__main__":
    write_cases("baselines", CASES, write_case)
