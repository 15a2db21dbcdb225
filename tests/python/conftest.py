"""What the tests of the Python package share: the program, and small trained models.

`./dev test` runs them; for one of them:
    PYTHONPATH=build/release/python build/python/bin/python -m pytest tests/python -k sine
"""

import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import nystrom

ROOT = Path(__file__).parents[2]
WORDS = "the sea was calm and old ships sailed home under pale stars while men sang".split()


def lines(count: int, seed: int) -> list[str]:
    """Lines of three to ten random words."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(3, 10))) for _ in range(count)]


def python(script: str, *arguments: object, **options: object) -> subprocess.CompletedProcess:
    """Runs a script in a process of its own, with these options of subprocess.run."""
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    options = {"capture_output": True, "text": True, "timeout": 60} | options
    return subprocess.run(command, **options)


class Program:
    """The program nystrom, whose results Python's must equal."""

    path = Path(os.environ.get("NYSTROM_PROGRAM", ROOT / "build" / "release" / "nystrom"))

    def run(self, *arguments: object) -> str:
        """Its output. Fails with its message if it fails."""
        done = self.call(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def error(self, *arguments: object) -> str:
        """Its message, without its name."""
        done = self.call(*arguments)
        assert done.returncode == 2, done.stderr
        return done.stderr.removeprefix("nystrom: ").removesuffix("\n")

    def call(self, *arguments: object) -> "subprocess.CompletedProcess[str]":
        command = [str(self.path), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="session")
def program() -> Program:
    return Program()


def small_config(folder: Path) -> dict[str, object]:
    """The configuration of a run that takes a second, in `folder`."""
    text = folder / "text.txt"
    text.write_text("\n".join(lines(300, seed=1)))
    return {
        "run_dir": folder / "run",
        "model": {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 64,
            "max_position_embeddings": 32,
            "attention": {"num_landmarks": 4, "conv_kernel_size": 3},
        },
        "tokenizer": {"train": {"vocab_size": 36}},
        "data": {
            "train": [text],
            "validation_fraction": 0.1,
            "documents": "lines",
            "sequence_length": 32,
            "cache": folder / "cache",
        },
        "training": {"steps": 12, "batch_size": 8, "micro_batch_size": 8, "dtype": "f32"},
        "optimizer": {"learning_rate": 1e-2},
        "schedule": {"warmup_steps": 2},
        "evaluation": {"every": 6},
        "checkpoint": {"every": 6},
        "logging": {"every": 1, "tensorboard": False},
    }


def tuning(model: Path, folder: Path, **training: object) -> dict[str, object]:
    """The configuration of a short fine-tuning, in `folder`."""
    return {
        "run_dir": folder / "run",
        "model": {"from": model},
        "data": {"sequence_length": 32, "cache": folder / "cache"},
        "training": {"batch_size": 8, "micro_batch_size": 8, "dtype": "f32"} | training,
        "schedule": {"warmup_steps": 1},
        "logging": {"every": 1, "tensorboard": False},
    }


@pytest.fixture
def config(tmp_path: Path) -> dict[str, object]:
    return small_config(tmp_path)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a trained masked language model."""
    folder = tmp_path_factory.mktemp("trained")
    run = nystrom.pretrain(small_config(folder), quiet=True)
    return Path(run.run_dir)


@pytest.fixture(scope="session")
def model(trained: Path) -> nystrom.Model:
    return nystrom.load(trained)


@pytest.fixture(scope="session")
def classifier(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model that tells texts with "calm" from others."""
    folder = tmp_path_factory.mktemp("classifier")
    rows = [f"{text}\t{'calm' if 'calm' in text else 'rough'}" for text in lines(200, seed=2)]
    table = folder / "train.tsv"
    table.write_text("\n".join(["text\tlabel", *rows]))
    run = nystrom.finetune(
        {
            "run_dir": folder / "run",
            "model": {"from": trained},
            "task": {
                "kind": "classification",
                "train": [table],
                "validation": [table],
                "columns": {"text": "text", "label": "label"},
            },
            "data": {"sequence_length": 32},
            "training": {"epochs": 1, "dtype": "f32"},
            "logging": {"tensorboard": False},
        },
        quiet=True,
    )
    return Path(run.run_dir)
