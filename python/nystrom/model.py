"""Trained models: nystrom.load opens one."""

from __future__ import annotations

import contextlib
import json
import os

from nystrom import _core
from nystrom._options import (
    LABEL_TYPES,
    absolute,
    dtype_name,
    new_folder,
    overrides,
    require_numbers,
)
from nystrom._texts import (
    no_files,
    require_no_mask,
    several,
    text_of,
    texts_of,
    texts_or_words,
)
from nystrom.errors import InputError
from nystrom.tokenizer import Tokenizer

TYPE_CHECKING = False  # as that of typing, whose import takes longer than all others
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Generic, Literal, overload

    import numpy as np
    from numpy.typing import ArrayLike, NDArray
    from typing_extensions import TypeVar

    P = TypeVar("P", default=Any)

    class _Predicts(Generic[P]):
        pass

    DType = Literal["f32", "bf16", "f16", "f64", "float32", "bfloat16", "float16", "float64"]
    Pooling = Literal[
        "mean", "cls", "landmarks", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"
    ]
    Prompt = Literal["query", "document", "none"]
    FloatArray = NDArray[np.float32]
else:

    class _Predicts:
        def __class_getitem__(cls, prediction: object) -> type:
            return cls


def load(
    path: str | os.PathLike[str],
    *,
    dtype: DType | Any = "f32",
    device: str = "cpu",
    model: Mapping[str, Any] | None = None,
) -> Model[Any]:
    """Opens a model: a run directory, a checkpoint or a Hugging Face folder.

    Of a run it is the checkpoint with the best evaluation, else the newest. `dtype` is f32, bf16,
    f64, or f16 on GPUs, also as NumPy and torch name them. `device` is cpu, cuda or cuda:N. `model`
    overrides options of the model: {"attention": {"num_landmarks": 32}}.
    """
    options = [] if model is None else overrides({"model": model})
    return Model(absolute(path), dtype_name(dtype), str(device), options)


def _restored(
    path: str,
    dtype: str,
    device: str,
    options: list[str],
    weights: dict[str, Any] | None,
    mark: Any = None,
) -> Model:
    """A model that was pickled or copied."""
    model = Model(path, dtype, device, options)
    if isinstance(mark, str) and mark != model._mark:
        raise InputError(
            f"'{path}': holds another model than the one that was pickled; give each run and each "
            "saved model a folder of its own"
        )
    if weights is not None:
        model._core.set_weights(weights)
        model._weights_shown = True
    return model


