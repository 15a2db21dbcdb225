"""Data in memory for a run: written once as a file of JSON Lines, whose name is its content's hash.

The file lies in the run's cache (data.cache), as tokenizers and token shards do. So the run reads
a file as ever, is known by what the file holds, and goes on when the same data is given again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from nystrom._options import LABEL_TYPES, plain
from nystrom._output import write
from nystrom._rows import (
    ABSENT,
    IMPOSSIBLE,
    Rows,
    answers_cell,
    answers_of,
    choices_cell,
    id_cell,
    indicator_cell,
    label_cell,
    label_set_cell,
    list_cell,
    questions_of,
    rows_of,
    separated_cell,
)
from nystrom._texts import described, is_missing, text_of
from nystrom.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Label = str | int | float | bool


class Columns:
    """The columns that a task reads, and what their cells are."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.kind = plan["kind"]
        cell = list_cell if self.kind == "tokens" else text_of
        self._cells: dict[str, Callable[[Any, str], Any]] = {plan["text"]: cell}
        if plan["pair"]:
            self._cells[plan["pair"]] = text_of
        choices = plan["choices"]
        for column in choices:
            self._cells[column] = choices_cell if len(choices) == 1 else text_of
        for column in plan["negatives"]:
            self._cells[column] = text_of
        questions = self.kind == "questions"
        if plan["label"]:
            other = label_cell
            if plan.get("label_separator"):
                other = separated_cell
            elif plan.get("multi_label"):
                other = label_set_cell
            self._cells[plan["label"]] = answers_cell if questions else other
        labels = plan.get("labels", [])
        for column in labels:
            self._cells[column] = indicator_cell
        #: Of questions without SQuAD's answers: the columns of an answer's text and beginning.
        self._answer: list[str] = labels if questions else []
        for column in self._answer:
            self._cells[column] = lambda value, place: value
        if questions and len(labels) not in (0, 2):
            raise InputError(
                f"label={labels}: of questions give the columns of an answer's text and of its "
                "beginning, or the one of SQuAD's answers"
            )
        if plan["id"]:
            self._cells[plan["id"]] = id_cell
        self.label: str | None = plan["label"]
        self.names = list(self._cells)
        #: Whether rows that cannot be read are left out.
        self.skip: bool = plan.get("bad_rows") == "skip"
        #: The columns that some rows lack. For vectors, texts with labels or alone may be trained
        #: on, and pairs held out, which need no negatives.
        self._optional: set[str] = {IMPOSSIBLE} if questions else set()
        if self.kind == "embeddings":
            self._optional = {plan["label"], plan["pair"], *plan["negatives"]} - {None}

    @classmethod
    def of_texts(cls, column: str) -> Columns:
        """Those of documents."""
        nothing = {"kind": None, "pair": None, "label": None, "id": None}
        return cls({"text": column, "choices": [], "negatives": [], **nothing})

    def rows(self, data: Any, name: str) -> Rows:
        """The rows that the argument `name` gave."""
        names = self.names
        if self.kind == "questions":
            data, names = questions_of(data, name), [*names, IMPOSSIBLE]
        if type(data) is dict:
            data = {key: self._flat(str(key), part) for key, part in data.items()}
        return rows_of(data, name, names, self._optional)

    def _flat(self, column: str, part: Any) -> Any:
        """A column of a dict; of an array [rows, 1] its numbers, where a cell is a single value."""
        cell = self._cells.get(column)
        single = cell in (text_of, id_cell, indicator_cell) or (
            cell is label_cell and self.kind != "tokens"
        )
        is_array = getattr(part, "shape", ())[1:] == (1,) and hasattr(part, "reshape")
        return part.reshape(-1) if single and is_array else part

    def object(self, row: list[Any], place: str) -> dict[str, Any]:
        """The cells of a row as a JSON object."""
        cells = {
            column: cell(value, f"{place}, column {column!r}")
            for (column, cell), value in zip(self._cells.items(), row)
            if value is not ABSENT
        }
        if self._answer:
            text, start = map(cells.pop, self._answer)
            cells["answers"] = answers_of(text, start, f"{place}, column {self._answer[0]!r}")
        if self.kind == "questions" and not (row[-1] is ABSENT or is_missing(row[-1])):
            impossible = indicator_cell(row[-1], f"{place}, column {IMPOSSIBLE!r}")
            cells[IMPOSSIBLE] = bool(impossible)
        return cells


