"""Times the Python package against the program: the masks of many sentences, and their vectors.

    PYTHONPATH=build/release/python build/python/bin/python bench/compare_python.py MODEL \
        --text examples/quickstart/heldout.txt.gz

MODEL is a masked language model. Masks: one in each sentence, by `nystrom predict` and `fill_mask`.
Vectors: by `nystrom embed` and `encode`, into a file of NumPy; their bytes must be the same. Whole
processes are timed, with their start, in turns. The time that Python takes to start and to import
NumPy is measured in the same rounds and left out. A busy machine shows in the spread.
"""

import argparse
import gzip
import statistics
import sys
import tempfile
from pathlib import Path

from nystrom_runs import seconds_of

FILL = """
import sys, nystrom
model = nystrom.load(sys.argv[1])
with open(sys.argv[2]) as file:
    model.fill_mask(file.read().splitlines())
"""
ENCODE = """
import sys, numpy, nystrom
model = nystrom.load(sys.argv[1])
with open(sys.argv[2]) as file:
    numpy.save(sys.argv[3], model.encode(file.read().splitlines()))
"""


def sentences(text: Path, count: int) -> list[str]:
    """Sentences of five to forty words, repeated if the text has too few."""
    with gzip.open(text, "rt") as file:
        found = file.read().replace("\n", " ").split(". ")
    found = [sentence for sentence in found if 5 <= len(sentence.split()) <= 40]
    return [found[i % len(found)] for i in range(count)]


def masked(sentence: str) -> str:
    words = sentence.split()
    words[len(words) // 2] = "[MASK]"
    return " ".join(words)


def compare(what: str, program: list[str], python: list[str], rounds: int, made: Path) -> None:
    """Prints the times of two commands. `made` is the file that each of them may write anew."""
    times: dict[str, list[float]] = {"program": [], "Python": [], "NumPy": []}
    contents = set()
    for _ in range(rounds):
        for name, command in (("program", program), ("Python", python)):
            made.unlink(missing_ok=True)
            times[name].append(seconds_of(command))
            contents.add(made.read_bytes() if made.exists() else b"")
        times["NumPy"].append(seconds_of([sys.executable, "-c", "import numpy"]))
    if len(contents) > 1:
        sys.exit(f"{what}: the two do not give the same")
    print(f"{what}, {rounds} rounds")
    for name, each in times.items():
        print(f"  {name:8}{statistics.median(each):8.2f} s   {min(each):.2f} to {max(each):.2f}")
    program_time, python_time, start = (statistics.median(each) for each in times.values())
    more = (python_time - start) / program_time - 1
    print(f"  Python takes {100 * more:+.1f} % without the start with NumPy", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--program", default="build/release/nystrom")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()

    texts = sentences(options.text, options.count)
    with tempfile.TemporaryDirectory() as folder:
        plain, masks, made = (Path(folder) / name for name in ("plain.txt", "masks.txt", "v.npy"))
        plain.write_text("".join(text + "\n" for text in texts))
        masks.write_text("".join(masked(text) + "\n" for text in texts))
        program, python = [options.program], [sys.executable, "-c"]
        compare(
            f"vectors of {len(texts)} sentences",
            [*program, "embed", options.model, str(plain), "--output", str(made), "--quiet"],
            [*python, ENCODE, options.model, str(plain), str(made)],
            options.rounds,
            made,
        )
        compare(
            f"masks of {len(texts)} sentences",
            [*program, "predict", options.model, str(masks), "--json"],
            [*python, FILL, options.model, str(masks)],
            options.rounds,
            made,
        )


if __name__ == "__main__":
    main()
