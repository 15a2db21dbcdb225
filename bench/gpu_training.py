"""What a GPU must do beside being fast: learn as the CPU does, hold long sequences, and large
batches.

    python3 bench/gpu_training.py --reference-only --output bench/results/quickstart-losses.json
    python3 bench/gpu_training.py --output bench/results/h200-training.json

- 200 steps of configs/quickstart.yaml: bf16 on the GPU beside f32 on a CPU, with the same seed.
  Says how far the losses are apart, in means of ten steps. The first command computes those of the
  CPU, on any machine, before time on a GPU is spent.
- Steps of the base model (12 layers of width 768, 64 landmarks, bf16) with one sequence of 131072
  tokens: tokens a second, peak memory.
- The largest batch of sequences of 4096 and of 8192 tokens that a step of it has memory for.

Run from the repository's root, or from a bundle.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from gpu_common import Clock, Report, last_line, parser_of, say

MEAN_OF = 10


REFERENCE = Path("bench/results/quickstart-losses.json")


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__, 300)
    parser.add_argument("--steps", type=int, default=200, help="of the comparison of losses")
    parser.add_argument(
        "--reference-only", action="store_true", help="compute the CPU's losses, and end"
    )
    arguments = parser.parse_args()
    if arguments.dry_run:
        arguments.steps = 20
    arguments.device = "cpu" if arguments.dry_run else "cuda"
    arguments.clock = Clock(arguments.seconds)
    return arguments


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
    program = (arguments.folder / "nystrom").resolve()
    command = [program, "pretrain", "configs/quickstart.yaml", "--quiet", f"--device={device}"]
    done = arguments.clock.run([*command, *sets], 300)
    if done.returncode:
        raise RuntimeError(last_line(done.stderr))
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record["loss"] for record in records if "loss" in record]


def means(values: list[float]) -> list[float]:
    return [statistics.mean(values[i : i + MEAN_OF]) for i in range(0, len(values), MEAN_OF)]


def compare_losses(arguments: argparse.Namespace) -> dict:
    known = json.loads(REFERENCE.read_text()) if REFERENCE.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        cpu = known.get("losses", [])
        if len(cpu) != arguments.steps:  # a schedule of as many steps
            cpu = losses(arguments, folder, "cpu", "f32")
        gpu = losses(arguments, folder, arguments.device, "bf16")
    apart = max(abs(a - b) / b for a, b in zip(means(gpu), means(cpu), strict=True))
    say(
        f"losses of {arguments.steps} steps: at most {100 * apart:.3f} % "
        f"apart (last: GPU {gpu[-1]:.4f}, CPU {cpu[-1]:.4f})"
    )
    return {"largest_relative_difference": apart, "gpu_bf16": gpu, "cpu_f32": cpu}


def step(arguments: argparse.Namespace, length: int, batch: int) -> dict:
    """Three steps of the base model; of the error what the program says."""
    command = [
        (arguments.folder / "nystrom").resolve(),
        "bench",
        "--dtype=bf16",
        f"--device={arguments.device}",
        f"--layers={1 if arguments.dry_run else 12}",
        f"--length={256 if arguments.dry_run else length}",
        f"--batch={batch}",
        "--steps=3",
        "--json",
    ]
    done = arguments.clock.run(command, 120)
    if done.returncode:
        return {"batch": batch, "error": last_line(done.stderr)}
    report = json.loads(done.stdout)
    return {
        "batch": batch,
        "tokens_per_second": batch * length / min(report["step_seconds"]),
        "peak_memory_bytes": report["peak_memory_bytes"],
    }


def largest_batch(arguments: argparse.Namespace, length: int) -> dict:
    fits, fails = None, None
    batch = 1 if arguments.dry_run else 65536 // length
    while fails is None or fails["batch"] - fits["batch"] > max(1, fits["batch"] // 16):
        tried = step(arguments, length, batch)
        if "error" in tried:
            if "out of memory" not in tried["error"] and not arguments.dry_run:
                return {"fits": fits, "error": tried["error"]}
            fails = tried
            if fits is None:
                break
        else:
            fits = tried
        if arguments.dry_run:
            break
        batch = 2 * fits["batch"] if fails is None else (fits["batch"] + fails["batch"]) // 2
    say(f"length {length}: the largest batch {fits}; the next tried {fails}")
    return {"fits": fits, "fails": fails}


def longest_sequence(arguments: argparse.Namespace) -> dict:
    result = step(arguments, 131072, 1)
    say(f"one sequence of 131072 tokens: {result}")
    return result


def main() -> None:
    arguments = parse_arguments()
    report = Report(arguments.output)
    if arguments.reference_only:
        with tempfile.TemporaryDirectory() as folder:
            report["losses"] = losses(arguments, folder, "cpu", "f32")
        return
    parts = {
        "losses": compare_losses,
        "one_sequence_of_131072": longest_sequence,
        "largest_batch_of_4096": lambda given: largest_batch(given, 4096),
        "largest_batch_of_8192": lambda given: largest_batch(given, 8192),
    }
    for name, measure in parts.items():
        try:
            report[name] = measure(arguments)
        except Exception as error:  # a failure of one part does not stop the others
            report[name] = {"error": str(error)}
            say(f"{name}: {error}")


if __name__ == "__main__":
    main()
