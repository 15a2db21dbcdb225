"""Texts a second of an exported classifier on this machine's CPU, by every road there is.

    build/interop-newest/bin/python bench/compare_serving.py --output bench/results/serving.json
    build/interop-newest/bin/python bench/compare_serving.py --models small --lengths 128 --rounds 1

Needs the environment of `./dev test-interop`; no network. The contestants:

    nystrom        `nystrom predict` in f32
    nystrom-bf16   the same with --dtype bf16
    eager          modeling_nystrom.py in transformers
    compiled       the same under torch.compile
    onnxruntime    onnx/model.onnx
    int8           onnx/model_int8.onnx in ONNX Runtime
    openvino       onnx/model.onnx in OpenVINO

Each reads the same texts of one length from a file, makes tokens of them, and computes labels in
batches of 16, or of fewer texts if they have more than 512 tokens. Weights are random: they do not
change the work. A measurement is a process of its own. Its loading and its first batch are not
counted; for `nystrom predict` that is the time of a run with one batch. The contestants alternate.
A matrix product is timed before and after each: where one takes more than 10 % longer than the
fastest so far, the machine was busy, and the measurement is repeated."""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compare_hf import describe_machine
from nystrom_runs import parser_of, seconds_of, write_json
from quiet_machine import QuietMachine

ROOT = Path(__file__).resolve().parents[1]
CONTESTANTS = ["nystrom", "nystrom-bf16", "eager", "compiled", "onnxruntime", "int8", "openvino"]
# The shapes of configs/small.yaml and configs/base.yaml.
MODELS = {
    "small": {"hidden_size": 768, "num_hidden_layers": 4, "num_attention_heads": 12},
    "base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12},
}
MAX_BATCH, BATCH_TOKENS, LABELS = 16, 8192, 2


