"""Parquet and Arrow files, by pyarrow where it is installed."""

from __future__ import annotations

import json
import os
from pathlib import Path

from nystrom.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nystrom._rows import Names

ENDINGS = (".parquet", ".arrow")
HELD_OUT = ("validation", "valid", "dev", "val")
# The parts that an argument reads, the first that is there; others read a folder of one part.
PARTS = dict.fromkeys(("train", "texts", "classify"), ("train",)) | {
    "validation": HELD_OUT,
    "test": ("test", *HELD_OUT),
}


def is_parquet(path: Any) -> bool:
    """Whether a path names a Parquet or an Arrow file, a pattern of such, or a folder of them."""
    if not isinstance(path, (str, os.PathLike)):
        return False
    text = os.fspath(path)
    if not isinstance(text, str):
        return False
    return text.lower().endswith(ENDINGS) or bool(os.path.isdir(text) and _parts_of(Path(text)))


def _saved(folder: Path) -> list[Path]:
    """The files of a Dataset.save_to_disk, beside which the library keeps caches of its own."""
    state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    if state.get("_indices_data_files"):
        raise InputError(
            f"'{folder}' holds its rows in another order than their files; pass "
            "datasets.load_from_disk(…)"
        )
    return [folder / each["filename"] for each in state["_data_files"]]


def _tables(folder: Path) -> list[Path]:
    return [each for each in sorted(folder.iterdir()) if each.suffix.lower() in ENDINGS]


def _parts_of(folder: Path) -> dict[str, list[Path]]:
    """The files of each part of a folder: of Dataset.save_to_disk or DatasetDict.save_to_disk, or
    with names such as train-00000-of-00002.parquet or train/0000.parquet, also below its folder
    data, as data sets of the hub have it. One part "" where nothing names any."""
    try:
        if (folder / "dataset_dict.json").is_file():
            splits = json.loads((folder / "dataset_dict.json").read_text(encoding="utf-8"))
            return {name: _saved(folder / name) for name in splits["splits"]}
        if (folder / "state.json").is_file() and (folder / "dataset_info.json").is_file():
            return {"": _saved(folder)}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"'{folder}' is no folder of save_to_disk: {error}") from None
    known = {part for group in PARTS.values() for part in group}
    for place in (folder, folder / "data"):
        if not place.is_dir():
            continue
        parts: dict[str, list[Path]] = {}
        for each in _tables(place):
            parts.setdefault(each.name.split("-")[0].split(".")[0], []).append(each)
        if parts:
            return parts if known & parts.keys() else {"": _tables(place)}
        inner = {each.name: _tables(each) for each in place.iterdir() if each.name in known}
        if any(inner.values()):
            return inner
    return {}


def _files(path: Path, name: str) -> list[Path]:
    """The files that a path means for the argument `name`."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        found = sorted(path.parent.glob(path.name)) if path.parent.is_dir() else []
        if not found:
            raise InputError(f"{name}: '{path}': no such file")
        return found
    parts = _parts_of(path)
    if "" in parts:
        return parts[""]
    wanted = PARTS.get(name, tuple(parts) if len(parts) == 1 else ())
    for part in wanted:
        if parts.get(part):
            return parts[part]
    which = f"none for {name}" if name in PARTS else "more than one"
    raise InputError(
        f"{name}: '{path}' has the parts {', '.join(sorted(parts))}, {which}; name the files, as "
        "in 'folder/part-*.parquet'"
    )


def open_parquet(path: Any, name: str) -> Any:
    """The record batches of the files at `path`, as a reader of Arrow."""
    files = _files(Path(path), name)
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            f"{name}: '{files[0]}' needs pyarrow to be read; pip install pyarrow"
        ) from None
    try:
        return _Batches(pyarrow, files)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{name}: '{files[0]}': {str(error).splitlines()[0]}") from None


class _Batches:
    """The batches of several files with one schema, read one after another."""

    def __init__(self, pyarrow: Any, files: list[Path]) -> None:
        self._pyarrow = pyarrow
        self._files = files
        self.schema = self._open(files[0]).schema

    def _open(self, file: Path) -> Any:
        """A reader of one file."""
        if file.suffix.lower() == ".arrow":
            source = self._pyarrow.memory_map(str(file))
            try:
                return self._pyarrow.ipc.open_stream(source)
            except self._pyarrow.ArrowInvalid:
                opened = self._pyarrow.ipc.open_file(source)
                return self._pyarrow.RecordBatchReader.from_batches(
                    opened.schema,
                    (opened.get_batch(at) for at in range(opened.num_record_batches)),
                )
        parquet = self._pyarrow.parquet.ParquetFile(file)
        return self._pyarrow.RecordBatchReader.from_batches(
            parquet.schema_arrow, parquet.iter_batches()
        )

    def to_batches(self) -> Any:
        for file in self._files:
            reader = self._open(file)
            missing = set(self.schema.names) - set(reader.schema.names)
            if missing:
                raise InputError(f"'{file}': lacks the column {min(missing)!r} of the other files")
            if class_names(reader.schema) != class_names(self.schema):
                raise InputError(f"'{file}': names the classes otherwise than '{self._files[0]}'")
            try:
                yield from reader
            except (self._pyarrow.ArrowException, OSError) as error:
                raise InputError(f"'{file}': {str(error).splitlines()[0]}") from None


def class_names(schema: Any) -> Names:
    """The names of the classes of each column, as the Datasets library writes them."""
    try:
        features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    except (KeyError, TypeError, ValueError):
        return {}
    names: Names = {}
    for column, feature in features.items():
        while isinstance(feature, dict) and isinstance(feature.get("feature"), dict):
            feature = feature["feature"]
        if isinstance(feature, dict) and isinstance(feature.get("names"), list):
            names[column] = feature["names"]
    return names
