"""Runs whose options are drawn together: what must hold of every run.

usage: tests/drawn_runs.py [--program build/release/nystrom] [--runs 50] [--seed 1]

Each seed draws a pretraining or a fine-tuning run of a tiny model. Runs share a cache, as those of
people do. Each is trained undisturbed, then killed and stopped at random moments, and in float64
with other micro-batches and by two processes. Weights of the first two have equal bits, and metrics
of the others are equal. `nystrom evaluate` on the newest checkpoint gives the run's last metrics.
What the program refuses is drawn again. Exits with 1 if anything differs."""

import argparse
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

TEXT = Path(__file__).resolve().parent.parent / "examples/quickstart/heldout.txt.gz"
# Metrics that no order of sums changes beyond rounding.
COMPARED = ("loss", "masked_lm_loss", "validation_loss")
CLOSE = 1e-7


class Trial:
    """A folder with data, and the program to train in it."""

    def __init__(self, program: Path, folder: Path):
        self.program, self.folder = program.resolve(), folder
        text = gzip.decompress(TEXT.read_bytes()).decode()
        lines = [line for line in text.splitlines() if len(line) > 20]
        rows = [json.dumps({"text": line}) + "\n" for line in lines[150:260]]
        (folder / "a.txt").write_text("\n".join(lines[:150]))
        (folder / "b.jsonl").write_text("".join(rows))
        (folder / "held.txt").write_text("\n".join(lines[300:340]))
        self.write_tasks([word for line in lines[:80] for word in line.split() if word.isalpha()])

    def write_tasks(self, words: list[str]) -> None:
        source = random.Random(5)

        def text(longest: int = 8) -> str:
            return " ".join(source.choice(words) for _ in range(source.randrange(1, longest)))

        for part, count in (("train", 37), ("dev", 14)):
            rows = {
                "classification": lambda: {"label": source.choice("abc"), "pair": text()},
                "regression": lambda: {"label": round(5 * source.random(), 2), "pair": text()},
                "labels": lambda: {"label": source.sample("xyz", source.randrange(3))},
                "choice": lambda: {"a": text(), "b": text(), "label": source.randrange(2)},
            }
            for name, row in rows.items():
                table = "".join(json.dumps({"text": text(), **row()}) + "\n" for _ in range(count))
                (self.folder / f"{name}_{part}.jsonl").write_text(table)
            tags = "\n".join(
                "".join(f"{w} {source.choice(['O', 'O', 'B-X'])}\n" for w in text().split())
                for _ in range(count)
            )
            (self.folder / f"tokens_{part}.conll").write_text(tags)

    def command(self, *arguments: object) -> subprocess.CompletedProcess:
        line = [str(argument) for argument in (self.program, *arguments, "--threads", 1)]
        return subprocess.run(line, cwd=self.folder, capture_output=True, text=True)

    def train(
        self, config: dict, name: str, processes: int = 1, kills: random.Random | None = None
    ) -> subprocess.CompletedProcess:
        """The outcome of the last start; before it, two that are killed or stopped."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        file = self.folder / f"{name}.yaml"
        file.write_text(json.dumps(config | {"run_dir": name}))
        line = [self.program, "finetune" if "task" in config else "pretrain", file, "--quiet"]
        line += ["--threads", "1"]
        if processes > 1:
            start = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(processes)]
            line = start + line
        for _ in range(2 if kills else 0):
            process = subprocess.Popen(
                line,
                cwd=self.folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                process.wait(timeout=kills.uniform(0.1, 1.2))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, kills.choice([signal.SIGKILL, signal.SIGTERM]))
            process.wait()
        return subprocess.run(line, cwd=self.folder, capture_output=True, text=True)

    def newest(self, name: str) -> Path:
        folders = (self.folder / name / "checkpoints").glob("step-*")
        return max(folders, key=lambda folder: int(folder.name.split("-")[1]))

    def weights(self, name: str) -> dict[str, bytes]:
        return {f.name: f.read_bytes() for f in self.newest(name).glob("*.safetensors")}

    def metrics(self, name: str) -> dict[tuple[int, str], float]:
        found = {}
        for line in (self.folder / name / "metrics.jsonl").read_text().splitlines():
            record = json.loads(line)
            for key in COMPARED:
                if key in record:
                    found[record["step"], key] = record[key]
        return found


# ---- Draws ---------------------------------------------------------------------------------------


def draw_model(source: random.Random) -> dict:
    kind = source.choice(("nystrom", "nystrom", "softmax", "performer", "reformer"))
    attention = {
        "kind": kind,
        "num_landmarks": source.choice((2, 8)),
        "conv_kernel_size": source.choice((None, 5)),
    }
    model = {
        "hidden_size": source.choice((16, 32)),
        "num_hidden_layers": source.choice((1, 2)),
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 64,
        "hidden_dropout_prob": source.choice((0.0, 0.1)),
        "norm": source.choice(("pre", "post")),
        "mlp": source.choice(("gelu", "geglu")),
        "bias": source.random() < 0.7,
        "attention": attention,
    }
    if kind in ("nystrom", "softmax"):
        model["positions"] = source.choice(("absolute", "skip_padding", "rope"))
        if source.random() < 0.3:
            attention["window"] = source.choice((4, 8))
    return model


def draw_training(source: random.Random) -> dict:
    config = {
        "seed": source.randrange(5),
        "optimizer": {
            "name": source.choice(("adamw", "lamb", "muon")),
            "learning_rate": source.choice((1e-3, 1e-2)),
            "clip_norm": source.choice((None, 1.0)),
        },
        "schedule": {
            "warmup_steps": source.choice((0, 2)),
            "decay": source.choice(("linear", "cosine", "constant", "wsd")),
        },
        "training": {
            "steps": source.choice((5, 8, 11)),
            "batch_size": 8,
            "micro_batch_size": source.choice((1, 2, 4)),
            "dtype": source.choice(("f64", "f64", "f32", "bf16")),
            "activation_checkpointing": source.random() < 0.3,
            "ema": source.choice((None, 0.9)),
        },
        "evaluation": {"every": source.choice((2, 3, None))},
        "checkpoint": {"every": source.choice((1, 2, 3)), "keep": source.choice((2, 3))},
        "logging": {"every": 1, "tensorboard": False},
    }
    if source.random() < 0.2:
        config["optimizer"]["layer_decay"] = 0.8
    return config


def draw_pretraining(source: random.Random) -> dict:
    length = source.choice((16, 24, 48))
    data = {
        "train": source.choice((["a.txt"], ["a.txt", "b.jsonl"])),
        "sequence_length": length,
        "documents": source.choice(("files", "lines")),
        "packing": source.choice(("alone", "isolated")),
        "cache": "cache",
    }
    data |= source.choice(({"validation": ["held.txt"]}, {"validation_fraction": 0.1}))
    config = draw_training(source) | {
        "model": draw_model(source),
        "tokenizer": {"train": {"vocab_size": 300, "kind": source.choice(("unigram", "bpe"))}},
        "data": data,
        "masking": {
            "probability": source.choice((0.15, 0.4, {0: 0.4, "end": 0.1})),
            "whole_word": source.random() < 0.4,
        },
    }
    config["logging"]["attention_every"] = source.choice((1, 2, None))
    config["training"]["z_loss"] = source.choice((0.0, 1e-3))
    if source.random() < 0.25:
        data["length_schedule"] = {0: length // 2, config["training"]["steps"] // 2: length}
    if source.random() < 0.25 and config["training"]["micro_batch_size"] % 2 == 0:
        batch = config["training"]["batch_size"]
        config["training"]["batch_schedule"] = {0: batch // 2, 1: batch}
    if source.random() < 0.25:
        config["masking"]["span"] = {"mean": 2.0, "max": 3}
    if source.random() < 0.2:
        config["pretraining"] = {"objective": "replaced_tokens"}
    return config


def draw_finetuning(source: random.Random, tokenizer: str) -> dict:
    name = source.choice(("classification", "regression", "labels", "choice", "tokens"))
    ending = "conll" if name == "tokens" else "jsonl"
    task = {"kind": name, "train": [f"{name}_train.{ending}"]}
    if name == "labels":
        task |= {"kind": "classification", "multi_label": True}
    if name == "choice":
        task["columns"] = {"choices": ["a", "b"]}
    if name in ("classification", "regression"):
        task |= source.choice(({}, {"columns": {"pair": "pair"}}, {"windows": "mean", "stride": 3}))
    task |= source.choice(({"validation": [f"{name}_dev.{ending}"]}, {"validation_fraction": 0.2}))
    return draw_training(source) | {
        "task": task,
        "tokenizer": {"path": tokenizer},
        "model": draw_model(source),
        "data": {"sequence_length": source.choice((16, 24, 32)), "cache": "cache"},
    }


# ---- Checks --------------------------------------------------------------------------------------


def differences(trial: Trial, config: dict, source: random.Random) -> list[str]:
    found = []
    bits, metrics = trial.weights("undisturbed"), trial.metrics("undisturbed")
    outcome = trial.train(config, "killed", kills=source)
    if outcome.returncode != 0 or trial.weights("killed") != bits:
        found.append(f"killed and resumed: other bits {outcome.stderr}")
    if config["training"]["dtype"] == "f64":
        others = [count for count in (1, 2, 4) if count != config["training"]["micro_batch_size"]]
        changed = json.loads(json.dumps(config))
        changed["training"]["micro_batch_size"] = source.choice(others)
        for name, processes in (("micro-batches", 1), ("processes", 2)):
            outcome = trial.train(changed, name, processes)
            got = trial.metrics(name) if outcome.returncode == 0 else {}
            for key, value in metrics.items():
                if abs(got.get(key, 1e300) - value) > CLOSE * max(1, abs(value)):
                    found.append(f"{name}: {key} {got.get(key)}, not {value} {outcome.stderr}")
                    break
    return found + evaluated(trial, config, metrics)


def evaluated(trial: Trial, config: dict, metrics: dict) -> list[str]:
    """Whether `nystrom evaluate` repeats the last validation, where it has files of its own."""
    newest = trial.newest("undisturbed")
    expected = metrics.get((int(newest.name.split("-")[1]), "validation_loss"))
    files = config.get("task", config["data"]).get("validation")
    if expected is None or files is None or "pretraining" in config:
        return []
    given = ["--file" if "task" in config else "--text", *files]
    given += ["--set", f"seed={config['seed']}"] if "task" not in config else []
    outcome = trial.command(
        "evaluate", newest, *given, "--json", "--quiet", "--dtype", config["training"]["dtype"]
    )
    loss = json.loads(outcome.stdout)["loss"] if outcome.returncode == 0 else None
    close = 1e-2 if config["training"]["dtype"] == "bf16" else 1e-4
    if loss is not None and abs(loss - expected) <= close * max(1, abs(expected)):
        return []
    return [f"evaluate: loss {loss}, not {expected} {outcome.stderr}"]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", type=Path, default=Path("build/release/nystrom"))
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    tried = failed = 0
    seed = 1000 * arguments.seed
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(arguments.program, Path(folder))
        first = draw_pretraining(random.Random(seed))
        while trial.train(first, "tokenizer").returncode != 0:
            seed += 1
            first = draw_pretraining(random.Random(seed))
        while tried < arguments.runs:
            seed += 1
            source = random.Random(seed)
            if source.random() < 0.5:
                config = draw_pretraining(source)
            else:
                config = draw_finetuning(source, "tokenizer")
            outcome = trial.train(config, "undisturbed")
            if outcome.returncode == 2:
                continue
            tried += 1
            found = differences(trial, config, source) if outcome.returncode == 0 else []
            if outcome.returncode != 0:
                found = [f"ends with {outcome.returncode}: {outcome.stderr}"]
            print(f"{seed}: {'; '.join(found) or 'ok'}", flush=True)
            if found:
                failed += 1
                print(json.dumps(config), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
