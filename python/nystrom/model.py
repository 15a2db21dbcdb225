"""Trained models: nystrom.load opens one."""

from __future__ import annotations

import json
import os

from nystrom import _core
from nystrom._options import overrides
from nystrom.errors import InputError

TYPE_CHECKING = False  # as that of typing, whose import takes longer than all others
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Literal

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from nystrom._core import Tokenizer

    Pooling = Literal["mean", "cls", "landmarks"]
    Prompt = Literal["query", "document", "none"]
    FloatArray = NDArray[np.float32]


def load(
    path: str | os.PathLike[str],
    *,
    dtype: str = "f32",
    device: str = "cpu",
    model: Mapping[str, Any] | None = None,
) -> Model:
    """Opens a model: a run directory, a checkpoint or a Hugging Face folder.

    Of a run it is the checkpoint with the best evaluation, else the newest. `dtype` is f32, bf16,
    f64, or f16 on GPUs; `device` is cpu, cuda or cuda:N. `model` overrides options of the model:
    {"attention": {"num_landmarks": 32}}.
    """
    options = [] if model is None else overrides({"model": model})
    return Model(_core.Model(os.fspath(path), dtype, device, options))


class Model:
    """A trained model, its tokenizer and, if it was fine-tuned, its task. Several threads may call
    it."""

    def __init__(self, core: _core.Model) -> None:
        self._core = core

    @property
    def path(self) -> str:
        """The folder of config.json and model.safetensors."""
        return self._core.path

    @property
    def config(self) -> dict[str, Any]:
        """The content of config.json."""
        content: dict[str, Any] = json.loads(self._core.config)
        return content

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer; None for a folder without one."""
        return self._core.tokenizer

    @property
    def max_length(self) -> int:
        """The longest input in tokens, with the special ones, that the model was trained with."""
        return self._core.max_length

    @property
    def num_parameters(self) -> int:
        """The number of trained values."""
        return self._core.num_parameters

    def encode(
        self,
        texts: str | Iterable[str],
        *,
        pooling: Pooling | None = None,
        normalize: bool | None = None,
        dimensions: int | None = None,
        prompt: Prompt = "document",
        batch_size: int = 32,
        max_length: int | None = None,
    ) -> FloatArray:
        """One vector for each text: float32 [texts, width], or [width] for a single text.

        The vectors of `nystrom embed`, to the bit. pooling mean: the mean of the last hidden states
        over the tokens; cls: that of the first token; landmarks: the mean of the segment means.
        normalize: divide by the length. None stands for the model's own options. dimensions: keep
        the first ones. prompt: which of the model's prompts stands before each text. A text of more
        than `max_length` tokens (None: the length of the training) is read in windows.
        """
        single = isinstance(texts, str)
        given = [texts] if isinstance(texts, str) else list(texts)
        vectors = self._core.encode(
            given, pooling, normalize, dimensions, prompt, batch_size, max_length
        )
        return vectors[0] if single else vectors

    def fill_mask(
        self, texts: str | Iterable[str], top_k: int = 5, batch_size: int = 16
    ) -> list[Any]:
        """The most probable tokens at each mask, as Hugging Face's fill-mask pipeline gives them.

        For a text with one mask this is a list of dicts with score, token, token_str and sequence;
        for several masks a list of such lists; for several texts a list of these.
        """
        given = [texts] if isinstance(texts, str) else list(texts)
        fills = [json.loads(fill) for fill in self._core.fill_masks(given, top_k, batch_size)]
        return fills[0] if isinstance(texts, str) else fills

    def predict(
        self,
        texts: str | Iterable[str],
        pairs: str | Iterable[str | None] | None = None,
        choices: Sequence[Any] | None = None,
        *,
        top_k: int = 5,
        batch_size: int = 16,
    ) -> Any:
        """The predictions of a fine-tuned model, as Hugging Face's pipelines give them.

        Classes are a list of dicts with label and score; values {"value": …}; entities, answers
        and choices have their own fields. `pairs` are second texts, or the texts that answer
        questions; `choices` are the choices of each text. For a single text all three are single:
        predict("Who built it?", "The bridge was built by Brunel."). A task of features takes names
        of files.
        """
        if isinstance(texts, str):
            if pairs is not None and not isinstance(pairs, str):
                raise InputError("pairs: expected one text, as `texts` is one text")
            results = self._predict([texts], [pairs], [list(choices or [])], top_k, batch_size)
            return results[0] if len(results) == 1 else results
        if isinstance(pairs, str):
            raise InputError("pairs: expected a list, as `texts` is one")
        if choices is not None and any(isinstance(each, str) for each in [choices, *choices]):
            raise InputError("choices: expected a list of choices for each text")
        given = list(texts)
        given_pairs = [None] * len(given) if pairs is None else list(pairs)
        given_choices = [[]] * len(given) if choices is None else [list(each) for each in choices]
        for name, values in (("pairs", given_pairs), ("choices", given_choices)):
            if len(values) != len(given):
                raise InputError(
                    f"{name}: got {len(values)}, expected {len(given)}, one for each text"
                )
        return self._predict(given, given_pairs, given_choices, top_k, batch_size)

    def _predict(
        self,
        texts: list[str],
        pairs: Sequence[str | None],
        choices: list[list[str]],
        top_k: int,
        batch_size: int,
    ) -> list[Any]:
        found = self._core.predict(texts, pairs, choices, top_k, batch_size)
        return [json.loads(each) for each in found]

    def __call__(
        self,
        input_ids: ArrayLike | None = None,
        attention_mask: ArrayLike | None = None,
        **inputs: ArrayLike,
    ) -> dict[str, NDArray[Any]]:
        """The forward pass on arrays, as `nystrom forward` computes it.

        Further inputs are token_type_ids, features, labels, start_positions and end_positions. The
        result has last_hidden_state, and as the head gives them logits, start_logits, end_logits,
        output and loss. Arrays of NumPy and every library with DLPack are read where they lie, and
        results are not copied.
        """
        named = {"input_ids": input_ids, "attention_mask": attention_mask, **inputs}
        return self._core.forward(
            {name: _array(value) for name, value in named.items() if value is not None}
        )

    def parameters(self) -> dict[str, NDArray[Any]]:
        """All parameters by name, as arrays on the model's own memory: writing changes the model.

        In bf16, which NumPy lacks, they are objects with __dlpack__ for libraries that have it.
        """
        return self._core.parameters()

    def export(
        self,
        folder: str | os.PathLike[str],
        *,
        format: Literal["nystrom", "transformers"] = "nystrom",
        softmax: bool = False,
        sentence_transformers: Literal["model", "mean", "cls"] | None = None,
        onnx: Literal["none", "f32", "int8"] = "none",
        verify: bool = False,
    ) -> list[str]:
        """Writes the folder of this model for Hugging Face, and returns its files.

        It does what `nystrom export` does, with the weights of the model's folder. softmax: exact
        attention in place of the model's own. sentence_transformers: also that program's files;
        model stands for the model's own pooling. verify: reads the files back and compares them.
        """
        return self._core.export(
            os.fspath(folder), format, softmax, sentence_transformers, onnx, verify
        )

    def __repr__(self) -> str:
        return f"nystrom.Model({self.path!r}, {self.num_parameters} parameters)"


def _array(value: Any) -> Any:
    """An array as it is, and a list as an array of NumPy."""
    if hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__"):
        return value
    import numpy

    return numpy.asarray(value)