def texts_of(folder, length, count):
    """Texts of `length` tokens with the special ones."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    words = [p[1:] for p in tokenizer.get_vocab() if p[0] == "\u2581" and p[1:].isalpha()]
    words = [w for w in sorted(words) if len(tokenizer(w, add_special_tokens=False).input_ids) == 1]
    rng = random.Random(length)
    texts = [" ".join(rng.choices(words, k=length - 2)) for _ in range(count)]
    assert all(len(tokenizer(text).input_ids) == length for text in texts)
    return texts


def export_model(program, folder, name, auto_class, own_class, extra, *words):
    """What `nystrom export … WORDS` makes of an untrained model with the tokenizer of a fixture.
    `auto_class` is the class of transformers that loads `own_class`, and `extra` more keys of
    config.json.
    """
    import transformers

    start, exported = folder / f"{name}-start", folder / name

    config = {
        "model_type": "nystrom",
        "auto_map": {
            "AutoConfig": "configuration_nystrom.NystromConfig",
            auto_class: f"modeling_nystrom.{own_class}",
        },
        "vocab_size": 30000,
        "intermediate_size": 4 * MODELS[name]["hidden_size"],
        "max_position_embeddings": 4096,
        "nystrom": {"attention": {"num_landmarks": 64, "conv_kernel_size": 33}},
    }
    start.mkdir()
    (start / "config.json").write_text(json.dumps(config | MODELS[name] | extra))
    for source in (ROOT / "python/export").glob("*.py"):
        (start / source.name).write_text(source.read_text())
    config = transformers.AutoConfig.from_pretrained(start, trust_remote_code=True)
    model = getattr(transformers, auto_class).from_config(config, trust_remote_code=True)
    model.save_pretrained(start)
    tokenizer = ROOT / "tests/fixtures/tokenizers/albert/spiece.model"
    (start / "spiece.model").write_bytes(tokenizer.read_bytes())
    command = [program, "export", start, exported, *words, "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return exported


def make_model(program, folder, name):
    """An exported classifier with random weights and the tokenizer of a quickstart."""
    kinds = ("AutoModelForSequenceClassification", "NystromForSequenceClassification")
    return export_model(program, folder, name, *kinds, {"num_labels": LABELS}, "--onnx", "int8")


# ---- One measurement, in a process of its own ----------------------------------------------------


def time_program(arguments, command, *options, output=False):
    """The texts behind the first batch, and the seconds that `nystrom COMMAND` takes for them."""
    texts, seconds = arguments.texts.read_text().splitlines(), []
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / "first.txt"
        first.write_text("".join(text + "\n" for text in texts[: arguments.batch]))
        words = [arguments.nystrom, command, arguments.folder, "--quiet", *options]
        words += ["--threads", arguments.threads, "--batch", arguments.batch]
        for file in (first, arguments.texts):
            vectors = ["--output", Path(folder) / f"{file.stem}.npy"] if output else []
            seconds.append(seconds_of([*words, file, *vectors]))
    return len(texts) - arguments.batch, seconds[1] - seconds[0]


def torch_road(arguments):
    import torch
    from transformers import AutoModelForSequenceClassification

    torch.set_num_threads(arguments.threads)
    model = AutoModelForSequenceClassification.from_pretrained(
        arguments.folder, trust_remote_code=True
    ).eval()
    if arguments.one == "compiled":
        model = torch.compile(model)

    def labels_of(inputs):
        with torch.inference_mode():
            logits = model(**{name: torch.from_numpy(value) for name, value in inputs.items()})
        return logits.logits.numpy().argmax(1)

    return labels_of


def onnxruntime_road(arguments):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    name = "model_int8.onnx" if arguments.one == "int8" else "model.onnx"
    session = onnxruntime.InferenceSession(arguments.folder / "onnx" / name, options)
    names = {node.name for node in session.get_inputs()}
    return lambda inputs: session.run(["logits"], {n: inputs[n] for n in names})[0].argmax(1)


def openvino_road(arguments):
    import openvino

    settings = {"INFERENCE_NUM_THREADS": arguments.threads, "INFERENCE_PRECISION_HINT": "f32"}
    model = openvino.Core().compile_model(arguments.folder / "onnx/model.onnx", "CPU", settings)
    names = {node.get_any_name() for node in model.inputs}
    return lambda inputs: model({n: inputs[n] for n in names})["logits"].argmax(1)


def time_road(arguments):
    from transformers import AutoTokenizer

    roads = {"onnxruntime": onnxruntime_road, "int8": onnxruntime_road, "openvino": openvino_road}
    labels_of = roads.get(arguments.one, torch_road)(arguments)
    tokenizer = AutoTokenizer.from_pretrained(arguments.folder, trust_remote_code=True)
    texts = arguments.texts.read_text().splitlines()

    def run(chosen):
        inputs = tokenizer(chosen, padding=True, return_tensors="np", return_token_type_ids=True)
        return labels_of({name: value.astype("int64") for name, value in inputs.items()})

    batch = arguments.batch
    run(texts[:batch])
    begin = time.perf_counter()
    for start in range(batch, len(texts), batch):
        run(texts[start : start + batch])
    return len(texts) - batch, time.perf_counter() - begin


def measure_one(arguments):
    if arguments.one.startswith("nystrom"):
        extra = ["--dtype", "bf16"] if arguments.one == "nystrom-bf16" else []
        texts, seconds = time_program(arguments, "predict", "--json", *extra)
    else:
        texts, seconds = time_road(arguments)
    print(json.dumps({"texts_per_second": texts / seconds}))


# ---- The comparison ------------------------------------------------------------------------------


def rate_of(command):
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])["texts_per_second"]


def measure_length(arguments, script, machine, exported, texts, batch):
    """The rates of each contestant, measured by `script` in processes of its own."""
    found = {contestant: [] for contestant in arguments.contestants}
    for _ in range(arguments.rounds):
        for contestant in arguments.contestants:
            command = [sys.executable, script, "--one", contestant]
            command += ["--folder", exported, "--texts", texts, "--batch", str(batch)]
            command += ["--threads", str(arguments.threads), "--nystrom", arguments.nystrom]
            found[contestant].append(machine.measure(contestant, lambda: rate_of(command))[0])
    return found


def compare(arguments, folder, script, make_model, max_batch):
    """Compares the contestants of `script` on models that `make_model` makes."""
    machine, results = QuietMachine(arguments.threads, attempts=30), []
    width = max(map(len, arguments.contestants))
    for name in arguments.models:
        exported = make_model(arguments.nystrom, folder, name)
        for length in arguments.lengths:
            batch = max(1, min(max_batch, BATCH_TOKENS // length))
            count = batch * max(3, arguments.tokens // (batch * length) + 1)
            texts = folder / f"{name}-{length}.txt"
            texts.write_text("".join(t + "\n" for t in texts_of(exported, length, count)))
            found = measure_length(arguments, script, machine, exported, texts, batch)
            for contestant, rates in found.items():
                row = {"model": name, "length": length, "contestant": contestant}
                results.append(row | {"texts_per_second": rates})
                print(
                    f"{name:6} {length:5} {contestant:{width}} {statistics.median(rates):9.2f} "
                    f"({min(rates):.2f} to {max(rates):.2f})",
                    flush=True,
                )
            if arguments.output:  # after each row of the table: the whole takes long
                told = describe_machine() | {"threads": arguments.threads}
                write_json(arguments.output, {"machine": told, "results": results})


def parse_arguments(description, contestants, lengths):
    parser = parser_of(description)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--lengths", nargs="+", type=int, default=lengths)
    parser.add_argument("--contestants", nargs="+", choices=contestants, default=contestants)
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each contestant")
    parser.add_argument("--tokens", type=int, default=100_000, help="of a measurement, at least")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--nystrom", type=Path, default=ROOT / "build/release/nystrom")
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    parser.add_argument("--one", choices=contestants, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--texts", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def run(arguments, measure_one, **comparison):
    """Measures one contestant, or compares all: see compare."""
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    if arguments.one:
        return measure_one(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HF_MODULES_CACHE"] = folder
        compare(arguments, Path(folder), **comparison)


def main():
    arguments = parse_arguments(__doc__, CONTESTANTS, [128, 512, 4096])
    run(arguments, measure_one, script=__file__, make_model=make_model, max_batch=MAX_BATCH)


if __name__ == "__main__":
    main()
