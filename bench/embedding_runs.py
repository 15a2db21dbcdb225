"""Trains and evaluates models of vectors with nystrom, for the other scripts of this folder."""

import argparse
import gzip
from pathlib import Path

from nystrom_runs import nystrom, write_json, write_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--start", type=Path, required=True, help="a pretrained model")
    parser.add_argument("--work", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    parser.add_argument("--nystrom", type=Path, default=Path("build/release/nystrom"))
    parser.add_argument("--threads", type=int, default=2)


def finetune(arguments: argparse.Namespace, name: str, start: Path, settings: dict) -> Path:
    """The last checkpoint of the run WORK/NAME, which a finished run already has."""
    run = arguments.work / name
    config = {
        "run_dir": str(run),
        "model": {"from": str(start)},
        "schedule": {"warmup_share": 0.1, "decay": "linear"},
        "logging": {"tensorboard": False},
    }
    task = {"kind": "embeddings"} | settings["task"]
    config |= settings | {"task": task}
    file = write_settings(arguments.work / f"{name}.yaml", config, start)
    nystrom(arguments, "finetune", file, "--quiet")
    steps = (run / "checkpoints").glob("step-*")
    return max(steps, key=lambda folder: int(folder.name.split("-")[1]))


def write_results(arguments: argparse.Namespace, results: object) -> None:
    if arguments.output:
        write_json(arguments.output, results)


def lines_of(file: Path) -> list[str]:
    """The paragraphs and headings of a novel."""
    with gzip.open(file, "rt") as stream:
        return [line.strip() for line in stream if line.strip()]
