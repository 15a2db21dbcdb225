"""Runs the GPU tests so that each one has a result: a test that crashes, hangs or breaks the device
ends its process alone, and another process goes on behind it."""

import re
import threading
import time
from collections import deque
from pathlib import Path

from gpu_call import Call, json_lines, reason

BROKEN_DEVICE = 86  # tests/cuda/results.cpp
TESTS_OF_A_PROCESS = 60
# What everything else builds on comes first.
FIRST = ["Ops/CudaOpTest", "CudaKernelTest", "Cases/FusedAttentionTest", "Fixtures/CudaGoldenTest"]
FUSED = [
    "Cases/FusedAttentionTest",
    "Cases/AttentionWithConvTest",
    "Cases/FusedPseudoInverseTest",
    "Cases/FusedConvTest",
]


def list_tests(call: Call, program: Path) -> list[str]:
    done = call.run([program, "--gtest_list_tests"], 20)
    if done.returncode:
        raise RuntimeError(f"{program.name} cannot list its tests: {reason(done)}")
    tests, suite = [], ""
    for line in done.stdout.splitlines():
        word = line.split("#")[0].strip()
        if line.startswith("  "):
            tests.append(suite + word)
        elif word.endswith("."):
            suite = word
    return sorted(tests, key=lambda test: place(test))


def place(test: str) -> int:
    suite = test.rsplit(".", 1)[0]
    return FIRST.index(suite) if suite in FIRST else len(FIRST)


def chunks(tests: list[str], size: int) -> deque:
    suites: dict[str, list[str]] = {}
    for test in tests:
        suites.setdefault(test.rsplit(".", 1)[0], []).append(test)
    return deque(
        names[i : i + size] for names in suites.values() for i in range(0, len(names), size)
    )


def kernel_of(message: str) -> str:
    found = re.search(r"(?:launch|GPU|kernel|product) of (\w+):", message)
    return found[1] if found else ""


class Suites:
    """Runs tests in several processes side by side until a moment."""

    def __init__(self, call: Call, program: Path, seconds: float, limit: float, prefix: list):
        self.call, self.program, self.limit, self.prefix = call, program, limit, prefix
        self.end = min(call.end, time.monotonic() + seconds)
        self.results: dict[str, dict] = {}

    def run(self, tests: list[str], processes: int, size: int = TESTS_OF_A_PROCESS) -> dict:
        self.queue = chunks(tests, size)
        threads = [threading.Thread(target=self.work) for _ in range(processes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for test in tests:
            self.results.setdefault(test, {"status": "not run", "message": "no time was left"})
        self.look_closer()
        return self.results

    def work(self) -> None:
        while True:
            try:
                tests = self.queue.popleft()
            except IndexError:
                return
            while tests and self.end - time.monotonic() > 1:
                tests = self.run_some(tests)

    def run_some(self, tests: list[str], **environment) -> list[str]:
        """Runs tests in one process. Returns those behind the one that ended it."""
        file = self.call.scratch / f"tests-{threading.get_ident()}"
        file.unlink(missing_ok=True)
        done = self.call.run(
            [*self.prefix, self.program, f"--gtest_filter={':'.join(tests)}", "--gtest_brief=1"],
            min(self.limit, self.end - time.monotonic()),
            NYSTROM_TEST_RESULTS=str(file),
            **environment,
        )
        records = json_lines(file.read_text()) if file.exists() else []
        ended = set()
        for record in records:
            test = record.pop("test")
            if record["status"] != "started":
                ended.add(test)
            self.results[test] = self.results.get(test, {}) | record
        running = [t for t in tests if self.results.get(t, {}).get("status") == "started"]
        for test in running:
            status = "timed out" if done.returncode == 124 else "crashed"
            self.results[test] = {"status": status, "message": reason(done)}
        for test in ended:
            if self.results[test].get("message"):
                self.results[test]["kernel"] = kernel_of(self.results[test]["message"])
        if done.returncode and self.prefix:  # what a sanitizer found belongs to no single test
            for test in list(ended)[:1]:
                self.results[test]["sanitizer"] = done.stdout[-3000:]
        if not ended and not running:  # the program does not start
            for test in tests:
                self.results[test] = {"status": "not run", "message": reason(done)}
            return []
        behind = max(tests.index(test) for test in [*ended, *running])
        return tests[behind + 1 :] if done.returncode else []

    def look_closer(self) -> None:
        """Runs again what broke the device or crashed, launch by launch: the message then names the
        kernel. What timed out would only take as long again."""
        if self.prefix:
            return
        bad = [t for t, r in self.results.items() if r["status"] in ("broke the device", "crashed")]
        for test in bad[:5]:
            if self.end - time.monotonic() < 3:
                return
            before = self.results.pop(test)
            self.run_some([test], CUDA_LAUNCH_BLOCKING="1")
            self.results[test] = before | {"launch_by_launch": self.results.get(test, {})}


def count(results: dict[str, dict]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for result in results.values():
        counts[result["status"]] = counts.get(result["status"], 0) + 1
    return counts


def bad_tests(results: dict[str, dict]) -> list[str]:
    return [t for t, result in results.items() if result["status"] not in ("passed", "skipped")]


def worst_line(test: str, result: dict) -> str:
    closer = result.get("launch_by_launch", {})
    kernel = closer.get("kernel") or result.get("kernel", "")
    error = result.get("error_over_tolerance", 0)
    return (
        f"  {test}: {result['status']}"
        + (f", {error:.3g} x tolerance" if error else "")
        + (f", kernel {kernel}" if kernel else "")
        + f": {' '.join(result.get('message', '').split())[:160]}"
    )
