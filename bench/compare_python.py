"""Times the Python package against the program: the masks of many sentences, and their vectors.

    PYTHONPATH=build/release/python build/python/bin/python bench/compare_python.py MODEL \
        --text examples/quickstart/heldout.txt.gz

MODEL is a masked language model. Both fill one mask in each sentence; whole processes are timed,
with their start, in turns. The program has no command that makes vectors, so `encode` is timed
alone.
"""

import argparse
import gzip
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nystrom

FILL = """
import sys, nystrom
model = nystrom.load(sys.argv[1])
with open(sys.argv[2]) as file:
    model.fill_mask(file.read().splitlines())
"""


def sentences(text: Path, count: int) -> list[str]:
    """Sentences of five to forty words, repeated if the text has too few."""
    found = gzip.open(text, "rt").read().replace("\n", " ").split(". ")
    found = [sentence for sentence in found if 5 <= len(sentence.split()) <= 40]
    return [found[i % len(found)] for i in range(count)]


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--program", default="build/release/nystrom")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()

    texts = sentences(options.text, options.count)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        for text in texts:
            words = text.split()
            words[len(words) // 2] = "[MASK]"
            file.write(" ".join(words) + "\n")
        file.flush()
        commands = {
            "program": [options.program, "predict", options.model, file.name, "--json"],
            "Python": [sys.executable, "-c", FILL, options.model, file.name],
        }
        times = {name: [] for name in commands}
        for _ in range(options.rounds):
            for name, command in commands.items():
                times[name].append(seconds(command))
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(f"masks of {len(texts)} sentences, median of {options.rounds} runs")
    for name, median in medians.items():
        print(f"  {name:8}{median:8.2f} s")
    print(f"  Python takes {100 * (medians['Python'] / medians['program'] - 1):+.1f} %")

    model = nystrom.load(options.model)
    model.encode(texts[:64])
    started = time.perf_counter()
    model.encode(texts)
    print(f"vectors of the same sentences: {time.perf_counter() - started:.2f} s")


if __name__ == "__main__":
    main()
