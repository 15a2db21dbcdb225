"""Rows of a table that lies in memory or in Parquet, whatever library holds it.

No library is imported to find out what a value is: each is known by its methods.
"""

from __future__ import annotations

import os

from nystrom._texts import (
    columns_of,
    described,
    is_mapping,
    is_missing,
    items_of,
    remedy_of,
    require_order,
    text_of,
)
from nystrom.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any

    Row = Sequence[Any]
    Names = dict[str, list[str]]

#: The cell of a column that a table, or a row with names, lacks and may lack.
ABSENT = object()
#: SQuAD's column, which a table has or has not, and no option names.
IMPOSSIBLE = "is_impossible"


class Rows:
    """The rows of a table, or rows that come one by one: `raw` as they are given, and `cells` reads
    one of them."""

    def __init__(
        self,
        raw: Iterator[Any],
        name: str,
        columns: Sequence[str],
        optional: Collection[str] = (),
        there: list[str] | None = None,
        named: Names | None = None,
    ) -> None:
        self.raw, self._name = raw, name
        self._columns, self._optional, self._named = columns, optional, named or {}
        #: The places of the columns in the rows of a table, which holds those that are `there`.
        self._places: list[int | None] = []
        if there:
            self._places = [there.index(c) if c in there else None for c in columns]

    def __iter__(self) -> Iterator[list[Any]]:
        return (self.cells(row, f"{self._name}, row {at}") for at, row in enumerate(self.raw))

    def cells(self, row: Any, place: str) -> list[Any]:
        """The cells of the columns in a row. Throws a TypeError or an InputError for a wrong
        one."""
        if self._places:
            cells = [ABSENT if at is None else row[at] for at in self._places]
        else:
            cells = _cells_of(row, place, self._columns, self._optional)
        for at, column in enumerate(self._columns if self._named else ()):
            if column in self._named:
                cells[at] = _named(cells[at], self._named[column], f"{place}, column {column!r}")
        return cells


def rows_of(
    data: Any, name: str, columns: Sequence[str], optional: Collection[str] = ()
) -> Rows:
    """The rows of `data`, which the argument `name` gave, with `columns`, of which `optional` ones
    may lack. Throws a TypeError for what holds no rows, and an InputError for a wrong column."""
    from nystrom._parquet import is_parquet, open_parquet

    if isinstance(data, Rows):  # of which the first ones were looked at
        return data
    if isinstance(data, os.PathLike) or is_parquet(data):
        data = open_parquet(data, name)
    if isinstance(data, (str, bytes, bytearray)):
        raise TypeError(f"{name}: got {described(data)}, expected rows")
    require_order(data, name)
    if hasattr(data, "projected_schema"):
        data = data.to_reader()  # a scanner of Arrow
    if len(columns) == 1 and hasattr(data, "to_pylist") and not hasattr(data, "schema"):
        data = data.to_pylist()  # a column of Arrow
    refusal = _refusal(data, len(columns))
    if refusal:
        raise TypeError(f"{name}: got a {type(data).__name__}; {refusal}")
    found = columns_of(data) or getattr(getattr(data, "schema", None), "names", [])
    names = [str(each) for each in found]  # those of pandas may be numbers
    there = [each for each in columns if each in names or each not in optional or not names]
    if hasattr(data, "iter_rows") or hasattr(data, "itertuples") or is_mapping(data):
        return Rows(_column_rows(data, name, there), name, columns, there=there)
    if hasattr(data, "features") and hasattr(data, "with_format"):  # datasets
        rows = _dataset_rows(data, name, there)
        return Rows(rows, name, columns, optional, named=class_names_of(data, name))
    arrow = hasattr(data, "to_batches") or hasattr(data, "read_next_batch")
    if not arrow and hasattr(data, "__arrow_c_stream__") and not hasattr(data, "dtype"):
        import pyarrow

        data, arrow = pyarrow.RecordBatchReader.from_stream(data), True  # of duckdb and others
    if arrow:
        rows = _arrow_rows(data, name, there)
        return Rows(rows, name, columns, there=there, named=class_names_of(data, name))
    if not hasattr(type(data), "__iter__") and not hasattr(type(data), "__getitem__"):
        raise TypeError(
            f"{name}: got {described(data)}, expected a data frame, a Dataset, an Arrow table, "
            "rows as dicts or tuples, or the path of a file"
        )
    return Rows(items_of(data), name, columns, optional)