class Model(_Predicts["P"]):
    """A trained model, its tokenizer and, if it was fine-tuned, its task. Several threads may call
    it. Copies and pickles are opened from its folder; they carry weights that may have changed.

    Type checkers are told what it predicts by Model[list[Label]], of nystrom.types."""

    def __init__(self, path: str, dtype: str, device: str, options: list[str]) -> None:
        """nystrom.load calls it."""
        import numpy  # noqa: F401  # results are its arrays; an import within a fork could hang

        self._core = _core.Model(path, dtype, device, options)
        self._options = (dtype, device, options)
        self._weights_shown = False  # whether parameters() let someone write to them
        self._mark = _mark_of(self._core.path)
        self._labels = typed_labels(self._core.path, self._core.labels)

    @property
    def path(self) -> str:
        """The folder of config.json and model.safetensors."""
        return self._core.path

    @property
    def config(self) -> dict[str, Any]:
        """The content of config.json as a checkpoint of the model has it."""
        content: dict[str, Any] = json.loads(self._core.config)
        return content

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer; None for a folder without one."""
        core = self._core.tokenizer
        return None if core is None else Tokenizer(self.path, core)

    @property
    def labels(self) -> list[Any]:
        """The classes in the order of the outputs, of the types that they had in training; empty
        for a model without classes."""
        return list(self._labels.values())

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
        truncate: bool | None = None,
        progress: bool = False,
    ) -> FloatArray:
        """One vector for each text: float32 [texts, width], or [width] for a single text.

        The vectors of `nystrom embed`, to the bit. pooling mean: the mean of the last hidden states
        over the tokens; cls: that of the first token; landmarks: the mean of the segment means; and
        those of sentence-transformers.
        normalize: divide by the length. None stands for the model's own options. dimensions: keep
        the first ones. prompt: which of the model's prompts stands before each text. A text of more
        than `max_length` tokens (None: the length of the training) is read in windows; with
        truncate=True its beginning alone, which gives a warning, and with False it is an error.
        progress: as for predict.
        """
        require_numbers(dimensions=dimensions, batch_size=batch_size, max_length=max_length)
        single = isinstance(texts, str)
        given = no_files(texts_of(texts, "texts"), "texts")

        def part(begin: int, end: int) -> FloatArray:
            return self._core.encode(
                given[begin:end],
                pooling,
                normalize,
                dimensions,
                prompt,
                batch_size,
                max_length,
                truncate,
            )

        import numpy

        parts = list(_in_parts(part, len(given), batch_size, progress, "encode"))
        vectors: FloatArray = parts[0] if len(parts) == 1 else numpy.concatenate(parts)
        return vectors[0] if single else vectors

    def fill_mask(
        self,
        texts: str | Iterable[str],
        top_k: int | None = 5,
        batch_size: int = 16,
        *,
        progress: bool = False,
    ) -> list[Any]:
        """The most probable tokens at each mask, as Hugging Face's fill-mask pipeline gives them.

        For a text with one mask this is a list of dicts with score, token, token_str and sequence;
        for several masks a list of such lists; for several texts a list of these. top_k None: all
        tokens.
        """
        require_numbers(top_k=top_k, batch_size=batch_size)
        given = texts_of(texts, "texts")
        count = int(self.config["vocab_size"]) if top_k is None else top_k

        def part(begin: int, end: int) -> list[Any]:
            found = self._core.fill_masks(given[begin:end], count, batch_size)
            return [json.loads(each) for each in found]

        parts = _in_parts(part, len(given), batch_size, progress, "fill_mask")
        fills = [each for part in parts for each in part]
        return fills[0] if isinstance(texts, str) else fills

    if TYPE_CHECKING:

        @overload
        def predict(  # type: ignore[overload-overlap]  # a str is iterable too
            self,
            texts: str,
            pairs: str | None = None,
            choices: Sequence[str] | None = None,
            *,
            top_k: int | None = 5,
            threshold: float | None = None,
            batch_size: int = 16,
            truncate: bool = True,
            progress: bool = False,
        ) -> P: ...
        @overload
        def predict(
            self,
            texts: Iterable[str],
            pairs: Iterable[str | None] | None = None,
            choices: Sequence[Sequence[str]] | None = None,
            *,
            top_k: int | None = 5,
            threshold: float | None = None,
            batch_size: int = 16,
            truncate: bool = True,
            progress: bool = False,
        ) -> list[P]: ...

    def predict(
        self,
        texts: str | Iterable[str],
        pairs: str | Iterable[str | None] | None = None,
        choices: Sequence[Any] | None = None,
        *,
        top_k: int | None = 5,
        threshold: float | None = None,
        batch_size: int = 16,
        truncate: bool = True,
        progress: bool = False,
    ) -> Any:
        """The predictions of a fine-tuned model, as Hugging Face's pipelines give them.

        Classes are a list of dicts with label and score; values {"value": …}; entities, answers
        and choices have their own fields. `pairs` are second texts, or the texts that answer
        questions; `choices` are the choices of each text. For a single text all three are single:
        predict("Who built it?", "The bridge was built by Brunel."). A task of features or images
        takes the paths of files, and gives a list with an entry for each of their samples; one of
        tokens also rows of words, as they are trained on, whose predictions have no places.

        top_k None: all classes. Where a text has any number of labels, it has those whose score is
        at least `threshold`, whatever top_k is; None: task.threshold of the training. A text of
        more tokens than the model reads gives a warning, and without `truncate` an error. progress:
        a bar of tqdm, or lines where that is not installed.
        """
        from nystrom._rows import require_one_index

        require_one_index([texts, pairs, choices], ["texts", "pairs", "choices"], "predict")
        if self._core.reads_files:
            texts = _names_of_files(texts)
        single = isinstance(texts, str)
        if pairs is not None and single is not isinstance(pairs, str):
            form, other = ("one text", "one text") if single else ("a list", "one")
            raise InputError(f"pairs: expected {form}, as `texts` is {other}")
        if choices is not None and not isinstance(choices, str):
            choices = list(choices)
        if single:
            pairs = [pairs] if isinstance(pairs, str) else None
            choices = None if choices is None else [texts_of(choices, "choices")]
        elif choices is not None and any(isinstance(each, str) for each in [choices, *choices]):
            raise InputError("choices: expected a list of choices for each text")
        words: list[list[str]] | None = None
        if self._core.kind == "tokens" and not single:
            texts, words = texts_or_words(texts)
        given = texts_of(texts, "texts")
        if not self._core.reads_files:
            no_files(given, "texts")
        given_pairs: list[str | None] = [None] * len(given)
        if pairs is not None:
            given_pairs = [
                each if each is None else text_of(each, f"pairs[{at}]")
                for at, each in enumerate(several(pairs, "pairs"))
            ]
        given_choices: list[list[str]] = [[]] * len(given)
        if choices is not None:
            given_choices = [texts_of(e, f"choices[{at}]") for at, e in enumerate(choices)]
        for name, values in (("pairs", given_pairs), ("choices", given_choices)):
            if len(values) != len(given):
                raise InputError(
                    f"{name}: got {len(values)}, expected {len(given)}, one for each text"
                )
        results = self._predict(
            given,
            given_pairs,
            words or given_choices,
            (top_k, threshold),
            batch_size,
            truncate,
            progress,
        )
        return results[0] if single and not self._core.reads_files else results

    def predict_proba(
        self,
        texts: str | Iterable[str],
        pairs: str | Iterable[str | None] | None = None,
        *,
        batch_size: int = 16,
        truncate: bool = True,
        progress: bool = False,
    ) -> NDArray[np.float64]:
        """The probabilities of a classifier: [texts, classes], or [classes] for a single text; of
        files of features or images [samples, classes]. The columns are in the order of `labels`.
        Those of labels that exclude each other add up to 1."""
        import numpy

        if not self._labels or self._core.kind not in ("classification", "features"):
            raise InputError(f"{self.path}: does not classify texts, and has no probabilities")
        single = isinstance(texts, str) and not self._core.reads_files
        every = 0.0 if self.config.get("problem_type") == "multi_label_classification" else None
        found: Any = self.predict(
            texts,
            pairs,
            top_k=None,
            threshold=every,
            batch_size=batch_size,
            truncate=truncate,
            progress=progress,
        )
        places = {label: at for at, label in enumerate(self.labels)}
        result = numpy.empty((1 if single else len(found), len(places)))
        for row, guesses in enumerate([found] if single else found):
            for guess in guesses:
                result[row, places[guess["label"]]] = guess["score"]
        return result[0] if single else result

    def _predict(
        self,
        texts: list[str],
        pairs: list[str | None],
        choices: list[list[str]],
        limits: tuple[int | None, float | None],
        batch_size: int,
        truncate: bool,
        progress: bool,
    ) -> list[Any]:
        top_k, threshold = limits
        require_numbers(top_k=top_k, threshold=threshold, batch_size=batch_size)
        if threshold is not None and not 0 <= threshold <= 1:
            raise InputError(f"threshold {threshold}; expected a number from 0 to 1")
        count = 2**31 if top_k is None else top_k

        def part(begin: int, end: int) -> list[Any]:
            found = self._core.predict(
                texts[begin:end],
                pairs[begin:end],
                choices[begin:end],
                count,
                threshold,
                batch_size,
                truncate,
            )
            return [self._with_types(json.loads(each)) for each in found]

        parts = _in_parts(part, len(texts), batch_size, progress, "predict")
        return [each for part in parts for each in part]

    def _with_types(self, prediction: Any) -> Any:
        """A prediction whose labels have the types that they had in training."""
        for guess in prediction if isinstance(prediction, list) else []:
            if "label" in guess:
                guess["label"] = self._labels.get(guess["label"], guess["label"])
        return prediction

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

        In bf16, which NumPy lacks, they are objects with __dlpack__ for libraries that have it; the
        bias of a predicted value is float32 all the same. After this call, export, save, copies and
        pickles have the weights of their moment.
        """
        self._weights_shown = True
        return self._core.parameters()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes the model with its weights of this moment into a new folder, as checkpoints are:
        for nystrom.load, and for model={"from": folder}."""
        folder = new_folder(folder)
        self._core.save(folder)

    def export(
        self,
        folder: str | os.PathLike[str],
        *,
        format: Literal[
            "auto",
            "nystrom",
            "transformers",
            "bert",
            "camembert",
            "distilbert",
            "electra",
            "modernbert",
            "roberta",
            "xlm-roberta",
        ] = "auto",
        softmax: bool = False,
        sentence_transformers: Literal["model", "mean", "cls"] | None = None,
        onnx: Literal["none", "f32", "int8"] = "none",
        verify: bool = False,
    ) -> list[str]:
        """Writes the folder of this model for Hugging Face, and returns its files.

        It does what `nystrom export` does, with the weights of this moment. softmax: exact
        attention in place of the model's own. sentence_transformers: also that program's files;
        model stands for the model's own pooling. verify: reads the files back and compares them.
        """
        folder = new_folder(folder)
        return self._core.export(
            folder, format, softmax, sentence_transformers, onnx, verify,
            self._weights_shown or self._replaced(),
        )  # fmt: skip

    def _replaced(self) -> bool:
        """Whether the folder holds another model by now, as after a run with overwrite=True."""
        return bool(_mark_of(self.path) != self._mark)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._replaced():
            raise InputError(
                f"'{self.path}': holds another model by now, and a copy is opened from there; save "
                "this one: model.save(folder)"
            )
        weights = self._core.weights() if self._weights_shown else None
        return _restored, (os.path.abspath(self.path), *self._options, weights, self._mark)

    def __repr__(self) -> str:
        return f"nystrom.Model({self.path!r}, {self.num_parameters} parameters)"

    def _repr_html_(self) -> str:
        """What the model is, as a table for notebooks."""
        from html import escape

        config = self.config
        facts = {
            "task": self._core.kind or "none",
            "labels": ", ".join(map(str, self.labels)),
            "parameters": f"{self.num_parameters:,}",
            "longest input": f"{self.max_length} tokens",
            "layers": config.get("num_hidden_layers"),
            "width": config.get("hidden_size"),
        }
        rows = "".join(
            f"<tr><th>{name}</th><td>{escape(str(value))}</td></tr>"
            for name, value in facts.items()
            if value not in (None, "")
        )
        return f"<div><b>{escape(self.path)}</b><table>{rows}</table></div>"


def _in_parts(
    work: Callable[[int, int], Any], count: int, batch_size: int, progress: bool, name: str
) -> Iterator[Any]:
    """The results of work(begin, end) for all of `count` items: at once, or in the parts that share
    batches, with a bar."""
    most = 1 << 20
    if not 1 <= batch_size <= most:
        limit = "at least 1" if batch_size < 1 else f"at most {most}"
        raise InputError(f"batch_size {batch_size}; expected {limit}")
    if not progress:
        yield work(0, count)
        return
    size = 64 * batch_size  # texts that are sorted by length to share batches
    from nystrom._output import bar

    with bar(name, count) as advance:
        for begin in range(0, max(count, 1), size):
            end = min(begin + size, count)
            yield work(begin, end)
            advance(end - begin)


def _names_of_files(files: Any) -> Any:
    """Paths as texts; other values as they are, which texts_of judges."""

    def name(file: Any) -> Any:
        return os.fspath(file) if isinstance(file, os.PathLike) else file

    one = isinstance(files, (str, os.PathLike))
    return name(files) if one else [name(each) for each in several(files, "texts")]


def _mark_of(path: str) -> Any:
    """What tells the model of a folder from one that takes its place: the checksums of a
    checkpoint's files, else the sizes and times of the files of its weights."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        with open(os.path.join(path, "MANIFEST.json"), encoding="utf-8") as file:
            return " ".join(each["xxh3_128"] for each in json.load(file)["files"].values())
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        weights = [
            (each.name, each.stat().st_size, each.stat().st_mtime_ns)
            for each in entries
            if each.name.startswith(("model", "pytorch_model"))
            and each.name.endswith((".safetensors", ".bin", ".index.json"))
        ]
        return sorted(weights)
    return None


