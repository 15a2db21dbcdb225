"""Where do landmarks pay beside a window? Trains the same small model with each mixture of
attention at equal machine-time, seed after seed.

    build/interop/bin/python bench/windows.py --speed              # on a quiet machine, once
    build/interop/bin/python bench/windows.py --tasks mlm-512 mlm-2048 mlm-8192 recall --data DATA
    build/interop/bin/python bench/windows.py --tasks reviews --data DATA

All models have ModernBERT's blocks: pre-norm, rotary positions, gated feed-forward layers, no
biases; 4 layers of 256, 4 heads, windows of 128 tokens, 64 landmarks. Landmarks alone have the
convolution that Nyströmformer has, and three of the others are there with it too. --speed times a
step of each that is not timed yet with `nystrom bench`, and from then on a run has as many steps as
fit into --minutes at that speed, whatever the machine does meanwhile. They train by Muon, whose 4 %
of a step the timing leaves out for all kinds.

    mlm-N     masked language model of novels in sequences of N tokens: loss of held-out novels
    recall    pairs of a key and a value, each twice in a sequence of 1,024 tokens at random places;
              masked language model: the share of masked tokens that are found again
    reviews   the model of mlm-2048, fine-tuned on whole movie reviews: accuracy on 200 of them

Finished runs are not repeated; a stopped one goes on. Results go to --output."""

import argparse
import json
import random
import statistics
import subprocess
import sys
from pathlib import Path

from word_tokenizer import write_tokenizer

WITHOUT_CONVOLUTION = {
    "window": {"kind": "softmax", "window": 128},
    "in turn": {"kind": "nystrom", "layers": {"0": "softmax", "2": "softmax"}, "window": 128},
    "in each layer": {"kind": "nystrom", "window": 128},
    "exact": {"kind": "softmax"},
}
KINDS = {
    **WITHOUT_CONVOLUTION,
    "landmarks": {"kind": "nystrom", "conv_kernel_size": 33},
    **{
        f"{name}, convolution": WITHOUT_CONVOLUTION[name] | {"conv_kernel_size": 33}
        for name in ("window", "in turn", "exact")
    },
}
TASKS = {"mlm-512": 512, "mlm-2048": 2048, "mlm-8192": 8192, "recall": 1024, "reviews": 2048}
STEP_TOKENS = 8192
LAYERS, HIDDEN, HEADS = 4, 256, 4


def model(kind, length):
    return {
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": 512,
        "max_position_embeddings": length,
        "norm": "pre",
        "final_norm": True,
        "mlp": "geglu",
        "bias": False,
        "positions": "rope",
        "type_vocab_size": 0,
        "hidden_dropout_prob": 0.0,
        "attention": {"num_landmarks": 64, "conv_kernel_size": None} | KINDS[kind],
    }


def flat(values, prefix="model"):
    for name, value in values.items():
        if isinstance(value, dict) and name == "attention":
            yield from flat(value, f"{prefix}.{name}")
        else:
            yield f"{prefix}.{name}={json.dumps(value)}"


def measure_speed(options, results):
    """The median seconds of a step of each kind and length, in turn."""
    for length in sorted({TASKS[task] for task in options.tasks if task != "reviews"}):
        timed = results["step_seconds"]
        found = {kind: [] for kind in KINDS if str(length) not in timed.get(kind, {})}
        for _ in range(2):
            for kind, seconds in found.items():
                sets = [part for each in flat(model(kind, length)) for part in ("--set", each)]
                shape = f"--layers={LAYERS} --hidden={HIDDEN} --heads={HEADS} --vocab=8000"
                run = f"--length={length} --tokens={STEP_TOKENS} --steps=6 --dtype=bf16 --json"
                command = [options.nystrom, "bench", *f"{shape} {run}".split(), *sets]
                report = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
                seconds += json.loads(report)["step_seconds"][1:]
        for kind, seconds in found.items():
            results["step_seconds"].setdefault(kind, {})[str(length)] = statistics.median(seconds)
            print(f"{length} tokens, {kind}: {statistics.median(seconds):.3f} s a step", flush=True)


def make_recall(folder):
    """Texts of 255 pairs, each twice, in random order; and a tokenizer of words."""
    write_tokenizer(folder, [f"k{i}" for i in range(1500)] + [f"v{i}" for i in range(500)])
    for name, count in (("train", 6000), ("valid", 60)):
        draw = random.Random(name)
        with (folder / f"{name}.txt").open("w") as file:
            for _ in range(count):
                keys = draw.sample(range(1500), 255)
                pairs = 2 * [f"k{key} v{draw.randrange(500)}" for key in keys]
                draw.shuffle(pairs)
                file.write(" ".join(pairs) + "\n\n")


