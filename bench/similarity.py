"""Trains a model for similarity, step by step, and prints how its cosines rank STS-B's pairs.

    ./dev quickstart
    python3 bench/similarity.py --data DATA --start runs/quickstart --work build/similarity \\
        --output bench/results/similarity.json

DATA holds STS-B's files (stsb/sts-train.csv, stsb/sts-dev.csv). For each seed:

    masked    the start, which learned from masked tokens alone: the mean of its hidden states
    dropout   after sentences of the bundled novels, each with itself under other dropout (SimCSE)
    crops     after the same sentences instead, each as two random parts of it
    cosent    crops, and then STS-B's training pairs

Each figure is Spearman's correlation on STS-B's dev set, of the last step. Learning rates, batches
and steps were chosen on the training pairs. Finished runs are not repeated."""

import argparse
import json
import re
import shutil
import statistics
import sys
from pathlib import Path

from embedding_runs import add_arguments, finetune, lines_of, write_results
from nystrom_runs import nystrom, parser_of

COLUMNS = {"text": "6", "pair": "7", "label": "5"}
LENGTH = 64
SHORTEST, LONGEST = 5, 40  # words of a sentence
# The options of each stage that differ. `cosent` sees each training pair about four times.
STAGES = {
    "dropout": {
        "optimizer": {"learning_rate": 1e-4},
        "training": {"batch_size": 64, "micro_batch_size": 64, "steps": 200, "dtype": "f32"},
    },
    "crops": {
        "optimizer": {"learning_rate": 2e-3},
        "training": {"batch_size": 256, "micro_batch_size": 256, "steps": 500, "dtype": "f32"},
    },
    "cosent": {
        "optimizer": {"learning_rate": 1e-3},
        "training": {"batch_size": 64, "micro_batch_size": 64, "steps": 360, "dtype": "f32"},
    },
}


def parse_arguments(description: str) -> argparse.Namespace:
    parser = parser_of(description)
    add_arguments(parser)
    parser.add_argument("--novels", type=Path, default=Path("examples/quickstart/corpus"))
    parser.add_argument("--seeds", type=int, default=3)
    return parser.parse_args()


def sentences_of(folder: Path) -> list[str]:
    """The different sentences of the novels in a folder."""
    found: dict[str, None] = {}
    for file in sorted(folder.glob("*.gz")):
        for line in lines_of(file):
            for sentence in re.split(r"(?<=[.!?;])[\"')]*\s+", line):
                if SHORTEST <= len(sentence.split()) <= LONGEST:
                    found[sentence.strip()] = None
    return list(found)


def write_texts(arguments: argparse.Namespace) -> None:
    """Writes sentences.txt, sts-train.tsv and sts-dev.tsv into the folder for the runs."""
    arguments.work.mkdir(parents=True, exist_ok=True)
    sentences = sentences_of(arguments.novels)
    (arguments.work / "sentences.txt").write_text("".join(s + "\n" for s in sentences))
    for part in ("train", "dev"):  # their columns are between tabs, which their names do not tell
        shutil.copyfile(arguments.data / f"stsb/sts-{part}.csv", arguments.work / f"sts-{part}.tsv")


def train(arguments: argparse.Namespace, stage: str, start: Path, seed: int) -> Path:
    name = "sts-train.tsv" if stage == "cosent" else "sentences.txt"
    task = {"train": [str(arguments.work / name)], "columns": COLUMNS, "header": False}
    task |= {"validation": [str(arguments.work / "sts-dev.tsv")], "max_score": 5}
    loss = "multiple_negatives_ranking"
    if stage == "cosent":
        loss = "cosent"
    else:
        task["views"] = stage
    settings = {"seed": seed, "task": task, "embedding_loss": {"name": loss}}
    settings["data"] = {"sequence_length": LENGTH}
    return finetune(arguments, f"{stage}-{seed}", start, settings | STAGES[stage])


def spearman(arguments: argparse.Namespace, model: Path) -> float:
    options = {"header": "false"} | {f"columns.{key}": value for key, value in COLUMNS.items()}
    sets = [f"--set=task.{key}={value}" for key, value in options.items()]
    words = ("--json", "--quiet", *sets, "--pairs", arguments.work / "sts-dev.tsv")
    return json.loads(nystrom(arguments, "evaluate", model, *words))["spearman"]


def print_table(results: dict[str, list[float]]) -> None:
    print("| after | Spearman on STS-B's dev set | seeds |\n|---|--:|---|")
    for stage, values in results.items():
        each = ", ".join(f"{value:.4f}" for value in values)
        print(f"| {stage} | {statistics.mean(values):.4f} | {each} |")


def main() -> None:
    arguments = parse_arguments(__doc__)
    write_texts(arguments)
    results: dict[str, list[float]] = {"masked": [spearman(arguments, arguments.start)]}
    for seed in range(1, arguments.seeds + 1):
        models = {"masked": arguments.start}
        for stage, before in (("dropout", "masked"), ("crops", "masked"), ("cosent", "crops")):
            models[stage] = train(arguments, stage, models[before], seed)
            results.setdefault(stage, []).append(spearman(arguments, models[stage]))
            print(f"seed {seed}, {stage}: {results[stage][-1]:.4f}", file=sys.stderr, flush=True)
        write_results(arguments, results)
    print_table(results)


if __name__ == "__main__":
    main()
