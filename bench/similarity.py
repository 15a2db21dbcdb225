"""Trains a model for similarity, step by step, and prints how its cosines rank STS-B's pairs.

    ./dev quickstart
    python3 bench/similarity.py --data DATA --start runs/quickstart --work build/similarity

DATA holds STS-B's files (stsb/sts-train.csv, stsb/sts-dev.csv). For each seed:

    masked    the start, which learned from masked tokens alone: the mean of its hidden states
    simcse    after paragraphs of the bundled novels, each with itself under other dropout
    cosent    then after STS-B's training pairs

Each figure is Spearman's correlation on STS-B's dev set, of the last step: nothing is chosen on
that set. Finished runs are not repeated. WORK/results.json holds every figure."""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

PAIRS = {"header": False, "columns": {"text": "6", "pair": "7", "label": "5"}}
TRAINING = {"batch_size": 64, "micro_batch_size": 64, "dtype": "bf16"}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--start", type=Path, required=True, help="a pretrained model")
    parser.add_argument("--work", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--nystrom", type=Path, default=Path("build/release/nystrom"))
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def simcse(arguments: argparse.Namespace) -> dict:
    return {
        "task": {"train": ["examples/quickstart/corpus/*"], "views": "dropout"},
        "embedding_loss": {"name": "multiple_negatives_ranking"},
        "optimizer": {"learning_rate": 1e-4},
        "training": {"steps": 400} | TRAINING,
        "data": {"sequence_length": 64},
    }


def cosent(arguments: argparse.Namespace) -> dict:
    return {
        "task": {"train": [str(arguments.work / "sts-train.tsv")]},
        "embedding_loss": {"name": "cosent"},
        "optimizer": {"learning_rate": 3e-4},
        "training": {"epochs": 4} | TRAINING,
        "data": {"sequence_length": 64},
    }


def train(arguments: argparse.Namespace, stage: str, start: Path, seed: int) -> Path:
    settings = {"simcse": simcse, "cosent": cosent}[stage](arguments)
    run = arguments.work / f"{stage}-{seed}"
    task = {"kind": "embeddings", "max_score": 5} | PAIRS | settings["task"]
    task["validation"] = [str(arguments.work / "sts-dev.tsv")]
    config = settings | {
        "run_dir": str(run),
        "seed": seed,
        "model": {"from": str(start)},
        "task": task,
        "schedule": {"warmup_share": 0.1, "decay": "linear"},
        "logging": {"tensorboard": False},
    }
    file = arguments.work / f"{stage}-{seed}.yaml"
    file.write_text(json.dumps(config, indent=1) + "\n")  # JSON is YAML
    command = [arguments.nystrom, "finetune", file, "--quiet", f"--threads={arguments.threads}"]
    subprocess.run([str(word) for word in command], check=True)
    steps = (run / "checkpoints").glob("step-*")
    return max(steps, key=lambda folder: int(folder.name.split("-")[1]))


def spearman(arguments: argparse.Namespace, model: Path) -> float:
    pairs = {f"columns.{key}": value for key, value in PAIRS["columns"].items()}
    options = {"header": "false"} | pairs
    sets = [word for key, value in options.items() for word in ("--set", f"task.{key}={value}")]
    command = [arguments.nystrom, "evaluate", model, "--json", "--quiet", *sets]
    command += ["--pairs", arguments.work / "sts-dev.tsv"]
    output = subprocess.run([str(word) for word in command], check=True, capture_output=True)
    return json.loads(output.stdout)["spearman"]


def main() -> None:
    arguments = parse_arguments()
    arguments.work.mkdir(parents=True, exist_ok=True)
    for part in ("train", "dev"):  # their columns are between tabs, which their names do not tell
        shutil.copyfile(arguments.data / f"stsb/sts-{part}.csv", arguments.work / f"sts-{part}.tsv")
    results: dict[str, list[float]] = {"masked": [spearman(arguments, arguments.start)]}
    for seed in range(1, arguments.seeds + 1):
        model = arguments.start
        for stage in ("simcse", "cosent"):
            model = train(arguments, stage, model, seed)
            results.setdefault(stage, []).append(spearman(arguments, model))
            print(f"seed {seed}, {stage}: {results[stage][-1]:.4f}", file=sys.stderr, flush=True)
        (arguments.work / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    print("| after | Spearman on STS-B's dev set | seeds |\n|---|--:|---|")
    for stage, values in results.items():
        each = ", ".join(f"{value:.4f}" for value in values)
        print(f"| {stage} | {statistics.mean(values):.4f} | {each} |")


if __name__ == "__main__":
    main()
