"""Measures what healing a converted encoder takes, and prints a table.

    python3 bench/warm_start.py --parent PARENT --text 'NOVELS/*.txt' --held-out 'HELD/*.txt' \
        --work build/warm-start/bert

PARENT is a folder with exact attention and 512 positions that nystrom reads. For each variant the
script converts it, trains the result on TEXT, and measures the masked-LM loss on HELD-OUT: at 512
tokens after 0, 100, 300 and 1000 steps of 16 x 512 tokens, and at --long tokens (2,048) before and
after. The parent itself is measured at 512, and at --long if it has as many positions; its
documents are cut there. WORK/results.json is written after each variant, and a variant that it has
is not repeated; other arguments need another WORK. WORK/table.md holds the table, and
WORK/VARIANT/run the healed model. A stop loses no more than the steps since the last checkpoint.
--only names some variants, --list all.
"""

import argparse
import json
import random
import shutil
import struct
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from nystrom_runs import made, nystrom, parser_of, read_json, records_of, write_json, write_settings

SHORT = 512
SEQUENCES = 16  # of SHORT tokens in a step
MEASURED = (100, 300, 1000)
# The arguments that decide every result of a folder, beside the parent.
DECIDING = ["text", "held_out", "steps", "learning_rate", "long", "micro_batch", "dtype", "threads"]


@dataclass(frozen=True)
class Variant:
    """A way to convert and to heal."""

    landmarks: int = 64
    taps: str = "zero"  # or random
    keep_exact: str = ""  # layers
    distillation: bool = False
    grow: bool = False  # from 512 tokens to --long, else 512
    convert: bool = True  # False: the parent, trained on with exact attention
    seed: int = 1

    def name(self) -> str:
        if not self.convert:
            return f"parent-seed{self.seed}"
        parts = [f"m{self.landmarks}", self.taps]
        if self.keep_exact:
            parts.append(f"exact{self.keep_exact}")
        parts += ["distilled"] * self.distillation + ["grow"] * self.grow
        return "-".join(parts + [f"seed{self.seed}"])


def variants(layers: int) -> list[Variant]:
    """The most telling first."""
    base = Variant()
    return [
        base,
        replace(base, distillation=True),
        replace(base, convert=False),
        replace(base, taps="random"),
        replace(base, distillation=True, grow=True),
        replace(base, landmarks=32),
        replace(base, landmarks=128),
        replace(base, keep_exact="0"),
        replace(base, keep_exact=str(layers - 1)),
        replace(base, grow=True),
        replace(base, seed=2),
        replace(base, distillation=True, seed=2),
        replace(base, landmarks=32, distillation=True),
        replace(base, landmarks=128, distillation=True),
        replace(base, taps="random", distillation=True),
        replace(base, keep_exact="0", distillation=True),
        replace(base, keep_exact=str(layers - 1), distillation=True),
    ]


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--parent", type=Path, required=True)
    parser.add_argument("--text", nargs="+", required=True, help="files or patterns to train on")
    parser.add_argument("--held-out", nargs="+", required=True, help="files or patterns to measure")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--nystrom", type=Path, default=Path("build/release/nystrom"))
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--long", type=int, default=2048, help="tokens of the long sequences")
    parser.add_argument("--micro-batch", type=int, default=8, help="sequences of 512 tokens")
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", help="names of variants")
    parser.add_argument("--list", action="store_true", help="print the names of all variants")
    return parser.parse_args()


class Bench:
    """The program, the places and the results of one parent."""

    def __init__(self, arguments: argparse.Namespace):
        self.arguments = arguments
        self.long = arguments.long
        config = json.loads((arguments.parent / "config.json").read_text())
        self.positions = config["max_position_embeddings"]
        self.has_windows = config["model_type"] == "modernbert"
        self.results_file = arguments.work / "results.json"
        self.results = read_json(self.results_file, {})

    def loss(self, model: Path, length: int) -> float:
        """The masked-LM loss on the held-out text, cut into sequences of `length` tokens."""
        output = nystrom(
            self.arguments, "evaluate", model, "--text", *self.arguments.held_out, "--json",
            "--quiet", "--batch", max(1, 8192 // length), "--set", f"data.sequence_length={length}",
            "--set", "data.documents=files", "--set", "seed=42",
        )  # fmt: skip
        return json.loads(output)["loss"]

    def losses(self, model: Path, positions: int) -> dict[int, float]:
        """At 512 tokens, and at the long ones if the model has as many positions."""
        lengths = [SHORT] + [self.long] * (positions >= self.long)
        return {length: self.loss(model, length) for length in lengths}

    def keep(self, name: str, result: dict) -> None:
        self.results[name] = result
        write_json(self.results_file, self.results)
        (self.arguments.work / "table.md").write_text(table(self.results, self.long))


def set_random_taps(folder: Path, seed: int) -> None:
    """Overwrites the taps of the convolutions by N(0, 0.02), as a fresh model has them."""
    path = folder / "model.safetensors"
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)  # its checksums no longer hold
    values = bytearray(data[8 + size :])
    draw = random.Random(seed)
    for name in sorted(header):
        if not name.endswith(".conv.weight"):
            continue
        begin, end = header[name]["data_offsets"]
        count = (end - begin) // 4
        assert header[name]["dtype"] == "F32"
        values[begin:end] = struct.pack(f"<{count}f", *(draw.gauss(0, 0.02) for _ in range(count)))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(values))


