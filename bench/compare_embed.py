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

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compare_hf import describe_machine
from compare_serving import MODELS, ROOT, seconds_of, texts_of
from quiet_machine import QuietMachine

CONTESTANTS = ["nystrom", "nystrom-bf16", "sentence-transformers", "sentence-transformers-bf16"]
MAX_BATCH, BATCH_TOKENS = 32, 8192


def batch_of(length):
    return max(1, min(MAX_BATCH, BATCH_TOKENS // length))


def make_model(program, folder, name):
    """An exported encoder with random weights and the tokenizer of a quickstart."""
    import transformers

    start, exported = folder / f"{name}-start", folder / name
    config = {
        "model_type": "nystrom",
        "auto_map": {
            "AutoConfig": "configuration_nystrom.NystromConfig",
            "AutoModel": "modeling_nystrom.NystromModel",
        },
        "vocab_size": 30000,
        "intermediate_size": 4 * MODELS[name]["hidden_size"],
        "max_position_embeddings": 4096,
        "segment_means_seq_len": 4096,
        "nystrom": {"attention": {"num_landmarks": 64, "conv_kernel_size": 33}},
    }
    start.mkdir()
    (start / "config.json").write_text(json.dumps(config | MODELS[name]))
    for source in (ROOT / "python/export").glob("*.py"):
        (start / source.name).write_text(source.read_text())
    config = transformers.AutoConfig.from_pretrained(start, trust_remote_code=True)
    model = transformers.AutoModel.from_config(config, trust_remote_code=True)
    model.save_pretrained(start)
    tokenizer = ROOT / "tests/fixtures/tokenizers/albert/spiece.model"
    (start / "spiece.model").write_bytes(tokenizer.read_bytes())
    command = [program, "export", start, exported, "--sentence-transformers", "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return exported


# ---- One measurement, in a process of its own ----------------------------------------------------


def time_program(arguments, extra):
    texts = arguments.texts.read_text().splitlines()
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / "first.txt"
        first.write_text("".join(text + "\n" for text in texts[: arguments.batch]))
        command = [arguments.nystrom, "embed", arguments.folder, "--quiet", *extra]
        command += ["--threads", str(arguments.threads), "--batch", str(arguments.batch)]
        alone = seconds_of([*command, first, "--output", Path(folder) / "first.npy"])
        all_texts = seconds_of([*command, arguments.texts, "--output", Path(folder) / "all.npy"])
        return len(texts) - arguments.batch, all_texts - alone


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
        result = time_program(arguments, ["--compute-dtype", "bf16"] if half else [])
    else:
        result = time_library(arguments, "bfloat16" if half else "float32")
    print(json.dumps({"texts_per_second": result[0] / result[1]}))


# ---- The comparison ------------------------------------------------------------------------------


def rate_of(command):
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])["texts_per_second"]


def measure_length(arguments, machine, exported, texts, batch):
    """The rates of each contestant."""
    found = {contestant: [] for contestant in arguments.contestants}
    for _ in range(arguments.rounds):
        for contestant in arguments.contestants:
            command = [sys.executable, __file__, "--one", contestant]
            command += ["--folder", exported, "--texts", texts, "--batch", str(batch)]
            command += ["--threads", str(arguments.threads), "--nystrom", arguments.nystrom]
            found[contestant].append(machine.measure(contestant, lambda: rate_of(command))[0])
    return found


def compare(arguments, folder):
    machine, results = QuietMachine(arguments.threads, attempts=30), []
    for name in arguments.models:
        exported = make_model(arguments.nystrom, folder, name)
        for length in arguments.lengths:
            batch = batch_of(length)
            count = batch * max(3, arguments.tokens // (batch * length) + 1)
            texts = folder / f"{name}-{length}.txt"
            texts.write_text("".join(t + "\n" for t in texts_of(exported, length, count)))
            found = measure_length(arguments, machine, exported, texts, batch)
            for contestant, rates in found.items():
                row = {"model": name, "length": length, "contestant": contestant}
                results.append(row | {"texts_per_second": rates})
                print(
                    f"{name:6} {length:5} {contestant:27} {statistics.median(rates):9.2f} "
                    f"({min(rates):.2f} to {max(rates):.2f})",
                    flush=True,
                )
            if arguments.output:
                told = describe_machine() | {"threads": arguments.threads}
                text = json.dumps({"machine": told, "results": results}, indent=1)
                arguments.output.write_text(text + "\n")


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--lengths", nargs="+", type=int, default=[256, 2048])
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=CONTESTANTS)
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each contestant")
    parser.add_argument("--tokens", type=int, default=100_000, help="of a measurement, at least")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--nystrom", type=Path, default=ROOT / "build/release/nystrom")
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    parser.add_argument("--one", choices=CONTESTANTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--texts", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    if arguments.one:
        return measure_one(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HF_MODULES_CACHE"] = folder
        compare(arguments, Path(folder))


if __name__ == "__main__":
    main()
