"""The commands and the code of README and docs work: they run here, in small.

A page is followed from its top to its end, in a folder that has what the pages name
(doc_workshop.py). Commands of other programs, and scripts that take hours, are compared with what
these know. What cannot be tried is in NOT_TRIED and NOT_RUN. test_names_of_docs.py tests names.
"""

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import nystrom
from conftest import ROOT, Program, lines
from doc_blocks import NAMES, Code, codes, commands
from doc_workshop import Workshop, build, complete, shorten, task

NOT_TRIED = {  # commands, by a part of them
    "pip ": "changes the machine",
    "apt ": "changes the machine",
    "tar xzf": "./dev release tries the packages",
    "sha256sum": "./dev release makes the file",
    "tests/bare_root.sh": "makes a system of its own, as root",
    "cp -r /usr/share": "the Debian package installs it",
    "cmake ": "builds; CI does so",
    "python3 -m tarfile": "unpacks what ./dev bundle makes",
    "build/release/tokenizer_tool": "a tool of the build, for any files",
    "optimizer.epsilon_root": "the option that an example adds",
    "tensorboard": "another program",
    "chromium": "another program",
    "hf download": "needs the network",
    "curl": "test_docs.py asks the server",
    "export PYTHONPATH": "this test runs so",
    "…": "stands for the line above it",
}
NOT_RUN = {  # Python, by a part of it; it is compiled
    "transformers import": "check_export.py and its neighbours in tests/reference do so",
    'padding="max_length"': "a call of transformers, as above",
    "padding=True, return_tensors": "a call of transformers, as above",
    "run.evaluations": "test_docs.py runs it",
    "serve_forever": "test_docs.py runs it",
    "matplotlib": "test_docs.py runs it",
    "np.sin": "test_docs.py runs it",
}
TABLE = "docs/which-command.md"
MADE_BY = {  # folders that a page makes before it uses them
    "README.md": ["runs/mine"],
    "docs/tutorial.md": ["runs/mine"],
    "docs/python.md": ["runs/reviews"],
}
GIVEN = {  # what Python in a page takes for given
    "nystrom": nystrom,
    "texts": lines(12, seed=1),
    "labels": np.arange(12) % 2,
    "lengths": np.full(12, 6),
    "features": np.zeros((12, 6, 8), np.float32),
}
RUN = re.compile(r"(^|/| )nystrom |make_bags|python3? -c|^cp |^\(printf")
KNOWN = re.compile(r"\./dev |(build/release/)?\w+_tests --gtest|ninja |\S*python3? (bench|tests)/")
WHOLE = re.compile(  # between backticks, a command with what it needs; others are mentions
    r"(?!nystrom has no|.*…)((build/\w+/)?(nystrom|mpirun|srun) (approximation )?\w[\w-]* [^-]|"
    r"nystrom (cache|doctor|config --\w+ \S))"
)


