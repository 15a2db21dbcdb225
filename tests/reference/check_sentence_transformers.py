"""Compares sentence-transformers' vectors of an exported encoder with those of `nystrom forward`.

usage: check_sentence_transformers.py [--program build/release/nystrom]

Pretrains a small model, exports it with --sentence-transformers mean and cls, and encodes texts of
unequal length in batches. The vectors must equal the mean of the hidden states that `nystrom
forward` gives, or the first of them, within 1e-4 of the largest entry. The card's code must run."""

import argparse
import os
import sys
import tempfile
from pathlib import Path

os.environ["HF_MODULES_CACHE"] = tempfile.mkdtemp()  # where transformers copies a folder's classes

import torch
import transformers
from check_export import (
    LENGTH,
    ROOT,
    TEXTS,
    TOLERANCE,
    nystrom,
    outputs_of_card,
    run_forward,
    train,
)
from common import Checks
from sentence_transformers import SentenceTransformer


def expected(program, folder, tokenizer, pooling):
    vectors = []
    for text in TEXTS:
        inputs = tokenizer(text, truncation=True, max_length=LENGTH, return_tensors="pt")
        hidden = run_forward(program, folder, inputs)["last_hidden_state"][0]
        vectors.append(hidden.mean(0) if pooling == "mean" else hidden[0])
    return torch.stack(vectors)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", default=ROOT / "build/release/nystrom")
    program, check = parser.parse_args().program, Checks()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        run = train(program, scratch, "run", "nystrom", 33)
        for pooling in ("mean", "cls"):
            folder = scratch / pooling
            nystrom(program, "export", run, folder, "--sentence-transformers", pooling, "--quiet")
            model = SentenceTransformer(str(folder), trust_remote_code=True, device="cpu")
            ours = expected(program, folder, model.tokenizer, pooling)
            theirs = model.encode(TEXTS, convert_to_tensor=True, batch_size=len(TEXTS))
            worst = ((ours - theirs).abs().max() / ours.abs().max()).item()
            check(
                worst <= TOLERANCE and model.max_seq_length == LENGTH,
                f"{pooling}: vectors of {len(TEXTS)} texts in one batch differ by {worst:.1e}",
            )
            similarities = outputs_of_card(folder)[-1]
            check("tensor" in similarities, f"{pooling}: the card's code prints similarities")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
