"""Times one training step on a GPU: `nystrom bench --device cuda` beside PyTorch, at one number of
tokens a step and several lengths.

    python bench/compare_gpu.py --output bench/results/h200.json python bench/compare_gpu.py
    --nystrom dist/nystrom/nystrom --lengths 512 4096 --tokens 16384 --rounds 1 --output quick.json

Contestants: nystrom (bf16); transformers 4.57.1's Nyströmformer with segment_means_seq_len =
length, eager and compiled; BertForMaskedLM with PyTorch's fused attention, compiled. PyTorch's run
under bf16 autocast. Without torch or transformers nystrom is timed alone.

Each measurement is a process of its own, and the contestants alternate round by round. All do a
whole step: masked language model with
15 % of the tokens chosen, hidden dropout 0.1, loss, backward, clipping to norm 1, AdamW. PyTorch
running out of memory gets half the sequences at once and twice as many micro-batches, and the
result says so."""

import argparse
import importlib.util
import json
import platform
import statistics
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

MASKED_SHARE = 0.15
LANDMARKS, CONV, VOCAB = 64, 33, 30000
LAYERS, HIDDEN, HEADS = 12, 768, 12
CONTESTANTS = ["nystrom", "hf-eager", "hf-compile", "bert-compile"]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--nystrom", type=Path, default=Path("build/cuda/nystrom"), help="the program to time"
    )
    parser.add_argument("--lengths", nargs="+", type=int, default=[512, 1024, 2048, 4096, 8192])
    parser.add_argument("--tokens", type=int, default=65536, help="tokens of one step")
    parser.add_argument(
        "--rounds", type=int, default=2, help="processes of each contestant and length"
    )
    parser.add_argument("--steps", type=int, default=8, help="counted steps of each process")
    parser.add_argument("--warmup", type=int, default=4, help="steps before those, not counted")
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=CONTESTANTS)
    parser.add_argument("--output", type=Path, help="where the JSON goes")
    parser.add_argument("--worker", choices=CONTESTANTS[1:], help=argparse.SUPPRESS)
    parser.add_argument("--micro-batch", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.worker and not arguments.output:
        parser.error("--output is missing")
    return arguments


# --- One PyTorch process --------------------------------------------------------------------------


def make_model(contestant: str, length: int):
    import transformers

    sizes = {
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": 4 * HIDDEN,
        "max_position_embeddings": length,
        "hidden_dropout_prob": 0.1,
    }
    if contestant == "bert-compile":
        # Like nystrom, without attention dropout.
        config = transformers.BertConfig(
            **sizes, attention_probs_dropout_prob=0.0, attn_implementation="sdpa"
        )
        return transformers.BertForMaskedLM(config)
    config = transformers.NystromformerConfig(
        **sizes, segment_means_seq_len=length, num_landmarks=LANDMARKS, conv_kernel_size=CONV
    )
    return transformers.NystromformerForMaskedLM(config)


def run_worker(arguments: argparse.Namespace) -> None:
    """Prints one JSON object, like `nystrom bench`."""
    import torch

    length, micro = arguments.lengths[0], arguments.micro_batch
    parts = arguments.tokens // length // micro
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    model = make_model(arguments.worker, length).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    forward = torch.compile(model) if arguments.worker.endswith("compile") else model
    # Among the Nyströmformers only 4.57.1 accepts a mask when compiled. BERT is fastest without a
    # mask.
    mask = (
        None
        if arguments.worker == "bert-compile"
        else torch.ones(micro, length, dtype=torch.long, device="cuda")
    )

    seconds, losses = [], []
    for _ in range(arguments.warmup + arguments.steps):
        ids = torch.randint(5, VOCAB, (parts, micro, length), device="cuda")
        chosen = torch.rand(ids.shape, device="cuda") < MASKED_SHARE
        labels, inputs = torch.where(chosen, ids, -100), torch.where(chosen, 4, ids)
        torch.cuda.synchronize()

        start = time.perf_counter()
        optimizer.zero_grad()
        total = 0.0
        for part in range(parts):
            with torch.autocast("cuda", torch.bfloat16):
                loss = (
                    forward(input_ids=inputs[part], attention_mask=mask, labels=labels[part]).loss
                    / parts
                )
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(total.item())
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    print(
        json.dumps(
            {
                "step_seconds": seconds,
                "losses": losses,
                "peak_memory_bytes": torch.cuda.max_memory_allocated(),
            }
        )
    )


# --- The rounds -----------------------------------------------------------------------------------


def command(contestant: str, length: int, micro: int, arguments: argparse.Namespace) -> list[str]:
    if contestant == "nystrom":
        shape = [
            f"--layers={LAYERS}",
            f"--hidden={HIDDEN}",
            f"--heads={HEADS}",
            f"--landmarks={LANDMARKS}",
            f"--length={length}",
        ]
        rest = [f"--batch={micro}", f"--vocab={VOCAB}", f"--conv={CONV}", "--dtype=bf16"]
        steps = arguments.warmup + arguments.steps
        return [
            str(arguments.nystrom.resolve()),
            "bench",
            "--device=cuda",
            *shape,
            *rest,
            f"--steps={steps}",
            "--mode=train",
            "--json",
        ]
    counts = [
        f"--steps={arguments.steps}",
        f"--warmup={arguments.warmup}",
        f"--tokens={arguments.tokens}",
    ]
    return [
        sys.executable,
        __file__,
        f"--worker={contestant}",
        f"--lengths={length}",
        f"--micro-batch={micro}",
        *counts,
    ]


def measure(contestant: str, length: int, arguments: argparse.Namespace) -> dict:
    """One process; after running out of memory, one with half the sequences at once."""
    micro = arguments.tokens // length
    while True:
        try:
            process = subprocess.run(
                command(contestant, length, micro, arguments),
                capture_output=True,
                text=True,
                timeout=300,
            )
        except subprocess.TimeoutExpired:
            return {"error": "took more than five minutes"}
        if process.returncode == 0:
            break
        message = (process.stderr.strip().splitlines() or ["no message"])[-1]
        if "out of memory" not in process.stderr or micro == 1 or contestant == "nystrom":
            return {"error": message}
        micro //= 2
    report = json.loads(process.stdout)
    return {
        "micro_batch": micro,
        "step_seconds": report["step_seconds"][arguments.warmup :],
        "losses": report["losses"],
        "peak_memory_bytes": report["peak_memory_bytes"],
    }


def summarise(runs: list[dict], tokens: int) -> dict:
    failed = [run for run in runs if "error" in run]
    if failed:
        return {"error": failed[0]["error"]}
    seconds = [second for run in runs for second in run["step_seconds"]]
    median = statistics.median(seconds)
    return {
        "median_step_seconds": median,
        "fastest_step_seconds": min(seconds),
        "slowest_step_seconds": max(seconds),
        "tokens_per_second": tokens / median,
        "peak_memory_bytes": max(run["peak_memory_bytes"] for run in runs),
        "micro_batch": min(run["micro_batch"] for run in runs),
        "runs": runs,
    }


def machine() -> dict:
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    facts = {
        "date": date.today().isoformat(),
        "gpu": subprocess.run(query, capture_output=True, text=True).stdout.strip(),
    }
    facts["python"] = platform.python_version()
    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package):
            facts[package] = importlib.import_module(package).__version__
    return facts


def main() -> None:
    arguments = parse_arguments()
    if arguments.worker:
        import torch

        try:
            return run_worker(arguments)
        except torch.OutOfMemoryError:
            sys.exit("out of memory")
    contestants = arguments.contestants
    if not (importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")):
        print("torch or transformers is missing: nystrom is timed alone", file=sys.stderr)
        contestants = [name for name in contestants if name == "nystrom"]
    result = {
        "machine": machine(),
        "tokens_per_step": arguments.tokens,
        "dtype": "bf16",
        "lengths": {},
    }
    for length in arguments.lengths:
        runs: dict[str, list[dict]] = {name: [] for name in contestants}
        for _ in range(arguments.rounds):
            for name in contestants:
                runs[name].append(measure(name, length, arguments))
        row = {name: summarise(measured, arguments.tokens) for name, measured in runs.items()}
        result["lengths"][str(length)] = row
        for name, summary in row.items():
            told = (
                summary.get("error")
                or f"{summary['tokens_per_second']:,.0f} tokens/s, "
                f"{summary['peak_memory_bytes'] / 1e9:.2f} GB"
            )
            print(f"length {length:5d}  {name:12s} {told}", flush=True)
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
