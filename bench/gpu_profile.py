"""Where a training step's time goes on a GPU: the time of each kernel at 512 and 4,096 tokens, and
what Nsight Compute says about the kernels that take the most.

    python3 bench/gpu_profile.py --output bench/results/h200-profile.json

The base model in bf16, 65,536 tokens a step. ncu profiles one layer's step with few tokens."""

import csv
import io
import json
import shutil

from gpu_common import Clock, Report, last_line, parser_of, say

TOKENS = 65536
METRICS = [
    "gpu__time_duration.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "launch__registers_per_thread",
    "launch__occupancy_limit_shared_mem",
    "smsp__inst_executed_op_local_ld.sum",
]


def bench(arguments, length: int, batch: int, steps: int, layers: int = 12) -> list:
    return [
        (arguments.folder / "nystrom").resolve(),
        "bench",
        f"--device={'cpu' if arguments.dry_run else 'cuda'}",
        f"--layers={1 if arguments.dry_run else layers}",
        f"--hidden={64 if arguments.dry_run else 768}",
        f"--heads={1 if arguments.dry_run else 12}",
        f"--length={length}",
        f"--batch={batch}",
        "--vocab=30000",
        "--conv=33",
        "--dtype=bf16",
        f"--steps={steps}",
    ]


def kernel_table(arguments, length: int, clock: Clock) -> dict:
    batch = 1 if arguments.dry_run else TOKENS // length
    done = clock.run([*bench(arguments, length, batch, 5), "--profile", "--json"], 120)
    if done.returncode:
        return {"error": last_line(done.stderr)}
    report = json.loads(done.stdout)
    for kernel, seconds in report["kernel_seconds"][:12]:
        say(f"  {kernel:32s} {1e3 * seconds / 5:8.2f} ms a step")
    return report


def counters(arguments, length: int, clock: Clock) -> list[dict] | dict:
    ncu = shutil.which("ncu")
    if not ncu and not arguments.dry_run:
        return {"error": "ncu is not installed"}
    prefix = [
        ncu,
        "--csv",
        "--page",
        "raw",
        "--metrics",
        ",".join(METRICS),
        "--launch-count",
        "400",
        "--clock-control",
        "none",  # clocks as in the timed steps; a lent machine may not lock them
    ]
    program = bench(arguments, length, 4, 1, layers=1)
    done = clock.run([*(prefix if ncu else []), *program], 150)
    if done.returncode:
        return {"error": last_line(done.stderr + done.stdout)}
    text = done.stdout[done.stdout.find('"ID"') :] if '"ID"' in done.stdout else ""
    rows = list(csv.DictReader(io.StringIO(text)))[1:]  # the first row holds the units
    longest: dict[str, dict] = {}
    for row in rows:
        kept = {
            key: row.get(key, "") for key in ["Kernel Name", "Grid Size", "Block Size", *METRICS]
        }
        before = longest.get(kept["Kernel Name"])
        if before is None or duration(kept) > duration(before):
            longest[kept["Kernel Name"]] = kept
    ten = sorted(longest.values(), key=duration, reverse=True)[:10]
    for row in ten:
        say("  " + ", ".join(f"{key.split('.')[0]} {value}" for key, value in row.items()))
    return ten


def duration(row: dict) -> float:
    return float(row["gpu__time_duration.sum"].replace(",", "") or 0)


def main() -> None:
    arguments = parser_of(__doc__, 300).parse_args()
    clock, report = Clock(arguments.seconds), Report(arguments.output)
    for length in (512, 4096):
        say(f"kernels at {length} tokens")
        report[f"kernels_{length}"] = kernel_table(arguments, length, clock)
    for length in (512, 4096):
        say(f"counters at {length} tokens")
        report[f"counters_{length}"] = counters(arguments, length, clock)


if __name__ == "__main__":
    main()
