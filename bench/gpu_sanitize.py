"""Runs kernels under compute-sanitizer: memcheck, racecheck, synccheck.

    python3 bench/gpu_sanitize.py --output bench/results/h200-sanitize.json

Each suite is a process of its own, those of the fused kernels first. The report says how many
tests of each ran: a suite that the time did not suffice for is no proof, and counts as failed."""

import re
import shutil

from gpu_common import Clock, Report, parser_of, say
from gpu_tests import suites

TOOLS = ("memcheck", "racecheck", "synccheck")
KEPT_CHARACTERS = 4000


def run_suite(prefix: list, program, suite: str, clock: Clock, limit: float) -> dict:
    """All tests of a suite but those that run twice to compare bits."""
    done = clock.run([*prefix, program, f"--gtest_filter={suite}.*:-*TwoRuns*"], limit)
    output = done.stdout + done.stderr
    tests = re.search(r"Running (\d+) test", output)
    result = {
        "code": done.returncode,
        "tests": int(tests[1]) if tests else 0,
        "passed": output.count("[       OK ]"),
    }
    if done.returncode:
        result["output"] = output[-KEPT_CHARACTERS:]
    return result


def main() -> None:
    arguments = parser_of(__doc__, 500).parse_args()
    sanitizer = shutil.which("compute-sanitizer")
    if not sanitizer and not arguments.dry_run:
        raise SystemExit("compute-sanitizer is not installed")
    name = "cuda_emulated_tests" if arguments.dry_run else "cuda_tests"
    program = (arguments.folder / name).resolve()
    clock, report = Clock(arguments.seconds), Report(arguments.output)
    part = "Cases/FusedConv" if arguments.dry_run else ("Cases/", "Ops/")
    names = sorted(suite for suite in suites(program, clock) if suite.startswith(part))
    failed = not names
    for place, tool in enumerate(TOOLS):
        prefix = [sanitizer, "--tool", tool, "--error-exitcode", "1"] if sanitizer else []
        end = clock.left() * (1 - 1 / (len(TOOLS) - place))  # what is left for the other tools
        results: dict[str, dict] = {}
        report[tool] = results
        for suite in names:
            result = run_suite(prefix, program, suite, clock, clock.left() - end)
            results[suite] = result
            report.save()
            say(f"{tool} {suite}: {result['passed']} of {result['tests']} passed")
            if result["code"]:
                failed = True
                say(result["output"][-1500:])
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
