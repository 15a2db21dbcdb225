"""Times one attention alone on a GPU, forward and backward in bf16: ours beside cuDNN's exact one
and transformers' Nyström attention.

    python bench/compare_gpu_attention.py --output bench/results/h200-attention.json
    python bench/compare_gpu_attention.py --nystrom dist/nystrom/nystrom --longest 8192 \\
      --output quick.json

12 heads of width 64, 64 landmarks, no convolution, one sequence of 512, 1024, … tokens: the fastest
of some runs, and the peak of memory beyond the inputs. Ours are `nystrom approximation cost`, which
also projects the landmarks; transformers takes them as means of queries and keys, and its
projections are left out. Without torch or transformers ours are timed alone."""

import argparse
import importlib.util
import json
import math
import subprocess
import sys
import time
from pathlib import Path

from compare_gpu import machine

HEADS, WIDTH, LANDMARKS = 12, 64, 64
SHORTEST = 512


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--nystrom", type=Path, default=Path("build/cuda/nystrom"), help="the program to time"
    )
    parser.add_argument("--longest", type=int, default=131072)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--output", type=Path, required=True, help="where the JSON goes")
    return parser.parse_args()


def lengths(arguments: argparse.Namespace) -> list[int]:
    return [SHORTEST << i for i in range(int(math.log2(arguments.longest // SHORTEST)) + 1)]


def measure_ours(kind: str, length: int, arguments: argparse.Namespace) -> dict:
    sizes = [
        f"--heads={HEADS}",
        f"--head-dim={WIDTH}",
        f"--landmarks={LANDMARKS}",
        f"--shortest={length}",
        f"--longest={length}",
    ]
    command = [str(arguments.nystrom.resolve()), "approximation", "cost", "--kinds", kind, *sizes]
    command += [
        "--dtype=bf16",
        f"--repeats={arguments.repeats}",
        f"--device={arguments.device}",
        "--json",
        "--quiet",
    ]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if process.returncode:
        raise RuntimeError(process.stderr.strip())
    row = json.loads(process.stdout)["measurements"][0]
    return {"seconds": row["seconds"], "bytes": row["bytes"]}


def cudnn_attention(torch, length: int, device: str):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backend = SDPBackend.CUDNN_ATTENTION if device == "cuda" else SDPBackend.MATH
    q, k, v = (
        torch.randn(
            1, HEADS, length, WIDTH, device=device, dtype=torch.bfloat16, requires_grad=True
        )
        for _ in range(3)
    )

    def run():
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    return run


def transformers_attention(torch, length: int, device: str):
    from transformers import NystromformerConfig
    from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention

    config = NystromformerConfig(
        hidden_size=HEADS * WIDTH,
        num_attention_heads=HEADS,
        num_landmarks=LANDMARKS,
        segment_means_seq_len=length,
        max_position_embeddings=length,
    )
    attention = NystromformerSelfAttention(config).to(device)
    attention.conv_kernel_size = None
    attention.query = attention.key = attention.value = torch.nn.Identity()
    hidden = torch.randn(
        1, length, HEADS * WIDTH, device=device, dtype=torch.bfloat16, requires_grad=True
    )

    def run():
        with torch.autocast(device, torch.bfloat16):
            return attention(hidden)[0]

    return run


def measure_torch(torch, make, length: int, arguments: argparse.Namespace) -> dict:
    gpu = arguments.device == "cuda"
    run = make(torch, length, arguments.device)
    fastest, before, peak = math.inf, 0, 0
    for repeat in range(arguments.repeats + 1):  # the first one is a warm-up
        if gpu:
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.synchronize()
        start = time.perf_counter()
        out = run()
        out.backward(torch.ones_like(out))
        if gpu:
            torch.cuda.synchronize()
            peak = torch.cuda.max_memory_allocated() - before
        if repeat:
            fastest = min(fastest, time.perf_counter() - start)
    return {"seconds": fastest, "bytes": peak}


def contestants(arguments: argparse.Namespace) -> dict:
    """Their names, and functions of a length."""
    found = {
        f"ours, {kind}": lambda length, kind=kind: measure_ours(kind, length, arguments)
        for kind in ("nystrom", "softmax")
    }
    if not (importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")):
        print("torch or transformers is missing: nystrom is timed alone", file=sys.stderr)
        return found
    import torch

    theirs = {"cuDNN, exact": cudnn_attention, "transformers, nystrom": transformers_attention}
    return found | {
        name: lambda length, make=make: measure_torch(torch, make, length, arguments)
        for name, make in theirs.items()
    }


def told(row: dict) -> str:
    return row.get("error") or f"{1e3 * row['seconds']:.3f} ms, {row['bytes'] / 1e6:.0f} MB"


def main() -> None:
    arguments = parse_arguments()
    rows = []
    for length in lengths(arguments):
        for kind, measure in contestants(arguments).items():
            row = {"kind": kind, "length": length}
            try:
                row |= measure(length)
            except Exception as error:  # a failure of one does not stop the others
                row["error"] = (str(error).splitlines() or [type(error).__name__])[0]
            rows.append(row)
            print(f"{length:7d} tokens  {kind:22s} {told(row)}", flush=True)
            arguments.output.write_text(
                json.dumps({"machine": machine(), "measurements": rows}, indent=1) + "\n"
            )


if __name__ == "__main__":
    main()
