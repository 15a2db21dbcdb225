"""Runs of nystrom, for the other scripts here: options, calls, settings, records, memory."""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

# What takes this process's size out of a child's peak, which begins with that of its parent.
BETWEEN = """import json, resource, subprocess, sys, time
begin = time.perf_counter()
code = subprocess.run(sys.argv[1:]).returncode
seconds = time.perf_counter() - begin
peak = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print("\\n" + json.dumps([seconds, peak]))
sys.exit(code)"""


def parser_of(description: str) -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=description, formatter_class=form)


def nystrom(arguments: argparse.Namespace, *words: object) -> str:
    """The standard output of `nystrom WORDS…`; progress goes to the terminal."""
    threads = [f"--threads={arguments.threads}"] if hasattr(arguments, "threads") else []
    line = [str(word) for word in (arguments.nystrom, *words, *threads)]
    if "--quiet" not in line:
        print("$", *line, file=sys.stderr, flush=True)
    return subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout


def measured(command: list, **environment: str) -> tuple[str, float, int]:
    """The standard output of a process, its seconds, and its peak of memory in bytes."""
    line = [sys.executable, "-Sc", BETWEEN, *map(str, command)]
    environment = os.environ | environment
    done = subprocess.run(line, check=False, stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(line[3:])} ended with {done.returncode}")
    output, _, told = done.stdout.rstrip().rpartition("\n")
    return output, *json.loads(told)


def seconds_of(command: list) -> float:
    """Those of a process, whose output is thrown away."""
    begin = time.perf_counter()
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def records_of(run: Path, key: str = "step") -> list[dict]:
    """The records of a run that have this key."""
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record for record in records if key in record]


def write_whole(file: Path, text: str) -> None:
    """Writes the whole file or nothing of it."""
    unfinished = file.with_name(f"{file.name}.unfinished")
    unfinished.write_text(text)
    unfinished.replace(file)


def write_json(file: Path, value: object) -> None:
    write_whole(file, json.dumps(value, indent=1) + "\n")


def read_json(file: Path, missing: object) -> object:
    return json.loads(file.read_text()) if file.exists() else missing


def content_of(model: Path) -> str:
    """What tells a model, or a run's checkpoints, from another one in the same place."""
    parts = ("config.json", "tokenizer.json", "model*.safetensors", "*.bin")
    digest = hashlib.sha256()
    for file in sorted({file for part in parts for file in model.rglob(part)}):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def write_settings(
    file: Path, settings: dict, start: Path | None = None, place: str = "--work", **others: object
) -> Path:
    """Writes what decides a run: its settings, and as a comment which model it starts from and what
    else counts. Ends the program where an earlier call had others: nystrom would go on with its
    runs where only the steps or the type differ, and would not see another model in its place."""
    others |= {"start": content_of(start)} if start else {}
    text = json.dumps(settings, indent=1) + "\n"  # JSON is YAML
    text += f"# {json.dumps(others)}\n" if others else ""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, text)
    elif file.read_text().split() != text.split():
        sys.exit(f"{file}: an earlier call had other settings; give another {place}")
    return file


def made(folder: Path, make: Callable[[Path], object]) -> Path:
    """The folder that make(folder) fills, where it is missing; a stop leaves no half of it."""
    if not folder.exists():
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        make(unfinished)
        unfinished.rename(folder)
    return folder


def derived(
    arguments: argparse.Namespace, command: str, model: Path, folder: Path, *words: object
) -> Path:
    """The folder that `nystrom COMMAND MODEL FOLDER WORDS…` makes, once."""
    told = {"command": command, "model": str(model), "words": list(map(str, words))}
    write_settings(folder.with_name(f"{folder.name}.json"), told, model)
    return made(
        folder, lambda unfinished: nystrom(arguments, command, model, unfinished, *words, "--quiet")
    )


def files_of(folder: Path, train: str, validation: str) -> dict:
    """The options `train` and `validation`: files of a folder."""
    return {"train": [str(folder / train)], "validation": [str(folder / validation)]}


def novels(data: Path) -> dict:
    return files_of(data / "corpus_novels", "novels_train.txt", "novels_valid.txt")


LONG_LISTS = "--train=64000 --validation=2000 --test=1 --min-length=100 --max-length=500"


def listops(arguments: argparse.Namespace, sizes: str = LONG_LISTS) -> dict:
    """The sections `tokenizer` and `task` of ListOps, whose files are drawn once."""
    folder = made(
        arguments.work / "listops",
        lambda folder: nystrom(arguments, "listops", folder, *sizes.split(), "--quiet"),
    )
    task = {"recipe": "listops"} | files_of(folder, "basic_train.tsv", "basic_val.tsv")
    return {"tokenizer": {"builtin": "listops"}, "task": task}
