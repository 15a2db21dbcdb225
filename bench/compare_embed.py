"""Vectors of texts a second: `nystrom embed` beside sentence-transformers on this machine's CPU.

    build/interop-newest/bin/python bench/compare_embed.py --output bench/results/embed.json
    build/interop-newest/bin/python bench/compare_embed.py --models small --lengths 256 --rounds 1

Needs the environment of `./dev test-interop`; no network. The contestants:

    nystrom                     `nystrom embed` in f32
    nystrom-bf16                the same with --compute-dtype bf16
    sentence-transformers       the exported folder, in f32
    sentence-transformers-bf16  the same in bfloat16

Each reads the same texts of one length from a file and makes normalised means in batches of 32, or
of fewer texts where these have more than 8,192 tokens together. Weights are random: they do not
change the work. Loading and the first batch are not counted. The contestants alternate, and
measurements on a busy machine are repeated, as in compare_serving.py."""

import json
import time

from compare_serving import export_model, parse_arguments, run, time_program

CONTESTANTS = ["nystrom", "nystrom-bf16", "sentence-transformers", "sentence-transformers-bf16"]
MAX_BATCH = 32


def make_model(program, folder, name):
    """An exported encoder with random weights and the tokenizer of a quickstart."""
    given = ("AutoModel", "NystromModel", {"segment_means_seq_len": 4096})
    return export_model(program, folder, name, *given, "--sentence-transformers")


# ---- One measurement, in a process of its own ----------------------------------------------------


def time_library(arguments, dtype):
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(arguments.threads)
    model = SentenceTransformer(
        str(arguments.folder),
        trust_remote_code=True,
        device="cpu",
        model_kwargs={"torch_dtype": dtype},
    )
    texts = arguments.texts.read_text().splitlines()
    options = {"batch_size": arguments.batch, "show_progress_bar": False}
    model.encode(texts[: arguments.batch], **options)
    begin = time.perf_counter()
    model.encode(texts[arguments.batch :], **options)
    return len(texts) - arguments.batch, time.perf_counter() - begin


def measure_one(arguments):
    half = arguments.one.endswith("bf16")
    if arguments.one.startswith("nystrom"):
        options = ["--compute-dtype", "bf16"] if half else []
        result = time_program(arguments, "embed", *options, output=True)
    else:
        result = time_library(arguments, "bfloat16" if half else "float32")
    print(json.dumps({"texts_per_second": result[0] / result[1]}))


def main():
    arguments = parse_arguments(__doc__, CONTESTANTS, [256, 2048])
    run(arguments, measure_one, script=__file__, make_model=make_model, max_batch=MAX_BATCH)


if __name__ == "__main__":
    main()
