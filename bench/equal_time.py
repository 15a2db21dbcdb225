"""Trainings of equal machine-time, seed after seed: a run has as many steps as fit into --minutes
at the speed of its kind, which --speed has timed."""

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from charts import series
from nystrom_runs import parser_of, read_json, write_whole


def timed_parser_of(description: str, minutes: float, name: str) -> argparse.ArgumentParser:
    parser = parser_of(description)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=minutes)
    parser.add_argument("--nystrom", type=Path, default=Path("build/release/nystrom"))
    parser.add_argument("--work", type=Path, default=Path(f"build/{name}"))
    parser.add_argument("--output", type=Path, default=Path(f"bench/results/{name}.json"))
    return parser


class Results:
    """The seconds of a step of each kind, and all runs: the file --output."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.options.work.mkdir(parents=True, exist_ok=True)
        found = read_json(options.output, {"step_seconds": {}, "runs": []})
        self.step_seconds, self.runs = found["step_seconds"], found["runs"]

    def write(self) -> None:
        runs = ",\n".join("  " + json.dumps(run) for run in self.runs)
        speed = json.dumps(self.step_seconds, indent=2)
        text = f'{{"step_seconds": {speed},\n "runs": [\n{runs}\n]}}\n'
        write_whole(self.options.output, text)

    def steps(self, seconds: float) -> int:
        """Those of --minutes, where each takes `seconds`."""
        return int(60 * self.options.minutes / seconds)

    def of(self, **names: object) -> list[dict]:
        """The runs of --minutes that have these names."""
        names |= {"minutes": self.options.minutes}
        return [run for run in self.runs if names.items() <= {k: run[k] for k in names}.items()]

    def train(self, kinds: list[dict], train: Callable[..., dict]) -> None:
        """Adds what train(seed, **kind) returns, for all kinds and seeds that are missing."""
        for seed in range(1, self.options.seeds + 1):
            for kind in kinds:
                if self.of(**kind, seed=seed):
                    continue
                print(f"{', '.join(kind.values())}, seed {seed}", file=sys.stderr, flush=True)
                own = kind | {"seed": seed, "minutes": self.options.minutes}
                self.runs.append(own | train(seed, **kind))
                self.write()


def over_minutes(run: dict, name: str) -> dict:
    """The curve of a run, whose steps took the same time, for a chart."""
    return series(name, [(run["minutes"] * step / run["steps"], y) for step, y in run["curve"]])


def shown(values: list[float], digits: int) -> str:
    """Mean and standard deviation, of several."""
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{spread}"
