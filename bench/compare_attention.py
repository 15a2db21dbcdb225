"""Trains the same small model with each kind of attention, and prints quality, speed and memory
beside each other.

    # a masked language model
    build/interop/bin/python bench/compare_attention.py --text novels.txt --validation held-out.txt
    # values of nested lists
    build/interop/bin/python bench/compare_attention.py --listops
    # nothing but time, on a quiet machine
    build/interop/bin/python bench/compare_attention.py --speed 5

Run from the repository's root; needs build/release/nystrom and no network. Data, order, masks,
steps and seeds are the same for all kinds, and so is everything else: the convolution, which
carries much of a small model, is there for all of them (--no-convolution: for none). Seed after
seed all kinds run one behind the other, so that what else the machine does meets all of them alike.
Finished runs are not repeated; a stopped one goes on.

The masked language model has 4 layers of width 256 and reads sequences of 1024 tokens. ListOps is
that of Long Range Arena with its model (2 layers of width 64, mean pooling) and expressions of 100
to 500 symbols, drawn by `nystrom listops`.

Writes every run into --output: loss and accuracy on held-out data, tokens a second (median of the
recorded steps) and peak memory. --speed times steps of the language model on random tokens instead
(`nystrom bench`), the kinds in turn, and writes nothing."""

import argparse
import csv
import json
import sys
from pathlib import Path
from statistics import mean, median, stdev

from compare_hf import describe_machine
from nystrom_runs import listops, nystrom, parser_of, records_of, write_settings

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
# The encoder of ListOps but its attention.
LISTOPS = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 512,
}


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--text", help="a masked language model on this text; with --validation")
    what.add_argument("--listops", action="store_true")
    what.add_argument("--speed", type=int, metavar="ROUNDS")
    parser.add_argument("--validation")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--steps", type=int, help="800 of the masked language model, 2000 of ListOps"
    )
    parser.add_argument("--no-convolution", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--nystrom", type=Path, default=Path("build/release/nystrom"))
    parser.add_argument("--work", type=Path, default=Path("build/compare-attention"))
    parser.add_argument("--output", type=Path, default=Path("bench/results/attention-kinds.csv"))
    arguments = parser.parse_args()
    if arguments.text and not arguments.validation:
        parser.error("--text needs --validation")
    arguments.steps = arguments.steps or (2000 if arguments.listops else 800)
    return arguments


def attention(arguments: argparse.Namespace, kind: str) -> dict:
    return KINDS[kind] | {"conv_kernel_size": None if arguments.no_convolution else 33}


def masked_lm(arguments: argparse.Namespace, kind: str) -> dict:
    return {
        "model": {
            "hidden_size": 256,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "intermediate_size": 1024,
            "max_position_embeddings": 1024,
            "attention": attention(arguments, kind),
        },
        "tokenizer": {"train": {"kind": "unigram", "vocab_size": 8000}},
        "data": {
            "train": [arguments.text],
            "validation": [arguments.validation],
            "sequence_length": 1024,
            "cache": str(arguments.work / "cache"),
        },
        "training": {
            "steps": arguments.steps,
            "batch_size": 4,
            "micro_batch_size": 4,
            "dtype": "bf16",
        },
    }


def values_of_lists(arguments: argparse.Namespace, kind: str) -> dict:
    return {
        "model": LISTOPS | {"pooling": "mean", "attention": attention(arguments, kind)},
        **listops(arguments),
        "data": {"sequence_length": 512},
        "training": {
            "steps": arguments.steps,
            "epochs": None,
            "batch_size": 32,
            "micro_batch_size": 16,
            "dtype": "f32",
        },
    }


def configuration(arguments: argparse.Namespace, kind: str, seed: int, run: Path) -> dict:
    common = {
        "run_dir": str(run),
        "seed": seed,
        "optimizer": {"learning_rate": 1e-3},
        "schedule": {"warmup_share": 0.1, "warmup_steps": None},
        "evaluation": {"every": arguments.steps},
        "checkpoint": {"every": 100, "keep": 2},
    }
    return common | (values_of_lists if arguments.listops else masked_lm)(arguments, kind)


def train(arguments: argparse.Namespace, kind: str, seed: int) -> dict:
    name = ("listops-" if arguments.listops else "") + kind.replace(", ", "-").replace(" ", "-")
    name += "-no-convolution" if arguments.no_convolution else ""
    run = arguments.work / f"{name}-{seed}"
    settings = configuration(arguments, kind, seed, run)
    file = write_settings(arguments.work / f"{run.name}.yaml", settings, threads=arguments.threads)
    nystrom(arguments, "finetune" if arguments.listops else "pretrain", file)
    records = records_of(run)
    last = [record for record in records if "validation_loss" in record][-1]
    speeds = [record["tokens_per_second"] for record in records if "tokens_per_second" in record]
    return {
        "task": "listops" if arguments.listops else "masked-lm",
        "kind": kind,
        "seed": seed,
        "steps": arguments.steps,
        "convolution": not arguments.no_convolution,
        "loss": last["validation_loss"],
        "accuracy": last["validation_accuracy"],
        "tokens_per_second": median(speeds[1:]),
        "peak_memory_bytes": int(max(record.get("peak_memory_bytes", 0) for record in records)),
        "threads": arguments.threads,
        "processor": describe_machine()["cpu"],
    }


def write(arguments: argparse.Namespace, runs: list[dict]) -> None:
    """What other calls have measured stays, but for the same runs."""
    earlier = list(csv.DictReader(arguments.output.open())) if arguments.output.exists() else []
    done = {
        tuple(str(run[part]) for part in ("task", "kind", "seed", "steps", "convolution")): run
        for run in earlier + runs
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with arguments.output.open("w", newline="") as file:
        table = csv.DictWriter(file, fieldnames=list(runs[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(done.values())


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
        print(
            f"| {kind} | {mean(losses):.3f}{spread} | {accuracy:.1f} "
            f"% | {speed:,.0f} | {memory:.2f} GB |"
        )


def time_steps(arguments: argparse.Namespace, kind: str) -> list[float]:
    """Tokens a second of each step but the first."""
    model, training = masked_lm(arguments, kind)["model"], masked_lm(arguments, kind)["training"]
    length, batch = model["max_position_embeddings"], training["micro_batch_size"]
    layers, hidden, heads = (
        model[name] for name in ("num_hidden_layers", "hidden_size", "num_attention_heads")
    )
    kind, convolution = model["attention"]["kind"], model["attention"]["conv_kernel_size"] or 0
    landmarks = model["attention"].get("num_landmarks", 64)
    shape = f"--layers={layers} --hidden={hidden} --heads={heads} --vocab=8000 --conv={convolution}"
    own = f"--length={length} --batch={batch} --attention={kind} --landmarks={landmarks}"
    words = f"{shape} {own} --dtype=bf16 --steps=6 --json --quiet".split()
    report = json.loads(nystrom(arguments, "bench", *words))
    return [batch * length / seconds for seconds in report["step_seconds"][1:]]


def compare_speed(arguments: argparse.Namespace) -> None:
    found: dict[str, list[float]] = {kind: [] for kind in arguments.kinds}
    for _ in range(arguments.speed):
        for kind in arguments.kinds:
            found[kind] += time_steps(arguments, kind)
    print("| attention | tokens/s, median | slowest – fastest step |\n|---|---|---|")
    for kind, speeds in found.items():
        print(f"| {kind} | {median(speeds):,.0f} | {min(speeds):,.0f} – {max(speeds):,.0f} |")


def main() -> None:
    arguments = parse_arguments()
    if arguments.speed:
        return compare_speed(arguments)
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
