"""Parquet and Arrow files, by pyarrow where it is installed."""

from __future__ import annotations

import glob
import json
import os
import re
from pathlib import Path

from nystrom.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from nystrom._rows import Names

ENDINGS = (".parquet", ".arrow")
# The words that name a part, as the Datasets library knows them.
TRAIN = ("train", "training")
HELD_OUT = ("validation", "valid", "dev", "val")
TEST = ("test", "testing", "eval", "evaluation")
# The parts that an argument reads, the first that is there; others read a folder of one part.
PARTS = dict.fromkeys(("train", "texts", "classify"), (TRAIN,)) | {
    "validation": (HELD_OUT,),
    "test": (TEST, HELD_OUT),
}


def _words(name: str) -> set[str]:
    """The words in a name that name a part."""
    return {*re.split("[-._ 0-9]+", name.casefold())} & {*TRAIN, *HELD_OUT, *TEST}


def _part_of(file: str) -> str:
    """The part that a name tells: what stands before the number of a shard, as the hub has it, or
    the name without numbers, if one word of it names a part. Else it is empty."""
    shard = re.match(r"(.+?)-\d+-of-\d+", file)
    bare = re.sub(r"^\d+[-_ ]*|[-_ ]*\d+$", "", file.split(".")[0])
    return shard[1] if shard else bare if len(_words(file)) == 1 else ""


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
    if not state["_data_files"]:
        raise InputError(f"'{folder}' holds no rows")
    return [folder / each["filename"] for each in state["_data_files"]]


def _tables(folder: Path) -> list[Path]:
    """In order, without hidden ones, such as those that macOS puts beside others."""
    shown = (each for each in folder.iterdir() if not each.name.startswith("."))
    return sorted(each for each in shown if each.suffix.lower() in ENDINGS)


def _parts_of(folder: Path) -> dict[str, list[Path]]:
    """The files of each part of a folder: of Dataset.save_to_disk or DatasetDict.save_to_disk, or
    with names such as train-00000-of-00002.parquet or train/0000.parquet, also below its folder
    data, as data sets of the hub have it. "" are the files whose names tell none."""
    try:
        if (folder / "dataset_dict.json").is_file():
            splits = json.loads((folder / "dataset_dict.json").read_text(encoding="utf-8"))
            return {name: _saved(folder / name) for name in splits["splits"]}
        if (folder / "state.json").is_file() and (folder / "dataset_info.json").is_file():
            return {"": _saved(folder)}
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"'{folder}' is no folder of save_to_disk: {error}") from None
    for place in (folder, folder / "data"):
        if not place.is_dir():
            continue
        parts: dict[str, list[Path]] = {}
        for each in _tables(place):
            parts.setdefault(_part_of(each.name), []).append(each)
        if parts:
            return parts if any(map(_words, parts)) else {"": _tables(place)}
        for each in place.iterdir():
            if each.is_dir() and _words(each.name) == {each.name.casefold()} and _tables(each):
                parts[each.name] = _tables(each)
        if parts:
            return parts
    return {}


def files_of(path: Path, name: str) -> list[Path]:
    """The files that a path means for the argument `name`."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        beside = path.parent.glob(path.name) if path.parent.is_dir() else ()
        files = sorted(map(Path, glob.glob(str(path)))) or sorted(beside)
        if not files:
            raise InputError(f"{name}: '{path}': no such file")
        return files
    parts = _parts_of(path)
    told = sorted(each for each in parts if each)
    remedy = "name the files, as in 'folder/part-*.parquet'"
    if "" in parts and told:
        raise InputError(
            f"{name}: '{path}' has the parts {', '.join(told)}, and {parts[''][0].name}, whose "
            f"name tells no part of them; {remedy}"
        )
    if "" in parts:
        return parts[""]
    found = told
    for words in PARTS.get(name, ()):
        found = [each for each in told if each.casefold() in words]
        found = found or [each for each in told if _words(each) & {*words}]
        if found:
            break
    if len(found) == 1:
        return parts[found[0]]
    which = "more than one" if found else f"none for {name}"
    raise InputError(f"{name}: '{path}' has the parts {', '.join(told)}, {which}; {remedy}")


def open_parquet(path: Any, name: str) -> Any:
    """The record batches of the files at `path`, as a reader of Arrow."""
    files = files_of(Path(path), name)
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            f"{name}: '{files[0]}' needs pyarrow to be read; pip install pyarrow"
        ) from None
    try:
        return Batches(pyarrow, files)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{name}: '{files[0]}': {str(error).splitlines()[0]}") from None


class Batches:
    """The batches of several files with one schema, read one after another."""

    def __init__(self, pyarrow: Any, files: list[Path]) -> None:
        self._pyarrow = pyarrow
        self._files = files
        #: The columns that are read; files may differ in others.
        self.columns: Sequence[str] = []
        self.schema, _ = self._open(files[0])

    def _open(self, file: Path) -> tuple[Any, Iterable[Any]]:
        """The schema of one file, and its batches, which are read one by one."""
        if file.suffix.lower() == ".arrow":
            source = self._pyarrow.memory_map(str(file))
            try:
                reader = self._pyarrow.ipc.open_stream(source)
                return reader.schema, reader
            except self._pyarrow.ArrowInvalid:
                opened = self._pyarrow.ipc.open_file(source)
                numbers = range(opened.num_record_batches)
                return opened.schema, (opened.get_batch(at) for at in numbers)
        parquet = self._pyarrow.parquet.ParquetFile(file)
        batches = parquet.iter_batches(batch_size=1024, columns=list(self.columns))
        return parquet.schema_arrow, batches

    def to_batches(self) -> Any:
        for file in self._files:
            try:
                schema, batches = self._open(file)
                missing = {*self.columns} - {*schema.names}
                if missing:
                    raise InputError(
                        f"'{file}': lacks the column {min(missing)!r} of the other files"
                    )
                names, before = class_names(schema), class_names(self.schema)
                if any(names.get(each) != before.get(each) for each in self.columns):
                    raise InputError(
                        f"'{file}': names the classes otherwise than '{self._files[0]}'"
                    )
                yield from batches
            except (self._pyarrow.ArrowException, OSError) as error:
                raise InputError(f"'{file}': {str(error).splitlines()[0]}") from None


def class_names(schema: Any) -> Names:
    """The names of the classes of each column of whole numbers, as the Datasets library writes
    them."""
    try:
        features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}
    names: Names = {}
    for column, feature in features.items():
        while isinstance(feature, dict) and isinstance(feature.get("feature"), dict):
            feature = feature["feature"]
        if not isinstance(feature, dict) or not isinstance(feature.get("names"), list):
            continue
        type: Any = schema.field(column).type if schema.names.count(column) == 1 else None
        while hasattr(type, "value_type"):  # of lists
            type = type.value_type
        if str(type).startswith(("int", "uint")):
            names[column] = feature["names"]
    return names
