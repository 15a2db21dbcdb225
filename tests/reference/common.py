"""What the scripts of this folder share: their command line and their checks, running the program,
writing files, and judging how hard a case is for float32."""

import argparse
import contextlib
import io
import json
import math
import subprocess
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests/fixtures"
NOVELS = sorted((ROOT / "examples/quickstart/corpus").glob("*.txt.gz"))
NOVEL = ROOT / "examples/quickstart/corpus/stevenson-treasure.txt.gz"

# A gradient flows through the position of a maximum. In float32 that position must not depend on
# rounding.
SMALLEST_GAP = 1e-5

# In float64 smaller gradients are rounding noise around an exact zero, mostly of the key bias.
NOISE = 1e-12


class Checks:
    """Prints a line a check and remembers failures."""

    def __init__(self):
        self.failed = False

    def __call__(self, holds, text):
        print(text if holds else f"FAILED: {text}", flush=True)
        self.failed |= not holds


def script(text, program="nystrom", names=(), **options):
    """Makes main(arguments, check, scratch) the script of its file, whose docstring is `text`. If
    Python runs that file, main, the last in it, runs at once: with the options of the command line,
    Checks and an empty folder. The exit code is 1 if a check failed.

    The value of an option is its default: False of a flag, a program's name, a list of paths; Path
    alone has none. `names` are what arguments without an option may say."""
    if program:
        options["program"] = program

    def run_main(main):
        if main.__module__ != "__main__":
            return main
        parser = argparse.ArgumentParser(
            description=text, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if names:
            parser.add_argument("names", nargs="*", metavar="CASE", help=", ".join(names))
        for name, default in options.items():
            form = {"type": type(default), "default": default}
            if default is False:
                form = {"action": "store_true"}
            elif default is Path:
                form = {"type": Path}
            elif isinstance(default, str):
                form = {"default": ROOT / "build/release" / default}
            elif isinstance(default, list):
                form = {"type": Path, "nargs": "+" if default else "*", "default": default}
            parser.add_argument("--" + name.replace("_", "-"), **form)
        arguments, check = parser.parse_args(), Checks()
        if transformers := sys.modules.get("transformers"):
            transformers.utils.logging.set_verbosity_error()
            transformers.utils.logging.disable_progress_bar()
            print(f"transformers {transformers.__version__}, torch {torch.__version__}")
        warnings.simplefilter("ignore")
        with tempfile.TemporaryDirectory() as scratch:
            main(arguments, check, Path(scratch))
        sys.exit(check.failed)

    return run_main


def run(program, *arguments, given=None, folder=None):
    """What the program prints when it reads `given`; if it fails, its message ends the script."""
    command = [program, *map(str, arguments)]
    given = None if given is None else given.encode()
    result = subprocess.run(command, input=given, capture_output=True, cwd=folder)
    if result.returncode != 0:
        name = " ".join([Path(program).name, *command[1:]])
        raise SystemExit(f"{name[:200]}: {result.stderr.decode()}")
    return result.stdout.decode()


def to_json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def from_json_lines(text):
    return [json.loads(line) for line in text.split("\n") if line]


def forward(program, model, batch, *options):
    """What `nystrom forward` gives for the tensors of a batch."""
    with tempfile.TemporaryDirectory() as name:
        given, out = Path(name) / "batch", Path(name) / "out"
        save_file({key: value.contiguous() for key, value in batch.items()}, given)
        run(program, "forward", model, "--input", given, "--output", out, "--quiet", *options)
        return load_file(out)


def squad(rows):
    """The document of SQuAD's form, of contexts, questions, answers, and where these begin."""
    paragraphs = [
        {
            "context": context,
            "qas": [
                {
                    "id": str(number),
                    "question": question,
                    "answers": [{"text": answer, "answer_start": start}],
                }
            ],
        }
        for number, (context, question, answer, start) in enumerate(rows)
    ]
    return json.dumps({"data": [{"title": "", "paragraphs": paragraphs}]})


def trainer_losses(model, data, folder, **options):
    """The loss of each step of transformers' Trainer."""
    from transformers import Trainer, TrainingArguments

    options = TrainingArguments(
        folder,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
        **options,
    )
    trainer = Trainer(model, options, train_dataset=data)
    with contextlib.redirect_stdout(io.StringIO()):
        trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def deviation(got, expected, least=0.0):
    """The largest difference, relative to the largest entry, or to `least` where that is larger;
    infinity where a result is no number."""
    error = float(abs(got - expected).max()) / max(float(abs(expected).max()), least)
    return math.inf if math.isnan(error) else error


def write_tensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    plain = {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}
    save_file(plain, path, metadata={"format": "pt"})


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def print_case(
    folder: Path, expected: dict[str, torch.Tensor], rounded: dict[str, torch.Tensor]
) -> None:
    """A line about a fixture: its size, and the largest errors that float32 has in an output and in
    a gradient, relative to that tensor's largest entry."""
    worst = {"outputs": 0.0, "gradients": 0.0}
    for name, tensor in expected.items():
        if tensor.abs().max().item() >= NOISE:
            kind = "gradients" if name.startswith("grad.") else "outputs"
            worst[kind] = max(worst[kind], deviation(rounded[name].double(), tensor))
    print(
        f"{folder.name:36} {folder_bytes(folder):7} bytes   float32: "
        f"outputs {worst['outputs']:.0e}, gradients {worst['gradients']:.0e}"
    )


def write_cases(group: str, cases: dict, write_case: Callable[[Path, object], None]) -> None:
    """Writes the cases that the command line names, or all, into folders of tests/fixtures/GROUP.
    Each is seeded by its own name."""
    torch.set_num_threads(1)  # the same order of summation on every machine
    for name in sys.argv[1:] or cases:
        torch.manual_seed(zlib.crc32(name.encode()))
        write_case(FIXTURES / group / name, cases[name])
    print(f"{'all':36} {folder_bytes(FIXTURES / group):7} bytes")


def largest_gap(sums: torch.Tensor) -> float:
    """How far the largest entry stands out of the others, relative to itself."""
    top = torch.topk(sums.flatten(), 2).values
    return ((top[0] - top[1]) / top[0]).item()
