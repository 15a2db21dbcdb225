"""Changes one small thing in the product's code at a time, and asks whether a test fails.

    ./dev mutate [COUNT] [SEED]

SEED (1) draws COUNT (240) mutants, in equal parts from core/cpu, core, autograd, nn, data and
train. There are five kinds: a comparison flipped, a number one off, a condition negated, a
statement left out, two arguments swapped. The same COUNT, SEED and sources give the same mutants.
One build (build/mutate/source) holds all of them, and each run switches one on.

The tests that reach a mutant run fastest first, until one fails or PATIENCE_S seconds of tests have
passed. A mutant that only a slow test would find survives: it needs a fast test. A run goes on from
the one before while the mutated sources are the same: found mutants stay found, and survivors run
again when a test changed. Remove build/mutate to run everything anew.

Not mutated: code for GPUs; the modules of MPI and NCCL; statements and texts of `require`, which no
input reaches; reserve(). Not run: tests of several processes, of random kills and of memory limits
(SLOW), which fail on a busy machine.

equivalent_mutants.txt lists the mutants that change nothing, with the reason. The exit code is 1 if
less than 95 % of the others are found."""

import argparse
import contextlib
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import mutation_points
from mutation_points import KINDS, Point

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build/mutate"
SOURCE = WORK / "source"
BUILD = SOURCE / "build/release"
RESULTS = WORK / "results.json"
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.txt")

AREAS = {
    "core/cpu": ("core/cpu/*.cpp", "core/cpu/*.h"),
    "core": ("core/*.cpp", "core/base/*.cpp"),
    "autograd": ("autograd/**/*.cpp",),
    "nn": ("nn/*.cpp",),
    "data": ("data/**/*.cpp",),
    "train": ("train/**/*.cpp",),
}
NOT_MUTATED = {
    "core/cuda_absent.cpp",
    "train/distributed/mpi_transport.cpp",
    "train/distributed/nccl_transport.cpp",
}
ROOMS = "optim config distributed state loop objectives export plan report".split()
FOLDERS = ["core", "autograd", "nn", "data", *ROOMS]
LIBRARIES = [*(f"nystrom_{folder}" for folder in FOLDERS), "nystrom"]
PROGRAMS = [*(f"{folder}_tests" for folder in FOLDERS), "cli_tests", "fault_tests"]
SLOW = re.compile(r"Distributed|AnyMoment|Killed|MemoryPlan|InBoundedMemory|FromTheThirdStepOn")

# Points drawn for each mutant of a kind. Many mutants do not compile.
DRAWS = {"comparison": 1.5, "one_off": 2, "negation": 1.3, "statement": 1.5, "arguments": 4}
PATIENCE_S = 60
FIRST_BATCH_S = 1.0  # each batch of tests takes twice as long as the one before
MEMORY_BYTES = 8 << 30
FILE_BYTES = 4 << 30
TABLE_BYTES = 65536
WATCHED, ON = 1, 2


@dataclass(frozen=True)
class Mutant:
    number: int
    area: str
    path: str
    line: int
    point: Point
    before: str
    after: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line}"

    @property
    def identity(self) -> str:
        return f"{self.path}\n- {self.before}\n+ {self.after}"


@dataclass
class Unit:
    """A test, with all values of its parameter."""

    program: str
    name: str
    seconds: float
    reached: list[int]


def say(text: str) -> None:
    print(f"mutate: {text}", flush=True)


# ---- Mutants  ------------------------------------------------------------------------------------


def write_sources(mutants: list[Mutant]) -> None:
    """Brings build/mutate/source up to date; what did not change keeps its time, so that it is not
    built again."""
    by_path: dict[str, dict[int, Point]] = {}
    for mutant in mutants:
        by_path.setdefault(mutant.path, {})[mutant.number] = mutant.point
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for path in filter(None, listed.split("\0")):
        if not (ROOT / path).exists():
            continue
        content = (ROOT / path).read_bytes()
        if path in by_path:
            content = mutation_points.with_mutants(content.decode(), path, by_path[path]).encode()
        if path == "core/CMakeLists.txt":
            first = b"    allocator.cpp"
            content = content.replace(first, b"    mutants.cpp\n" + first, 1)
        write_changed(SOURCE / path, content)
        shutil.copymode(ROOT / path, SOURCE / path)
    for name in ("mutants.h", "mutants.cpp"):
        write_changed(SOURCE / "core" / name, Path(__file__).with_name(name).read_bytes())