def _refusal(data: Any, columns: int) -> str | None:
    """Why a value that looks like rows is none."""
    kind = type(data).__name__
    if kind in ("DatasetDict", "IterableDatasetDict"):
        return f"pass one of its parts: data[{next(iter(data), 'train')!r}]"
    if kind == "LazyFrame":
        return "compute it: data.collect()"
    if kind.endswith("GroupBy"):
        return "its rows lie in groups; pass the table itself"
    if columns > 1 and kind in ("Series", "Column", "ChunkedArray"):
        return "it is one column; pass the whole table"
    return None


def _column_rows(data: Any, name: str, columns: Sequence[str]) -> Iterator[Row]:
    names = columns_of(data) or []
    _require_columns(columns, names, name)
    parts = []
    for column in columns:
        same = [each for each in names if str(each) == column]  # those of pandas may be numbers
        parts.append(data[same[0]])
    for column, part in zip(columns, parts):
        no_column = isinstance(part, (str, set, frozenset)) or columns_of(part) is not None
        if no_column or not hasattr(part, "__len__"):
            raise TypeError(f"{name}[{column!r}]: got {described(part)}, expected a list of values")
        if len(part) != len(parts[0]):
            raise InputError(
                f"{name}: column {columns[0]!r} has {len(parts[0])} values, {column!r} {len(part)}"
            )
    require_one_index(parts, columns, name)
    return zip(*parts)


def require_one_index(parts: Sequence[Any], columns: Sequence[str], name: str) -> None:
    """Throws an InputError where columns of pandas in a dict name their rows differently."""
    first = None
    for column, part in zip(columns, parts):
        index: Any = getattr(part, "index", None)
        if not hasattr(index, "equals"):  # a list has a method of that name
            continue
        if first is None:
            first = column, index
        elif not index.equals(first[1]):
            raise InputError(
                f"{name}: columns {first[0]!r} and {column!r} have different indexes; give "
                "columns of one data frame, or, to join them by place, column.to_numpy()"
            )


def _arrow_rows(data: Any, name: str, columns: Sequence[str]) -> Iterator[Row]:
    from nystrom._parquet import Batches

    _require_columns(columns, data.schema.names, name)
    if isinstance(data, Batches):
        data.columns = columns
    for batch in data.to_batches() if hasattr(data, "to_batches") else data:
        parts = [batch.column(batch.schema.get_field_index(c)).to_pylist() for c in columns]
        yield from zip(*parts)


def _dataset_rows(data: Any, name: str, columns: Sequence[str]) -> Iterator[Any]:
    if (getattr(data, "format", None) or {}).get("type") == "custom":
        raise InputError(f"{name}: has a transform; write its result into it: data.map(transform)")
    if data.column_names is not None:
        _require_columns(columns, data.column_names, name)
        data = data.select_columns(list(columns))
    return iter(data.with_format(None))


def class_names_of(data: Any, name: str) -> Names:
    """The names of the classes of each column, in the order of their numbers, where the data that
    the argument `name` gave states them: a Dataset, and what it wrote as Arrow or Parquet."""
    from nystrom._parquet import class_names, is_parquet, open_parquet

    if _refusal(data, 2):  # not read at all
        return {}
    if isinstance(data, os.PathLike) or is_parquet(data):
        data = open_parquet(data, name)
    if not (hasattr(data, "features") and hasattr(data, "with_format")):
        return class_names(getattr(data, "projected_schema", getattr(data, "schema", None)))
    found = {
        column: getattr(getattr(feature, "feature", feature), "names", None)
        for column, feature in (data.features or {}).items()
    }
    return {column: list(names) for column, names in found.items() if names}