@pytest.fixture(scope="session")
def workshop(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    pytest.importorskip("h5py")
    made = Workshop(tmp_path_factory.mktemp("docs"), program.path)
    build(made)
    return made


@pytest.fixture
def shop(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    monkeypatch.chdir(workshop.folder)
    yield workshop
    workshop.restore()


@cache
def options_of(script: str) -> set[str]:
    """What a script's parser knows, with those of the modules beside it."""
    path = ROOT / script
    calls = [each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.Call)]
    texts = [each.value for call in calls for each in call.args if isinstance(each, ast.Constant)]
    found = {text for text in texts if isinstance(text, str) and text.startswith("--")}
    for module in re.findall(r"(?m)^(?:from|import) (\w+)", path.read_text()):
        if (path.parent / f"{module}.py").is_file():
            found |= options_of(f"{path.parent.relative_to(ROOT)}/{module}.py")
    return found


DEV = subprocess.run([ROOT / "dev", "help"], capture_output=True, text=True, check=True).stdout
TESTS = "".join(path.read_text() for path in ROOT.glob("tests/**/*.cpp"))
TARGETS = "nystrom" + "".join(path.read_text() for path in ROOT.glob("tests/**/CMakeLists.txt"))


def complaint(command: str) -> str:
    """What is wrong with a command that does not run here."""
    command = re.sub(r"^\$?compare(=\")?|\"$", "python3 bench/compare_hf.py", command)
    if found := re.match(r"\./dev ([\w-]+)(.*)", command):
        known = "".join(re.findall(rf"(?m)^\./dev {found[1]}\b.*(?:\n {{10,}}.*)*", DEV))
        known += str(options_of("bench/gpu.py")) if found[1] == "gpu" else ""
        wrong = [word for word in re.findall(r"--[\w-]+", found[2]) if word not in known]
        return f"./dev help has no {found[1]} {wrong}" if wrong or not known else ""
    if found := re.match(r"\S*python3? ((?:bench|tests)/\S+\.py)(.*)", command):
        if not (ROOT / found[1]).is_file():
            return f"there is no {found[1]}"
        wrong = set(re.findall(r"(--[\w-]+)", found[2])) - options_of(found[1])
        return f"{found[1]} has no {wrong}" if wrong else ""
    if found := re.search(r"_tests --gtest_filter='?([^' ]+)'?$", command):
        wrong = [word for word in re.findall(r"\w+", found[1]) if word not in TESTS]
        return f"no test has {wrong}" if wrong else ""
    if found := re.match(r"ninja -C build/release (.*)", command):
        wrong = [word for word in found[1].split() if word.removesuffix("_tests") not in TARGETS]
        return f"no target {wrong}" if wrong else ""
    return "no test knows how to try this"


class Reader:
    """Does what a page says, one thing after another, and keeps what failed."""

    def __init__(self, shop: Workshop):
        self.shop, self.failures, self.names = shop, [], dict(GIVEN)

    def fail(self, code: Code, message: str) -> None:
        self.failures.append(f"{code.place}: {code.text}\n{message[-900:]}")

    def command(self, code: Code) -> None:
        if any(part in code.text for part in NOT_TRIED):
            return
        if not RUN.search(code.text):
            if wrong := complaint(code.text):
                self.fail(code, wrong)
            return
        commands = [shorten(code.text)]
        if " configs/" in code.text:  # also as it stands, without the work
            commands.insert(0, re.sub(r"nystrom \w+", "nystrom check", code.text))
        for command in commands:
            done = self.shop.run(command)
            if done.returncode != 0:
                return self.fail(code, f"{command}\n{done.stdout}")
        if made := re.search(r"nystrom config \w[\w-]* > (\S+)$", code.text):
            self.edit(made[1], code.comment)

    def edit(self, name: str, comment: str = "") -> None:
        """As a reader does with a new file: smaller numbers, the run_dir that the text names."""
        text = shorten((self.shop.folder / name).read_text())
        if told := re.search(r"run_dir: \S+", comment):
            text = re.sub(r"(?m)^run_dir: \S+", told[0], text)
        self.shop.write(name, text)
        run_dir = re.search(r"(?m)^run_dir: (\S+)", text)[1]
        shutil.rmtree(self.shop.folder / run_dir, ignore_errors=True)

    def python(self, code: Code) -> None:
        program = compile(shorten(code.text), code.place, "exec")
        if not any(part in code.text for part in NOT_RUN):
            try:
                exec(program, self.names)
            except Exception as error:  # of any kind, to go on with the page
                self.fail(code, repr(error))

    def yaml(self, code: Code) -> None:
        """A configuration, or a part of one, is right; later commands use a whole one."""
        whole = complete(code.text)
        forms = [shorten(whole)] if re.search('from"?:', whole) else [whole, shorten(whole)]
        for form in forms:
            self.shop.write("part.yaml", form)
            done = self.shop.run("nystrom check part.yaml --set run_dir=runs/new")
            if done.returncode != 0:
                return self.fail(code, done.stdout)
        if told := re.search("run_dir: runs/(mine|reviews|documents)", code.text):
            name = "my.yaml" if told[1] == "mine" else f"{told[1]}.yaml"
            self.shop.write(name, whole)
            self.edit(name)

    def follow(self, code: Code) -> None:
        if code.kind in ("indented", "bash"):
            for command in commands(code):
                self.command(command)
        elif code.kind == "yaml":
            self.yaml(code)
        elif code.kind == "python":
            self.python(code)
        elif code.kind in ("inline", "cell") and (WHOLE.match(code.text) or KNOWN.match(code.text)):
            self.command(code)


@pytest.mark.parametrize("page", [name for name in NAMES if name != TABLE])
def test_what_a_page_says_works(page: str, shop: Workshop) -> None:
    reader = Reader(shop)
    for name in MADE_BY.get(page, []):
        shutil.rmtree(shop.folder / name)
    for code in codes(page):
        reader.follow(code)
    assert not reader.failures, "\n" + "\n".join(reader.failures)


def test_the_rows_of_which_command_work(shop: Workshop) -> None:
    """Each row for itself, but for those that follow each other."""
    text = (ROOT / TABLE).read_text().split("\n")
    rows, in_order = {}, text.index("## In what order")
    for code in codes(TABLE):
        rows.setdefault(0 if code.line > in_order else code.line, []).append(code)
    failures = []
    for number, row in rows.items():
        line, reader = text[number - 1], Reader(shop)
        if "finetune my.yaml" in line and "> my.yaml" not in line:
            kind = re.search(r"multi_label|(?<=kind: )\w+|$", line)[0] or "classification"
            kind = "columns.pair" if "columns.pair" in line else kind
            shop.write("my.yaml", task(kind, "runs/mine"))
        for code in row:
            begins = re.match("nystrom (check|pretrain|finetune) my", code.text)
            if begins and "a run of" not in line:
                shutil.rmtree(shop.folder / "runs/mine", ignore_errors=True)
            folder = "bert-base" if "warm-start" in line else "FOLDER"
            reader.follow(replace(code, text=code.text.replace("FOLDER", folder)))
        failures += reader.failures
        shop.restore()
    assert not failures, "\n" + "\n".join(failures)


def test_every_exception_is_needed() -> None:
    everything = [code for page in NAMES for code in codes(page)]
    lines = [each.text for code in everything if code.kind != "python" for each in commands(code)]
    assert [part for part in NOT_TRIED if not any(part in line for line in lines)] == []
    python = "\n".join(code.text for code in everything if code.kind == "python")
    assert [part for part in NOT_RUN if part not in python] == []
    known = {"indented", "inline", "cell", "bash", "yaml", "python", "cpp", "cmake", "text"}
    assert {code.kind for code in everything} <= known  # of each a test knows what to do