def write_changed(path: Path, content: bytes) -> None:
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def whole_lines(source: str, point: Point) -> tuple[str, str]:
    """The lines that hold the point, as one, before and after."""
    start = source.rfind("\n", 0, point.start) + 1
    end = source.find("\n", point.end)
    head, tail = source[start : point.start], source[point.end : end].split("//")[0]
    before, after = (" ".join(f"{head}{x}{tail}".split()) for x in (point.old, point.new))
    return before, after


def draw(count: int, seed: int) -> list[Mutant]:
    mutants: list[Mutant] = []
    for area, patterns in AREAS.items():
        chance = random.Random(f"{seed} {area}")
        found = {str(path.relative_to(ROOT)) for each in patterns for path in ROOT.glob(each)}
        paths = sorted(found - NOT_MUTATED)
        sources = {path: (ROOT / path).read_text() for path in paths}
        candidates: dict[str, list[tuple[str, Point]]] = {kind: [] for kind in KINDS}
        for path in paths:
            points = mutation_points.find_points(sources[path], f"{seed} {path}")
            for kind in KINDS:
                candidates[kind] += [(path, point) for point in points[kind]]
        taken: dict[str, list[Point]] = {path: [] for path in paths}
        for kind in KINDS:
            chance.shuffle(candidates[kind])
            wanted = max(1, round(DRAWS[kind] * count / len(AREAS) / len(KINDS)))
            for path, point in candidates[kind]:
                if wanted == 0:
                    break
                if any(point.start < it.end and it.start < point.end for it in taken[path]):
                    continue
                taken[path].append(point)
                wanted -= 1
                line = sources[path].count("\n", 0, point.start) + 1
                texts = whole_lines(sources[path], point)
                mutants.append(Mutant(len(mutants), area, path, line, point, *texts))
    return mutants


def choose(mutants: list[Mutant], count: int) -> list[Mutant]:
    """As many of each area, and in it of each kind, as there are; the earlier drawn first."""
    chosen: list[Mutant] = []
    for number, area in enumerate(AREAS):
        usable = [m for m in mutants if m.area == area and mutation_points.may_matter(m.point)]
        queues = [[m for m in usable if m.point.kind == kind] for kind in KINDS]
        wanted = count // len(AREAS) + (number < count % len(AREAS))
        while wanted > 0 and any(queues):
            for queue in queues:
                if queue and wanted > 0:
                    chosen.append(queue.pop(0))
                    wanted -= 1
    return chosen


# ---- Building  -----------------------------------------------------------------------------------


def build(drawn: list[Mutant]) -> list[Mutant]:
    """Builds all, and returns those mutants that compile. Remembers the others."""
    file = WORK / "not_compiling.json"
    refused = set(json.loads(file.read_text())) if file.exists() else set()
    while True:
        mutants = [mutant for mutant in drawn if mutant.name + mutant.point.code not in refused]
        write_sources(mutants)
        if not (BUILD / "build.ninja").exists():
            command = ["cmake", "--preset", "release", "-DNYSTROM_UNITY=OFF"]
            subprocess.run(command, cwd=SOURCE, check=True, stdout=subprocess.DEVNULL)
        say(f"building with {len(mutants)} mutants")
        command = ["cmake", "--build", str(BUILD), "--target", *LIBRARIES, "--", "-k", "0"]
        made = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if made.returncode == 0:
            break
        bad = not_compiling(mutants, made.stdout)
        if not bad:
            sys.exit(f"mutate: the build failed, and not for a mutant:\n{made.stdout[-4000:]}")
        say(f"{len(bad)} do not compile")
        refused |= {mutant.name + mutant.point.code for mutant in mutants if mutant.number in bad}
        file.write_text(json.dumps(sorted(refused)))
    command = ["cmake", "--build", str(BUILD), "--target", *PROGRAMS]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return mutants


def not_compiling(mutants: list[Mutant], output: str) -> set[int]:
    """The mutants on the lines that errors name; where none does, all of the file that failed."""
    bad: set[int] = set()
    for failure in output.split("FAILED: ")[1:]:
        lines = re.findall(
            r"((?:core|autograd|nn|data|train)/[\w/.]+):(\d+):\d+: "
            r"(?:fatal )?(error|  required from)?",
            failure,
        )
        named = {(path, int(line)) for path, line, what in lines if what == "error"}
        found = {m.number for m in mutants if (m.path, m.line) in named}
        if not found:
            named = {(path, int(line)) for path, line, _ in lines}
            found = {m.number for m in mutants if (m.path, m.line) in named}
        if not found:
            files = {path for path, _, _ in lines}
            found = {m.number for m in mutants if m.path in files}
        bad |= found
    return bad


