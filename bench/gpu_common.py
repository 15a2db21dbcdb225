"""What the scripts of `./dev gpu` share: their options, a clock, and results that survive.

A machine with a GPU is often lent for minutes. So every result is on the disk as soon as it is
measured, and no command runs longer than the time that is left."""

import argparse
import importlib.metadata
import json
import os
import platform
import signal
import subprocess
import time
from datetime import date
from pathlib import Path


def parser_of(description: str, seconds: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("build/cuda"), help="where nystrom and cuda_tests are"
    )
    parser.add_argument("--seconds", type=float, default=seconds, help="the time that there is")
    parser.add_argument("--output", type=Path, required=True, help="where the JSON goes")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="run every line without a GPU: small sizes, on the CPU or on the emulator",
    )
    return parser


class Clock:
    """Runs commands within a number of seconds from now."""

    def __init__(self, seconds: float):
        self.end = time.monotonic() + seconds

    def left(self) -> float:
        return self.end - time.monotonic()

    def run(self, command: list, limit: float, **environment: str) -> subprocess.CompletedProcess:
        """Runs a command for at most `limit` seconds. Its returncode is 124 after that."""
        limit = min(limit, self.left())
        words = [str(word) for word in command]
        if limit <= 1:
            return subprocess.CompletedProcess(words, 124, "", "no time was left")
        with subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=os.environ | environment,
            start_new_session=True,
        ) as process:
            try:
                output, errors = process.communicate(timeout=limit)
                return subprocess.CompletedProcess(words, process.returncode, output, errors)
            except subprocess.TimeoutExpired:
                end_group(process)
                output = process.communicate()[0]
                return subprocess.CompletedProcess(
                    words, 124, output, f"took more than {limit:.0f} s"
                )


def end_group(process: subprocess.Popen) -> None:
    """Ends a process that has a session of its own, with what it started: what ncu and
    compute-sanitizer run would otherwise go on beside the next measurement."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Report(dict):
    """Results by name, which are on the disk after each change."""

    def __init__(self, path: Path):
        super().__init__(machine=machine())
        self.path = path

    def __setitem__(self, name, value):
        super().__setitem__(name, value)
        self.save()

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self, indent=1) + "\n")
        new.replace(self.path)


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


def say(*words) -> None:
    print(*words, flush=True)


def machine() -> dict:
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        gpu = subprocess.run(query, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        gpu = "none"
    facts = {"date": date.today().isoformat(), "gpu": gpu, "python": platform.python_version()}
    for package in ("torch", "transformers"):
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    return facts
