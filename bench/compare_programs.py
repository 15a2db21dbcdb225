"""Two builds of nystrom beside each other: training at full length, fine-tuning of short texts in
batches of 32, `predict` and `embed` on texts of mixed lengths.

    python3 bench/compare_programs.py BEFORE AFTER
    python3 bench/compare_programs.py BEFORE AFTER --layers 12 --hidden 768 --rounds 5

BEFORE and AFTER are programs. Texts are random bytes, as long as the sentences of SST-2 (about 20
tokens) or of mixed lengths up to 500. The programs alternate, and the fastest of all rounds counts.
The work of a start is taken off: each program also runs on a few texts alone. Prints the rates and
their quotient; run it on a quiet machine."""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from nystrom_runs import seconds_of

WARMUP, STEPS, BATCH = 2, 8, 32


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--texts", type=int, default=400)
    return parser.parse_args()


def write_texts(file, count, length, header=True):
    letters = "abcdefghijklmnop "
    lines = ["sentence\tlabel"] if header else []
    for i in range(count):
        text = "a" + "".join(random.choice(letters) for _ in range(length())) + "z"
        lines.append(f"{text}\t{i % 2}" if header else text)
    file.write_text("\n".join(lines) + "\n")


def short():
    return min(60, max(2, round(random.lognormvariate(2.9, 0.55))))


def mixed():
    return min(500, max(2, round(random.lognormvariate(4.2, 1.0))))


def run_of(program, folder):
    """The run directory of a program: an older one may not read what a newer one wrote."""
    return folder / f"run-{abs(hash(program))}"


def configuration(options, run, steps):
    model = {
        "hidden_size": options.hidden,
        "num_hidden_layers": options.layers,
        "num_attention_heads": options.hidden // 64,
        "intermediate_size": 4 * options.hidden,
        "max_position_embeddings": 512,
    }
    files = {name: [str(run.parent / f"{name}.tsv")] for name in ("short", "few")}
    task = {"kind": "classification", "train": files["short"], "validation": files["few"]}
    task["columns"] = {"text": "sentence", "label": "label"}
    return {
        "run_dir": str(run),
        "model": model,
        "tokenizer": {"builtin": "bytes"},
        "task": task,
        "data": {"sequence_length": 512},
        "training": {
            "steps": steps,
            "batch_size": BATCH,
            "micro_batch_size": BATCH,
            "dtype": options.dtype,
        },
        "schedule": {"warmup_steps": 0},
        "evaluation": {"every": 1000000},
    }


def full_length(program, options, folder):
    """Tokens a second of a training step on sequences of 512 tokens."""
    command = [program, "bench", "--layers", options.layers, "--hidden", options.hidden, "--heads"]
    command += [options.hidden // 64, "--length", 512, "--batch", 8, "--warmup", WARMUP]
    command += ["--steps", STEPS, "--dtype", options.dtype, "--json", "--quiet"]
    result = subprocess.run([str(word) for word in command], check=True, capture_output=True)
    return json.loads(result.stdout)["tokens_per_second"]


def fine_tuning(program, options, folder):
    """Examples a second of the steps behind the first two."""
    times = []
    for steps in (WARMUP + STEPS, WARMUP):  # the last is the model of predict and embed
        config = configuration(options, run_of(program, folder), steps)
        file = folder / "run.yaml"
        file.write_text(json.dumps(config))
        shutil.rmtree(config["run_dir"], ignore_errors=True)
        times.append(seconds_of([program, "finetune", file, "--quiet"]))
    return STEPS * BATCH / (times[0] - times[1])


def texts_a_second(command, options, folder):
    few, all_texts = folder / "few.txt", folder / "mixed.txt"
    rest = options.texts - len(few.read_text().splitlines())
    times = []
    for texts in (few, all_texts):
        (folder / "vectors.npy").unlink(missing_ok=True)
        times.append(seconds_of([*command, texts]))
    return rest / (times[1] - times[0])


def predict(program, options, folder):
    """Texts a second of mixed lengths."""
    return texts_a_second([program, "predict", run_of(program, folder), "--quiet"], options, folder)


def embed(program, options, folder):
    """Texts a second of mixed lengths."""
    command = [program, "embed", run_of(program, folder), "--quiet"]
    return texts_a_second([*command, "--output", folder / "vectors.npy"], options, folder)


def main():
    options = arguments()
    random.seed(1)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_texts(folder / "short.tsv", (WARMUP + STEPS) * BATCH, short)
        write_texts(folder / "few.tsv", 8, short)
        write_texts(folder / "few.txt", 8, short, header=False)
        write_texts(folder / "mixed.txt", options.texts, mixed, header=False)
        print(f"load {os.getloadavg()[0]:.1f}, {options.layers} layers of {options.hidden}")
        for measure in (full_length, fine_tuning, predict, embed):
            best = [0, 0]
            for _ in range(options.rounds):
                for i, program in enumerate((options.before, options.after)):
                    best[i] = max(best[i], measure(program, options, folder))
            before, after = best
            print(f"{measure.__name__:12} {before:10.1f} {after:10.1f} {after / before:6.2f}x")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