# ---- Running  ------------------------------------------------------------------------------------


def limit_process() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_tests(
    program: str, names: list[str], table: bytes, timeout_s: float
) -> tuple[bool, str, bytes]:
    """Whether all passed, else the first that did not, and the table as they left it."""
    temporary, table_file = WORK / "tmp", WORK / "table"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    table_file.write_bytes(table.ljust(TABLE_BYTES, b"\0"))
    environment = {
        **os.environ,
        "NYSTROM_MUTANTS": str(table_file), "TMPDIR": str(temporary),
        "XDG_CACHE_HOME": str(temporary),
        "OMP_WAIT_POLICY": "passive", "GTEST_FILTER": ":".join(names), "GTEST_FAIL_FAST": "1",
    }  # fmt: skip
    with open(WORK / "output", "w+b") as output:
        process = subprocess.Popen(
            [BUILD / program], cwd=BUILD / "tests", env=environment, stdin=subprocess.DEVNULL,
            stdout=output, stderr=output,
            start_new_session=True, preexec_fn=limit_process,
        )  # fmt: skip
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # child processes that a mutant left running
        process.wait()
        output.seek(0)
        text = output.read().decode(errors="replace")
    if code == 0:
        return True, "", table_file.read_bytes()
    failed = (
        re.findall(r"^\[  FAILED  \] ([^\s,]+)", text, re.MULTILINE)
        or re.findall(r"^\[ RUN      \] (\S+)", text, re.MULTILINE)[-1:]
    )
    how = "" if code == 1 else " (endless)" if code is None else " (crash)"
    return False, (failed[0] if failed else program) + how, table_file.read_bytes()


def list_units(program: str) -> list[str]:
    command = [BUILD / program, "--gtest_list_tests"]
    done = subprocess.run(command, cwd=BUILD, check=True, capture_output=True, text=True)
    names: dict[str, None] = {}
    suite = ""
    for line in done.stdout.splitlines():
        name = line.split("#")[0].strip()
        if not line.startswith(" "):
            suite = name if name.endswith(".") else ""
        elif suite and "DISABLED" not in name:
            names[suite + (name.split("/")[0] + "/*" if "/" in name else name)] = None
    return [name for name in names if not SLOW.search(name)]


def remembered(file: Path, digest: str) -> dict:
    """What a run before wrote into the file about the same mutated sources."""
    known = json.loads(file.read_text()) if file.exists() else {}
    return known if known.get("sources") == digest else {"sources": digest}