def pretraining(options, task, kind, steps):
    length = TASKS[task]
    if task == "recall":
        folder = options.work / "recall"
        if not (folder / "valid.txt").exists():
            make_recall(folder)
        files = folder / "train.txt", folder / "valid.txt"
        tokenizer = {"path": str(folder)}
    else:
        folder = options.data / "corpus_novels"
        files = folder / "novels_train.txt", folder / "novels_valid.txt"
        tokenizer = {"train": {"kind": "unigram", "vocab_size": 8000}}
    return "pretrain", {
        "model": model(kind, length),
        "tokenizer": tokenizer,
        "data": {
            "train": [str(files[0])],
            "validation": [str(files[1])],
            "sequence_length": length,
            "cache": str(options.work / ("cache-recall" if task == "recall" else "cache")),
        },
        "evaluation": {"every": max(1, steps // 8)},
    }


def reviews(options, kind, seed):
    start = options.work / f"mlm-2048-{kind.replace(' ', '-')}-{seed}"
    folder = options.data / "movie_reviews"
    return "finetune", {
        "model": {"from": str(start)},
        "task": {
            "kind": "classification",
            "train": [str(folder / "train.tsv")],
            "validation": [str(folder / "test.tsv")],
        },
        "data": {"sequence_length": 2048},
    }


def train(options, results, task, kind, seed):
    run = options.work / f"{task}-{kind.replace(' ', '-')}-{seed}"
    length = TASKS[task]
    if task == "reviews":
        command, settings = reviews(options, kind, seed)
        training = {"epochs": 3, "batch_size": 16, "micro_batch_size": 4}
        optimizer = {"learning_rate": 2e-4}
    else:
        steps = int(60 * options.minutes / results["step_seconds"][kind][str(length)])
        command, settings = pretraining(options, task, kind, steps)
        batch = STEP_TOKENS // length
        training = {"steps": steps, "batch_size": batch, "micro_batch_size": batch}
        optimizer = {"name": "muon", "learning_rate": 5e-3}
    settings |= {
        "run_dir": str(run),
        "seed": seed,
        "optimizer": optimizer,
        "schedule": {"warmup_share": 0.1, "decay": "linear"},
        "checkpoint": {"every": 50, "keep": 2},
        "logging": {"tensorboard": False},
        "training": training | {"dtype": "bf16"},
    }
    place = options.work / f"{run.name}.yaml"
    place.write_text(json.dumps(settings, indent=2))  # JSON is YAML
    subprocess.run([options.nystrom, command, place, "--quiet"], check=True)
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    curve = [record for record in records if "validation_loss" in record]
    last = curve[-1]
    return {
        "task": task,
        "kind": kind,
        "seed": seed,
        "minutes": options.minutes,
        "steps": last["step"],
        "loss": last["validation_loss"],
        "accuracy": last["validation_accuracy"],
        "curve": [[record["step"], round(record["validation_loss"], 4)] for record in curve],
    }


def print_table(results, tasks):
    for task in tasks:
        for kind in KINDS:
            own = [run for run in results["runs"] if (run["task"], run["kind"]) == (task, kind)]
            if not own:
                continue
            row = []
            for name in ("loss", "accuracy"):
                values = [run[name] for run in own]
                spread = statistics.stdev(values) if len(values) > 1 else float("nan")
                row.append(f"{name} {statistics.mean(values):.4f} ± {spread:.4f}")
            print(f"{task}, {kind}: {', '.join(row)}, {own[0]['steps']} steps, {len(own)} seeds")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--data", type=Path, help="the folder of corpus_novels and movie_reviews")
    parser.add_argument("--nystrom", type=Path, default=Path("build/release/nystrom"))
    parser.add_argument("--work", type=Path, default=Path("build/windows"))
    parser.add_argument("--output", type=Path, default=Path("bench/results/windows.json"))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    results = {"step_seconds": {}, "runs": []}
    if options.output.exists():
        results = json.loads(options.output.read_text())

    def write():
        options.output.write_text(json.dumps(results, indent=1) + "\n")

    if options.speed:
        measure_speed(options, results)
        return write()
    for seed in range(1, options.seeds + 1):
        for task in options.tasks:
            for kind in KINDS:
                done = {(run["task"], run["kind"], run["seed"]) for run in results["runs"]}
                if (task, kind, seed) in done:
                    continue
                print(f"{task}, {kind}, seed {seed}", file=sys.stderr, flush=True)
                results["runs"].append(train(options, results, task, kind, seed))
                write()
    return print_table(results, options.tasks)


if __name__ == "__main__":
    main()