def _label_types_of(path: str) -> dict[str, Any]:
    """The labels that are no texts, by their names in the model. A folder, or the run of a
    checkpoint, says which."""
    named = os.path.abspath(path), os.path.realpath(path)  # it may be named by a link
    above = [os.path.split(os.path.dirname(each)) for each in named]
    for place in (path, *(run for run, last in above if last == "checkpoints")):
        name = os.path.join(place, LABEL_TYPES)
        if not os.path.isfile(name):
            continue
        try:
            with open(name, encoding="utf-8") as file:
                types = json.load(file)
            one_type = len({type(each) for each in types.values()}) <= 1
            if one_type and all(json.dumps(types[text]) == text for text in types):
                return dict(types)
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            pass
        raise InputError(
            f"'{name}': does not give the numbers of labels by their texts; remove it, and labels "
            "are texts"
        )
    return {}


def typed_labels(path: str, names: list[str]) -> dict[str, Any]:
    """The labels by their names in the model."""
    kept = _label_types_of(path) if names else {}
    return {name: kept.get(name, name) for name in names}


def _array(value: Any) -> Any:
    """An array as it is, and a list as an array of NumPy."""
    require_no_mask(value)
    if hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__"):
        if getattr(getattr(value, "dtype", None), "byteorder", "=") == ">":
            raise InputError(
                "an array is big-endian; pass array.astype(array.dtype.newbyteorder('='))"
            )
        return value
    import numpy

    return numpy.asarray(value)
