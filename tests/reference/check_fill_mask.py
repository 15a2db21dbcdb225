"""Compares `nystrom predict` with Hugging Face's fill-mask pipeline.

usage: check_fill_mask.py [--program build/release/nystrom] [--texts 60]

Two small models are pretrained by the program and opened by both: one with exact attention, for
which Hugging Face's config.json gets segment_means_seq_len = num_landmarks, and one with Nyström
attention read with transformers' semantics, for which Hugging Face is told to pad to the one
length. On sentences of the held-out novel with one or two words masked, and on texts made for their
edges, the top 5 must have the same ids, token_str and sequence, and scores within 1e-4."""

import argparse
import gzip
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from transformers import pipeline

ROOT = Path(__file__).resolve().parents[2]
LENGTH = 128
EDGES = [
    "[MASK]",
    "[MASK] [MASK]",
    "[MASK][MASK][MASK]",
    "  the [MASK]  ",
    "the [MASK].",
    "[MASK] of the sea",
    "CAF\u00c9 [MASK] na\u00efve",
    "\u6771\u4eac [MASK] \U0001f642",
    "\u6771\u4eac [MASK] [MASK] \U0001f642",
    "[CLS] the [MASK] [SEP]",
    "the [MASK] <pad> and [MASK]",
    'he said "[MASK]" and \\ left',
    "12,345 [MASK]",
    "the [mask] and [MASK]",
    "the\t[MASK]\u2003sea",
    "[MASK] " + "the " * (LENGTH - 3),
]


def pretrain(program, folder, attention):
    settings = {
        "run_dir": folder / attention,
        "data.cache": folder / "cache",
        "model.attention.kind": attention,
        "training.steps": 40,
        "data.train": f"[{ROOT}/examples/quickstart/corpus/woolf-lighthouse.txt.gz]",
        "tokenizer.train.vocab_size": 2000,
        "data.validation": f"[{ROOT}/examples/quickstart/heldout.txt.gz]",
        "schedule.warmup_steps": 5,
        "data.sequence_length": LENGTH,
        "model.max_position_embeddings": LENGTH,
        "optimizer.learning_rate": 3.0e-3,
        "evaluation.every": 1000000,
    }
    command = [program, "pretrain", ROOT / "configs/quickstart.yaml", "--quiet"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    subprocess.run(command, check=True)
    return folder / attention / "checkpoints" / "step-40"


def plain_copy(checkpoint, folder, segments):
    """A folder as Hugging Face writes them, without our block."""
    shutil.copytree(checkpoint, folder)
    config = json.loads((folder / "config.json").read_text())
    del config["nystrom"]
    config["model_type"] = "nystromformer"  # else the type may name our own class
    config["segment_means_seq_len"] = segments or config["num_landmarks"]
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def sentences(count, rng):
    with gzip.open(ROOT / "examples/quickstart/heldout.txt.gz", "rt", encoding="utf8") as file:
        found = [" ".join(text.split()) for text in re.split(r"(?<=[.!?])\s", file.read())]
    texts = []
    for text in rng.sample([text for text in found if 6 <= len(text.split()) <= 20], count):
        words = text.split(" ")
        for place in rng.sample(range(len(words)), rng.choice([1, 2])):
            words[place] = "[MASK]"
        texts.append(" ".join(words))
    return texts


def our_results(program, folder, texts):
    command = [program, "predict", folder, "--json", "--quiet", *texts]
    lines = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.splitlines()
    return [json.loads(line) for line in lines]


def differences(ours, theirs):
    masks = [ours, theirs] if isinstance(theirs[0], list) else [[ours], [theirs]]
    if [len(fills) for fills in masks[0]] != [len(fills) for fills in masks[1]]:
        return ["other numbers of masks"], 0.0
    lines, worst = [], 0.0
    for mine, other in zip(*masks):
        for a, b in zip(mine, other):
            worst = max(worst, abs(a["score"] - b["score"]))
            lines += [
                f"{key}: {ascii(a[key])}, theirs {ascii(b[key])}"
                for key in ("token", "token_str", "sequence")
                if a[key] != b[key]
            ]
            if list(a) != list(b):
                lines.append(f"fields {list(a)}, theirs {list(b)}")
    return lines, worst


def compare(name, ours, theirs, texts):
    assert len(ours) == len(theirs) == len(texts)
    worst, different = 0.0, 0
    for text, mine, other in zip(texts, ours, theirs):
        lines, error = differences(mine, other)
        worst = max(worst, error)
        different += bool(lines)
        for line in lines[:2]:
            print("  ", ascii(text[:100]), line)
    print(f"{name}: {len(texts)} texts, {different} differ, scores within {worst:.1e}")
    return different == 0 and worst < 1e-4


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", default=ROOT / "build/release/nystrom")
    parser.add_argument("--texts", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    texts = sentences(arguments.texts, random.Random(arguments.seed)) + EDGES
    equal = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for attention, segments, padding in [
            ("softmax", None, False),
            ("nystrom", LENGTH, "max_length"),
        ]:
            checkpoint = pretrain(arguments.program, folder, attention)
            plain = plain_copy(checkpoint, folder / f"plain_{attention}", segments)
            fill = pipeline("fill-mask", model=str(plain), tokenizer=str(plain), device="cpu")
            options = {"padding": padding, "max_length": LENGTH} if padding else {}
            theirs = [fill(text, tokenizer_kwargs=options) for text in texts]
            # Opens the checkpoint with the `nystrom` block when both programs give it the same
            # meaning, and otherwise the folder without the block.
            opened = checkpoint if attention == "softmax" else plain
            equal &= compare(
                attention, our_results(arguments.program, opened, texts), theirs, texts
            )
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
