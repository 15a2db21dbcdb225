# Copyright 2026 the nystrom authors
# SPDX-License-Identifier: Apache-2.0
"""The models that nystrom trains. b rows, n positions, h heads, d head width, m landmarks."""

import math
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from transformers import modeling_outputs as outputs
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils.generic import can_return_tuple

from .configuration_nystrom import NystromConfig

ACTIVATIONS = {"gelu": F.gelu, "gelu_new": partial(F.gelu, approximate="tanh"), "relu": F.relu}
ACTIVATIONS |= {"silu": F.silu, "tanh": torch.tanh, "linear": nn.Identity()}


def wide(x: Tensor) -> Tensor:
    """x in the type of sums and inverses: at least float32."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def weight_of(layer: nn.Module) -> Tensor:
    """The weight, also where accelerate keeps it elsewhere until the layer is called."""
    hook = getattr(layer, "_hf_hook", None)
    if hook is None:
        return layer.weight
    hook.pre_forward(layer)
    weight = layer.weight
    hook.post_forward(layer, None)
    return weight


def wide_linear(layer: nn.Module, x: Tensor, dtype: torch.dtype) -> Tensor:
    """layer(x) in x's type. A layer with an adapter, with quantised weights or with weights that
    lie elsewhere computes in its own type; `dtype` where its weights have none."""
    if type(layer) is nn.Linear and not hasattr(layer, "_hf_hook"):
        return F.linear(x, wide(layer.weight), None if layer.bias is None else wide(layer.bias))
    weight = layer.weight
    known = isinstance(weight, Tensor) and weight.is_floating_point()
    return layer(x.to(weight.dtype if known else dtype)).to(x.dtype)


class Tokens(NamedTuple):
    """What the attention mask says, in the forms that attention needs. None: no padding."""

    valid: Tensor | None  # [b, n]: the tokens
    segments: Tensor | None = None  # [b or 1, m, n]: the weights of each segment's mean
    filled: Tensor | None = None  # [b, m]: the segments with tokens
    few: Tensor | None = None  # [b, 1, 1, 1]: rows of at most m tokens, whose attention is exact


def tokens_of(mask: Tensor | None, rows: Tensor, config: NystromConfig, kinds: set) -> Tokens:
    """The tokens of rows [b, n, hidden] under the attention mask [b, n], for attention kinds."""
    options, n = config.options.attention, rows.shape[1]
    valid = None if mask is None else mask != 0
    m, whole_rows = options.num_landmarks, options.semantics == "transformers"
    length = config.segment_means_seq_len if whole_rows else n
    if "nystrom" not in kinds or length <= m:
        return Tokens(valid)
    if n != length:
        raise ValueError(f"semantics transformers needs rows of length {length}, got {n}")
    everywhere = mask is None or whole_rows
    # Of l tokens, token r is in segment i if floor(i·l / m) <= r < floor((i + 1)·l / m).
    counted = torch.ones_like(rows[:1, :, 0], dtype=torch.bool) if everywhere else valid
    rank, count = counted.cumsum(1) - 1, counted.sum(1, keepdim=True)
    segment = ((rank + 1) * m - 1) // count.clamp(min=1)
    inside = (segment[:, None] == torch.arange(m, device=rows.device)[:, None]) & counted[:, None]
    sizes = inside.sum(2, keepdim=True)
    segments = wide(inside.to(rows.dtype)) / sizes.clamp(min=1)
    if everywhere:
        return Tokens(valid, segments)
    return Tokens(valid, segments, sizes[..., 0] > 0, (count <= m)[..., None, None])


def zeroed(x: Tensor, valid: Tensor | None) -> Tensor:
    """x [b, h, n, d] with 0 at positions that are not valid [b, n]."""
    return x if valid is None else x.masked_fill(~valid[:, None, :, None], 0)


def filled(ids: Tensor | None, mask: Tensor | None, types: Tensor | None):
    """The inputs [b, n]. Rows of no tokens, empty texts without special tokens, get a padding."""
    if ids is None or ids.shape[-1] > 0:
        return ids, mask, types
    zeros = F.pad(ids, (0, 1))
    return zeros, zeros, None if types is None else zeros


def excluded(valid: Tensor, dtype: torch.dtype) -> Tensor:
    """[b, 1, 1, n], added to scores: hides invalid keys, in rows that have a valid one."""
    hidden = ~valid & valid.any(1, keepdim=True)
    return hidden[:, None, None].to(dtype) * max(-1e30, torch.finfo(dtype).min)


def attend(q: Tensor, k: Tensor, v: Tensor, valid: Tensor | None, window=None) -> Tensor:
    """softmax(q kᵀ / √d) v over the valid keys [b, n], of those at most window / 2 places away.
    Without any: the mean of all values."""
    mask = None
    if valid is not None:
        q = q.masked_fill(~valid.any(1)[:, None, None, None], 0)
        mask = excluded(valid, q.dtype)
    if window is not None:
        place = torch.arange(q.shape[2], device=q.device)
        near = (place[:, None] - place).abs() <= window // 2
        far = (~near).to(q.dtype) * max(-1e30, torch.finfo(q.dtype).min)
        mask = far if mask is None else torch.minimum(mask, far)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def rotated(x: Tensor, theta: float, places: Tensor | None = None) -> Tensor:
    """x [b, h, n, d] with columns i and i + d/2 turned by place · theta^(−2i / d) (Su et al.).
    Places are 0 to n − 1, or [b or 1, 1, n]."""
    n, half = x.shape[2], x.shape[3] // 2
    steps = torch.arange(0, half, device=x.device, dtype=torch.float32) * 2 / x.shape[3]
    places = torch.arange(n, device=x.device) if places is None else places
    angles = places[..., None].float() * (1 / theta**steps)
    cosine, sine = (f(angles.to(wide(x).dtype)) for f in (torch.cos, torch.sin))
    a, b = wide(x).split(half, 3)
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], 3).to(x.dtype)


def linear(width: int, out: int, config: NystromConfig) -> nn.Linear:
    return nn.Linear(width, out, bias=config.options.bias)


def norm(width: int, config: NystromConfig) -> nn.LayerNorm:
    return nn.LayerNorm(width, eps=config.layer_norm_eps, bias=config.options.bias)


def transform(config: NystromConfig, width: int) -> nn.ModuleDict:
    """The first part of the masked-LM head, and with head_transform of the others."""
    dense = linear(config.hidden_size, width, config)
    return nn.ModuleDict({"dense": dense, "LayerNorm": norm(width, config)})


def transformed(x: Tensor, layers: nn.ModuleDict, config: NystromConfig) -> Tensor:
    activation = ACTIVATIONS[config.options.transform_act or config.hidden_act]
    return layers["LayerNorm"](activation(layers["dense"](x)))


def pseudo_inverse(a: Tensor, few: Tensor | None, options) -> Tensor:
    """The inverse of the landmark matrices a [b, h, m, m]; of no use in rows of few tokens."""
    one = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    a = a if few is None else torch.where(few, one, a)  # there a is singular and may overflow
    if options.inverse == "exact":
        return torch.linalg.pinv(a.double(), rtol=len(one) * torch.finfo(a.dtype).eps).to(a.dtype)
    sums = a.sum(-2)  # of columns; those of rows are 1
    whole = options.semantics == "transformers"  # one number for the batch, or one for each matrix
    largest = sums.flatten().max(0) if whole else sums.max(-1, keepdim=True)
    z = a.mT / largest.values[..., None]
    for _ in range(options.inverse_iterations):
        az = a @ z
        z = z @ (13 * one - az @ (15 * one - az @ (7 * one - az))) / 4
    return z


def sequence_convolution(v: Tensor, taps: Tensor) -> Tensor:
    """Σ taps[i] v[t+i−k/2] for v [b, h, n, d] and one filter a head, [h, k], by band matrices:
    oneDNN computes the gradient of long depthwise convolutions wrong in float32."""
    n, k, block = v.shape[2], taps.shape[1], min(v.shape[2], 64)
    blocks, width = -(-n // block), block + k - 1
    # Row i of the band matrix is the filter, shifted by i.
    band = F.pad(taps, (0, block)).repeat(1, block)[:, : block * width].view(-1, block, width)
    padded = F.pad(v, (0, 0, k // 2, blocks * block - n + k // 2))
    windows = padded.unfold(2, width, block)  # [b, h, blocks, d, width]
    return torch.einsum("htw,bhcdw->bhctd", band, windows).flatten(2, 3)[:, :, :n]


@lru_cache(maxsize=256)
@torch.compiler.assume_constant_result
def normal_values(seed: int, name: str, *shape: int) -> Tensor:
    """Normal numbers that follow from seed and name: Philox4x32-10 (Salmon et al., 2011)."""
    stream = 0xCBF29CE484222325  # FNV-1a
    for byte in name.encode():
        stream = ((stream ^ byte) * 0x100000001B3) % 2**64
    key = 0
    for part in (seed, stream):  # the finaliser of SplitMix64
        key = ((key ^ part) + 0x9E3779B97F4A7C15) % 2**64
        key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) % 2**64
        key ^= key >> 31
    k1, k0 = divmod(key, 2**32)
    a = np.arange((math.prod(shape) + 3) // 4, dtype=np.uint64)
    b, c, d = (np.zeros_like(a) for _ in range(3))
    half, low = np.uint64(32), np.uint64(2**32 - 1)
    for _ in range(10):
        x, y = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b = (y >> half) ^ b ^ np.uint64(k0), y & low
        c, d = (x >> half) ^ d ^ np.uint64(k1), x & low
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    uniform = (np.stack([a, b, c, d], 1).astype(np.float64) + 0.5) / 2**32
    radius, angle = np.sqrt(-2 * np.log(uniform[:, ::2])), 2 * np.pi * uniform[:, 1::2]
    values = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 2).reshape(-1)
    return torch.from_numpy(values[: math.prod(shape)].reshape(shape))


def orthogonal_features(seed: int, name: str, count: int, width: int) -> Tensor:
    """Performer's directions [count, width]: orthogonal in blocks, lengths of normal vectors."""
    normal = normal_values(seed, name + ".directions", count, width).split(width)
    blocks = [(q * r.diagonal().sign()).T for q, r in (torch.linalg.qr(x.T) for x in normal)]
    lengths = normal_values(seed, name + ".lengths", count, width).norm(dim=1, keepdim=True)
    return torch.cat(blocks) * lengths


