"""The command `nystrom`: starts the program that lies in the package, without importing that."""

import os
import sys
from pathlib import Path


def main() -> None:
    """Becomes the program."""
    program = Path(__file__).with_name("nystrom") / "bin" / "nystrom"
    os.execv(program, ["nystrom", *sys.argv[1:]])
