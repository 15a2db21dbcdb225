"""One call to a lent GPU machine: its time, its processes, and results that survive.

Whatever a process does (crash, hang, miss a library), the call goes on and ends in time. Results
are on the disk as soon as they are measured, in two files: the folder that comes back holds few. Where
it takes none, they are in the summary, which is the end of the output."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

LOG_BYTES = 8 << 20


class Call:
    """The clock, the results and the log of a call."""

    def __init__(self, name: str, out: Path, seconds: float, scratch: Path, dry: bool):
        self.name, self.out, self.scratch, self.dry = name, out, scratch, dry
        self.start = time.monotonic()
        self.end = self.start + seconds
        self.results: dict = {}
        self.problems: list[str] = []
        self.logged = 0
        self.writing = threading.Lock()
        self.environment = dict(os.environ)
        self.lock = open(scratch / "gpu.lock", "w")  # noqa: SIM115: open as long as the call

    def left(self) -> float:
        return self.end - time.monotonic()

    def say(self, text: str) -> None:
        """To the output and the log. Neither may be written: that ends nothing."""
        text = f"[{time.monotonic() - self.start:5.1f} s] {text}\n"
        with self.writing:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.write(text)
                sys.stdout.flush()
            self.logged += len(text)
            if self.logged > LOG_BYTES:
                return
            self.write(lambda: append(self.out / f"{self.name}.log", text))

    def keep(self, name: str, value) -> None:
        """Puts a result on the disk."""
        with self.writing:
            self.results[name] = value
            self.write(lambda: replace(self.out / f"{self.name}.json", self.results))

    def write(self, action) -> None:
        try:
            action()
        except OSError as error:
            problem = f"results cannot be written to {self.out}: {error.strerror}"
            if problem not in self.problems:
                self.problems.append(problem)

    def run(self, command: list, seconds: float, **environment) -> subprocess.CompletedProcess:
        """Runs a command, at most that long: its code is then 124, and 127 if it does not start. A
        variable of value None is unset."""
        return Started(self, command, environment).wait(seconds)

    @contextlib.contextmanager
    def alone(self, seconds: float = 10):
        """Waits until no other measurement uses the GPU. Yields whether that is so."""
        end, held = time.monotonic() + min(seconds, self.left()), False
        while not held:
            try:
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held = True
            except BlockingIOError:
                if time.monotonic() > end:
                    self.problems.append("a measurement was not alone on the GPU")
                    break
                time.sleep(0.05)
        try:
            yield held
        finally:
            if held:
                fcntl.flock(self.lock, fcntl.LOCK_UN)


class Started:
    """A running process, with all that it starts. Its output goes to files: a pipe would wait for
    whatever still holds it."""

    def __init__(self, call: Call, command: list, environment: dict):
        self.call, self.words = call, [str(word) for word in command]
        variables = {**call.environment, **environment}
        variables = {name: value for name, value in variables.items() if value is not None}
        self.files = [
            tempfile.TemporaryFile("w+", errors="replace", dir=call.scratch) for _ in range(2)
        ]
        self.process, self.error = None, ""
        try:
            self.process = subprocess.Popen(
                self.words,
                stdin=subprocess.DEVNULL,
                stdout=self.files[0],
                stderr=self.files[1],
                env=variables,
                start_new_session=True,
            )
        except OSError as error:
            self.error = str(error)

    def wait(self, seconds: float) -> subprocess.CompletedProcess:
        if self.process is None:
            for file in self.files:
                file.close()
            return subprocess.CompletedProcess(self.words, 127, "", self.error)
        seconds = max(0, min(seconds, self.call.left()))
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = 124
            self.error = f"\nended after {seconds:.0f} s"
        # Also what it started: ncu's program would go on beside the next measurement.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        output, errors = (read_and_close(file) for file in self.files)
        return subprocess.CompletedProcess(self.words, code, output, errors + self.error)


def read_and_close(file) -> str:
    with file:
        file.seek(0)
        return file.read()


def append(path: Path, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


def replace(path: Path, value) -> None:
    new = path.with_suffix(".new")
    try:
        new.write_text(json.dumps(value, indent=0) + "\n")
        new.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink()  # half a file is none
        raise


def reason(done: subprocess.CompletedProcess) -> str:
    """Why a process failed, in a line."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["no message"]
    return f"code {done.returncode}: {lines[-1][:300]}"


def json_lines(text: str) -> list[dict]:
    """The complete objects among the lines of an output."""
    found = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            value = json.loads(line)
            if isinstance(value, dict):
                found.append(value)
    return found
