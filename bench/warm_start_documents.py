"""Fine-tunes a parent and its healed descendant on long documents, and prints the accuracy of each.

    python3 bench/warm_start_documents.py --data DATA --work build/warm-start/documents \\
        --model parent=PARENT:512 --model healed=HEALED:512 --model healed=HEALED:2048

DATA holds movie_reviews (train.tsv, test.tsv; 1,800 and 200 documents). Each --model is a name, a
folder that `nystrom finetune` starts from, and the tokens of a document that it reads. The figure
is the accuracy on test.tsv after the last epoch: nothing is chosen on it. A finished run is not
repeated. WORK/results.json holds the figures of the models named."""

import argparse
import statistics
import sys
from pathlib import Path

from nystrom_runs import files_of, nystrom, parser_of, records_of, write_json, write_settings


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--model", action="append", required=True, metavar="NAME=FOLDER:LENGTH")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--nystrom", type=Path, default=Path("build/release/nystrom"))
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def accuracy(arguments: argparse.Namespace, name: str, folder: str, length: int, seed: int) -> dict:
    """The last evaluation of a run, and its median speed."""
    run = arguments.work / f"{name}-{length}-{seed}"
    config = {
        "run_dir": str(run),
        "seed": seed,
        "model": {"from": folder},
        "task": {"kind": "classification"}
        | files_of(arguments.data / "movie_reviews", "train.tsv", "test.tsv"),
        "data": {"sequence_length": length},
        "optimizer": {"learning_rate": arguments.learning_rate},
        "schedule": {"warmup_share": 0.1, "decay": "linear"},
        "training": {
            "epochs": arguments.epochs,
            "batch_size": 16,
            "micro_batch_size": 4,
            "dtype": "bf16",
        },
        "checkpoint": {"keep": 2},
        "logging": {"tensorboard": False},
    }
    file = arguments.work / f"{run.name}.yaml"
    write_settings(file, config, Path(folder), threads=arguments.threads)
    nystrom(arguments, "finetune", file, "--quiet")
    speeds = [r["tokens_per_second"] for r in records_of(run, "tokens_per_second")]
    last = records_of(run, "validation_accuracy")[-1]["validation_accuracy"]
    return {"accuracy": last, "tokens_per_second": statistics.median(speeds)}


def main() -> None:
    arguments = parse_arguments()
    arguments.work.mkdir(parents=True, exist_ok=True)
    results: dict[str, list[dict]] = {}
    for seed in range(1, arguments.seeds + 1):
        for model in arguments.model:
            name, rest = model.split("=", 1)
            folder, length = rest.rsplit(":", 1)
            found = accuracy(arguments, name, folder, int(length), seed)
            results.setdefault(f"{name}, {length} tokens", []).append({"seed": seed} | found)
            print(f"{model}, seed {seed}: {found['accuracy']:.3f}", file=sys.stderr, flush=True)
            write_json(arguments.work / "results.json", results)
    print("| start | accuracy | by seed |\n|---|--:|---|")
    for name, runs in results.items():
        values = [run["accuracy"] for run in runs]
        each = ", ".join(f"{value:.3f}" for value in values)
        print(f"| {name} | {statistics.mean(values):.3f} | {each} |")


if __name__ == "__main__":
    main()
