"""Two processes on one GPU, connected by NCCL, train as one process does.

    python3 bench/gpu_ranks.py --output bench/results/h200-ranks.json

NCCL refuses two processes on one GPU of one machine. With different NCCL_HOSTID it takes them for
two machines, and connects them over the loopback interface: its kernels, streams and events run as
in any other run, only slower. The processes are started with torchrun's variables, without MPI, so
that losses and texts travel through NCCL too. With --dry-run the emulated GPU and the tests' own
NCCL take their places.

Trains configs/quickstart.yaml for 20 steps in f32: once in one process, and in two with each kind
of gradient sum. Says how far losses and gradient norms are apart. Run from the repository's root,
or from a bundle.
"""

import json
import os
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from gpu_common import Clock, Report, end_group, last_line, parser_of, say

SMALL = {
    "model.hidden_size": 16,
    "model.num_hidden_layers": 1,
    "model.num_attention_heads": 2,
    "model.intermediate_size": 32,
    "model.max_position_embeddings": 32,
    "model.attention.num_landmarks": 4,
    "model.attention.conv_kernel_size": 5,
    "data.sequence_length": 32,
    "tokenizer.train.vocab_size": 40,
    "training.batch_size": 8,
}
KINDS = {
    "sums": {},
    "sharded": {"training.zero": 1},
    "rounded": {"training.reduction": "bf16"},
    "deterministic": {"training.deterministic": "true"},
}


def command_of(arguments, folder: Path, name: str, more: dict) -> list:
    batch = SMALL["training.batch_size"] if arguments.dry_run else 32
    given = {
        "run_dir": folder / name,
        "data.cache": folder / "cache",
        "training.steps": 3 if arguments.dry_run else 20,
        "training.dtype": "f32",
        "training.micro_batch_size": batch // 2,
        "training.timeout": 60,
        "schedule.warmup_steps": 2,
        "logging.every": 1,
        "evaluation.every": 1000,
        "checkpoint.every": 1000,
    }
    if arguments.dry_run:
        text = folder / "text.txt"
        lines = [f"the {i} old ships sailed home {i % 7} times\n" for i in range(200)]
        text.write_text("".join(lines))
        given |= SMALL | {"data.train": f"[{text}]", "data.validation": f"[{text}]"}
    given |= more
    sets = [part for key, value in given.items() for part in ("--set", f"{key}={value}")]
    program = arguments.folder / ("emulated" if arguments.dry_run else ".") / "nystrom"
    words = [program.resolve(), "pretrain", "configs/quickstart.yaml", "--quiet", "--device=cuda"]
    return [*words, *sets]


def free_port() -> str:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return str(place.getsockname()[1])


def two_processes(arguments, command: list) -> str:
    """Starts both and waits for them. Returns what went wrong, or nothing."""
    port = free_port()
    processes = []
    for rank in range(2):
        place = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "NCCL_HOSTID": f"host{rank}",
            "NCCL_SOCKET_IFNAME": "lo",
        }
        processes.append(
            subprocess.Popen(
                [str(word) for word in command],
                env=os.environ | place,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
    errors = []
    end = time.monotonic() + min(120, arguments.clock.left())
    for process in processes:
        try:
            error = process.communicate(timeout=max(1, end - time.monotonic()))[1]
            if process.returncode:
                errors.append(last_line(error))
        except subprocess.TimeoutExpired:
            errors.append("took too long")
            for each in processes:
                end_group(each)
    return "; ".join(errors)


def values_of(run: Path) -> list[tuple[float, float]]:
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [(record["loss"], record["grad_norm"]) for record in records if "grad_norm" in record]


def main() -> None:
    arguments = parser_of(__doc__, 150).parse_args()
    arguments.clock = Clock(arguments.seconds)
    report = Report(arguments.output)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        done = arguments.clock.run(command_of(arguments, folder, "one", {}), 120)
        if done.returncode:
            raise SystemExit(f"one process: {last_line(done.stderr)}")
        one = values_of(folder / "one")
        failed = False
        for kind, more in KINDS.items():
            error = two_processes(arguments, command_of(arguments, folder, kind, more))
            if error:
                report[kind] = {"error": error}
                failed = True
            else:
                pairs = zip(values_of(folder / kind), one, strict=True)
                apart = [max(abs(a - b) / b for a, b in zip(*pair, strict=True)) for pair in pairs]
                report[kind] = {"largest_relative_difference": max(apart)}
            say(f"two processes, {kind}: {report[kind]}")
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