class GivenData:
    """What the arguments of one call hold, as files. It keeps them in the cache while it lives."""

    def __init__(self, cache: str) -> None:
        self.folder = Path(cache)
        self._locks: list[int] = []
        self._written: set[str] = set()
        #: The arguments, by the entries that hold their rows.
        self._names: dict[str, str] = {}
        #: Labels that are no texts, by the texts that stand for them.
        self.labels: dict[str, Label] = {}
        self._types_written = False

    def __enter__(self) -> GivenData:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        for lock in self._locks:
            os.close(lock)
        if isinstance(error, InputError):
            error.args = (self._in_rows(str(error)),)

    def _in_rows(self, message: str) -> str:
        """A message that names rows as the caller gave them, and not by the lines of a file."""
        folder = re.escape(f"{self.folder}/")
        if self._written and "holds a run with other settings" in message:
            files = r"((?:task|data)\.(?:train|validation)) \(\[.*?\)(?=[,;] )"
            message = re.sub(files, r"\1 (other data)", message)
            message = re.sub(r" \(where files have moved.*?\)", "", message)
        undo = "or undo the changes"
        message = message.replace(undo, f"overwrite=True to replace that run, {undo}")
        return re.sub(
            rf"(?:{folder})?(rows-[0-9a-f]{{16}})/rows(?:-\d+)?\.jsonl(?::(\d+))?",
            lambda place: (
                self._names[place[1]] + (f", row {int(place[2]) - 1}" if place[2] else "")
                if place[1] in self._names
                else place[0]
            ),
            message,
        )

    def write(self, data: Any, name: str, columns: Columns) -> str:
        """The file of the rows of `data`."""
        if columns.kind == "features":
            raise InputError(
                f"{name}: a task of kind features takes the names of files: of features, or of a "
                "table that names these"
            )
        file = self._keep(self._lines(data, name, columns))
        if file is None:
            raise InputError(f"{name}: holds no rows")
        self._written.add(file)
        self._names.setdefault(Path(file).parent.name, name)
        return file

    def copy(self, file: str, number: int) -> str:
        """The file under a name of its own, for the rows of another one that are the same."""
        if number == 0:
            return file
        other = Path(file).with_name(f"rows-{number}.jsonl")
        part = f"{other}.tmp-{secrets.token_hex(8)}"
        shutil.copyfile(file, part)
        os.replace(part, other)
        self._written.add(str(other))
        return str(other)

    def form(self, files: list[str], of_task: str | None) -> list[str]:
        """The option that says in what form the files are, where the task says that of others."""
        if of_task in (None, "jsonl") or self._written.isdisjoint(files):
            return []
        other = next((each for each in files if each not in self._written), None)
        if other:
            raise InputError(
                f"'{other}' is in the form {of_task} (task.format or its recipe), and other data "
                "is given as rows; give all as rows or all as files"
            )
        return ["task.format=jsonl"]

    def _lines(self, data: Any, name: str, columns: Columns) -> Iterator[str]:
        """One line for each row. With task.bad_rows skip, that of a row that cannot be read is
        empty: so the others keep their numbers, and the program reads on."""
        count, first, kept = 0, None, False
        rows = columns.rows(data, name)
        for number, row in enumerate(rows.raw):
            line, place = "", f"{name}, row {number}"
            try:
                line = self._line(rows.cells(row, place), columns, place)
                kept = True
            except (TypeError, InputError) as error:
                if not columns.skip:
                    raise
                count, first = count + 1, first or error
            yield line + "\n"
        if first is not None and not kept:
            raise first
        if first is not None:
            write(f"warning: {name}: {count} rows were left out; the first: {first}")

    def _line(self, cells: list[Any], columns: Columns, place: str) -> str:
        row = columns.object(cells, place)
        if columns.label is not None and columns.kind in ("classification", "tokens"):
            row[columns.label] = self._label(row[columns.label], place)
        return json.dumps(row, ensure_ascii=False, default=plain)

    def _label(self, label: Any, place: str) -> Any:
        """The text that stands for a label."""
        if isinstance(label, list):
            return [self._label(each, place) for each in label]
        if isinstance(label, float):
            label += 0.0  # of -0.0 this makes 0.0, which is equal
        if self.labels:
            first = next(iter(self.labels.values()))
            if type(first) is not type(label):
                raise InputError(
                    f"{place}: the label {described(label)} is of another type than "
                    f"{described(first)} before; make all of one type"
                )
        text = label if isinstance(label, str) else json.dumps(label)
        self.labels.setdefault(text, label)
        return text

    def add_labels(self, names: list[str]) -> None:
        """Those that the task names, and no row has, have the type of the others."""
        for name in names if self.labels else ():
            with suppress(ValueError):
                label = json.loads(name)
                if type(label) is type(next(iter(self.labels.values()))):
                    self.labels.setdefault(name, label)

    def _label_types(self) -> str:
        kept = {text: label for text, label in self.labels.items() if not isinstance(label, str)}
        return json.dumps(kept, sort_keys=True)

    def require_same_label_types(self, run_dir: str) -> None:
        """Refuses to go on with a run whose labels had other types."""
        self._types_written = True
        file = Path(run_dir, LABEL_TYPES)
        before = json.loads(file.read_text()) if file.exists() else {}
        if self._written and json.dumps(before, sort_keys=True) != self._label_types():
            raise InputError(
                f"'{run_dir}': holds a run with other settings; changed: the types of its labels; "
                "choose another run_dir, or overwrite=True"
            )

    def write_label_types(self, run_dir: str) -> None:
        """Says once in the folder of a new run which labels are no texts."""
        if self._types_written:
            return
        self._types_written = True
        file, kept = Path(run_dir, LABEL_TYPES), self._label_types()
        if kept == "{}":
            file.unlink(missing_ok=True)  # of a run that ended before its first checkpoint
            return
        part = file.with_suffix(".tmp")
        part.write_text(kept)
        part.replace(file)

    def _lock(self, folder: Path, how: int) -> int:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._locks.append(descriptor)
        fcntl.flock(descriptor, how)
        return descriptor

    def _keep(self, lines: Iterator[str]) -> str | None:
        """Writes lines into an entry of the cache, and returns the name of its file. None without
        any line."""
        theirs: list[OSError] = []  # of what gives the rows
        try:
            return self._write(_noting(lines, theirs))
        except OSError as error:
            if error in theirs:
                raise
            raise InputError(
                f"'{self.folder}': cannot be written: {error.strerror}; choose another data.cache"
            ) from None

    def _write(self, lines: Iterator[str]) -> str | None:
        checksum = hashlib.sha256()
        self.folder.mkdir(parents=True, exist_ok=True)
        folder = self.folder / f"rows-{16 * '0'}.tmp-{secrets.token_hex(8)}"
        folder.mkdir()
        lock = self._lock(folder, fcntl.LOCK_EX)  # it is being written
        try:
            with open(folder / "rows.jsonl", "wb") as file:
                for line in lines:
                    encoded = line.encode()
                    checksum.update(encoded)
                    file.write(encoded)
                if file.tell() == 0:
                    return None
                file.flush()
                os.fsync(file.fileno())
            entry = self.folder / f"rows-{checksum.hexdigest()[:16]}"
            try:
                folder.rename(entry)
            except OSError:
                if not (entry / "rows.jsonl").exists():  # else the same rows were given before
                    raise
                self._lock(entry, fcntl.LOCK_SH)
            else:
                fcntl.flock(lock, fcntl.LOCK_SH)
            os.utime(entry)
            return str(entry / "rows.jsonl")
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _noting(lines: Iterator[str], errors: list[OSError]) -> Iterator[str]:
    """The lines. What the system refuses while they are made goes into `errors` too."""
    try:
        yield from lines
    except OSError as error:
        errors.append(error)
        raise


