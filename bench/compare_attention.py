"""Pretrains the same small masked language model with each kind of attention, and prints loss, speed and memory beside each other.

    build/interop/bin/python bench/compare_attention.py --text novels.txt --validation held-out.txt --work build/compare-attention

Run from the repository's root; needs build/release/nystrom and no network. 4 layers of width 256, sequences of 1024 tokens; text,
order, masks, steps and seeds are the same for all kinds, and so is everything else: the convolution, which carries much of a small
model, is there for all of them (--no-convolution: for none). Seed after seed all kinds run one behind the other, so that what else
the machine does meets all of them alike. Finished runs are not repeated; a stopped one goes on.

Writes every run into --output: loss and accuracy on held-out text, tokens a second (median of the recorded steps) and peak memory.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import mean, median, stdev

from compare_hf import describe_machine

KINDS = {
    "softmax": {"kind": "softmax"},
    "nystrom, 16 landmarks": {"kind": "nystrom", "num_landmarks": 16},
    "nystrom, 32 landmarks": {"kind": "nystrom", "num_landmarks": 32},
    "nystrom, 64 landmarks": {"kind": "nystrom", "num_landmarks": 64},
    "double_softmax": {"kind": "double_softmax"},
    "linear": {"kind": "linear"},
    "performer": {"kind": "performer"},
    "linformer": {"kind": "linformer"},
    "reformer": {"kind": "reformer"},
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", required=True)
    parser.add_argument("--validation", required=True)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--no-convolution", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--nystrom", type=Path, default=Path("build/release/nystrom"))
    parser.add_argument("--work", type=Path, default=Path("build/compare-attention"))
    parser.add_argument("--output", type=Path, default=Path("bench/results/attention-kinds.json"))
    return parser.parse_args()


def configuration(arguments: argparse.Namespace, kind: str, seed: int, run: Path) -> dict:
    convolution = None if arguments.no_convolution else 33
    return {
        "run_dir": str(run),
        "seed": seed,
        "model": {
            "hidden_size": 256,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "intermediate_size": 1024,
            "max_position_embeddings": 1024,
            "attention": KINDS[kind] | {"conv_kernel_size": convolution},
        },
        "tokenizer": {"train": {"kind": "unigram", "vocab_size": 8000}},
        "data": {
            "train": [arguments.text],
            "validation": [arguments.validation],
            "sequence_length": 1024,
            "cache": str(arguments.work / "cache"),
        },
        "optimizer": {"learning_rate": 1e-3},
        "schedule": {"warmup_share": 0.1, "warmup_steps": None},
        "training": {"steps": arguments.steps, "batch_size": 8, "micro_batch_size": 8, "dtype": "bf16"},
        "evaluation": {"every": arguments.steps},
        "checkpoint": {"every": 100, "keep": 2},
    }


def metrics_of(run: Path) -> list[dict]:
    file = run / "metrics.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def train(arguments: argparse.Namespace, kind: str, seed: int) -> dict:
    name = kind.replace(", ", "-").replace(" ", "-") + ("-no-convolution" if arguments.no_convolution else "")
    run = arguments.work / f"{name}-{seed}"
    if not any("validation_loss" in record and record["step"] == arguments.steps for record in metrics_of(run)):
        file = arguments.work / f"{name}-{seed}.yaml"
        file.write_text(json.dumps(configuration(arguments, kind, seed, run), indent=2))  # JSON is YAML
        subprocess.run([str(arguments.nystrom), "pretrain", str(file), "--threads", str(arguments.threads)], check=True)
    records = metrics_of(run)
    last = [record for record in records if "validation_loss" in record][-1]
    speeds = [record["tokens_per_second"] for record in records if "tokens_per_second" in record][1:]
    return {
        "kind": kind,
        "seed": seed,
        "steps": arguments.steps,
        "convolution": not arguments.no_convolution,
        "loss": last["validation_loss"],
        "accuracy": last["validation_accuracy"],
        "tokens_per_second": median(speeds),
        "peak_memory_bytes": max(record.get("peak_memory_bytes", 0) for record in records),
    }


def write(arguments: argparse.Namespace, runs: list[dict]) -> None:
    """What other calls have measured stays, but for the same runs."""
    key = ("kind", "seed", "steps", "convolution")
    earlier = json.loads(arguments.output.read_text())["runs"] if arguments.output.exists() else []
    done = {tuple(run[part] for part in key): run for run in earlier + runs}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps({"machine": describe_machine(), "runs": list(done.values())}, indent=2) + "\n")


def print_table(runs: list[dict], kinds: list[str]) -> None:
    print("| attention | held-out loss | accuracy | tokens/s | memory |\n|---|---|---|---|---|")
    for kind in kinds:
        own = [run for run in runs if run["kind"] == kind]
        if not own:
            continue
        losses = [run["loss"] for run in own]
        spread = f" ± {stdev(losses):.3f}" if len(losses) > 1 else ""
        accuracy = 100 * mean(run["accuracy"] for run in own)
        speed = median(run["tokens_per_second"] for run in own)
        memory = max(run["peak_memory_bytes"] for run in own) / 1e9
        print(f"| {kind} | {mean(losses):.3f}{spread} | {accuracy:.1f} % | {speed:,.0f} | {memory:.2f} GB |")


def main() -> None:
    arguments = parse_arguments()
    arguments.work.mkdir(parents=True, exist_ok=True)
    runs = []
    for seed in range(1, arguments.seeds + 1):
        for kind in arguments.kinds:
            print(f"{kind}, seed {seed}", file=sys.stderr, flush=True)
            runs.append(train(arguments, kind, seed))
            write(arguments, runs)
    print_table(runs, arguments.kinds)


if __name__ == "__main__":
    main()
