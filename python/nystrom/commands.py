"""What the commands evaluate, search, convert, extend, info, check and approximation do.

Each starts the program, so its results are the program's. Data in memory goes there as files, which
end with the call.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from numbers import Real

from nystrom import _core
from nystrom._options import (
    column_options,
    names_of_columns,
    new_folder,
    overrides,
    path_of,
    require_once,
    text_of,
)
from nystrom._texts import require_no_mask, texts_of
from nystrom.errors import InputError, in_words_of_python
from nystrom.model import Model, typed_labels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, Literal

    from nystrom._given import GivenData
    from nystrom.runs import Config

    ModelLike = Model | str | os.PathLike[str]


def evaluate(
    model: ModelLike,
    /,
    data: Any = None,
    *,
    pairs: Any = None,
    retrieval: str | os.PathLike[str] | None = None,
    classify: Any = None,
    test: Any = None,
    minimal_pairs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    good: str | None = None,
    bad: str | None = None,
    text: str | None = None,
    label: str | Sequence[str] | None = None,
    pair: str | None = None,
    split: str | None = None,
    dimensions: int | None = None,
    batch_size: int = 16,
    quiet: bool = True,
    **sections: Any,
) -> dict[str, Any]:
    """Measures a model, as `nystrom evaluate` does, and returns its measures by name.

    `data` are labelled rows of the model's task, in every form that nystrom.finetune takes, or
    texts for a masked language model, as nystrom.pretrain takes them. For classes the result has
    `labels`, `confusion`, a list of rows: how many of each true class got each class, and
    `classes`, the figures of each one.

    In place of `data`, vectors are measured: by `pairs` of texts with a score of their similarity,
    by `retrieval` from a folder in BEIR's form (`split` of its qrels), or by a logistic regression
    that learns `classify` and is measured on `test`. A masked language model is asked by the files
    `minimal_pairs`, with the keys sentence_good and sentence_bad, or `good` and `bad`.

    `text`, `label` and `pair` name columns. Sections, such as task={"bad_rows": "skip"}, override
    options; those of the section data come one by one: **{"data.documents": "lines"}.
    """
    given: dict[str, Any] = {
        "data": data,
        "pairs": pairs,
        "retrieval": retrieval,
        "classify": classify,
        "minimal_pairs": minimal_pairs,
    }
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        got = " and ".join(names) or "nothing"
        raise InputError(f"evaluate: got {got}; give one of {', '.join(given)}")
    if (names == ["classify"]) != (test is not None):
        raise InputError("evaluate: classify and test go together: what to learn, what to measure")
    require_once(
        sections,
        text=(text, "task.columns.text", "data.text_column"),
        label=(label, "task.columns.label", "task.columns.labels"),
        pair=(pair, "task.columns.pair"),
    )
    options = overrides(sections)
    with _opened(model) as (path, flags, given_data):
        flags |= {"batch": batch_size, "dimensions": dimensions, "split": split, "quiet": quiet}
        flags |= {"good": good, "bad": bad}
        if names[0] in ("retrieval", "minimal_pairs"):
            if (text, label, pair) != (None, None, None):
                raise InputError(
                    f"evaluate: text, label and pair name columns, and {names[0]} reads files with "
                    "columns of their own; leave them out"
                )
            flags[names[0]] = _paths(given[names[0]], names[0])
            return _result(path, options, flags, None)
        plan = _core.plan_of_model(path, options)
        masked = data is not None and plan["head"] == "NystromformerForMaskedLM"
        columns = _columns_of(plan, names[0], masked, text, label, pair)
        if masked:
            options.append(f"data.text_column={text_of(columns['text'])}")
        else:
            keys = ["text", "label", "labels", "pair"]
            if columns["kind"] == "questions":  # they are written as SQuAD's answers
                keys.remove("labels")
            own = plan if data is not None else {}  # files without columns take no names of them
            named = [key for key in keys if columns.get(key) != own.get(key)]
            options += column_options(**{key: columns.get(key) or None for key in named})
        if data is not None and plan["id"] and columns["kind"] != "questions":
            options.append("task.columns.id=null")  # the rows that are written have none
        for name, value in (given | {"test": test, "retrieval": None}).items():
            if value is not None:
                flag = ("text" if masked else "file") if name == "data" else name
                flags[flag] = _files(value, name, columns, given_data, masked)
                options += given_data.form(flags[flag], plan["format"])
        return _result(path, options, flags, model if isinstance(model, Model) else path)


def search(
    model: ModelLike,
    corpus: Any,
    queries: str | Iterable[str],
    *,
    texts: Any = None,
    top_k: int = 5,
    text: str | None = None,
    vectors: str | None = None,
    pooling: str | None = None,
    dimensions: int | None = None,
    batch_size: int = 32,
    quiet: bool = True,
) -> list[Any]:
    """The rows of a corpus that are nearest to each query, as `nystrom search` finds them: dicts
    with row, score and text; for several queries a list of such lists.

    `corpus` are texts: an iterable, a table with the column `text`, or the path of a file. Or they
    are vectors that Model.encode made: an array [rows, width], a list of its rows, or the path of a
    .npy, .safetensors or .jsonl. `texts` are then their texts, in the same forms. `vectors` is the
    column of a table that holds the vector of each text.
    """
    asked = texts_of(queries, "queries")
    if not asked:
        return []
    with _opened(model) as (path, flags, given_data):
        plan = _core.plan_of_model(path, [])
        columns = _columns_of(plan, "corpus", False, text)
        columns |= {"label": None, "pair": None, "bad_rows": None}
        options = column_options(text=columns["text"])
        if vectors is not None:
            if texts is not None:
                raise InputError("search: vectors names a column beside the texts; leave texts out")
            from nystrom._rows import rows_of

            rows = list(rows_of(corpus, "corpus", [columns["text"], vectors]))
            texts, corpus = [row[0] for row in rows], _array([row[1] for row in rows])
        if _are_vectors(corpus):
            import numpy

            file = os.path.join(given_data.folder, "corpus.npy")
            numpy.save(file, _array(corpus))
        else:
            file = _file(corpus, "corpus", columns, given_data)
        if texts is not None:
            name = "texts" if vectors is None else "corpus"
            flags["texts"] = _file(texts, name, columns, given_data)
        flags |= {"top_k": top_k, "pooling": pooling, "dimensions": dimensions,
                  "batch": batch_size, "quiet": quiet}  # fmt: skip
        from nystrom._program import run

        questions = _file(asked, "queries", columns, given_data)
        printed = run("search", path, file, questions, options=options, json=True, **flags)
        # Texts may hold other characters that splitlines takes for the ends of lines, as U+2028.
        found = [json.loads(line)["neighbours"] for line in printed.split("\n") if line]
    return found[0] if isinstance(queries, str) else found


def convert(
    model: ModelLike,
    /,
    folder: str | os.PathLike[str],
    *,
    landmarks: int = 64,
    conv: int | None = None,
    length: int | None = None,
    positions: Literal["tile", "interpolate"] = "tile",
    keep_exact: Sequence[int] | str = (),
    texts: Any = None,
    quiet: bool = True,
    **sections: Any,
) -> dict[str, Any]:
    """Writes a model with exact attention, such as a BERT folder, as a Nyström encoder into a new
    folder, as `nystrom convert` does, and returns what it is.

    `keep_exact` are the layers that keep exact attention. With `texts`, in the forms of
    nystrom.pretrain, the result's `text` has the masked-LM loss before and after, and the landmarks
    that each layer needs.
    """
    layers = keep_exact.tolist() if hasattr(keep_exact, "tolist") else keep_exact
    layers = [layers] if hasattr(layers, "__index__") else layers
    exact = layers if isinstance(layers, str) else ",".join(map(str, layers))
    folder = new_folder(folder)
    options = overrides(sections)
    with _opened(model) as (path, flags, given_data):
        flags.pop("dtype", None)
        flags.pop("device", None)
        if texts is not None:
            flags["text"] = _text_files(texts, path, options, given_data)
        return _printed(
            "convert", path, folder, options=options, landmarks=landmarks, conv=conv,
            length=length, positions=positions, keep_exact=exact or None, quiet=quiet, **flags,
        )  # fmt: skip


def extend(
    model: ModelLike,
    folder: str | os.PathLike[str],
    *,
    length: int,
    landmarks: int | None = None,
    positions: Literal["tile", "interpolate"] = "tile",
    quiet: bool = True,
) -> dict[str, Any]:
    """Writes a model with a longer position table into a new folder, to train on at that length, as
    `nystrom extend` does, and returns what it is."""
    folder = new_folder(folder)
    with _opened(model) as (path, _, _):
        return _printed(
            "extend", path, folder, length=length, landmarks=landmarks,
            positions=positions, quiet=quiet,
        )  # fmt: skip


def info(model_or_config: ModelLike | Config, **sections: Any) -> dict[str, Any]:
    """The parameters, shapes, options and output of a model or of a run's configuration, as
    `nystrom info` gives them."""
    if isinstance(model_or_config, Mapping):
        with _config_file(model_or_config) as file:
            return _printed("info", file, options=overrides(sections), quiet=True)
    with _opened(model_or_config) as (path, _, _):
        return _printed("info", path, options=overrides(sections), quiet=True)


def check(
    config: Config,
    *,
    read_data: bool = False,
    pretraining: bool = False,
    quiet: bool = True,
    **sections: Any,
) -> dict[str, Any]:
    """Looks for every error of a run's configuration before any work, as `nystrom check` does.

    The result has `ok`, and `errors` or what the run would be. read_data: also read the data, and
    tell of truncation, unknown tokens, duplicates and labels. pretraining: of a configuration with
    a task, check the run that nystrom.pretrain makes of its inputs.
    """
    with _config_file(config) as file:
        result = _printed(
            "check", file, options=overrides(sections), data=read_data, pretraining=pretraining,
            quiet=quiet, errors_too=True,
        )  # fmt: skip
        for kind in {"errors", "warnings"} & result.keys():
            result[kind] = [in_words_of_python(each) for each in result[kind]]
        return result


def approximation(
    model: ModelLike,
    /,
    texts: Any,
    *,
    sequences: int = 4,
    output: str | os.PathLike[str] | None = None,
    quiet: bool = True,
    **sections: Any,
) -> dict[str, Any]:
    """How far a masked language model's attention is from exact attention, layer by layer, on
    texts, as `nystrom approximation model` finds it: in f32 on the CPU, however the model was
    loaded. `output` is a folder for tables and pictures.
    """
    options = overrides(sections)
    with _opened(model) as (path, _, given_data):
        return _printed(
            "approximation model", path, *_text_files(texts, path, options, given_data),
            options=options, quiet=quiet, sequences=sequences,
            output=None if output is None else new_folder(output),
        )  # fmt: skip


# ---- What they share -----------------------------------------------------------------------------


@contextlib.contextmanager
def _opened(model: ModelLike | Config) -> Iterator[tuple[str, dict[str, Any], GivenData]]:
    """The folder of a model, the flags by which it was loaded, and a place for data in memory. A
    model whose weights or folder may have changed is saved first."""
    from nystrom._given import GivenData
    from nystrom._program import folder_of_a_call

    with folder_of_a_call() as folder, GivenData(folder) as data:
        if not isinstance(model, Model):
            yield path_of(model), {}, data  # type: ignore[arg-type]
            return
        dtype, device, options = model._options
        flags: dict[str, Any] = {"dtype": dtype, "device": device}
        path = model.path
        if model._weights_shown or options or model._replaced():
            path = os.path.join(folder, "model")
            model.save(path)
        yield path, flags, data


@contextlib.contextmanager
def _config_file(config: Config) -> Iterator[str]:
    """The path of a configuration, which a dict gets for the time of a call."""
    if not isinstance(config, Mapping):
        yield path_of(config)
        return
    from nystrom._program import folder_of_a_call

    with folder_of_a_call() as folder:
        name = os.path.join(folder, "config.yaml")
        with open(name, "w", encoding="utf-8") as file:
            file.write(text_of(dict(config)))
        yield name


def _printed(command: str, *words: str, **options: Any) -> dict[str, Any]:
    """The object that a command prints. The options are those of _program.run."""
    from nystrom._program import run

    return dict(json.loads(run(command, *words, json=True, **options)))


def _columns_of(
    plan: dict[str, Any],
    name: str,
    masked: bool,
    text: str | None = None,
    label: str | Sequence[str] | None = None,
    pair: str | None = None,
) -> dict[str, Any]:
    """The columns of the rows that the argument `name` gives."""
    columns: dict[str, Any] = {"kind": None, "id": None, "choices": [], "negatives": []}
    if masked:
        column = plan["text_column"] if text is None else str(text)
        return columns | {"text": column, "label": None, "pair": None}
    if name == "data":
        columns = plan | {"id": None}
    else:
        columns |= {"text": plan["text"], "label": plan["label"] or "label", "pair": None}
        columns |= {"kind": "classification", "bad_rows": plan["bad_rows"]}
    if name == "pairs":
        columns |= {"kind": "regression", "pair": plan["pair"] or "pair"}
    several = names_of_columns(label)
    if several is not None:
        columns |= {"labels": several, "label": None}
        label = None
    for key, value in (("text", text), ("label", label), ("pair", pair)):
        columns[key] = columns[key] if value is None else str(value)
    return columns


def _files(
    given: Any, name: str, columns: dict[str, Any], data: GivenData, masked: bool
) -> list[str]:
    """The files of what an argument gives."""
    from nystrom._given import Columns, file_names, names_of_files, text_file_names

    paths = text_file_names(given, name) if masked else names_of_files(given)
    return file_names(given, paths, name, Columns(columns), data)


def _paths(given: Any, name: str) -> str | list[str]:
    """A path, or several."""
    if isinstance(given, (list, tuple)) and name == "minimal_pairs":
        if not given:
            raise InputError("minimal_pairs: got no files; name one or several")
        if not all(isinstance(each, (str, bytes, os.PathLike)) for each in given):
            raise InputError("minimal_pairs: expected the names of files, which hold the pairs")
        return [path_of(each) for each in given]
    return path_of(given)


def _text_files(texts: Any, path: str, options: list[str], data: GivenData) -> list[str]:
    """Those of texts for the masked language model at `path`."""
    columns = _columns_of(_core.plan_of_model(path, options), "texts", True)
    return _files(texts, "texts", columns, data, True)


def _file(given: Any, name: str, columns: dict[str, Any], data: GivenData) -> str:
    """The one file of texts."""
    files = _files(given, name, columns, data, True)
    if len(files) != 1:
        raise InputError(f"{name}: got {len(files)} files, expected one")
    if os.path.isdir(files[0]):
        raise InputError(f"{name}: '{files[0]}' is a folder; expected texts, or the name of a file")
    return files[0]


def _are_vectors(corpus: Any) -> bool:
    """Whether it is an array [rows, width], or a list of its rows."""
    if isinstance(corpus, list) and corpus:
        row = corpus[0]
        numbers = isinstance(row, (list, tuple)) and bool(row) and isinstance(row[0], Real)
        return numbers or getattr(row, "ndim", 0) == 1
    return getattr(corpus, "ndim", 0) == 2 and not hasattr(corpus, "columns")


def _array(vectors: Any) -> Any:
    """Vectors as an array [rows, width]."""
    import numpy

    for each in vectors if isinstance(vectors, list) else [vectors]:
        require_no_mask(each)
    try:
        if numpy.iscomplexobj(vectors):
            raise InputError("corpus: its vectors are complex; expected real numbers")
        with numpy.errstate(over="ignore"):
            result = numpy.ascontiguousarray(vectors, dtype=numpy.float32)
    except InputError:
        raise
    except (OverflowError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"corpus: its vectors are no array [rows, width]: {error}") from None
    if result.ndim != 2:
        raise InputError(f"corpus: vectors of the shape {result.shape}; expected [rows, width]")
    for row, column in numpy.argwhere(~numpy.isfinite(result))[:1]:
        number = abs(float(numpy.asarray(vectors, dtype=object)[row, column]))
        fault = "is too large for f32" if number < float("inf") else "is not finite"
        raise InputError(f"corpus: number {column} of vector {row} {fault}")
    return result


def _result(
    path: str, options: list[str], flags: dict[str, Any], model: Model | str | None
) -> dict[str, Any]:
    result = _printed("evaluate", path, options=options, **flags)
    if isinstance(result.get("labels"), list) and model is not None:
        known = model._labels if isinstance(model, Model) else typed_labels(path, result["labels"])
        result["labels"] = [known.get(each, each) for each in result["labels"]]
        for each in result.get("classes", []):
            each["label"] = known.get(each["label"], each["label"])
    return result
