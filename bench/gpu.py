"""The two calls to a lent GPU machine: `./dev gpu first`, and after mending `./dev gpu second`.

The tables FIRST and SECOND at the end say what each measures and in how many seconds at most. What
ends early leaves its time to what follows. --dry-run does all without a GPU: small sizes, the
emulator, and stand-ins for NVIDIA's tools. Results: NAME-first.json and NAME-first.log in $OUT,
which is bench/results, or build/gpu of a dry run, where it is not set."""

import argparse
import contextlib
import csv
import io
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gpu_summary
from gpu_call import Call, Started, json_lines, reason
from gpu_suites import FUSED, Suites, bad_tests, count, list_tests

LENGTHS = [512, 4096]
FIVE_LENGTHS = [512, 4096, 1024, 2048, 8192]
TOKENS = 65536
KERNELS = (
    "forward_kernel|backward_kernel|unary_kernel|gradient_kernel|fused_iterate_kernel|"
    "fused_iterate_grad_kernel|means_kernel|means_grad_kernel|cross_entropy_kernel|"
    "cross_entropy_grad_kernel|adamw_kernel|convolve_kernel"
)
METRICS = [
    "gpu__time_duration.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "lts__t_sector_hit_rate.pct",
    "launch__registers_per_thread",
    "launch__waves_per_multiprocessor",
    "launch__occupancy_limit_shared_mem",
    "smsp__inst_executed_op_local_ld.sum",
]
TINY_MODEL = {
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
    "training.micro_batch_size": 8,
}
LOSSES = Path("bench/results/quickstart-losses.json")


class Gpu(Call):
    """A call, and where its programs are."""

    def __init__(self, arguments: argparse.Namespace, out: Path, scratch: Path, seconds: float):
        self.arguments, self.folder = arguments, arguments.folder.resolve()
        dry = arguments.dry_run
        name = "dry-run" if dry else gpu_name()
        super().__init__(f"{name}-{arguments.call}", out, seconds, scratch, dry)
        self.nystrom = self.folder / ("emulated" if dry else ".") / "nystrom"
        self.tests = self.folder / ("cuda_emulated_tests" if dry else "cuda_tests")
        self.device = "--device=cuda"
        self.environment |= {
            # nystrom would start itself again to set it, under ncu too
            "GOMP_SPINCOUNT": "1000",
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "2"),
            "NYSTROM_SOURCE_DIR": os.getcwd(),
            "NYSTROM_NEEDS_GPU": "1",
        }
        if dry:
            tools = Path("tests/gpu/stand_ins").resolve()
            self.environment["PATH"] = f"{tools}:{self.environment['PATH']}"
        else:
            self.environment["LD_LIBRARY_PATH"] = library_path()

    def tool(self, name: str) -> str:
        found = shutil.which(name, path=self.environment["PATH"])
        if not found:
            raise RuntimeError(f"{name} is not installed")
        return found

    def bench(self, *options: str, layers: int = 12) -> list:
        sizes = [f"--layers={layers}", "--hidden=768", "--heads=12", "--vocab=30000"]
        if self.dry:
            sizes = ["--layers=1", "--hidden=64", "--heads=2", "--vocab=56", "--landmarks=32"]
        given = ["--conv=33", "--dtype=bf16", "--json"]
        return [self.nystrom, "bench", self.device, *sizes, *given, *options]

    def lengths(self, lengths: list[int]) -> list[str]:
        if self.dry:
            lengths = [64 << i for i in range(min(len(lengths), 2))]
        tokens = 128 if self.dry else TOKENS
        return ["--length", *map(str, lengths), f"--tokens={tokens}"]

    def rival(self, *options) -> Started:
        sizes = ["--tokens", TOKENS, "--lock", self.scratch / "gpu.lock"]
        if self.dry:
            sizes[1] = 256
            options = (*options, "--cpu", "--steps=1", "--warmup=1", "--layers=1")
        words = [self.arguments.python, "bench/gpu_rivals.py", *options, *sizes]
        environment = {
            "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH"),  # PyTorch has its own
            "OMP_NUM_THREADS": "4",
            "TORCHINDUCTOR_COMPILE_THREADS": "4",
            "TORCHINDUCTOR_CACHE_DIR": str(self.scratch / "inductor"),
            "HF_HUB_OFFLINE": "1",
        }
        return Started(self, words, environment)


