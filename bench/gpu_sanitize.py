"""Runs kernels under compute-sanitizer: memcheck, racecheck, synccheck.

    python3 bench/gpu_sanitize.py --output bench/results/h200-sanitize.json

Each suite is a process of its own, those of the fused kernels first. The report says how many
tests of each ran: a suite that the time did not suffice for is no proof, and counts as failed."""

import shutil

from gpu_common import Clock, Report, parser_of, say

# Of the tests with a parameter, without those that run twice to compare bits.
FILTER = "Cases/*:Ops/*:-*TwoRuns*"
TOOLS = ("memcheck", "racecheck", "synccheck")
KEPT_CHARACTERS = 4000


def tests_by_suite(program, clock: Clock) -> dict[str, list[str]]:
    command = [program, "--gtest_list_tests", f"--gtest_filter={FILTER}"]
    suites: dict[str, list[str]] = {}
    for line in clock.run(command, 60).stdout.splitlines():
        if line.startswith(("Cases/", "Ops/")):
            suites[line.strip().rstrip(".")] = tests = []
        elif line.startswith("  "):
            tests.append(line.split("#")[0].strip())
    return dict(sorted(suites.items()))  # Cases/ before Ops/


def run_suite(prefix: list, program, suite: str, tests: list[str], clock: Clock, limit: float):
    wanted = ":".join(f"{suite}.{test}" for test in tests)
    done = clock.run([*prefix, program, f"--gtest_filter={wanted}"], limit)
    output = done.stdout + done.stderr
    ran = output.count("[       OK ]")
    result = {"code": done.returncode, "tests": len(tests), "passed": ran}
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
    suites = tests_by_suite(program, clock)
    if arguments.dry_run:
        suites = {name: tests[:1] for name, tests in suites.items() if "FusedConv" in name}
    failed = not suites
    for place, tool in enumerate(TOOLS):
        prefix = [sanitizer, "--tool", tool, "--error-exitcode", "1"] if sanitizer else []
        end = clock.left() * (1 - 1 / (len(TOOLS) - place))  # what is left for the other tools
        results: dict[str, dict] = {}
        report[tool] = results
        for suite, tests in suites.items():
            result = run_suite(prefix, program, suite, tests, clock, clock.left() - end)
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
