"""Options from values of Python, in the form that the program reads: YAML, which includes JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from nystrom.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


#: The file, in a model's folder or its run's, that gives labels which are no texts their types.
LABEL_TYPES = "label_types.json"

_dtypes = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16"}


def require_numbers(**values: Any) -> None:
    """Throws a TypeError for what is no whole number, or of a threshold no number; and for a bool,
    which Python takes for one. None stands for no limit where there may be none."""
    for name, value in values.items():
        kind, method = "whole number", "__index__"
        if name == "threshold":
            kind, method = "number", "__float__"
        unlimited = value is None and name in ("dimensions", "max_length", "top_k", "threshold")
        if isinstance(value, bool) or not (unlimited or hasattr(value, method)):
            raise TypeError(f"{name}: got {value!r}, expected a {kind}")


def dtype_name(dtype: Any) -> str:
    """The name of an element type: f32 for "float32", numpy.float32, torch.float32."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or str(dtype)
    return _dtypes.get(name.removeprefix("torch."), name)


def plain(value: Any) -> Any:
    """A path as text; a number or an array of NumPy as one of Python; an element type by its
    name."""
    if not isinstance(value, type):  # those of NumPy have its methods
        if hasattr(value, "tolist"):
            return value.tolist()
        if hasattr(value, "__fspath__") or isinstance(value, bytes):
            return os.fsdecode(value)
        if isinstance(value, Mapping):
            return dict(value)
    name = dtype_name(value)
    if name not in _dtypes.values():
        raise TypeError(
            f"got {value!r} ({type(value).__name__}), expected a text, a number, a list or a dict"
        )
    return name


def text_of(value: Any) -> str:
    """A value as YAML. Paths become texts."""
    return _in_utf8(json.dumps(value, ensure_ascii=False, default=plain))


def names_of_columns(label: Any) -> list[str] | None:
    """The names of several columns: a list, an index of pandas, an array; None for one."""
    if hasattr(label, "tolist"):
        label = label.tolist()
    return list(map(str, label)) if isinstance(label, (list, tuple)) else None


def column_options(**columns: Any) -> list[str]:
    """The options that name columns of a task. None stands for the task's own."""
    return [
        f"task.columns.{key}={text_of(name if isinstance(name, list) else str(name))}"
        for key, name in columns.items()
        if name is not None
    ]


def _in_utf8(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{text!a}: is no name in UTF-8, as Python's functions take") from None
    return text


def path_of(path: str | bytes | os.PathLike[str]) -> str:
    """A path as a text."""
    text = _in_utf8(os.fsdecode(path))
    if not text:
        raise InputError("got an empty path, expected the name of a file or a folder")
    if "\0" in text:
        raise InputError(f"{text!a}: holds the character NUL, which no path has")
    return text


def new_folder(path: str | bytes | os.PathLike[str]) -> str:
    """The path of a folder to write, as path_of."""
    text = path_of(path)
    if text == "~" or text.startswith("~/"):
        raise InputError(
            f"{text!r}: only a shell replaces ~; write the folder out, as os.path.expanduser does"
        )
    return text


def absolute(path: str | bytes | os.PathLike[str]) -> str:
    """The path of a model from any current folder; a name of the hub stays."""
    text = path_of(path)
    return os.path.abspath(text) if os.path.exists(text) else text


def overrides(sections: Mapping[str, Any]) -> list[str]:
    """Options like those of --set, one for each section: {"training": {"steps": 9}}."""
    return [f"{name}={text_of(value)}" for name, value in sections.items()]


def require_once(sections: Mapping[str, Any], **given: tuple[Any, ...]) -> None:
    """Throws an InputError for an option of `sections` in whose place an argument of the same call
    is. `given` are the arguments: a value, None if it was left out, and the options."""
    named = set(_named(sections))
    for argument, (value, *options) in given.items():
        for option in options if value is not None else ():
            if option in named:
                raise InputError(f"{option}: the argument {argument} gives it too; leave one out")


def _named(sections: Mapping[str, Any]) -> Iterator[str]:
    """The names of the options that have a value."""
    for name, value in sections.items():
        if isinstance(value, Mapping):
            yield from (f"{name}.{each}" for each in _named(value))
        elif value is not None:
            yield name
