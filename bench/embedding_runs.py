"""Trains and evaluates models of vectors with nystrom, for the other scripts of this folder."""

import argparse
import gzip
import json
import subprocess
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--start", type=Path, required=True, help="a pretrained model")
    parser.add_argument("--work", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    parser.add_argument("--nystrom", type=Path, default=Path("build/release/nystrom"))
    parser.add_argument("--threads", type=int, default=2)


def call(arguments: argparse.Namespace, command: str, *words: object) -> str:
    """The standard output of `nystrom COMMAND WORDS…`."""
    line = [arguments.nystrom, command, *words, "--quiet", f"--threads={arguments.threads}"]
    done = subprocess.run([str(word) for word in line], check=True, stdout=subprocess.PIPE)
    return done.stdout.decode()


def finetune(arguments: argparse.Namespace, name: str, start: Path, settings: dict) -> Path:
    """The last checkpoint of the run WORK/NAME, which a finished run already has."""
    run = arguments.work / name
    config = {
        "run_dir": str(run),
        "model": {"from": str(start)},
        "schedule": {"warmup_share": 0.1, "decay": "linear"},
        "logging": {"tensorboard": False},
    }
    file = arguments.work / f"{name}.yaml"
    task = {"kind": "embeddings"} | settings["task"]
    file.write_text(json.dumps(config | settings | {"task": task}, indent=1) + "\n")  # is YAML too
    call(arguments, "finetune", file)
    steps = (run / "checkpoints").glob("step-*")
    return max(steps, key=lambda folder: int(folder.name.split("-")[1]))


def write_results(arguments: argparse.Namespace, results: object) -> None:
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n")


def lines_of(file: Path) -> list[str]:
    """The paragraphs and headings of a novel."""
    with gzip.open(file, "rt") as stream:
        return [line.strip() for line in stream if line.strip()]
