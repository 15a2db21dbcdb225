"""The runner of `./dev gpu` survives what a lent machine may bring. Fake programs stand for ours.

    python3 tests/gpu/runner_test.py"""

import json
import os
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import gpu  # noqa: E402
import gpu_summary  # noqa: E402
from gpu_call import Call  # noqa: E402
from gpu_suites import Suites, list_tests  # noqa: E402

# A test program: `good`, `bad`, `crash`, `hang`, `broken` and `skip` are what its tests do.
PROGRAM = """#!/usr/bin/env python3
import json, os, sys, time
tests = ["A.good", "A.crash", "A.behind", "B.broken", "B.bad", "C.hang", "C.last", "C.skip"]
if "--gtest_list_tests" in sys.argv:
    print("Running main()")
    for suite in "ABC":
        print(suite + ".")
        print("".join(f"  {t[2:]}  # GetParam()\\n" for t in tests if t[0] == suite), end="")
    sys.exit(0)
chosen = next(a for a in sys.argv if a.startswith("--gtest_filter="))[15:].split(":")
bad = False
for test in [t for t in tests if t in chosen]:
    def tell(**more):
        with open(os.environ["NYSTROM_TEST_RESULTS"], "a") as file:
            file.write(json.dumps({"test": test, **more}) + "\\n")
    tell(status="started")
    what = test[2:]
    if what == "crash":
        os.abort()
    if what == "hang":
        time.sleep(60)
    if what == "broken":
        blocking = os.environ.get("CUDA_LAUNCH_BLOCKING")
        place = "kernel launch of softmax" if blocking else "waiting for the GPU"
        tell(status="broke the device", seconds=0, message=place + ": an illegal memory access")
        os._exit(86)
    bad = bad or what == "bad"
    status = {"bad": "failed", "skip": "skipped"}.get(what, "passed")
    tell(status=status, seconds=0.1, error_over_tolerance=3.5 if what == "bad" else 0.2, message="")
sys.exit(bad)
"""


class RunnerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "out").mkdir()
        self.call = Call("h100-first", self.folder / "out", 60, self.folder, True)
        self.addCleanup(self.call.lock.close)

    def program(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def test_every_test_has_a_result_whatever_one_does(self):
        program = self.program("tests", PROGRAM)
        tests = list_tests(self.call, program)
        self.assertEqual(len(tests), 8)
        results = Suites(self.call, program, 20, 1.5, []).run(tests, 2)
        told = {test: result["status"] for test, result in results.items()}
        self.assertEqual(
            told,
            {
                "A.good": "passed",
                "A.crash": "crashed",
                "A.behind": "passed",
                "B.broken": "broke the device",
                "B.bad": "failed",
                "C.hang": "timed out",
                "C.last": "passed",
                "C.skip": "skipped",
            },
        )
        self.assertEqual(results["B.bad"]["error_over_tolerance"], 3.5)
        self.assertEqual(results["B.broken"]["launch_by_launch"]["kernel"], "softmax")
        self.assertNotIn("launch_by_launch", results["C.hang"], "it would hang again")
        text = gpu_summary.summary({"suites": results}, [])
        self.assertIn("B.broken: broke the device, kernel softmax", text)
        self.assertIn("skipped: C.skip", text)

    def test_a_missing_library_is_told_and_ends_nothing(self):
        text = "#!/bin/sh\necho 'libfmt.so.9: not found' >&2; exit 127\n"
        program = self.program("nystrom", text)
        results = Suites(self.call, program, 5, 2, []).run(["A.good"], 1)
        self.assertIn("127: libfmt.so.9: not found", results["A.good"]["message"])
        with self.assertRaisesRegex(RuntimeError, "libfmt.so.9"):
            list_tests(self.call, program)
        absent = self.call.run([self.folder / "absent"], 5)
        self.assertEqual(absent.returncode, 127)
        self.assertIn("absent", absent.stderr)

    def test_a_hanging_process_ends_with_what_it_started_and_keeps_its_output(self):
        program = self.program("hang", "#!/bin/sh\necho before\nsleep 60 &\nwait\n")
        start = time.monotonic()
        done = self.call.run([program], 0.5)
        self.assertLess(time.monotonic() - start, 5)
        self.assertEqual((done.returncode, done.stdout), (124, "before\n"))

    def test_a_folder_that_takes_nothing_leaves_the_summary(self):
        self.call.out = Path("/dev/full")
        self.call.say("a line")
        self.call.keep("steps", {"error": "a finding"})
        self.assertIn("results cannot be written to /dev/full", self.call.problems[0])
        self.assertIn("a finding", gpu_summary.summary(self.call.results, self.call.problems))

    def test_results_are_two_files_and_whole(self):
        for number in range(3):
            self.call.keep("steps", number)
            self.call.say(str(number))
        names = sorted(path.name for path in self.call.out.iterdir())
        self.assertEqual(names, ["h100-first.json", "h100-first.log"])
        self.assertEqual(json.loads((self.call.out / names[0]).read_text()), {"steps": 2})

    def test_a_summary_fits(self):
        bad = {f"Suite.test{i}": {"status": "failed", "message": "x" * 900} for i in range(900)}
        self.assertLess(len(gpu_summary.summary({"suites": bad}, [])), 12000)

    def test_the_longest_launch_of_each_kernel_counts(self):
        tool = ROOT / "tests/gpu/stand_ins/ncu"
        program = self.program("nystrom", "#!/bin/sh\necho {}\n")
        metrics = ",".join(gpu.METRICS)
        text = subprocess.run([tool, "--metrics", metrics, program], capture_output=True, text=True)
        rows = gpu.longest_launches(text.stdout)
        names = [row["kernel"].split("<")[0] for row in rows]
        self.assertEqual(names, ["forward_kernel", "adamw_kernel"])
        self.assertEqual(rows[0][gpu.METRICS[0]], "1,200.5")
        self.assertEqual(gpu.longest_launches("killed before a row"), [])

    def test_calls_fit_their_time(self):
        self.assertLessEqual(sum(part.seconds for part in gpu.FIRST), 335)
        self.assertLessEqual(sum(part.seconds for part in gpu.SECOND), 165)

    def test_a_part_that_fails_stops_no_other(self):
        def broken(call, seconds):
            raise ValueError("got nothing")

        gpu.run_part(self.call, gpu.Part("steps", 5, broken), 5)
        self.assertEqual(self.call.results["steps"]["error"], "ValueError: got nothing")


if __name__ == "__main__":
    os.chdir(ROOT)
    unittest.main()