def configuration(bench: Bench, variant: Variant, start: Path, run: Path) -> dict:
    arguments, steps = bench.arguments, bench.arguments.steps
    length = bench.long if variant.grow else SHORT
    shorter = length // SHORT
    config = {
        "run_dir": str(run),
        "seed": variant.seed,
        "model": {"from": str(start)},
        "data": {
            "train": arguments.text,
            "validation": arguments.held_out,
            "sequence_length": length,
            "cache": str(arguments.work / "cache"),
        },
        "optimizer": {"learning_rate": arguments.learning_rate},
        "schedule": {"warmup_steps": steps // 20},
        "training": {
            "steps": steps,
            "batch_size": SEQUENCES // shorter,
            "micro_batch_size": max(1, arguments.micro_batch // shorter),
            "dtype": arguments.dtype,
        },
        "evaluation": {"every": steps},
        "checkpoint": {"every": 100, "keep": 100},
        "logging": {"tensorboard": False},
    }
    if variant.convert and not bench.has_windows:  # beside windows there are no convolutions
        config["optimizer"]["groups"] = [
            {"parameters": "*.conv.weight", "learning_rate_factor": 10, "weight_decay": 0}
        ]
    if variant.grow:
        config["data"]["length_schedule"] = {
            0: SHORT,
            steps * 6 // 10: SHORT * 2,
            steps * 8 // 10: bench.long,
        }
    if variant.distillation:
        config["distillation"] = {"teacher": str(arguments.parent)}
        if variant.grow:  # the parent has no more positions
            config["distillation"]["until_step"] = steps * 6 // 10
    return config


def heal(bench: Bench, variant: Variant) -> dict:
    """Converts and trains the parent, and returns the losses."""
    arguments = bench.arguments
    work = arguments.work / variant.name()
    start, run = arguments.parent, work / "run"
    work.mkdir(parents=True, exist_ok=True)

    def convert(folder: Path) -> None:
        options = ["--keep-exact", variant.keep_exact] if variant.keep_exact else []
        options += [] if bench.has_windows else ["--conv", "33"]
        options += ["--length", bench.long] if bench.long > bench.positions else []
        options += ["--landmarks", variant.landmarks, "--quiet"]
        nystrom(arguments, "convert", arguments.parent, folder, *options)
        if variant.taps == "random":
            set_random_taps(folder, variant.seed)

    if variant.convert:
        start = made(work / "converted", convert)
    config = write_settings(work / "run.yaml", configuration(bench, variant, start, run))
    nystrom(arguments, "pretrain", config)
    positions = max(bench.positions, bench.long if variant.convert else 0)
    result = {"variant": asdict(variant), "steps": bench.arguments.steps}
    result["losses"] = {0: bench.losses(start, positions)}
    for step in [step for step in MEASURED if step < bench.arguments.steps]:
        folder = run / "checkpoints" / f"step-{step}"
        result["losses"][step] = {SHORT: bench.loss(folder, SHORT)}
    folder = run / "checkpoints" / f"step-{bench.arguments.steps}"
    result["losses"][bench.arguments.steps] = bench.losses(folder, positions)
    speeds = sorted(r["tokens_per_second"] for r in records_of(run, "tokens_per_second"))
    result["tokens_per_second"] = speeds[len(speeds) // 2]
    for checkpoint in (run / "checkpoints").glob("step-*"):
        if checkpoint != folder:
            shutil.rmtree(checkpoint)
    if variant.convert:
        shutil.rmtree(start)
    return result


def table(results: dict, long: int) -> str:
    """The results as Markdown."""
    losses = {name: numbered(result["losses"]) for name, result in results.items()}
    steps = sorted({step for each in losses.values() for step in each})
    head = ["variant", *(f"step {s}" for s in steps), f"{long}: step 0", f"{long}: end", "tokens/s"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, result in results.items():
        own = losses[name]
        cells = [own.get(step, {}).get(SHORT) for step in steps]
        cells += [own[0].get(long), own[max(own)].get(long) if max(own) > 0 else None]
        row = [name, *("" if cell is None else f"{cell:.4f}" for cell in cells)]
        row.append(f"{result['tokens_per_second']:.0f}" if "tokens_per_second" in result else "")
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def numbered(losses: dict) -> dict[int, dict[int, float]]:
    """Keys of JSON objects are texts, those of fresh results numbers."""
    return {
        int(step): {int(length): loss for length, loss in each.items()}
        for step, each in losses.items()
    }


def main() -> None:
    arguments = parse_arguments()
    config = json.loads((arguments.parent / "config.json").read_text())
    layers = config.get("num_hidden_layers", config.get("n_layers"))  # DistilBERT's name
    chosen = variants(layers)
    if arguments.list:
        print("\n".join(variant.name() for variant in chosen))
        return
    if arguments.only:
        unknown = set(arguments.only) - {variant.name() for variant in chosen}
        if unknown:
            sys.exit(f"unknown variants {', '.join(sorted(unknown))}; --list names all")
        chosen = [variant for variant in chosen if variant.name() in arguments.only]
    deciding = {"parent": str(arguments.parent)}
    deciding |= {name: vars(arguments)[name] for name in DECIDING}
    write_settings(arguments.work / "settings.json", deciding, arguments.parent)
    bench = Bench(arguments)
    if "parent" not in bench.results:
        bench.keep("parent", {"losses": {0: bench.losses(arguments.parent, bench.positions)}})
    for variant in chosen:
        if variant.name() not in bench.results:
            bench.keep(variant.name(), heal(bench, variant))
    print(table(bench.results, bench.long), end="")


if __name__ == "__main__":
    main()
