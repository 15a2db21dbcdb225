"""Measures time and peak memory of `nystrom prepare` on generated text, a tokenizer of 30000 pieces
trained in passing.

    python3 bench/measure_prepare.py --megabytes 1000

Run from the repository's root. The text: words of the bundled novels by how often they occur there,
every 17th a compound of two, every 53rd a number; after each 50 MB the letters a to z trade places,
so that the words are others. It is prepared twice, with a document a line and as one document.
Needs nothing but Python 3.10 and a GB of disk for each GB of text."""

import argparse
import collections
import gzip
import random
import shutil
import string
from pathlib import Path

from nystrom_runs import measured, parser_of

CONFIG = "configs/quickstart.yaml"
BLOCK = 50_000_000


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument(
        "--nystrom", type=Path, default=Path("build/release/nystrom"), help="the program to measure"
    )
    parser.add_argument(
        "--work",
        type=Path,
        default=Path("build/measure-prepare"),
        help="folder for the text and the shards",
    )
    return parser.parse_args()


def make_block() -> str:
    """BLOCK characters of lines of 100 to 400 words."""
    words = collections.Counter()
    for file in sorted(Path("examples/quickstart/corpus").glob("*.gz")):
        words.update(gzip.open(file, "rt", encoding="utf-8").read().split())
    names, counts = list(words), list(words.values())
    generator = random.Random(1)
    lines, size = [], 0
    while size < BLOCK:
        line = generator.choices(names, counts, k=generator.randint(100, 400))
        line[::17] = [generator.choice(names) + generator.choice(names) for _ in line[::17]]
        line[5::53] = [str(generator.randrange(10**6)) for _ in line[5::53]]
        lines.append(" ".join(line))
        size += len(lines[-1]) + 1
    return "\n".join(lines) + "\n"


def write_text(path: Path, size: int) -> None:
    block, letters = make_block(), string.ascii_lowercase
    with path.open("w", encoding="utf-8") as file:
        for number in range(-(-size // BLOCK)):
            shift = number % len(letters)
            moved = letters[shift:] + letters[:shift]
            table = str.maketrans(letters + letters.upper(), moved + moved.upper())
            file.write(block.translate(table)[: size - number * BLOCK])


def measure(arguments: argparse.Namespace, text: Path, documents: str) -> None:
    cache = arguments.work / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    sets = [
        f"data.train=[{text}]",
        f"data.documents={documents}",
        f"data.cache={cache}",
        "tokenizer.train.vocab_size=30000",
    ]
    command = [arguments.nystrom, "prepare", CONFIG, *(f"--set={each}" for each in sets)]
    _, seconds, peak = measured(command)
    megabytes = text.stat().st_size / 1e6
    print(
        f"documents: {documents}: {seconds:.0f} s, "
        f"{megabytes / seconds:.1f} MB/s, peak memory {peak / 1e6:.0f} MB",
        flush=True,
    )


def main() -> None:
    arguments = parse_arguments()
    arguments.work.mkdir(parents=True, exist_ok=True)
    text = arguments.work / "text.txt"
    write_text(text, arguments.megabytes * 10**6)
    for documents in ("lines", "files"):
        measure(arguments, text, documents)


if __name__ == "__main__":
    main()
