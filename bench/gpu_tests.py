"""Runs the GPU tests, each suite in a process of its own, so that a kernel that breaks the device
ends one suite alone.

    python3 bench/gpu_tests.py --output bench/results/h200-tests.json

A failed suite runs again with CUDA_LAUNCH_BLOCKING=1, under memcheck where compute-sanitizer is
installed: the message then names the kernel."""

import json
import shutil
import tempfile
from pathlib import Path

from gpu_common import Clock, Report, parser_of, say

SUITE_SECONDS, AGAIN_SECONDS = 120, 90
# In order of value: what everything else builds on comes first.
FIRST = ["Ops/CudaOpTest", "CudaKernelTest", "Cases/FusedAttentionTest", "Fixtures/CudaGoldenTest"]
KEPT_CHARACTERS = 4000


def suites(program: Path, clock: Clock) -> list[str]:
    listed = clock.run([program, "--gtest_list_tests"], 60).stdout.splitlines()
    names = [line.split("#")[0].strip().rstrip(".") for line in listed if line and line[0] != " "]
    names = [name for name in names if " " not in name]
    return sorted(names, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))


def run_suite(program: Path, name: str, clock: Clock, limit: float) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        done = clock.run(
            [program, f"--gtest_filter={name}.*", f"--gtest_output=json:{file}"], limit
        )
        report = json.loads(file.read_text()) if file.exists() else {}
    failures = [
        {"test": f"{suite['name']}.{test['name']}", "message": test["failures"][0]["failure"]}
        for suite in report.get("testsuites", [])
        for test in suite["testsuite"]
        if "failures" in test
    ]
    result = {"code": done.returncode, "tests": report.get("tests", 0), "failures": failures}
    if done.returncode and not failures:
        result["output"] = (done.stdout + done.stderr)[-KEPT_CHARACTERS:]
    return result


def look_closer(program: Path, name: str, failures: list[dict], clock: Clock) -> str:
    tests = ":".join(failure["test"] for failure in failures[:3]) or f"{name}.*"
    sanitizer = shutil.which("compute-sanitizer")
    prefix = [sanitizer, "--tool", "memcheck", "--error-exitcode", "1"] if sanitizer else []
    done = clock.run(
        [*prefix, program, f"--gtest_filter={tests}", "--gtest_brief=1"],
        AGAIN_SECONDS,
        CUDA_LAUNCH_BLOCKING="1",
    )
    return (done.stdout + done.stderr)[-KEPT_CHARACTERS:]


def main() -> None:
    arguments = parser_of(__doc__, 300).parse_args()
    program = arguments.folder / ("cuda_emulated_tests" if arguments.dry_run else "cuda_tests")
    program = program.resolve()
    clock, report = Clock(arguments.seconds), Report(arguments.output)
    names = suites(program, clock)
    if arguments.dry_run:
        names = names[-2:]
    say(f"{len(names)} suites: {', '.join(names)}")
    results: dict[str, dict] = {}
    report["suites"] = results
    for name in names:
        results[name] = run_suite(program, name, clock, SUITE_SECONDS)
        report.save()
        told = f"{results[name]['tests']} tests, {len(results[name]['failures'])} failed"
        say(f"{name}: {told}, code {results[name]['code']}")
    for name, result in results.items():
        if result["code"] and (clock.left() > 10):
            result["closer"] = look_closer(program, name, result["failures"], clock)
            report.save()
            say(f"{name}, closer:\n{result['closer']}")
    if any(result["code"] for result in results.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
