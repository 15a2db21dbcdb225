"""Measures which learning rate fine-tuning needs at which size of a model, and prints a table.

    python3 bench/learning_rates.py --data DATA --work build/learning-rates

DATA holds the folders that TASKS names, with the files as they are published. The script pretrains
a model of each size on novels, unless WORK holds a finished one. Then it fine-tunes each model on
each task with each learning rate. WORK/results.json holds every run.
"""

import argparse
import json
from pathlib import Path
from statistics import mean

from downstream import TASKS, place, split_sentences
from nystrom_runs import novels, nystrom, parser_of, read_json, write_json, write_settings

# Width, layers, heads and steps of pretraining. Each step reads 64 sequences of 128 tokens.
SIZES = {
    "64x2": (64, 2, 2, 3000),
    "128x2": (128, 2, 4, 2500),
    "192x4": (192, 4, 3, 500),
    "256x4": (256, 4, 4, 800),
}
# The tasks of downstream.py that are trained here, and the steps of 32 examples each takes.
STEPS = {"sst2": 400, "trec": 500, "wikigold": 400, "stsb": 500}
RATES = ["3e-5", "1e-4", "3e-4", "1e-3", "3e-3"]


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("build/learning-rates"))
    parser.add_argument("--nystrom", type=Path, default=Path("build/release/nystrom"))
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--tasks", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def pretrained_model(arguments: argparse.Namespace, size: str) -> Path:
    width, layers, heads, steps = SIZES[size]
    run = arguments.work / f"pretrained-{size}"
    config = {
        "run_dir": str(run),
        "seed": 42,
        "model": {
            "hidden_size": width,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "intermediate_size": 4 * width,
            "max_position_embeddings": 128,
            "attention": {"num_landmarks": 32, "conv_kernel_size": 33},
        },
        "tokenizer": {"train": {"kind": "unigram", "vocab_size": 8000}},
        "data": novels(arguments.data) | {"sequence_length": 128},
        "optimizer": {"learning_rate": 1e-3},
        "schedule": {"warmup_steps": 200},
        "training": {"steps": steps, "batch_size": 64, "micro_batch_size": 64, "dtype": "bf16"},
        "evaluation": {"every": 500},
        "checkpoint": {"every": 250, "keep": 2},
    }
    nystrom(arguments, "pretrain", write_settings(arguments.work / f"{run.name}.yaml", config))
    return run


def fine_tune(arguments: argparse.Namespace, size: str, name: str, model: Path) -> dict:
    """The task's metric of each learning rate, by the rate's text."""
    task = dict(TASKS[name][0])
    for key in ("train", "validation"):
        task[key] = [place(arguments, file) for file in task[key]]
    run = arguments.work / f"{name}-{size}"
    config = {
        "run_dir": str(run),
        "model": {"from": str(model)},
        "task": task,
        "data": {"sequence_length": 128},
        "schedule": {"warmup_share": 0.1, "decay": "linear"},
        "training": {
            "steps": STEPS[name],
            "batch_size": 32,
            "micro_batch_size": 32,
            "dtype": "bf16",
        },
        "evaluation": {"every": None},
    }
    grid = "learning_rate=" + ",".join(RATES)
    file = write_settings(arguments.work / f"{run.name}.yaml", config, model, grid=grid)
    nystrom(arguments, "finetune", file, "--grid", grid, "--seeds", arguments.seeds)
    summary = json.loads((run / "summary.json").read_text())
    found = {
        rate: [run["value"] for run in point["runs"]]
        for rate, point in zip(RATES, summary["points"], strict=True)
    }
    return {"metric": summary["metric"], "values": found}


def print_table(results: dict) -> None:
    print("| size | task | metric |", " | ".join(RATES), "|")
    print("|---|---|---|" + "---|" * len(RATES))
    for key, result in results.items():
        size, task = key.split(" ")
        cells = [f"{mean(result['values'][rate]):.3f}" for rate in RATES]
        print("|", " | ".join([size, task, result["metric"], *cells]), "|")


def main() -> None:
    arguments = parse_arguments()
    arguments.work.mkdir(parents=True, exist_ok=True)
    split_sentences(arguments)
    file = arguments.work / "results.json"
    results = read_json(file, {})
    for size in arguments.sizes:
        model = pretrained_model(arguments, size)
        for name in arguments.tasks:
            found = results.get(f"{size} {name}", {"values": {RATES[0]: []}})
            if len(found["values"][RATES[0]]) < arguments.seeds:
                results[f"{size} {name}"] = fine_tune(arguments, size, name, model)
                write_json(file, results)
    print_table(results)


if __name__ == "__main__":
    main()
