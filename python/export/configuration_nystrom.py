# Copyright 2026 the nystrom authors
# SPDX-License-Identifier: Apache-2.0
"""The configuration of a nystrom model, as config.json states it."""

import copy
from types import SimpleNamespace

from transformers import NystromformerConfig

# The options of the `nystrom` block. Words list all values, the default first.
BLOCK = {
    "norm": "post pre",
    "final_norm": False,
    "first_attention_norm": True,
    "mlp": "gelu geglu",
    "bias": True,
    "positions": "absolute skip_padding none rope",
    "rope_theta": 10000,
    "local_rope_theta": None,
    "position_offset": 2,
    "embedding_size": None,
    "transform_act": None,
    "classifier_act": None,
    "head_transform": False,
    "pooling": "first mean",
    "pairs": "joined towers",
    "embed_dim": None,
    "sentence_order": False,
    "attention": {},
    "embedding": {},  # of texts as vectors: read by nystrom and by sentence-transformers' files
}
ATTENTION = {
    "kind": "nystrom softmax double_softmax linear performer linformer reformer",
    "layers": {},
    "window": None,
    "window_layers": [],
    "semantics": "nystrom transformers",
    "num_landmarks": 64,
    "landmark_source": "queries_and_keys keys",
    "inverse": "iterative exact identity",
    "inverse_iterations": 6,
    "conv_kernel_size": 65,
    "num_features": 256,
    "projected_length": 256,
    "projection_sharing": "shared per_head",
    "num_hashes": 2,
    "bucket_size": 64,
    "random_seed": 0,
}


def completed(given: dict, known: dict, name: str) -> dict:
    """`given` with the defaults of the options it leaves out. Unknown keys and words are errors."""
    for key, value in given.items():
        if key not in known:
            raise ValueError(f"{name}.{key}: unknown key; known are {', '.join(known)}")
        if isinstance(known[key], str) and value not in known[key].split():
            raise ValueError(f"{name}.{key}: expected one of {known[key]}; got {value!r}")
    own = copy.deepcopy(known)  # lists and mappings too
    return {k: v.split()[0] if isinstance(v, str) else v for k, v in own.items()} | given


def layer_range(text: str) -> range:
    """The layers that "11" or "0-3" names."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


class NystromConfig(NystromformerConfig):
    """Hugging Face's options of a Nyströmformer, and in `nystrom` those that only nystrom has:
    {"norm": "pre", "attention": {"kind": "nystrom", "num_landmarks": 32, …}, …}."""

    model_type = "nystrom"

    def __init__(self, nystrom=None, conv_kernel_size=65, **kwargs):
        super().__init__(**kwargs)
        if nystrom is None and self.architectures:
            raise ValueError("config.json has no block nystrom: this is no folder of nystrom")
        # Hugging Face's keys stand for options that the block leaves out, and repeat it.
        outer = {"num_landmarks": self.num_landmarks, "conv_kernel_size": conv_kernel_size}
        block = completed(nystrom or {}, BLOCK, "nystrom")
        block["attention"] = completed(outer | block["attention"], ATTENTION, "nystrom.attention")
        for layers, kind in block["attention"]["layers"].items():
            completed({"kind": kind}, ATTENTION, f"nystrom.attention.layers.{layers}")
        self.num_landmarks = block["attention"]["num_landmarks"]
        self.conv_kernel_size = block["attention"]["conv_kernel_size"] or 1  # 5 refuses null
        self.nystrom = block

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name in ("num_landmarks", "conv_kernel_size") and "nystrom" in vars(self):
            self.nystrom["attention"][name] = value

    @property
    def options(self) -> SimpleNamespace:
        """`nystrom` as attributes."""
        attention = SimpleNamespace(**self.nystrom["attention"])
        return SimpleNamespace(**self.nystrom | {"attention": attention})

    def window_of(self, layer: int) -> int | None:
        """The window of a layer in `window_layers`; if empty, of kind softmax, else nystrom."""
        options, layers = self.options.attention, self.options.attention.window_layers
        kinds = [self.kind_of(each) for each in range(self.num_hidden_layers)]
        kind = "softmax" if "softmax" in kinds else "nystrom"
        inside = any(layer in layer_range(each) for each in layers) or (
            not layers and kinds[layer] == kind
        )
        return options.window if inside else None

    def theta_of(self, layer: int) -> float | None:
        """The base of a layer's rotary positions; None without these."""
        if self.options.positions != "rope":
            return None
        local = self.kind_of(layer) == "softmax" and self.window_of(layer) is not None
        return local and self.options.local_rope_theta or self.options.rope_theta

    def kind_of(self, layer: int) -> str:
        """The kind of a layer's attention: `layers` names single layers (11) and ranges (0-3)."""
        for layers, kind in self.options.attention.layers.items():
            if layer in layer_range(layers):
                return kind
        return self.options.attention.kind
