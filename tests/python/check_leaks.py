"""Loads a model many times and fails if memory, threads or open files grow.

PYTHONPATH=build/release/python build/python/bin/python tests/python/check_leaks.py MODEL [LOADS]
"""

import gc
import os
import sys
from pathlib import Path

import nystrom


def use(folder: str) -> None:
    """Loads a model, and makes every kind of result and view."""
    model = nystrom.load(folder)
    model.fill_mask("the [MASK] was calm")
    model.encode(["the sea", "old ships"])
    views = model.parameters()
    outputs = model([[2, 7, 3]])
    with nystrom.Tape() as tape:
        x = nystrom.Tensor(outputs["logits"], requires_grad=True)
        tape.backward(nystrom.ops.sum(x * x))
    del views


def counts() -> dict[str, int]:
    """Bytes of memory, threads and open files of this process."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "memory": int(status["VmRSS"].split()[0]) * 1024,
        "threads": int(status["Threads"]),
        "files": len(os.listdir("/proc/self/fd")),
    }


def main() -> None:
    folder, loads = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    for _ in range(20):
        use(folder)
    gc.collect()
    before = counts()
    for _ in range(loads):
        use(folder)
    gc.collect()
    after = counts()
    print(f"{loads} loads: " + ", ".join(f"{k} {before[k]} → {after[k]}" for k in before))
    # A kilobyte for each load is the noise of the allocator; a leaked model has many.
    if after["memory"] > before["memory"] + max(1 << 20, 1024 * loads):
        sys.exit("memory grows")
    if after["threads"] > before["threads"] or after["files"] > before["files"]:
        sys.exit("threads or files grow")


if __name__ == "__main__":
    main()