def _named(value: Any, names: list[str], place: str) -> Any:
    if isinstance(value, (list, tuple)):
        return [_named(each, names, place) for each in value]
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if not 0 <= value < len(names):
        raise InputError(
            f"{place}: class {value} has no name; there are 0 … {len(names) - 1}"
            + (", and -1 stands for no label" if value == -1 else "")
        )
    return names[value]


def _cells_of(
    row: Any, place: str, columns: Sequence[str], optional: Collection[str]
) -> list[Any]:
    """The cells of a row that comes alone: a dict, a tuple in the order of the columns, or a single
    text."""
    if hasattr(row, "_asdict"):  # the tuples of pandas
        row = row._asdict()
    fields = getattr(getattr(row, "dtype", None), "names", None)  # of NumPy's records
    if fields:
        row = {field: row[field] for field in fields}  # tolist() makes numbers of times
    if hasattr(row, "keys"):
        keys = {str(key): key for key in row.keys()}
        for column in columns:
            if column not in keys and column not in optional:
                _require_columns(columns, list(keys), place)
        return [row[keys[column]] if column in keys else ABSENT for column in columns]
    if isinstance(row, str) and len(columns) == 1:
        return [row]
    if hasattr(row, "tolist"):
        row = row.tolist()
    asked = columns[:-1] if columns[-1] == IMPOSSIBLE and optional else columns
    if not isinstance(row, (list, tuple)):
        if len(asked) == 1:
            text_of(row, place)  # says what to do about one that is missing, or no text
        raise TypeError(
            f"{place}: got {described(row)}, expected a dict or a tuple ({', '.join(asked)})"
        )
    if len(row) != len(asked):
        raise InputError(f"{place}: {len(row)} values, expected {len(asked)}: ({', '.join(asked)})")
    if len(row) > 1 and all(isinstance(each, str) for each in row) and [*row] == [*asked]:
        raise InputError(
            f"{place}: is a header, as csv.reader gives it; leave it out: next(reader)"
        )
    return [*row] if asked is columns else [*row, ABSENT]