def digest_of(paths: list[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def record(mutants: list[Mutant], digest: str) -> list[Unit]:
    """What each test reaches, and how long it takes; remembered for programs that are the same."""
    file = WORK / "coverage.json"
    built = {program: digest_of([BUILD / program]) for program in PROGRAMS}
    known = {"units": {}} | remembered(file, digest)
    watching = bytes([WATCHED] * TABLE_BYTES)
    units = [(program, name) for program in PROGRAMS for name in list_units(program)]
    begin = last = time.monotonic()
    for done, (program, name) in enumerate(units):
        key = f"{program} {name}"
        if known["units"].get(key, {}).get("program") == built[program]:
            continue
        started = time.monotonic()
        passed, _, table = run_tests(program, [name], watching, 600)
        known["units"][key] = {
            "program": built[program], "passed": passed, "seconds": time.monotonic() - started,
            "reached": [m.number for m in mutants if table[m.number] == 0],
        }  # fmt: skip
        if time.monotonic() - last > 30:
            last = time.monotonic()
            say(f"{done + 1} of {len(units)} tests recorded, {last - begin:.0f} s")
            file.write_text(json.dumps(known))
    file.write_text(json.dumps(known))
    failed = [key for key in map(" ".join, units) if not known["units"][key]["passed"]]
    if failed:
        told = ", ".join(failed)
        say(f"without a mutant {len(failed)} tests fail here, and are left out: {told}")
    records = [(program, name, known["units"][f"{program} {name}"]) for program, name in units]
    return [Unit(*names, r["seconds"], r["reached"]) for *names, r in records if r["passed"]]


def batches(units: list[Unit]) -> list[list[Unit]]:
    """The tests, fastest first, in batches that grow."""
    result, batch, total, limit = [], [], 0.0, FIRST_BATCH_S
    spent = 0.0
    for unit in sorted(units, key=lambda unit: unit.seconds):
        if spent + unit.seconds > PATIENCE_S:
            break
        spent += unit.seconds
        batch.append(unit)
        total += unit.seconds
        if total > limit:
            result.append(batch)
            batch, total, limit = [], 0.0, 2 * limit
    return [*result, batch] if batch else result


def try_mutant(mutant: Mutant, reaching: list[Unit]) -> tuple[str, str]:
    """("killed", by which test), "survived" or "unreached"."""
    table = bytearray(TABLE_BYTES)
    table[mutant.number] = ON
    for batch in batches(reaching):
        for program in sorted({unit.program for unit in batch}, key=PROGRAMS.index):
            names = [unit.name for unit in batch if unit.program == program]
            seconds = sum(unit.seconds for unit in batch if unit.program == program)
            passed, test, _ = run_tests(program, names, bytes(table), 20 + 8 * seconds)
            if not passed:
                return "killed", test
    return ("survived" if reaching else "unreached"), ""


# ---- Reporting  ----------------------------------------------------------------------------------


def read_equivalents() -> dict[str, str]:
    """Reasons by mutant. A block is: path, "- line before", "+ line after", "= reason"."""
    reasons = {}
    for block in EQUIVALENT.read_text().split("\n\n") if EQUIVALENT.exists() else []:
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if lines:
            reasons["\n".join(lines[:3])] = lines[3].removeprefix("= ")
    return reasons


def report(outcomes: list[dict]) -> bool:
    print("\n| folder | mutants | found | survived | equivalent |\n|---|---|---|---|---|")
    rows = {area: [o for o in outcomes if o["area"] == area] for area in AREAS}
    for name, those in (rows | {"all": outcomes}).items():
        counts = [
            sum(o["result"] in results for o in those)
            for results in (("killed",), ("survived", "unreached"), ("equivalent",))
        ]
        print(f"| {name} | {len(those)} | {' | '.join(map(str, counts))} |")
    for outcome in outcomes:
        if outcome["result"] in ("survived", "unreached"):
            print(f"\n{outcome['name']}  {outcome['kind']}, {outcome['result']}")
            print(outcome["identity"])
    killed = sum(o["result"] == "killed" for o in outcomes)
    judged = sum(o["result"] != "equivalent" for o in outcomes)
    rate = killed / max(judged, 1)
    print(f"\n{killed} of {judged} found, {100 * rate:.1f} %; all in {RESULTS.relative_to(ROOT)}")
    return rate >= 0.95


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        prog="./dev mutate",
    )
    parser.add_argument("count", type=int, nargs="?", default=240, metavar="COUNT")
    parser.add_argument("seed", type=int, nargs="?", default=1, metavar="SEED")
    arguments = parser.parse_args()
    if arguments.count < 1:
        parser.error(f"COUNT is {arguments.count}; expected a number from 1 on")
    return arguments


def main() -> int:
    arguments = parse_arguments()
    compiled = build(draw(arguments.count, arguments.seed))
    digest = digest_of([SOURCE / path for path in sorted({mutant.path for mutant in compiled})])
    tests = digest_of([BUILD / program for program in PROGRAMS])
    units = record(compiled, digest)
    chosen = choose(compiled, arguments.count)
    earlier = {o["number"]: o for o in remembered(RESULTS, digest).get("mutants", [])}
    reasons = read_equivalents()
    outcomes: dict[int, dict] = {}
    begin = time.monotonic()
    for done, mutant in enumerate(chosen):
        started = time.monotonic()
        before = earlier.get(mutant.number)
        reaching = [unit for unit in units if mutant.number in unit.reached]
        if mutant.identity in reasons:
            result, by = "equivalent", ""
        elif before and (before["result"] == "killed" or before["tests"] == tests):
            result, by = before["result"], before["by"]
        else:
            result, by = try_mutant(mutant, reaching)
        seconds = time.monotonic() - started
        outcomes[mutant.number] = {
            "number": mutant.number, "name": mutant.name, "area": mutant.area,
            "kind": mutant.point.kind, "result": result, "by": by,
            "seconds": round(seconds, 2), "tests": tests, "identity": mutant.identity,
        }  # fmt: skip
        results = {"sources": digest, "mutants": list((earlier | outcomes).values())}
        RESULTS.write_text(json.dumps(results, indent=1))
        left = (time.monotonic() - begin) / (done + 1) * (len(chosen) - done - 1) / 60
        say(
            f"{done + 1}/{len(chosen)} {mutant.name} {mutant.point.kind}: "
            f"{result} {by} in {seconds:.1f} s; {left:.0f} min left"
        )
    return 0 if report(list(outcomes.values())) else 1


if __name__ == "__main__":
    sys.exit(main())
