"""The trainings of similarity.py with the losses of sentence-transformers, from the exported start.

    build/interop-newest/bin/python bench/similarity_library.py --data DATA \\
        --start runs/quickstart --work build/similarity-library \\
        --output bench/results/similarity-library.json

Needs the environment of `./dev test-interop`; no network. Texts, batches, steps, learning rates,
warm-up, AdamW, clipping and weight decay are those of similarity.py. The random numbers are
PyTorch's: other orders, parts and dropout masks. The model runs in f32, as the export's own
`modeling_nystrom.py`."""

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

os.environ["HF_MODULES_CACHE"] = tempfile.mkdtemp()  # where transformers copies a folder's classes

import scipy.stats
import torch
import transformers
from embedding_runs import write_results
from nystrom_runs import derived
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from similarity import LENGTH, STAGES, parse_arguments, print_table, write_texts

WARMUP, WEIGHT_DECAY, CLIP = 0.1, 0.01, 1.0


def read_pairs(file: Path) -> list[tuple[str, str, float]]:
    rows = (line.split("\t") for line in file.read_text().splitlines())
    return [(row[5], row[6], float(row[4]) / 5) for row in rows]


def load(folder: Path) -> SentenceTransformer:
    model = SentenceTransformer(str(folder), trust_remote_code=True, device="cpu")
    model.max_seq_length = LENGTH
    return model


def spearman(model: SentenceTransformer, pairs: list[tuple[str, str, float]]) -> float:
    columns = [model.encode([pair[i] for pair in pairs], normalize_embeddings=True) for i in (0, 1)]
    cosines = (columns[0] * columns[1]).sum(1)
    return float(scipy.stats.spearmanr(cosines, [score for _, _, score in pairs]).statistic)


def batches(count: int, size: int, rng: random.Random) -> Iterator[list[int]]:
    """Batches of numbers below `count`, epoch after epoch, each in an order of its own."""
    queue: list[int] = []
    while True:
        while len(queue) < size:
            queue += rng.sample(range(count), count)
        yield queue[:size]
        queue = queue[size:]


def padded(model: SentenceTransformer, rows: list[list[int]]) -> dict[str, torch.Tensor]:
    """Token rows with the special tokens, padded to the longest."""
    tokenizer = model.tokenizer
    rows = [[tokenizer.cls_token_id, *row, tokenizer.sep_token_id] for row in rows]
    longest = max(map(len, rows))
    ids = [row + [tokenizer.pad_token_id] * (longest - len(row)) for row in rows]
    mask = [[1] * len(row) + [0] * (longest - len(row)) for row in rows]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


def crop(tokens: list[int], rng: random.Random) -> list[int]:
    """A random part, as nystrom's task.views: crops takes it: a tenth to a half of the text."""
    shortest = max(len(tokens) // 10, 1)
    size = min(rng.randint(shortest, max(len(tokens) // 2, shortest)), LENGTH - 2)
    begin = rng.randint(0, len(tokens) - size)
    return tokens[begin : begin + size]


def encode(model: SentenceTransformer, texts: list[str]) -> list[list[int]]:
    return model.tokenizer(texts, add_special_tokens=False).input_ids


def optimizer_of(
    model: SentenceTransformer, rate: float, steps: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": others}]
    optimizer = torch.optim.AdamW(groups, lr=rate, weight_decay=0.0)
    warmup = round(WARMUP * steps)
    factor = lambda step: min((step + 1) / warmup, (steps - step) / (steps - warmup))
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train(arguments: argparse.Namespace, model: SentenceTransformer, stage: str, seed: int) -> None:
    torch.manual_seed(seed)
    rng, options = random.Random(seed), STAGES[stage]
    steps, size = options["training"]["steps"], options["training"]["batch_size"]
    scores: list[float] = []
    if stage == "cosent":
        pairs = read_pairs(arguments.work / "sts-train.tsv")
        columns = [encode(model, [pair[i] for pair in pairs]) for i in (0, 1)]
        columns = [[row[: LENGTH - 2] for row in column] for column in columns]
        scores, loss_of = [score for _, _, score in pairs], losses.CoSENTLoss(model)
    else:
        texts = encode(model, (arguments.work / "sentences.txt").read_text().splitlines())
        texts = texts if stage == "crops" else [row[: LENGTH - 2] for row in texts]
        columns, loss_of = [texts, texts], losses.MultipleNegativesRankingLoss(model)
    optimizer, schedule = optimizer_of(model, options["optimizer"]["learning_rate"], steps)
    model.train()
    order = batches(len(columns[0]), size, rng)
    for _ in range(steps):
        chosen = next(order)
        rows = [[column[i] for i in chosen] for column in columns]
        if stage == "crops":
            rows = [[crop(row, rng) for row in column] for column in rows]
        labels = torch.tensor([scores[i] for i in chosen]) if scores else None
        loss = loss_of([padded(model, column) for column in rows], labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    model.eval()


def main() -> None:
    arguments = parse_arguments(__doc__)
    torch.set_num_threads(arguments.threads)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    write_texts(arguments)
    words = ("--sentence-transformers", "mean")
    exported = derived(arguments, "export", arguments.start, arguments.work / "start", *words)
    dev = read_pairs(arguments.work / "sts-dev.tsv")
    results: dict[str, list[float]] = {"masked": [spearman(load(exported), dev)]}
    for seed in range(1, arguments.seeds + 1):
        for stages in (["dropout"], ["crops", "cosent"]):
            model = load(exported)
            for stage in stages:
                train(arguments, model, stage, seed)
                results.setdefault(stage, []).append(spearman(model, dev))
                told = f"seed {seed}, {stage}: {results[stage][-1]:.4f}"
                print(told, file=sys.stderr, flush=True)
                write_results(arguments, results)
    print_table(results)


if __name__ == "__main__":
    main()
