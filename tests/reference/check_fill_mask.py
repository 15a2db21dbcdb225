"""Compares `nystrom predict` with Hugging Face's fill-mask pipeline.

usage: check_fill_mask.py [--program build/release/nystrom] [--texts 60]

Two small models are pretrained by the program and opened by both: one with exact attention, for
which Hugging Face's config.json gets segment_means_seq_len = num_landmarks, and one with Nyström
attention read with transformers' semantics, for which Hugging Face is told to pad to the one
length. On sentences of the held-out novel with one or two words masked, and on texts made for their
edges, the top 5 must have the same ids, token_str and sequence, and scores within 1e-4."""

import gzip
import json
import random
import re
import shutil

from common import ROOT, from_json_lines, run, script
from transformers import pipeline

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
    options = [f"--set={key}={value}" for key, value in settings.items()]
    run(program, "pretrain", ROOT / "configs/quickstart.yaml", "--quiet", *options)
    return folder / attention / "checkpoints" / "step-40"


def plain_copy(checkpoint, folder, segments):
    """A folder as Hugging Face writes them, without our block."""
    shutil.copytree(checkpoint, folder, ignore=shutil.ignore_patterns("MANIFEST.json"))
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


def compare(check, name, ours, theirs, texts):
    assert len(ours) == len(theirs) == len(texts)
    worst, different = 0.0, 0
    for text, mine, other in zip(texts, ours, theirs):
        lines, error = differences(mine, other)
        worst = max(worst, error)
        different += bool(lines)
        for line in lines[:2]:
            print("  ", ascii(text[:100]), line)
    check(
        different == 0 and worst < 1e-4,
        f"{name}: {len(texts)} texts, {different} differ, scores within {worst:.1e}",
    )


@script(__doc__, texts=60, seed=0)
def main(arguments, check, folder):
    program = arguments.program
    texts = sentences(arguments.texts, random.Random(arguments.seed)) + EDGES
    for attention, segments, options in [
        ("softmax", None, {}),
        ("nystrom", LENGTH, {"padding": "max_length", "max_length": LENGTH}),
    ]:
        checkpoint = pretrain(program, folder, attention)
        plain = plain_copy(checkpoint, folder / f"plain_{attention}", segments)
        fill = pipeline("fill-mask", model=str(plain), tokenizer=str(plain), device="cpu")
        theirs = [fill(text, tokenizer_kwargs=options) for text in texts]
        # Opens the checkpoint with the `nystrom` block when both programs give it the same
        # meaning, and otherwise the folder without the block.
        opened = checkpoint if attention == "softmax" else plain
        ours = from_json_lines(run(program, "predict", opened, "--json", "--quiet", *texts))
        compare(check, attention, ours, theirs, texts)