def _require_columns(columns: Sequence[str], names: Sequence[Any], place: str) -> None:
    known = [str(each) for each in names]
    for column in columns:
        if known.count(column) > 1:
            raise InputError(f"{place}: two columns are called {column!r}; rename one")
        if column in known:
            continue
        import difflib

        close = difflib.get_close_matches(column, known, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise InputError(
            f"{place}: there is no column {column!r}{hint}; columns: "
            f"{', '.join(map(repr, known[:20])) or 'none'}"
            "; say which is which by text='…', label='…', pair='…'"
        )


def questions_of(data: Any, name: str) -> Any:
    """The questions of SQuAD's document or of a list of its articles or paragraphs, with what they
    are about; other data as it is."""
    if isinstance(data, dict) and isinstance(data.get("data"), list):
        data = data["data"]
    first = data[0] if isinstance(data, list) and data else None
    if not isinstance(first, dict) or not {"paragraphs", "qas"} & first.keys():
        return data
    try:
        return [
            {"context": paragraph["context"], **question}
            for part in data
            for paragraph in part.get("paragraphs", [part])
            for question in paragraph["qas"]
        ]
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(
            f"{name}: is not in SQuAD's form, data, paragraphs, context and qas: "
            f"{type(error).__name__}: {error}"
        ) from None


# ---- Cells ---------------------------------------------------------------------------------------


def id_cell(value: Any, place: str) -> str:
    """The id of a row: a text, or a number and the like as one."""
    return text_of(value if is_missing(value) else str(value), place)


def list_cell(value: Any, place: str) -> list[str]:
    """A list of texts, such as words."""
    value = _plain_list(value, place)
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{place}: got {described(value)}, expected a list of texts")
    return [text_of(each, f"{place}[{at}]") for at, each in enumerate(value)]


def choices_cell(value: Any, place: str) -> Any:
    """A list of choices, or these beside their names, as `datasets` has them."""
    if isinstance(value, dict) and value.keys() >= {"text", "label"}:
        return {key: list_cell(value[key], f"{place}[{key!r}]") for key in ("text", "label")}
    return list_cell(value, place)


def _plain_list(value: Any, place: str) -> Any:
    """An array or a column as a list, and a number of NumPy as one of Python. Throws a TypeError
    for NumPy's times, of which that would make numbers."""
    if getattr(getattr(value, "dtype", None), "kind", "") in ("M", "m"):
        raise TypeError(f"{place}: got {described(value)}, expected a str, a number or a bool")
    for convert in ("tolist", "to_list"):
        if hasattr(value, convert):
            return getattr(value, convert)()
    return value


def label_cell(value: Any, place: str) -> Any:
    """A label as a str, int, float or bool, or a list of them."""
    value = _plain_list(value, place)
    if isinstance(value, (list, tuple)):
        return [label_cell(each, f"{place}[{at}]") for at, each in enumerate(value)]
    if not isinstance(value, (str, int, float)):
        raise TypeError(
            f"{place}: got {described(value)}, expected a str, a number or a bool; "
            + remedy_of(value)
        )
    if value == "":
        raise InputError(f"{place}: the label is empty; complete the row, or leave it out")
    if isinstance(value, str):
        return text_of(value, place)
    if is_missing(value):
        raise InputError(f"{place}: the label is missing; leave the row out, as data.dropna() does")
    if value in (float("inf"), float("-inf")):
        raise InputError(f"{place}: the label is infinite")
    return value


def separated_cell(value: Any, place: str) -> Any:
    """The labels of a text as one text, which is empty where there are none."""
    return "" if isinstance(value, str) and not value else label_cell(value, place)


def label_set_cell(value: Any, place: str) -> list[Any]:
    """The labels of a text that has any number of them."""
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=str)
    value = _plain_list(value, place)
    if not isinstance(value, (list, tuple)):
        raise TypeError(
            f"{place}: got {described(value)}, expected a list of labels; of a text with labels in "
            "it, name what stands between them: task={'label_separator': ';'}"
        )
    return [label_cell(each, f"{place}[{at}]") for at, each in enumerate(value)]


def answers_cell(value: Any, place: str) -> dict[str, Any]:
    """SQuAD's answers: a dict of lists, as the hub has it, or a list of dicts. The program checks
    them against the context."""
    keys = {"text", "answer_start"}
    value = _plain_list(value, place)
    if isinstance(value, (list, tuple)):
        if all(isinstance(each, dict) and each.keys() >= keys for each in value):
            value = {key: [each[key] for each in value] for key in keys}
    if not isinstance(value, dict) or not value.keys() >= keys:
        raise TypeError(
            f"{place}: got {described(value)}, expected SQuAD's answers: {{'text': […], "
            "'answer_start': […]}; of a text, name the column with its beginning too: "
            "label=['answer', 'answer_start']"
        )
    return answers_of(value["text"], value["answer_start"], place)


def answers_of(texts: Any, starts: Any, place: str) -> dict[str, Any]:
    """The answers of one text and its beginning in the context, or of lists of them. Without a text
    there is none."""
    texts, starts = _plain_list(texts, place), _plain_list(starts, place)
    if not isinstance(texts, (list, tuple)):
        missing = is_missing(texts) or texts == ""
        texts, starts = ([], []) if missing else ([texts], [starts])
    starts = starts if isinstance(starts, (list, tuple)) else [starts]
    # Columns with missing values hold whole numbers as floats.
    whole = [
        int(each) if isinstance(each, float) and each.is_integer() else each
        for each in (_plain_list(start, place) for start in starts)
    ]
    return {"text": [text_of(each, place) for each in texts], "answer_start": whole}


def indicator_cell(value: Any, place: str) -> int:
    """Whether a text has the label of a column."""
    value = _plain_list(value, place)
    if not isinstance(value, (bool, int, float)) or value not in (0, 1):
        raise InputError(f"{place}: got {described(value)}, expected 0 or 1")
    return int(value)
