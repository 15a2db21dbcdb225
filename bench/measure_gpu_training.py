"""What a GPU must do beside being fast: learn as the CPU does, hold long sequences, and large
batches.

    python bench/measure_gpu_training.py --output bench/results/h200-training.json

- 200 steps of configs/quickstart.yaml: bf16 on the GPU beside f32 on the CPU, with the same seed.
  Says how far the losses are apart, in means of
  ten steps.
- Steps of the base model (12 layers of width 768, 64 landmarks, bf16) with one sequence of 131072
  tokens: tokens a second, peak memory.
- The largest batch of sequences of 4096 and of 8192 tokens that a step of it has memory for.

Run from the repository's root, or from a bundle.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

from compare_gpu import machine

MEAN_OF = 10


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--nystrom", type=Path, default=Path("build/cuda/nystrom"), help="the program to measure"
    )
    parser.add_argument("--steps", type=int, default=200, help="of the comparison of losses")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--output", type=Path, required=True, help="where the JSON goes")
    return parser.parse_args()


def losses(arguments: argparse.Namespace, folder: str, device: str, dtype: str) -> list[float]:
    run = Path(folder) / dtype
    given = {
        "run_dir": run,
        "data.cache": Path(folder) / "cache",
        "training.steps": arguments.steps,
        "training.dtype": dtype,
        "schedule.warmup_steps": arguments.steps // 10,
        "logging.every": 1,
        "evaluation.every": arguments.steps,
        "checkpoint.every": arguments.steps,
    }
    sets = [part for key, value in given.items() for part in ("--set", f"{key}={value}")]
    command = [
        arguments.nystrom.resolve(),
        "pretrain",
        "configs/quickstart.yaml",
        "--quiet",
        f"--device={device}",
        *sets,
    ]
    process = subprocess.run(
        [str(part) for part in command], stderr=subprocess.PIPE, text=True, timeout=300
    )
    if process.returncode:
        raise RuntimeError(process.stderr.strip())
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record["loss"] for record in records if "loss" in record]


def means(values: list[float]) -> list[float]:
    return [statistics.mean(values[i : i + MEAN_OF]) for i in range(0, len(values), MEAN_OF)]


def compare_losses(arguments: argparse.Namespace) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        cpu = losses(arguments, folder, "cpu", "f32")
        gpu = losses(arguments, folder, arguments.device, "bf16")
    apart = max(abs(a - b) / b for a, b in zip(means(gpu), means(cpu), strict=True))
    print(
        f"losses of {arguments.steps} steps: at most {100 * apart:.3f} % "
        f"apart (last: GPU {gpu[-1]:.4f}, CPU {cpu[-1]:.4f})",
        flush=True,
    )
    return {"largest_relative_difference": apart, "gpu_bf16": gpu, "cpu_f32": cpu}


def step(arguments: argparse.Namespace, length: int, batch: int) -> dict:
    """Three steps of the base model; of the error what the program says."""
    command = [
        arguments.nystrom.resolve(),
        "bench",
        "--dtype=bf16",
        f"--device={arguments.device}",
        f"--length={length}",
        f"--batch={batch}",
        "--steps=3",
        "--json",
    ]
    process = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=300
    )
    if process.returncode:
        return {
            "batch": batch,
            "error": (process.stderr.strip().splitlines() or ["no message"])[-1],
        }
    report = json.loads(process.stdout)
    return {
        "batch": batch,
        "tokens_per_second": batch * length / min(report["step_seconds"]),
        "peak_memory_bytes": report["peak_memory_bytes"],
    }


def largest_batch(arguments: argparse.Namespace, length: int) -> dict:
    fits, fails = None, None
    batch = 65536 // length
    while fails is None or fails["batch"] - fits["batch"] > max(1, fits["batch"] // 16):
        tried = step(arguments, length, batch)
        if "error" in tried:
            fails = tried
            if fits is None:
                break
        else:
            fits = tried
        batch = 2 * fits["batch"] if fails is None else (fits["batch"] + fails["batch"]) // 2
    print(f"length {length}: the largest batch {fits}; the next tried {fails}", flush=True)
    return {"fits": fits, "fails": fails}


def longest_sequence(arguments: argparse.Namespace) -> dict:
    result = step(arguments, 131072, 1)
    print(f"one sequence of 131072 tokens: {result}", flush=True)
    return result


def main() -> None:
    arguments = parse_arguments()
    parts = {
        "losses": compare_losses,
        "one_sequence_of_131072": longest_sequence,
        "largest_batch_of_4096": lambda given: largest_batch(given, 4096),
        "largest_batch_of_8192": lambda given: largest_batch(given, 8192),
    }
    result = {"machine": machine()}
    for name, measure in parts.items():
        try:
            result[name] = measure(arguments)
        except Exception as error:  # a failure of one part does not stop the others
            result[name] = {"error": str(error)}
            print(f"{name}: {error}", flush=True)
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
