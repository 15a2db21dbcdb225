"""Times one training step of `nystrom bench` beside Hugging Face's Nyströmformer, eager and
compiled, on this machine's CPU.

    build/interop/bin/python bench/compare_hf.py --output bench/results/compare_hf.json
    build/interop/bin/python bench/compare_hf.py --rounds 1 --steps 2 --dtype f32 --layers 2
    --output build/quick.json

Needs torch, transformers 4.57.1 (5.x cannot compile or mask this model) and, for torch.compile,
g++; no network.

The contestants:

    nystrom          logits at the masked positions, as it always trains
    eager            transformers as shipped: logits at all positions
    compile          the same under torch.compile
    compile-masked   compiled, logits at the masked positions alone: the same work as nystrom's
    bert             exact attention, which a user would pick instead: BERT of the same size,
                     compiled, logits at the masked positions, scaled_dot_product_attention
                     without dropout of attention weights

Each does a whole step: masked language model with 15 % of the tokens masked, hidden dropout 0.1,
loss, backward, clipping to norm 1, fused AdamW. bf16 is autocast for PyTorch, which keeps LayerNorm
and the loss in f32; nystrom's LayerNorm reads and writes bf16. No text is padded, and nobody gets a
mask: compiled BERT would add one of n × n. The first steps of a process
(--warmup; they compile, allocate and fill caches) are not counted.

Each measurement is a process of its own, so that its peak memory (ru_maxrss) is its own, and the
contestants alternate round by round, so that a machine that slows down slows all of them. A matrix
product is timed before and after each process: where one takes more than 10 % longer than the
fastest so far, the machine was busy and the process is repeated. Where no attempt was quiet, the
quietest counts; "product_seconds" tells."""

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path

from nystrom_runs import measured, parser_of
from quiet_machine import QuietMachine

CONTESTANTS = ["nystrom", "eager", "compile", "compile-masked", "bert"]
MASKED_SHARE = 0.15
LANDMARKS, CONV, VOCAB = 64, 33, 30000


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each contestant")
    parser.add_argument("--steps", type=int, default=5, help="counted steps of each process")
    parser.add_argument("--warmup", type=int, default=2, help="steps before those, not counted")
    parser.add_argument(
        "--attempts", type=int, default=4, help="how often a disturbed process runs at most"
    )
    parser.add_argument("--dtype", nargs="+", choices=["f32", "bf16"], default=["f32", "bf16"])
    parser.add_argument(
        "--nystrom", type=Path, default=Path("build/release/nystrom"), help="the program to time"
    )
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=CONTESTANTS)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, help="where the JSON goes")
    parser.add_argument("--worker", choices=CONTESTANTS[1:], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.worker and not arguments.output:
        parser.error("--output is missing")
    if (
        not arguments.worker
        and "nystrom" in arguments.contestants
        and not arguments.nystrom.exists()
    ):
        parser.error(
            f"{arguments.nystrom} does not exist; build it or leave nystrom out of --contestants"
        )
    return arguments


# --- One process of Hugging Face's library --------------------------------------------------------


def run_worker(arguments: argparse.Namespace) -> None:
    """Prints one JSON object, like `nystrom bench`."""
    import torch
    from gpu_rivals import drop_masks, make_model

    drop_masks()
    torch.manual_seed(0)
    torch.set_num_threads(arguments.threads)
    sizes = (getattr(arguments, name) for name in ("length", "layers", "hidden", "heads"))
    model = make_model("bert" if arguments.worker == "bert" else "hf", *sizes).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)

    def loss_as_shipped(inputs, ids, masked):
        labels = torch.full_like(ids, -100).flatten()
        labels = labels.scatter(0, masked, ids.flatten()[masked]).view_as(ids)
        return model(input_ids=inputs, labels=labels).loss

    def loss_at_masked_positions(inputs, ids, masked):
        hidden = model.base_model(input_ids=inputs)[0].flatten(0, 1)[masked]
        return torch.nn.functional.cross_entropy(model.cls(hidden), ids.flatten()[masked])

    masked_alone = arguments.worker in ("compile-masked", "bert")
    loss_of = loss_at_masked_positions if masked_alone else loss_as_shipped
    if arguments.worker != "eager":
        loss_of = torch.compile(loss_of)
    # The same count in every step, so that it is compiled once.
    count = round(MASKED_SHARE * arguments.batch * arguments.length)

    seconds, losses = [], []
    for _ in range(arguments.warmup + arguments.steps):
        ids = torch.randint(5, VOCAB, (arguments.batch, arguments.length))
        masked = torch.randperm(ids.numel())[:count]
        inputs = ids.flatten().index_fill(0, masked, 4).view_as(ids)

        start = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=arguments.dtype == ["bf16"]):
            loss = loss_of(inputs, ids, masked)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"step_seconds": seconds, "losses": losses}))


# --- The rounds -----------------------------------------------------------------------------------


