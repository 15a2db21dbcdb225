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
PARTS = {"train": ("train",), "validation": ("validation", "valid", "dev", "val", "test")}


def is_parquet(path: Any) -> bool:
    """Whether a path names a Parquet or an Arrow file, a pattern of such, or a folder of them."""
    if not isinstance(path, (str, os.PathLike)):
        return False
    text = os.fspath(path)
    if not isinstance(text, str):
        return False
    return text.endswith(ENDINGS) or bool(os.path.isdir(text) and _files_of(Path(text)))


def _files_of(folder: Path) -> list[Path]:
    """The files of a folder, or of its folder data, as data sets of the hub have it."""
    for place in (folder, folder / "data"):
        if place.is_dir():
            found = [each for each in sorted(place.iterdir()) if each.suffix in ENDINGS]
            if found:
                return found
    return []


def _files(path: Path, name: str) -> list[Path]:
    """The files that a path means for the argument `name`: of a folder with parts such as
    train-00000-of-00002.parquet those of its part."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        found = sorted(path.parent.glob(path.name)) if path.parent.is_dir() else []
        if not found:
            raise InputError(f"{name}: '{path}': no such file")
        return found
    found = _files_of(path)
    parts = {each.name.split("-")[0].split(".")[0] for each in found}
    if not parts & {part for group in PARTS.values() for part in group}:
        return found
    for part in PARTS.get(name, ("train",)):
        if part in parts:
            return [each for each in found if each.name.split("-")[0].split(".")[0] == part]
    raise InputError(
        f"{name}: '{path}' has the parts {', '.join(sorted(parts))} and none for {name}; name the "
        "files, as in 'folder/part-*.parquet'"
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
        if file.suffix == ".arrow":
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
            yield from reader


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