def names_of_files(given: Any) -> list[str] | None:
    """The names of files and patterns that an argument gives; None for rows."""
    if isinstance(given, (str, os.PathLike)):
        return [os.fspath(given)]
    if isinstance(given, (list, tuple)) and given:
        if all(isinstance(each, (str, os.PathLike)) for each in given):
            return [os.fspath(each) for each in given]
    return None


def read_here(given: Any) -> Any:
    """What Python reads rows from: an argument in memory, or the first Parquet that it names. None
    where the program reads all."""
    from nystrom._parquet import is_parquet

    names = names_of_files(given)
    if names is None:
        return given
    return next((Path(each) for each in names if is_parquet(each)), None)


def text_file_names(given: Any, name: str) -> list[str] | None:
    """The same, where a list of texts is one of documents, and not of files. Throws an InputError
    where each of them names a file."""
    if isinstance(given, (list, tuple)) and any(isinstance(each, str) for each in given):
        if name != "queries" and all(isinstance(e, str) and os.path.isfile(e) for e in given):
            raise InputError(
                f"{name}: each of these texts names a file; give files as pathlib.Path(…), and "
                "texts such as these as an iterator: iter(texts)"
            )
        return None
    return names_of_files(given)


def file_names(
    given: Any, paths: list[str] | None, name: str, columns: Columns, data: GivenData
) -> list[str]:
    """The files of an argument: `paths` where it gives those, else the one that its rows make, as
    those of Parquet do."""
    if paths is None:
        return [data.write(given, name, columns)]
    from nystrom._parquet import files_of, is_parquet

    files: list[str] = []
    read: set[str] = set()
    numbers: dict[str, int] = {}
    for path in paths:
        if not is_parquet(path):
            files.append(path)
            continue
        tables = {os.path.realpath(each) for each in files_of(Path(path), name)}
        if tables <= read:  # as the program reads a file once
            continue
        if tables & read:
            raise InputError(f"{name}: '{path}' has files that another name gives; name each once")
        read |= tables
        file = data.write(Path(path), name, columns)
        numbers[file] = numbers.get(file, -1) + 1
        files.append(data.copy(file, numbers[file]))
    return files