class NystromSelfAttention(nn.Module):
    """Attention of any kind and the convolution beside it, without the output projection."""

    def __init__(self, config: NystromConfig, layer: int):
        super().__init__()
        self.options, self.heads = config.options.attention, config.num_attention_heads
        self.kind = config.kind_of(layer)
        self.name = f"nystromformer.encoder.layer.{layer}.attention.self"
        self.window, self.theta = config.window_of(layer), config.theta_of(layer)
        self.query = linear(config.hidden_size, config.hidden_size, config)
        if self.kind != "reformer":  # where queries are the keys
            self.key = linear(config.hidden_size, config.hidden_size, config)
        self.value = linear(config.hidden_size, config.hidden_size, config)
        if self.kind == "linformer":  # modules that hold weights [k, n] or [h, k, n]
            k, n = self.options.projected_length, config.max_position_embeddings
            shared = self.options.projection_sharing == "shared"
            for name in ("key_projection", "value_projection"):
                self.add_module(name, nn.Linear(n, k) if shared else nn.Conv1d(k, self.heads, n))
                self.get_submodule(name).bias = None
        if self.kind == "nystrom" and self.window is not None:
            self.window_gate = nn.Parameter(torch.zeros(self.heads))
        if (taps := self.options.conv_kernel_size) is not None:
            self.conv = nn.Conv2d(self.heads, self.heads, (taps, 1), groups=self.heads, bias=False)

    def split(self, x: Tensor) -> Tensor:  # [b, n, hidden] → [b, h, n, d]
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor, tokens: Tokens) -> Tensor:
        kind, valid = self.kind, tokens.valid
        q, v = self.split(self.query(x)), self.split(self.value(x))
        k = q if kind == "reformer" else self.split(self.key(x))
        if self.options.semantics == "nystrom":
            v = zeroed(v, valid)
        with torch.autocast(x.device.type, enabled=False):
            if self.theta is not None:
                q, k = rotated(q, self.theta), rotated(k, self.theta)
            if kind == "nystrom" and tokens.segments is not None:
                out = self.nystrom(x, q, k, v, tokens)
            elif kind in ("nystrom", "softmax"):
                out = attend(q, k, v, valid, self.window if kind == "softmax" else None)
            else:
                valid = torch.ones_like(x[..., 0]) > 0 if valid is None else valid
                out = getattr(self, kind)(wide(q), wide(k), wide(v), valid)
            if kind == "nystrom" and self.window is not None:
                gate = ((1 + torch.tanh(wide(self.window_gate))) / 2)[:, None, None]
                out = out + gate * (attend(q, k, v, valid, self.window) - out)
        if self.options.conv_kernel_size is not None:
            out = out.to(v.dtype) + sequence_convolution(v, weight_of(self.conv)[:, 0, :, 0])
        return out.to(v.dtype).transpose(1, 2).flatten(2)

    def nystrom(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, tokens: Tokens) -> Tensor:
        """softmax(q Ksᵀ) · A⁺ · softmax(Qs kᵀ) v with A = softmax(Qs Ksᵀ), from the right.

        In a row with few tokens each segment is one token or empty. Its landmarks are then its
        keys, and the last attention is exact if it reads the values themselves."""
        means, layers = tokens.segments @ wide(x), (self.query, self.key, self.value)
        queries, keys, values = (self.split(wide_linear(p, means, x.dtype)) for p in layers)
        if self.theta is not None:  # at the middle of their segments
            places = torch.arange(x.shape[1], device=x.device).to(tokens.segments.dtype)
            middle = (tokens.segments @ places)[:, None]
            queries, keys = (rotated(y, self.theta, middle) for y in (queries, keys))
        keys = wide(keys.to(k.dtype))  # rounded once, as keys are
        queries = keys if self.options.landmark_source == "keys" else wide(queries.to(q.dtype))
        y = attend(queries, wide(k), wide(v), tokens.valid)
        if self.options.inverse != "identity":
            a = torch.softmax(queries @ keys.mT / math.sqrt(q.shape[3]), dim=3)
            y = pseudo_inverse(a, tokens.few, self.options) @ y
        if tokens.few is not None:
            y = torch.where(tokens.few, zeroed(values, tokens.filled), y)
        return attend(wide(q), keys, y, tokens.filled)

    def linformer(self, q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
        """Attention to keys and values that are projected along the sequence (Wang et al.)."""
        n, (e, f) = q.shape[2], map(weight_of, (self.key_projection, self.value_projection))
        return attend(q, wide(e[..., :n]) @ zeroed(k, valid), wide(f[..., :n]) @ v, None)

    def double_softmax(self, q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
        """softmax(q over features) · softmax(k over positions)ᵀ · v (Shen et al.)."""
        k = torch.softmax(k + excluded(valid, k.dtype).mT, dim=2)
        return torch.softmax(q, dim=3) @ (k.mT @ v)

    def linear(self, q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
        """q (kᵀ v) / q (kᵀ 1) of the features elu(x) + 1 (Katharopoulos et al.)."""

        def features(x: Tensor, log_sums: Tensor) -> Tensor:
            """Those with a sum below 1 are brought to 1, which cancels; products would round to 0."""
            return F.elu(x + F.relu(-log_sums.detach())) + 1

        keys = (k + excluded(valid, k.dtype).mT).logsumexp((2, 3), keepdim=True)
        queries = q.logsumexp(3, keepdim=True)
        return self.normalised(features(q, queries), features(k, keys), v, valid)

    def performer(self, q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
        """The same of random features exp(w x − |x|²/2) (Choromanski et al.)."""
        seed, count, d = self.options.random_seed, self.options.num_features, q.shape[3]
        w = orthogonal_features(seed, self.name + ".features", count, d).to(q)
        q, k = d**-0.25 * q, d**-0.25 * k
        scores = k @ w.T - (k * k).sum(3, keepdim=True) / 2 + excluded(valid, k.dtype).mT
        shift = scores.detach().logsumexp(2, keepdim=True)  # cancels; it prevents an overflow
        return self.normalised(torch.softmax(q @ w.T + shift, 3), (scores - shift).exp(), v, valid)

    def normalised(self, q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
        k = zeroed(k, valid)
        empty = ~valid.any(1)[:, None, None, None]  # no division by 0
        return q @ (k.mT @ v) / (q @ k.sum(2)[..., None] + empty.to(q.dtype))

    def buckets(self, q: Tensor, counts: Tensor) -> Tensor:
        """The bucket of each token in each round, [b, h, rounds, n]; rows have counts [b] tokens.

        A bucket is argmax [x; −x] of the products x with random directions, one for each chunk of
        the row. For many chunks it is a pair of buckets, each of fewer directions."""
        chunks, most = -(-q.shape[2] // self.options.bucket_size), 32
        pairs = 2 * math.ceil(math.sqrt(chunks / 2)) if chunks > most else 0
        shape = max(min(chunks, most), pairs), self.heads, self.options.num_hashes, q.shape[3]
        directions = normal_values(self.options.random_seed, self.name + ".rotations", *shape)
        x = torch.einsum("bhnd,ihrd->bhrni", q.detach(), directions.to(q))
        size = -(-counts // self.options.bucket_size).clamp(max=-1)[:, None, None, None]
        pair = size > most
        size = torch.where(pair, (size.double() / 2).sqrt().ceil().long(), size)
        index = torch.arange(shape[0], device=q.device)

        def place(first: Tensor) -> Tensor:
            inside = (index >= first[..., None]) & (index < (first + size)[..., None])
            high, low = (y.masked_fill(~inside, -math.inf).max(4) for y in (x, -x))
            best = torch.where(low.values > high.values, size + low.indices, high.indices)
            return best - first

        bucket = place(torch.zeros_like(size))
        return torch.where(pair, bucket + 2 * size * place(size), bucket)

    def reformer(self, q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
        """Attention to the keys that share a bucket (Kitaev et al.). Queries are the keys.

        Each round sorts tokens by bucket and cuts them into chunks. A query sees its chunk and the
        one before, and itself only if it sees no other key. Here a mask [n, n] says so."""
        bucket = self.buckets(q, valid.sum(1)).masked_fill(~valid[:, None, None], 1 << 40)
        order = bucket.argsort(dim=3, stable=True)
        chunk = order.argsort(dim=3) // self.options.bucket_size  # [b, h, rounds, n]
        back = [c[..., None] - c[..., None, :] for c in chunk.unbind(2)]
        seen = torch.stack([(c == 0) | (c == 1) for c in back]).any(0)
        keys = q / torch.sqrt((q * q).mean(3, keepdim=True) + 1e-6)
        own = torch.eye(q.shape[2], dtype=torch.bool, device=q.device)
        scores = ((~(seen & valid[:, None, None])).to(q.dtype) * -1e30).masked_fill(own, -1e5)
        return zeroed(F.scaled_dot_product_attention(q, keys, v, attn_mask=scores), valid)


def embedding_width(config: NystromConfig) -> int:
    return config.options.embedding_size or config.hidden_size


class NystromEmbeddings(nn.Module):
    """Word + position + type → LayerNorm → dropout → projection, if embedding_size differs from
    hidden_size; for input features, projection → dropout."""

    def __init__(self, config: NystromConfig):
        super().__init__()
        options, self.padding = config.options, config.pad_token_id
        self.first, self.skip = options.position_offset, options.positions == "skip_padding"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.projection = self.word_embeddings = None
        self.position_embeddings = self.token_type_embeddings = None
        if options.embed_dim is not None:
            self.projection = nn.Linear(options.embed_dim, config.hidden_size)
            return
        width = embedding_width(config)
        self.word_embeddings = nn.Embedding(config.vocab_size, width, self.padding)
        if options.positions not in ("none", "rope"):
            rows = config.max_position_embeddings + self.first
            unread = self.first - 1 if self.skip else None  # the row of padding is not trained
            self.position_embeddings = nn.Embedding(rows, width, unread)
        if config.type_vocab_size > 0:
            self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = norm(width, config)
        if width != config.hidden_size:
            self.projection = nn.Linear(width, config.hidden_size)

    def positions(self, ids: Tensor) -> Tensor:
        """Token i reads row first + i; with skip_padding i counts other tokens than padding."""
        longest = self.position_embeddings.num_embeddings - self.first
        if ids.shape[1] > longest:
            raise ValueError(f"{ids.shape[1]} tokens; the model has {longest} positions")
        if not self.skip:
            place = torch.arange(ids.shape[1], device=ids.device)
            return self.position_embeddings(place + self.first)
        counted = (ids != self.padding).long()
        return self.position_embeddings(counted.cumsum(1) * counted + self.first - 1)

    def forward(self, ids, mask, types, features) -> Tensor:
        if self.word_embeddings is None:
            # Padding may hold anything.
            x = features if mask is None else features.masked_fill((mask == 0)[..., None], 0)
            return self.dropout(self.projection(x.to(self.projection.weight.dtype)))
        x = self.word_embeddings(ids)
        if self.token_type_embeddings is not None:
            x = x + self.token_type_embeddings(torch.zeros_like(ids) if types is None else types)
        if self.position_embeddings is not None:
            x = x + self.positions(ids)
        x = self.dropout(self.LayerNorm(x))
        return x if self.projection is None else self.projection(x)


class NystromOutput(nn.Module):
    """The last layer of a block, and the LayerNorm after the block (post) or before it (pre)."""

    def __init__(self, config: NystromConfig, width: int, normed: bool = True):
        super().__init__()
        self.dense = linear(width, config.hidden_size, config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.pre = config.options.norm == "pre"
        normed = normed or not self.pre
        self.LayerNorm = norm(config.hidden_size, config) if normed else nn.Identity()

    def forward(self, x: Tensor, block) -> Tensor:
        y = x + self.dropout(self.dense(block(self.LayerNorm(x) if self.pre else x)))
        return y if self.pre else self.LayerNorm(y)


class NystromLayer(GradientCheckpointingLayer):
    def __init__(self, config: NystromConfig, layer: int):
        super().__init__()
        attention = NystromSelfAttention(config, layer)
        normed = layer > 0 or config.options.first_attention_norm
        output = NystromOutput(config, config.hidden_size, normed)
        self.attention = nn.ModuleDict({"self": attention, "output": output})
        self.activation, self.gated = ACTIVATIONS[config.hidden_act], config.options.mlp == "geglu"
        dense = linear(config.hidden_size, config.intermediate_size * (1 + self.gated), config)
        self.intermediate = nn.ModuleDict({"dense": dense})
        self.output = NystromOutput(config, config.intermediate_size)

    def forward(self, x: Tensor, tokens: Tokens) -> Tensor:
        x = self.attention["output"](x, lambda y: self.attention["self"](y, tokens))
        return self.output(x, self.feed_forward)

    def feed_forward(self, x: Tensor) -> Tensor:
        x = self.intermediate["dense"](x)
        if not self.gated:
            return self.activation(x)
        a, b = x.chunk(2, dim=-1)
        return self.activation(a) * b


class NystromPreTrainedModel(transformers.PreTrainedModel):
    config_class = NystromConfig
    base_model_prefix = "nystromformer"
    supports_gradient_checkpointing = accepts_loss_kwargs = _supports_sdpa = True
    _no_split_modules = ("NystromLayer",)
    # sentence-transformers has it in a module of its own. transformers 4 needs a list.
    _keys_to_ignore_on_load_unexpected = [r"embedding\.(dense\.\d+|projection)\.", r"decoder\.bias"]

    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        if isinstance(module, nn.ModuleDict) and hasattr(module, "bias"):  # the masked-LM head
            nn.init.zeros_(module.bias)
        if hasattr(module, "window_gate"):
            nn.init.zeros_(module.window_gate)


class NystromModel(NystromPreTrainedModel):
    """The encoder. Of features, pooler_output is the last valid step, 0 for a row without any."""

    def __init__(self, config: NystromConfig):
        super().__init__(config)
        self.embeddings = NystromEmbeddings(config)
        layers = [NystromLayer(config, i) for i in range(config.num_hidden_layers)]
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(layers)})
        self.kinds = {config.kind_of(i) for i in range(config.num_hidden_layers)}
        self.final_norm = norm(config.hidden_size, config) if config.options.final_norm else None
        self.post_init()

    def get_input_embeddings(self):
        return getattr(self.embeddings, "word_embeddings", None)

    def set_input_embeddings(self, value):
        self.embeddings.word_embeddings = value

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, features=None, **kwargs
    ):
        for name in ("output_attentions", "output_hidden_states"):
            if kwargs.get(name) is None:
                kwargs[name] = getattr(self.config, name)
        for name in ("position_ids", "inputs_embeds", "output_attentions", "head_mask"):
            if kwargs.get(name) is not None and kwargs[name] is not False:
                raise ValueError(f"{name}: a nystrom model takes none")
        ids, attention_mask, types = filled(input_ids, attention_mask, token_type_ids)
        x = self.embeddings(ids, attention_mask, types, features)
        tokens = tokens_of(attention_mask, x, self.config, self.kinds)
        states, last = [x], None
        for layer in self.encoder["layer"]:
            x = layer(x, tokens)
            states.append(x)
        if self.final_norm is not None:
            x = states[-1] = self.final_norm(x)
        if features is not None:
            steps = torch.arange(1, x.shape[1] + 1, device=x.device).expand(x.shape[:2])
            last = (steps if attention_mask is None else steps * tokens.valid).max(1).values
            last = F.pad(x, (0, 0, 1, 0))[torch.arange(len(x), device=x.device), last]
        shown = tuple(states) if kwargs["output_hidden_states"] else None
        return outputs.BaseModelOutputWithPooling(x, last, shown)


def mean_loss(function, logits: Tensor, labels: Tensor, items=None) -> Tensor:
    """The mean of a loss over targets, not −100: of this batch, or the items of a whole step."""
    total = function(wide(logits), labels, reduction="sum")
    return total / ((labels != -100).sum().clamp(min=1) if items is None else items)


def without_padding(labels: Tensor, mask: Tensor | None) -> Tensor:
    """The labels, −100 at padding."""
    if mask is None:
        return labels
    labels = labels if labels.is_floating_point() else labels.long()  # bools have no −100
    return labels.masked_fill(mask == 0, -100)


class NystromHead(NystromPreTrainedModel):
    """The encoder and a head, which a subclass adds with add_head and calls in head."""

    rows = False  # whether inputs are [b, rows, n], where a sample has several rows
    by_token = False  # whether each token has a label
    output = outputs.TokenClassifierOutput

    def __init__(self, config: NystromConfig):
        super().__init__(config)
        self.nystromformer = NystromModel(config)
        own = (NystromForMaskedLM, NystromForPreTraining)  # with layers of their own before it
        if config.options.head_transform and not isinstance(self, own):
            self.transform = transform(config, config.hidden_size)
        self.add_head(config, config.hidden_size)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        token_type_ids=None,
        features=None,
        labels=None,
        num_items_in_batch=None,
        **kwargs,
    ):
        if labels is not None and labels.shape[-1:] == (0,):
            labels = F.pad(labels, (0, 1), value=-100)
        inputs = [*filled(input_ids, attention_mask, token_type_ids), features]
        if self.rows:
            if input_ids.dim() != 3:
                shape = list(input_ids.shape)
                raise ValueError(f"input_ids are {shape}; expected [samples, texts, tokens]")
            inputs = [x if x is None else x.flatten(0, 1) for x in inputs]
        out = self.nystromformer(*inputs, return_dict=True, **kwargs)
        logits = self.head(out, inputs[1])
        logits = logits.view(len(input_ids), -1) if self.rows else logits
        loss = None
        if labels is not None:
            counted, items = self.targets(labels, inputs[1]), num_items_in_batch
            if counted is not labels and items is not None:  # Trainer counts padding's labels too
                kept, given = ((x != -100).sum().clamp(min=1) for x in (counted, labels))
                items = items * kept / given
            loss = self.loss(logits, counted, items)
        return self.output(loss=loss, logits=logits, hidden_states=out.hidden_states)

    def targets(self, labels, mask):
        """The labels that the loss counts: without those at padding, if that has no rows."""
        options = self.config.options
        distances = options.positions == "rope" or options.attention.window is not None
        return without_padding(labels, mask) if self.by_token and distances else labels

    def pooled(self, out, mask) -> Tensor:
        """The vector of each row that a head of whole texts reads."""
        x = out.last_hidden_state
        if self.config.options.pooling != "mean":
            return x[:, 0] if out.pooler_output is None else out.pooler_output
        weights = wide(torch.ones_like(x[..., 0]) if mask is None else (mask != 0).to(x.dtype))
        weights = weights / weights.sum(1, keepdim=True).clamp(min=1)
        return (weights[:, None] @ wide(x))[:, 0].to(x.dtype)

    def transformed(self, x: Tensor) -> Tensor:
        return transformed(x, self.transform, self.config) if hasattr(self, "transform") else x

    def loss(self, logits: Tensor, labels: Tensor, items=None) -> Tensor:
        return mean_loss(F.cross_entropy, logits.flatten(0, -2), labels.flatten(), items)


class NystromForMaskedLM(NystromHead):
    by_token = True
    output = outputs.MaskedLMOutput
    _tied_weights_keys = {
        "cls.predictions.decoder.weight": "nystromformer.embeddings.word_embeddings.weight",
    }
    if int(transformers.__version__.split(".")[0]) < 5:
        _tied_weights_keys = list(_tied_weights_keys)

    def add_head(self, config: NystromConfig, width: int):
        inner = embedding_width(config)
        decoder = nn.Linear(inner, config.vocab_size, bias=False)  # its bias is beside it
        predictions = nn.ModuleDict({"transform": transform(config, inner), "decoder": decoder})
        predictions.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.cls = nn.ModuleDict({"predictions": predictions})
        if config.options.sentence_order:  # nystrom's second head, kept for it and not used here
            self.cls["seq_relationship"] = nn.Linear(width, 2).requires_grad_(False)

    def head(self, out, mask) -> Tensor:
        predictions = self.cls["predictions"]
        x = transformed(out.last_hidden_state, predictions["transform"], self.config)
        logits = predictions["decoder"](x)
        return logits + predictions.bias.to(logits.dtype)

    def get_output_embeddings(self):
        return self.cls["predictions"]["decoder"]

    def set_output_embeddings(self, value):
        self.cls["predictions"]["decoder"] = value

    def resize_token_embeddings(self, *args, **kwargs):
        embeddings = super().resize_token_embeddings(*args, **kwargs)
        predictions = self.cls["predictions"]
        bias, more = predictions.bias, len(predictions["decoder"].weight) - len(predictions.bias)
        if more:
            predictions.bias = nn.Parameter(F.pad(bias.data, (0, more)), bias.requires_grad)
        return embeddings


class NystromForPreTraining(NystromHead):
    """Whether another token stood in the place of each: labels are 1 where one did."""

    def add_head(self, config: NystromConfig, width: int):
        layers = {"dense": nn.Linear(width, width), "dense_prediction": nn.Linear(width, 1)}
        self.discriminator_predictions = nn.ModuleDict(layers)

    def head(self, out, mask) -> Tensor:
        layers = self.discriminator_predictions
        x = ACTIVATIONS[self.config.hidden_act](layers["dense"](out.last_hidden_state))
        return layers["dense_prediction"](x)[..., 0]

    def targets(self, labels, mask):
        return without_padding(labels, mask)

    def loss(self, logits: Tensor, labels: Tensor, items=None) -> Tensor:
        logits, labels = wide(logits[labels != -100]), labels[labels != -100]
        return mean_loss(F.binary_cross_entropy_with_logits, logits, labels.to(logits), items)


class NystromClassifier(nn.Module):
    """The last layers of a classifier, of which head_transform replaces the first."""

    def __init__(self, config: NystromConfig, inputs: int, width: int):
        super().__init__()
        self.activation = ACTIVATIONS[config.options.classifier_act or config.hidden_act]
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.out_proj = nn.Linear(width, config.num_labels)
        self.dense = None if config.options.head_transform else nn.Linear(inputs, width)

    def forward(self, x: Tensor) -> Tensor:
        if self.dense is not None:
            x = self.activation(self.dense(self.dropout(x)))
        return self.out_proj(self.dropout(x))


class NystromForSequenceClassification(NystromHead):
    """One label: regression, else classes, or labels by themselves (problem_type). With towers two
    rows are the texts of one sample."""

    output = outputs.SequenceClassifierOutput

    def add_head(self, config: NystromConfig, width: int):
        self.rows = config.options.pairs == "towers"
        self.classifier = NystromClassifier(config, 4 * width if self.rows else width, width)

    def head(self, out, mask) -> Tensor:
        x = self.pooled(out, mask)
        if self.rows:
            x = torch.cat([x[::2], x[1::2], x[::2] * x[1::2], x[::2] - x[1::2]], dim=1)
        return self.classifier(self.transformed(x))

    def loss(self, logits: Tensor, labels: Tensor, items=None) -> Tensor:
        kind, several = self.config.problem_type, logits.shape[1] > 1
        if kind is None:  # as transformers infers it
            sets = several and labels.is_floating_point()
            kind = "multi_label_classification" if sets else kind
        if kind == "multi_label_classification":
            labels = labels.to(wide(logits))
            return mean_loss(F.binary_cross_entropy_with_logits, logits, labels, items)
        if several and kind != "regression":
            return super().loss(logits, labels, items)
        total = F.mse_loss(wide(logits), labels.view_as(logits).to(wide(logits)), reduction="sum")
        return total / (labels.numel() if items is None else items)


class NystromForTokenClassification(NystromHead):
    by_token = True

    def add_head(self, config: NystromConfig, width: int):
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(width, config.num_labels)

    def head(self, out, mask) -> Tensor:
        return self.classifier(self.dropout(self.transformed(out.last_hidden_state)))


class NystromForMultipleChoice(NystromHead):
    rows = True  # [b, choices, n]
    output = outputs.MultipleChoiceModelOutput

    def add_head(self, config: NystromConfig, width: int):
        self.activation = ACTIVATIONS[config.options.classifier_act or "relu"]
        if not config.options.head_transform:
            self.pre_classifier = nn.Linear(width, width)
        self.classifier = nn.Linear(width, 1)

    def head(self, out, mask) -> Tensor:
        x = self.pooled(out, mask)
        if self.config.options.head_transform:
            return self.classifier(self.transformed(x))
        return self.classifier(self.activation(self.pre_classifier(x)))


class NystromForQuestionAnswering(NystromHead):
    def add_head(self, config: NystromConfig, width: int):
        self.qa_outputs = nn.Linear(width, 2)

    def head(self, out, mask) -> Tensor:
        return self.qa_outputs(self.transformed(out.last_hidden_state))

    @can_return_tuple
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        token_type_ids=None,
        start_positions=None,
        end_positions=None,
        **kwargs,
    ):
        kwargs["return_dict"] = True
        out = super().forward(input_ids, attention_mask, token_type_ids, **kwargs)
        logits, loss, n = out.logits.unbind(2), None, out.logits.shape[1]
        if start_positions is not None and end_positions is not None:
            mask = filled(input_ids, attention_mask, token_type_ids)[1]
            whole = mask is None or self.config.options.attention.semantics == "transformers"
            valid = torch.ones_like(logits[0], dtype=torch.bool) if whole else mask != 0
            scores = [x.masked_fill(~valid, torch.finfo(x.dtype).min) for x in map(wide, logits)]
            ends = [x.flatten().clamp(0, n) for x in (start_positions, end_positions)]
            read = F.pad(valid, (0, 1))  # none is beyond the row
            ends = [x.masked_fill(~read.gather(1, x[:, None])[:, 0], -100) for x in ends]
            loss = sum(map(self.loss, scores, ends)) / 2
        return outputs.QuestionAnsweringModelOutput(loss, *logits, out.hidden_states)