def gpu_name() -> str:
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    with contextlib.suppress(OSError):
        name = subprocess.run(query, capture_output=True, text=True, timeout=20).stdout
        words = re.findall(r"[a-z]*\d+[a-z]*", name.lower())
        if words:
            return words[0]
    return "gpu"


def library_path() -> str:
    """Where CUDA's libraries are: /usr/local/cuda, and the folders of PyPI's wheels."""
    folders = [os.environ.get("LD_LIBRARY_PATH", ""), "/usr/local/cuda/lib64"]
    for place in sys.path:
        for file in sorted(Path(place or ".").glob("nvidia/**/lib*.so.*")):
            folders.append(str(file.parent))
    return ":".join(dict.fromkeys(folder for folder in folders if folder))


# --- What is measured -----------------------------------------------------------------------------


def libraries(gpu: Gpu, seconds: float) -> dict:
    """The libraries as the loader finds them, or what it says of a missing one."""
    done = gpu.run([gpu.nystrom, "doctor"], seconds, LD_DEBUG="libs")
    ours = [line for line in done.stderr.splitlines() if not re.match(r"\s*\d+:", line)]
    result = {
        "code": done.returncode,
        "loaded": re.findall(r"calling init: (\S+)", done.stderr),
        "doctor": done.stdout.splitlines(),
        "errors": ours[-5:],
    }
    query = "--query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem,temperature.gpu"
    with contextlib.suppress(RuntimeError):
        smi = gpu.run([gpu.tool("nvidia-smi"), query, "--format=csv,noheader"], 10)
        result["gpu"] = smi.stdout.strip()
    versions = "import torch, transformers; print(torch.__version__, transformers.__version__)"
    done = gpu.run([gpu.arguments.python, "-c", versions], 15, LD_LIBRARY_PATH=None)
    result["torch, transformers"] = done.stdout.strip() or reason(done)
    if result["code"] and ours:
        result["error"] = ours[-1]
    return result


def bench_lines(gpu: Gpu, command: list, seconds: float) -> dict:
    """What `nystrom bench` measured, length by length, also if the next one failed."""
    with gpu.alone():
        done = gpu.run(command, seconds)
    result: dict = {"lengths": json_lines(done.stdout)}
    if done.returncode:
        result["error"] = reason(done)
    return result


def smoke(gpu: Gpu, seconds: float) -> dict:
    result = bench_lines(gpu, gpu.bench(*gpu.lengths(LENGTHS), "--steps=1", layers=1), seconds)
    slow = sum(length["slow_products"] for length in result["lengths"])
    if slow:
        result["error"] = f"{slow} products of 16-bit numbers ran without the tensor cores"
    return result


def steps(gpu: Gpu, seconds: float, lengths: list[int], *more: str) -> dict:
    counts = ["--warmup=1", "--steps=1"] if gpu.dry else ["--warmup=4", "--steps=12"]
    command = gpu.bench(*gpu.lengths(lengths), *counts, "--profile", *more)
    return bench_lines(gpu, command, seconds)


def suites(gpu: Gpu, seconds: float) -> dict:
    """All tests, while the rivals compile on the other cores."""
    gpu.rivals = start_rivals(gpu) if not gpu.arguments.no_rivals else {}
    tests = list_tests(gpu, gpu.tests)
    if gpu.dry:
        tests = [test for test in tests if test.startswith(("CudaKernel", "Cases/CudaGelu"))]
    # The emulator is slower than a GPU, and here are fewer cores.
    processes, limit = (2, 60) if gpu.dry else (6, 25)
    return Suites(gpu, gpu.tests, seconds, limit, []).run(tests, processes)


def failed_tests(gpu: Gpu, seconds: float) -> dict:
    """What did not pass in the first call, and then all others."""
    tests = list_tests(gpu, gpu.tests)
    files = sorted(Path("bench/results").glob("*-first.json"), key=lambda f: f.stat().st_mtime)
    before = json.loads(files[-1].read_text()).get("suites", {}) if files else {}
    bad = bad_tests({test: before.get(test, {"status": "not run"}) for test in tests})
    rest = [test for test in tests if test not in bad]
    if gpu.dry:
        bad, rest = bad[:20], []
    runner = Suites(gpu, gpu.tests, seconds, 25, [])
    return runner.run([*bad, *rest], 2 if gpu.dry else 6)


