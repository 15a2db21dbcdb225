"""Texts that a user gives to a model. What is no text is refused by its place."""

from __future__ import annotations

import os

from nystrom.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any


def texts_of(values: str | Iterable[str], name: str) -> list[str]:
    """The texts of one text or several. Throws a TypeError that names the first that is none."""
    return [text_of(value, f"{name}[{at}]") for at, value in enumerate(several(values, name))]


def no_files(texts: list[str], name: str) -> list[str]:
    """The texts. Throws an InputError where each of them names a file."""
    if texts and all(os.path.isfile(each) for each in texts):
        raise InputError(
            f"{name}: {described(texts[0])} names a file; give the text in it: "
            "pathlib.Path(name).read_text(), or use nystrom predict or embed"
        )
    return texts


def texts_or_words(values: Any) -> tuple[list[Any], list[list[str]] | None]:
    """Texts, and None; or for rows of words as many empty texts, and the words."""
    given = [  # a row of a column of polars is a Series
        each.to_list() if type(each).__name__ == "Series" else each
        for each in several(values, "texts")
    ]
    is_row = [isinstance(e, (list, tuple)) or getattr(e, "ndim", 0) == 1 for e in given]
    if not given or not all(is_row):
        return given, None
    words = [texts_of(each, f"texts[{at}]") for at, each in enumerate(given)]
    for at, row in enumerate(words):
        if not row or "" in row:
            raise InputError(f"texts[{at}]: the list of words is empty, or one of them is")
    return [""] * len(words), words


def several(values: Any, name: str) -> Iterator[Any]:
    """The values of a list or of any other iterable; of a single text that one."""
    if isinstance(values, str):
        return iter([values])
    columns = columns_of(values)
    if columns is not None:
        shown = ", ".join(map(repr, columns[:6])) + (", …" if len(columns) > 6 else "")
        column = repr(columns[0]) if columns else "'text'"
        raise TypeError(
            f"{name}: got a {type(values).__name__}, which gives the names of its columns and not "
            f"its texts; pass one column, such as data[{column}]; columns: {shown}"
        )
    require_order(values, name)
    if hasattr(values, "to_pylist"):  # a column of Arrow
        values = values.to_pylist()
    if isinstance(values, (bytes, bytearray)):
        raise TypeError(f"{name}: got {type(values).__name__}; decode it: value.decode('utf-8')")
    try:
        return items_of(values)
    except TypeError:
        raise TypeError(
            f"{name}: got {described(values)}, expected a str or several: a list or a column"
        ) from None


def require_order(values: Any, name: str) -> None:
    """Throws a TypeError for a set."""
    if isinstance(values, (set, frozenset)):
        raise TypeError(f"{name}: got a {type(values).__name__}, which has no order; pass a list")


def items_of(values: Any) -> Iterator[Any]:
    """What a value holds, one by one. Data sets of torch may end by their length alone."""
    if hasattr(type(values), "__iter__") or not hasattr(type(values), "__len__"):
        return iter(values)
    return (values[at] for at in range(len(values)))


def columns_of(values: Any) -> list[Any] | None:
    """The names of the columns of a table or a dict; None for anything else."""
    if hasattr(values, "dtype"):  # a column
        return None
    if is_mapping(values):  # frames of pandas too
        return list(values.keys())
    for attribute in ("column_names", "columns"):  # Arrow and datasets; polars
        names = getattr(values, attribute, None)
        if isinstance(names, (list, tuple)):
            return list(names)
    return None


def is_mapping(values: Any) -> bool:
    """Whether it is a dict, or used as one: an .npz file, a group of HDF5."""
    # A pandas GroupBy has an attribute keys, which is no method.
    dictionary = callable(getattr(values, "keys", None)) and hasattr(values, "__getitem__")
    return dictionary and not hasattr(values, "dtype")


def text_of(value: Any, place: str) -> str:
    """The text. Throws a TypeError, or an InputError for half a character or NUL, that names
    `place`."""
    if not isinstance(value, str):
        raise TypeError(f"{place}: got {described(value)}, expected a str; {remedy_of(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{place}: is no Unicode text: character {error.start} is half a surrogate pair; read "
            "the file with encoding='utf-8', or replace it: "
            "text.encode('utf-8', 'replace').decode()"
        ) from None
    if "\0" in value:
        raise InputError(f"{place}: the text holds the character NUL; remove it")
    return value


def is_missing(value: Any) -> bool:
    """Whether it stands for a missing value: None, NaN, pandas.NA or NaT, numpy.ma.masked."""
    missing = ("NAType", "NaTType", "MaskedConstant")
    return value is None or type(value).__name__ in missing or value != value


def require_no_mask(value: Any) -> None:
    """Throws an InputError for a masked array."""
    if hasattr(value, "mask") and hasattr(value, "filled"):
        raise InputError(
            "a masked array would lose its mask; pass array.filled(…), and the mask by itself"
        )


def described(value: Any) -> str:
    """What was got, for messages."""
    if value is None:
        return "None"
    shown = " ".join(repr(value).split())
    return f"{shown if len(shown) <= 40 else shown[:39] + '…'} ({type(value).__name__})"


def remedy_of(value: Any) -> str:
    """What to do about a value that is no text."""
    if isinstance(value, (bytes, bytearray)):
        return "decode it: value.decode('utf-8')"
    if isinstance(value, os.PathLike):
        return "give the text in it: value.read_text()"
    if isinstance(value, (list, tuple)):
        return "give one text for each row; rows of words are for task={'kind': 'tokens'}"
    try:
        missing = bool(is_missing(value))
    except (TypeError, ValueError):  # arrays have no truth
        missing = False
    if missing:
        return "leave out what is missing, as data.dropna() does"
    return "convert it: str(value)"
