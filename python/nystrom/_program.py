"""Runs commands of the program nystrom, where Python has no function of the library for them."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

from nystrom import _core
from nystrom._options import require_numbers
from nystrom._output import write
from nystrom.errors import InputError, InternalError, Interrupted, _renamed, in_words_of_python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_PREFIX = "nystrom-call-"
_folder_of_a_call = re.escape(os.path.join(tempfile.gettempdir(), _PREFIX)) + r"\w+/"
PROGRAM = Path(__file__).with_name("bin") / "nystrom"
_numbers = {"batch", "top_k", "dimensions", "landmarks", "conv", "length", "sequences"}
_errors = {2: InputError, 130: Interrupted}


def run(
    command: str,
    *words: str,
    options: Sequence[str] = (),
    errors_too: bool = False,
    **flags: Any,
) -> str:
    """What a command prints. `words` are its arguments, and `options` those of --set. A flag is
    true, a value, or a list of values; None and False leave it out. Messages go to sys.stderr.

    Throws what the library would throw; with `errors_too` not for wrong input of which the command
    prints something. Ctrl-C ends the command first."""
    arguments = [str(PROGRAM), *command.split()]
    for option in options:
        arguments += ["--set", option]
    for name, value in flags.items():
        if name in _numbers and value is not None:
            require_numbers(**{_renamed.get(name, name): value})
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            arguments.append(flag)
        elif value is not None and value is not False:
            values = value if isinstance(value, (list, tuple)) else [value]
            arguments += [f"{flag}={each}" for each in values]
    for each in (*arguments, *words):
        try:
            os.fsencode(each)
        except UnicodeEncodeError:
            raise InputError(f"{each!a}: is no name of a file") from None
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            [*arguments, "--", *words], stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace",
            env=os.environ
            | {
                "OMP_NUM_THREADS": str(_core.num_threads()),
                "NYSTROM_ENDS_WITH": str(os.getpid()),  # where this process is killed
            },
        )  # fmt: skip
        try:
            message = _messages(child)
            code = child.wait()
        except BaseException:
            child.terminate()
            child.wait()
            raise
        output.seek(0)
        places = re.findall(_folder_of_a_call, "\0".join(map(os.fsdecode, [*arguments, *words])))
        printed = _without(output.read().decode(), places)
        message = _without(message, places)
        if message and not printed:
            code = code or 2  # as it is where signals of ended children are ignored
        if code != 0 and not (errors_too and code == 2 and printed):
            raise _errors.get(code, InternalError)(
                in_words_of_python(message) or f"nystrom {command} ended with the code {code}"
            )
        return printed


def folder_of_a_call() -> tempfile.TemporaryDirectory[str]:
    """A place for the files of one call, which no message names."""
    return tempfile.TemporaryDirectory(prefix=_PREFIX)


def _without(text: str, places: list[str]) -> str:
    """A text that names files of a call without the folders that held them, which are gone."""
    for place in places:
        text = text.replace(place, "")
    return text


def _messages(child: subprocess.Popen[str]) -> str:
    """Writes the messages of a program, and returns the one that ends it; empty without one."""
    last: list[str] = []
    assert child.stderr is not None
    with child.stderr as lines:
        for line in lines:
            line = line.rstrip("\n")
            if last or line.startswith("nystrom: "):
                last.append(line.removeprefix("nystrom: "))
            else:
                write(in_words_of_python(line))
    return "\n".join(last)