def command(contestant: str, dtype: str, arguments: argparse.Namespace) -> list[str]:
    names = ("length", "batch", "layers", "hidden", "heads", "threads")
    shape = [f"--{name}={getattr(arguments, name)}" for name in names] + [f"--dtype={dtype}"]
    if contestant == "nystrom":
        fixed = f"--landmarks={LANDMARKS} --vocab={VOCAB} --conv={CONV} --mode=train --json"
        steps = f"--steps={arguments.warmup + arguments.steps}"
        return [str(arguments.nystrom), "bench", *shape, *fixed.split(), steps]
    counts = [f"--steps={arguments.steps}", f"--warmup={arguments.warmup}"]
    return [sys.executable, __file__, f"--worker={contestant}", *counts, *shape]


def measure(contestant: str, dtype: str, arguments: argparse.Namespace) -> dict:
    threads = str(arguments.threads)
    output, _, peak = measured(
        command(contestant, dtype, arguments), OMP_NUM_THREADS=threads, MKL_NUM_THREADS=threads
    )
    report = json.loads(output)
    seconds = report["step_seconds"]
    limit = {}
    if contestant == "nystrom":
        limit["ideal_seconds"] = report["flops_per_step"] / report["product_flops_per_second"]
    return limit | {
        "warmup_seconds": seconds[: arguments.warmup],
        "step_seconds": seconds[arguments.warmup :],
        "losses": report["losses"],
        "peak_memory_bytes": peak,
    }


def summarise(runs: list[dict], tokens: int) -> dict:
    seconds = [second for run in runs for second in run["step_seconds"]]
    median = statistics.median(seconds)
    return {
        "median_step_seconds": median,
        "fastest_step_seconds": min(seconds),
        "slowest_step_seconds": max(seconds),
        "round_median_seconds": [statistics.median(run["step_seconds"]) for run in runs],
        "tokens_per_second": tokens / median,
        "peak_memory_bytes": max(run["peak_memory_bytes"] for run in runs),
        "runs": runs,
    }


def compare(dtype: str, machine: QuietMachine, arguments: argparse.Namespace) -> dict[str, dict]:
    runs: dict[str, list[dict]] = {contestant: [] for contestant in arguments.contestants}
    for number in range(arguments.rounds):
        for contestant in arguments.contestants:
            run, products = machine.measure(
                contestant, lambda: measure(contestant, dtype, arguments)
            )
            run["product_seconds"] = products
            runs[contestant].append(run)
            median = statistics.median(run["step_seconds"])
            print(
                f"{dtype} round {number + 1} {contestant}: {median:.3f} s a step",
                file=sys.stderr,
                flush=True,
            )
    tokens = arguments.batch * arguments.length
    results = {contestant: summarise(taken, tokens) for contestant, taken in runs.items()}
    if "nystrom" in results:
        ours = results["nystrom"]["median_step_seconds"]
        for result in results.values():
            result["ratio_to_nystrom"] = result["median_step_seconds"] / ours
        # The fastest product of all processes: a busy machine slows the products that nystrom
        # times at the end of each.
        ideal = min(run["ideal_seconds"] for run in runs["nystrom"])
        results["nystrom"]["share_of_limit"] = ideal / ours
    return results


def describe_machine() -> dict:
    cpu = Path("/proc/cpuinfo").read_text()
    fields = dict(line.split(":", 1) for line in cpu.split("\n\n")[0].splitlines() if ":" in line)
    fields = {name.strip(): value.strip() for name, value in fields.items()}
    wanted = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
    return {
        "cpu": fields.get("model name", platform.machine()),
        "cores": os.cpu_count(),
        "features": [flag for flag in wanted if flag in fields.get("flags", "").split()],
        "versions": {"python": platform.python_version()}
        | {package: importlib.metadata.version(package) for package in ("torch", "transformers")},
    }


def table(results: dict[str, dict[str, dict]]) -> str:
    lines = [
        "| dtype | program | s/step (median) | fastest – slowest | "
        "tokens/s | time / nystrom's | peak memory, GB |",
        "|---|---|---|---|---|---|---|",
    ]
    for dtype, contestants in results.items():
        for name, result in contestants.items():
            spread = f"{result['fastest_step_seconds']:.3f} – {result['slowest_step_seconds']:.3f}"
            ratio = f"{result['ratio_to_nystrom']:.2f}" if "ratio_to_nystrom" in result else "–"
            lines.append(
                f"| {dtype} | {name} | {result['median_step_seconds']:.3f} | {spread} "
                f"| {result['tokens_per_second']:.0f} | {ratio} | "
                f"{result['peak_memory_bytes'] / 1e9:.2f} |"
            )
    for dtype, contestants in results.items():
        if "nystrom" in contestants:
            share = contestants["nystrom"]["share_of_limit"]
            lines.append(f"\n{dtype}: products alone need {share:.0%} of nystrom's step.")
    return "\n".join(lines)


def main() -> None:
    arguments = parse_arguments()
    if arguments.worker:
        run_worker(arguments)
        return
    machine = QuietMachine(arguments.threads, arguments.attempts)
    results = {dtype: compare(dtype, machine, arguments) for dtype in arguments.dtype}

    names = ("rounds", "steps", "warmup", "length", "batch", "layers", "hidden", "heads", "threads")
    settings = {name: getattr(arguments, name) for name in names}
    settings |= {
        "landmarks": LANDMARKS,
        "conv": CONV,
        "vocab": VOCAB,
        "masked_share": MASKED_SHARE,
        "dropout": 0.1,
    }
    report = {"machine": describe_machine(), "settings": settings, "results": results}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=2) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
