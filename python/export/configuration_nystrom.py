# Copyright 2026 the nystrom authors
# SPDX-License-Identifier: Apache-2.0
"""The configuration of a nystrom model, as config.json states it."""

from types import SimpleNamespace

from transformers import NystromformerConfig

# The options of the `nystrom` block. Words list all values, the default first.
BLOCK = {
    "norm": "post pre",
    "positions": "absolute skip_padding none",
    "position_offset": 2,
    "embedding_size": None,
    "transform_act": None,
    "classifier_act": None,
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
    return {k: v.split()[0] if isinstance(v, str) else v for k, v in known.items()} | given


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
        self.nystrom = block
        self.num_landmarks = self.options.attention.num_landmarks
        self.conv_kernel_size = self.options.attention.conv_kernel_size or 1  # 5 refuses null

    @property
    def options(self) -> SimpleNamespace:
        """`nystrom` as attributes."""
        attention = SimpleNamespace(**self.nystrom["attention"])
        return SimpleNamespace(**self.nystrom | {"attention": attention})

    def kind_of(self, layer: int) -> str:
        """The kind of a layer's attention: `layers` names single layers (11) and ranges (0-3)."""
        for layers, kind in self.options.attention.layers.items():
            first, _, last = layers.partition("-")
            if int(first) <= layer <= int(last or first):
                return kind
        return self.options.attention.kind
