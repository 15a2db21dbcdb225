"""Runs kernels under compute-sanitizer: memcheck, then racecheck.

python3 bench/gpu_sanitize.py --output bench/results/h200-sanitize.json"""

import shutil

from gpu_common import Clock, Report, parser_of, say

FILTER = "Ops/*:Cases/*:-*TwoRuns*"
KEPT_CHARACTERS = 8000


def main() -> None:
    arguments = parser_of(__doc__, 500).parse_args()
    sanitizer = shutil.which("compute-sanitizer")
    if not sanitizer and not arguments.dry_run:
        raise SystemExit("compute-sanitizer is not installed: no memcheck, no racecheck")
    program = arguments.folder / ("cuda_emulated_tests" if arguments.dry_run else "cuda_tests")
    clock, report = Clock(arguments.seconds), Report(arguments.output)
    failed = False
    for place, tool in enumerate(("memcheck", "racecheck")):
        prefix = [sanitizer, "--tool", tool, "--error-exitcode", "1"] if sanitizer else []
        tests = FILTER if sanitizer else "Cases/FusedConvTest.*"
        command = [*prefix, program.resolve(), "--gtest_brief=1", f"--gtest_filter={tests}"]
        done = clock.run(command, clock.left() / (2 - place))
        output = (done.stdout + done.stderr)[-KEPT_CHARACTERS:]
        report[tool] = {"code": done.returncode, "output": output}
        say(f"{tool}: code {done.returncode}\n{output[-1500:]}")
        failed |= done.returncode not in (0, 124)
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
