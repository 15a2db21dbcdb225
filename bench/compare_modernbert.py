"""Times ModernBERT's shape in nystrom and in transformers on this machine's CPU, in bf16.

    build/interop/bin/python bench/compare_modernbert.py --output bench/results/modernbert.json

ModernBERT-base: 22 layers of 768, 12 heads, gated layers of 1,152, windows of 128 in two layers of
three, rotary positions, no biases. The contestants:

    transformers   torch.compile, scaled_dot_product_attention; bf16 autocast for training, bf16
                   weights for encoding
    nystrom        the same function
    landmarks      64 landmarks in the layers that see all tokens
    bert           nystrom: BERT's blocks of as many layers and parameters, exact attention

train: a step without dropout, logits at the masked 15 % alone, clipping, AdamW. encode: the hidden
states of all tokens. Each measurement is a process of its own, and the contestants alternate."""

import json
import os
import statistics
import sys
import time
from pathlib import Path

from compare_hf import describe_machine
from nystrom_runs import measured, parser_of
from quiet_machine import QuietMachine

LAYERS, HIDDEN, HEADS, WIDE, VOCAB = 22, 768, 12, 1152, 50368
MASKED_SHARE = 0.15
GLOBAL = range(0, LAYERS, 3)
MODERN = {
    "norm": "pre",
    "final_norm": "true",
    "first_attention_norm": "false",
    "mlp": "geglu",
    "bias": "false",
    "positions": "rope",
    "rope_theta": 160000,
    "local_rope_theta": 10000,
    "type_vocab_size": 0,
    "hidden_act": "gelu",
    "intermediate_size": WIDE,
    "attention.window": 128,
}
SETTINGS = {
    "nystrom": MODERN
    | {"attention.window_layers": str([f"{i}" for i in range(LAYERS) if i not in GLOBAL])},
    "landmarks": MODERN
    | {"attention.layers": "{" + ", ".join(f"{i}: nystrom" for i in GLOBAL) + "}"},
    "bert": {"intermediate_size": WIDE * 3 // 2, "hidden_act": "gelu"},
}
CONTESTANTS = ["transformers", *SETTINGS]


def run_worker(mode, length, batch, steps):
    import torch
    import transformers

    torch.manual_seed(0)
    torch.set_num_threads(2)
    config = transformers.ModernBertConfig(
        vocab_size=VOCAB,
        max_position_embeddings=length,
        attn_implementation="sdpa",
        reference_compile=False,
    )
    model = transformers.ModernBertForMaskedLM(config)
    seconds = []
    if mode == "encode":
        encoder = torch.compile(model.model.to(torch.bfloat16).eval())
        for _ in range(steps):
            ids = torch.randint(5, VOCAB, (batch, length))
            start = time.perf_counter()
            with torch.inference_mode():
                encoder(input_ids=ids)
            seconds.append(time.perf_counter() - start)
        return print(json.dumps({"step_seconds": seconds}))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)

    @torch.compile
    def loss_of(ids, inputs, masked):
        hidden = model.model(input_ids=inputs)[0].flatten(0, 1)[masked]
        logits = model.decoder(model.head(hidden))
        return torch.nn.functional.cross_entropy(logits, ids.flatten()[masked])

    for _ in range(steps):
        ids = torch.randint(5, VOCAB, (batch, length))
        masked = torch.randperm(ids.numel())[: round(MASKED_SHARE * ids.numel())]
        inputs = ids.flatten().index_fill(0, masked, 4).view_as(ids)
        start = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(ids, inputs, masked)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    return print(json.dumps({"step_seconds": seconds}))


def command(options, contestant, mode, length, batch):
    if contestant == "transformers":
        worker = [mode, length, batch, options.steps + 1]
        return [sys.executable, __file__, "--worker", *map(str, worker)]
    fixed = {"hidden_dropout_prob": 0.0, "attention.conv_kernel_size": "null"}
    settings = SETTINGS[contestant] | fixed
    sets = [f"--set=model.{name}={value}" for name, value in settings.items()]
    shape = f"--layers={LAYERS} --hidden={HIDDEN} --heads={HEADS} --vocab={VOCAB} --landmarks=64"
    run = f"--length={length} --batch={batch} --steps={options.steps + 1} --mode={mode}"
    kind = "--attention=softmax --conv=0 --dtype=bf16 --json"
    return [str(options.nystrom), "bench", *f"{shape} {run} {kind}".split(), *sets]


def measure(options, *what):
    """A process: the seconds of its steps but the first, and its peak of memory."""
    output, _, peak = measured(command(options, *what), OMP_NUM_THREADS="2")
    report = json.loads(output)
    return {"seconds": report["step_seconds"][1:], "peak_memory_bytes": peak}


def compare(options, machine, mode, length, batch):
    contestants = [name for name in CONTESTANTS if name != "bert" or length == 512]
    runs = {name: [] for name in contestants}
    for _ in range(options.rounds):
        for name in contestants:
            what = (options, name, mode, length, batch)
            run, products = machine.measure(name, lambda what=what: measure(*what))
            runs[name].append(run | {"product_seconds": products})
    results = {}
    for name, taken in runs.items():
        seconds = [second for run in taken for second in run["seconds"]]
        peak = max(run["peak_memory_bytes"] for run in taken)
        results[name] = {
            "median_seconds": statistics.median(seconds),
            "fastest": min(seconds),
            "slowest": max(seconds),
            "peak_memory_bytes": peak,
            "runs": taken,
        }
        print(
            f"{mode} {batch} × {length} {name}: {statistics.median(seconds):.3f} s "
            f"({min(seconds):.3f}–{max(seconds):.3f}), {peak / 1e9:.2f} GB",
            flush=True,
        )
    return results


def batch_of(length):
    return max(1, 8192 // length)


def main():
    if sys.argv[1:2] == ["--worker"]:
        return run_worker(sys.argv[2], *map(int, sys.argv[3:]))
    parser = parser_of(__doc__)
    parser.add_argument("--nystrom", type=Path, default=Path("build/release/nystrom"))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--attempts", type=int, default=2, help="of a disturbed process")
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 8192])
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    machine = QuietMachine(2, options.attempts)
    results = {}
    for length in options.lengths:
        for mode in ("train", "encode"):
            batch = batch_of(length)
            name = f"{mode} {batch} × {length}"
            results[name] = compare(options, machine, mode, length, batch)
    report = {"machine": describe_machine(), "load": os.getloadavg(), "results": results}
    options.output.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