def sanitize(gpu: Gpu, seconds: float, tools: tuple[str, ...]) -> dict:
    """The fused kernels' suites under each tool, side by side. Tests that run twice to compare bits
    would only take longer."""
    program = gpu.tool("compute-sanitizer")
    tests = [test for test in list_tests(gpu, gpu.tests) if test.startswith(tuple(FUSED))]
    tests = [test for test in tests if "TwoRuns" not in test]
    if gpu.dry:
        tests = tests[:4]
    results: dict[str, dict] = {}

    def run(tool: str) -> None:
        prefix = [program, "--tool", tool, "--error-exitcode", "1"]
        runner = Suites(gpu, gpu.tests, seconds, seconds, prefix)
        results[tool] = runner.run(tests, 1 if gpu.dry else 6, 8)

    threads = [threading.Thread(target=run, args=(tool,)) for tool in tools]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def start_rivals(gpu: Gpu) -> dict[str, Started]:
    lengths = ["--lengths", *(["64"] if gpu.dry else map(str, LENGTHS))]
    go = ["--go", gpu.scratch / "go"]
    return {
        "bert-flash": gpu.rival("steps", "bert-flash", *lengths, *go),
        "bert-cudnn": gpu.rival("steps", "bert-cudnn", *lengths, *go),
        # 65,536 tokens at once exceed 80 GB
        "hf": gpu.rival("steps", "hf", *lengths, *go, "--at-once", 128 if gpu.dry else TOKENS // 2),
    }


def rivals(gpu: Gpu, seconds: float) -> dict:
    """Those that the suites' part started. They measure one after another now."""
    (gpu.scratch / "go").touch()
    end = gpu.left() - seconds
    results = {}
    for name in list(gpu.rivals):
        process = gpu.rivals.pop(name)
        done = process.wait(gpu.left() - end)
        results[name] = {"lengths": json_lines(done.stdout)}
        if done.returncode:
            results[name]["error"] = reason(done)
    return results


def attention(gpu: Gpu, seconds: float) -> dict:
    """Attention alone: ours, with the published sizes too, and the rivals'."""
    end = gpu.left() - seconds
    ours = [gpu.nystrom, "approximation", "cost", "--dtype=bf16", gpu.device, "--json", "--quiet"]
    small = ["--shortest=32", "--longest=64", "--repeats=1", "--landmarks=32"]
    long = ["--longest=65536", "--repeats=10", "--landmarks=64", "--kinds", "nystrom"]
    published = ["--shortest=4096", "--batch=4", "--heads=16", "--head-dim=128"]
    runs = {
        "12 heads of 64": [*long, "softmax", "--shortest=512", "--heads=12", f"--tokens={TOKENS}"],
        "published, 4 x 16 heads of 128": [*long, *published],
    }
    if gpu.dry:
        runs = {name: [*small, "--kinds=nystrom", "--heads=2"] for name in runs}
    results: dict = {}
    with gpu.alone():
        for name, options in runs.items():
            done = gpu.run([*ours, *options], (gpu.left() - end) / 2)
            found = json.loads(done.stdout) if done.returncode == 0 else {}
            results[name] = found.get("measurements") or {"error": reason(done)}
    lengths = ["64"] if gpu.dry else ["512", "4096", "16384", "65536"]
    done = gpu.rival("attention", "--lengths", *lengths).wait(gpu.left() - end)
    results["rivals"] = json_lines(done.stdout)
    if done.returncode:
        results["error"] = reason(done)
    return results


def counters(gpu: Gpu, seconds: float) -> dict:
    """ncu's rows of the kernels, the longest launch of each in one layer's step."""
    results = {}
    for length in LENGTHS:
        prefix = [gpu.tool("ncu"), "--csv", "--page", "raw", "--metrics", ",".join(METRICS)]
        prefix += ["--kernel-name-base", "function", "--launch-count", "30"]
        prefix += ["--kernel-name", f"regex:^({gpu.arguments.kernels})$"]
        prefix += ["--clock-control", "none"]  # a lent machine's clocks stay as they are
        program = gpu.bench(*gpu.lengths([length]), "--steps=1", layers=1)
        with gpu.alone():
            done = gpu.run([*prefix, *program], seconds / 2)
        rows = longest_launches(done.stdout)
        results[str(length)] = rows if rows else {"error": reason(done)}
    return results


def longest_launches(text: str) -> list[dict]:
    start = text.find('"ID"')
    rows = list(csv.DictReader(io.StringIO(text[start:])))[1:] if start >= 0 else []
    longest: dict[str, dict] = {}
    for row in rows:
        name = row.get("Kernel Name") or ""
        kept = {key: row.get(key) or "" for key in ["Grid Size", "Block Size", *METRICS]}
        if name and duration(kept) > duration(longest.get(name, {})):
            longest[name] = {"kernel": name, **kept}
    return sorted(longest.values(), key=duration, reverse=True)


def duration(row: dict) -> float:
    with contextlib.suppress(ValueError):
        return float(row.get(METRICS[0], "").replace(",", ""))
    return -1 if not row else 0


def long_sequence(gpu: Gpu, seconds: float) -> dict:
    sizes = ["--length=128"] if gpu.dry else ["--length=131072"]
    return bench_lines(gpu, gpu.bench(*sizes, "--batch=1", "--warmup=1", "--steps=2"), seconds)


def quickstart(gpu: Gpu, run: Path, options: dict) -> list:
    """A run of the quickstart's model with the tokenizer that the bundle has."""
    given = {"run_dir": run, "data.cache": gpu.scratch / "cache", "logging.every": 1}
    given |= {"evaluation.every": 1000, "checkpoint.every": 1000} | options
    given |= {"optimizer.name": "adamw", "optimizer.learning_rate": 1e-3}  # as in LOSSES
    if gpu.dry:
        text = gpu.scratch / "text.txt"
        lines = [f"the {i} old ships sailed home {i % 7} times\n" for i in range(200)]
        text.write_text("".join(lines))
        given = TINY_MODEL | given
        given |= {"data.train": f"[{text}]", "data.validation": f"[{text}]"}
    elif Path("tokenizer").is_dir():
        given |= {"tokenizer.path": Path("tokenizer").resolve()}
    sets = [part for key, value in given.items() for part in ("--set", f"{key}={value}")]
    return [gpu.nystrom, "pretrain", "configs/quickstart.yaml", "--quiet", gpu.device, *sets]


def records(run: Path) -> list[dict]:
    return json_lines((run / "metrics.jsonl").read_text())


def losses(gpu: Gpu, seconds: float) -> dict:
    """200 losses in bf16 beside those of a CPU in f32, in means of ten."""
    count = 3 if gpu.dry else 200
    options = {"training.steps": count, "training.dtype": "bf16"}
    options["schedule.warmup_steps"] = max(1, count // 10)
    run = gpu.scratch / "losses"
    done = gpu.run(quickstart(gpu, run, options), seconds)
    if done.returncode:
        return {"error": reason(done)}
    ours = [record["loss"] for record in records(run) if "loss" in record]
    cpu = json.loads(LOSSES.read_text())["losses"][: len(ours)]

    def means(values):
        return [statistics.mean(values[i : i + 10]) for i in range(0, len(values), 10)]

    pairs = zip(means(ours), means(cpu), strict=True)
    apart = max(abs(a - b) / b for a, b in pairs)
    return {"largest_relative_difference": apart, "gpu_bf16": ours, "cpu_f32": cpu}


def ranks(gpu: Gpu, seconds: float) -> dict:
    """Two processes on one GPU, over NCCL, train as one does. NCCL refuses two processes on a GPU
    of one machine; with different NCCL_HOSTID it takes them for two machines."""
    end = gpu.left() - seconds
    batch = 8 if gpu.dry else 32
    options = {
        "training.steps": 3 if gpu.dry else 20,
        "training.dtype": "f32",
        "training.micro_batch_size": batch // 2,
        "training.timeout": 30,
        "schedule.warmup_steps": 2,
    }
    done = gpu.run(quickstart(gpu, gpu.scratch / "one", options), seconds / 2)
    if done.returncode:
        return {"error": f"one process: {reason(done)}"}
    one, results = values_of(gpu.scratch / "one"), {}
    kinds = {"sums": {}, "sharded": {"training.zero": 1}, "rounded": {"training.reduction": "bf16"}}
    for kind, more in kinds.items():
        command = quickstart(gpu, gpu.scratch / kind, options | more)
        port = free_port()
        processes = [Started(gpu, command, rank_environment(rank, port)) for rank in range(2)]
        ended = [process.wait(gpu.left() - end) for process in processes]
        bad = [reason(done) for done in ended if done.returncode]
        if bad:
            results[kind] = {"error": "; ".join(bad)}
            continue
        pairs = zip(values_of(gpu.scratch / kind), one, strict=True)
        apart = max(abs(a - b) / b for pair in pairs for a, b in zip(*pair, strict=True))
        results[kind] = {"largest_relative_difference": apart}
    return results


def rank_environment(rank: int, port: int) -> dict[str, str]:
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_PORT": port}
    place |= {"MASTER_ADDR": "127.0.0.1", "NCCL_HOSTID": f"host{rank}", "NCCL_SOCKET_IFNAME": "lo"}
    return {name: str(value) for name, value in place.items()}


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


def values_of(run: Path) -> list[tuple[float, float]]:
    return [(r["loss"], r["grad_norm"]) for r in records(run) if "grad_norm" in r]


# --- The schedule ---------------------------------------------------------------------------------


@dataclass
class Part:
    name: str
    seconds: float
    measure: Callable[[Gpu, float], dict]


FIRST = [
    Part("libraries", 12, libraries),
    Part("smoke", 6, smoke),
    Part("suites", 83, suites),
    Part("steps", 20, lambda gpu, seconds: steps(gpu, seconds, LENGTHS, "--products")),
    Part("attention", 35, attention),
    Part("counters", 45, counters),
    Part("long", 10, long_sequence),
    Part("losses", 15, losses),
    Part("sanitizer", 74, lambda gpu, seconds: sanitize(gpu, seconds, ("memcheck", "racecheck"))),
    Part("rivals", 35, rivals),  # compiling them takes minutes
]
SECOND = [
    Part("suites", 60, failed_tests),
    Part("steps", 30, lambda gpu, seconds: steps(gpu, seconds, FIVE_LENGTHS)),
    Part("ranks", 25, ranks),
    Part("counters", 30, counters),
    Part("sanitizer", 20, lambda gpu, seconds: sanitize(gpu, seconds, ("synccheck",))),
]
# Two slow cores and an emulator in the place of a GPU.
DRY_RUN_SLOWER = 6


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("call", choices=["first", "second"])
    parser.add_argument("--folder", type=Path, default=Path("."), help="where the programs are")
    parser.add_argument("--python", default=sys.executable, help="the one that has PyTorch")
    parser.add_argument("--kernels", default=KERNELS, help="those for ncu, a regular expression")
    parser.add_argument("--parts", nargs="+", help="these alone")
    parser.add_argument("--seconds", type=float, help="at most, if a machine has fewer left")
    parser.add_argument("--no-rivals", action="store_true", help="nystrom alone")
    parser.add_argument("--dry-run", action="store_true", help="without a GPU, in small sizes")
    return parser.parse_args()


def run_part(gpu: Gpu, part: Part, seconds: float) -> None:
    gpu.say(f"{part.name}: at most {seconds:.0f} s")
    try:
        result = part.measure(gpu, min(seconds, gpu.left()))
    except Exception as error:  # no part stops the others
        result = {"error": f"{type(error).__name__}: {error}"}
    gpu.keep(part.name, result)
    told = f": {result['error']}" if "error" in result else ""
    if part.name == "suites" and not told:
        told = f": {count(result)}, bad: {bad_tests(result)[:10]}"
    gpu.say(f"{part.name}: done{told}")


def main() -> None:
    arguments = parse_arguments()
    schedule = FIRST if arguments.call == "first" else SECOND
    slower = DRY_RUN_SLOWER if arguments.dry_run else 1
    out = Path(os.environ.get("OUT") or ("build/gpu" if arguments.dry_run else "bench/results"))
    with contextlib.suppress(OSError):
        out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        total = arguments.seconds or slower * sum(part.seconds for part in schedule)
        gpu = Gpu(arguments, out, Path(scratch), total)
        gpu.rivals = {}
        planned = 0.0
        for part in schedule:
            if not arguments.parts or part.name in arguments.parts:
                planned += slower * part.seconds
                run_part(gpu, part, planned - (total - gpu.left()))
        for process in gpu.rivals.values():  # of a part that was left out
            process.wait(0)
        text = gpu_summary.summary(gpu.results, gpu.problems)
        gpu.keep("problems", gpu.problems)
        gpu.say("summary")
        with contextlib.suppress(OSError):
            print(text, flush=True)
    sys.exit(1 if gpu_summary.failed(gpu.results) or gpu.problems else 0)


if __name__ == "__main__":
    main()
