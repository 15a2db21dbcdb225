"""Files, options, symbols and lines of code that README and docs name exist in the repository."""

import json
import re
import shutil
import subprocess
from fnmatch import translate
from pathlib import Path

import pytest

from conftest import ROOT, Program
from doc_blocks import NAMES, Code, codes

HERE = [each for each in ROOT.iterdir() if each.name not in (".git", "build", "dist", "runs")]
INSIDE = [path for folder in HERE if folder.is_dir() for path in folder.rglob("*")]
THERE = {str(path.relative_to(ROOT)): path for path in [*HERE, *INSIDE]}
FOLDERS = "core|autograd|nn|data|train|python|tests|bench|tools|docs|configs|examples"
PATH = re.compile(
    rf"(?<![\w./-])(?:(?:{FOLDERS})/[\w./*{{}},-]*[\w*}}]|(?<!…)\b\w+\.(?:cpp|h|cu|cuh|py|sh)\b)"
)
NOT_HERE = {
    "run_mlm.py": "a script of transformers",
    "data/*.tsv": "files of a user",
    "optimizer.epsilon_root": "the option that an example adds",
    "model.labels": "an attribute in Python",
}
OTHER_PROGRAMS = {  # their options
    "--allow-run-as-root", "--oversubscribe", "--host", "--local-dir", "--map-by", "--mpi",
    "--signal", "--kill-on-bad-exit", "--logdir", "--bf16", "--fp16",
}  # fmt: skip


def words(page: str, *kinds: str) -> list[Code]:
    return [code for code in codes(page) if code.kind in (kinds or ("inline", "cell"))]


def exists(path: str) -> bool:
    if alternatives := re.fullmatch(r"(.*){(.*)}(.*)", path):
        before, names, behind = alternatives.groups()
        return all(exists(f"{before}{name}{behind}") for name in names.split(","))
    path = path.replace("NAME", "*")
    patterns = [re.compile(translate(each)) for each in (path, f"*/{path}")]
    return path in THERE or any(each.match(name) for name in THERE for each in patterns)


@pytest.mark.parametrize("page", NAMES)
def test_files_exist(page: str) -> None:
    named = [(code, path) for code in words(page) for path in PATH.findall(code.text)]
    missing = [(c, path) for c, path in named if path not in NOT_HERE and not exists(path)]
    assert [f"{c.place}: {path}" for c, path in missing] == []
    text = re.sub(r"(?ms)^```.*?^```", "", (ROOT / page).read_text())
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if not link.startswith("http")]
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


def known_options() -> set[str]:
    found = set()

    def walk(schema: dict, path: str) -> None:
        for each in [schema, *schema.get("anyOf", []), schema.get("items", {})]:
            for name, inner in each.get("properties", {}).items():
                found.add(path + name)
                walk(inner, f"{path}{name}.")
            if each is not schema and ("items" in each or "anyOf" in each):
                walk(each, path)

    walk(json.loads((ROOT / "docs" / "config.schema.json").read_text()), "")
    return found


KNOWN = known_options()
SECTIONS = "|".join(sorted(name for name in KNOWN if any(k.startswith(f"{name}.") for k in KNOWN)))
OPTION = re.compile(rf"(?<![\w./-])(?:{SECTIONS})(?:\.[a-z_]+)+(?![\w(/])")
FILES = ("json", "safetensors", "model", "onnx_data", "yaml")  # model.safetensors, tokenizer.json


@pytest.mark.parametrize("page", NAMES)
def test_options_of_a_run_exist(page: str) -> None:
    named = words(page, "inline", "cell", "indented")
    found = [(c, name) for c in named for name in OPTION.findall(c.text)]
    other = [(c, name) for c, name in found if name.split(".")[-1] not in FILES]
    known = KNOWN | NOT_HERE.keys()
    assert [f"{c.place}: {name}" for c, name in other if name not in known] == []


def test_options_of_commands_exist(program: Program) -> None:
    """Those between backticks. In test_commands_of_docs.py commands show what they know."""
    helps = {"": program.run("--help")}
    for name in re.findall(r"(?m)^  ([a-z]+) ", helps[""].split("Subcommands:")[1]):
        helps[name] = program.run(name, "--help")
    for study in ("matrices", "model", "cost"):
        helps["approximation"] += program.run("approximation", study, "--help")
    folders = (ROOT / "bench", ROOT / "tests")
    scripts = "".join(path.read_text() for folder in folders for path in folder.rglob("*.py"))
    told = "".join([*helps.values(), (ROOT / "dev").read_text()])
    known = OTHER_PROGRAMS | set(re.findall(r"--[\w-]+", told))
    known |= set(re.findall(r'"(--[\w-]+)"', scripts))
    for given in re.findall(r"(?s)@script\((.*?)\)\ndef", scripts):
        known |= {f"--{name.replace('_', '-')}" for name in re.findall(r"(\w+)=", given)}
    wrong = []
    for code in [code for page in NAMES for code in words(page)]:
        command = re.match(r"nystrom ([a-z]+)", code.text)
        if command and command[1] not in [*helps, "has"]:  # "nystrom has no …" is a message
            wrong.append(f"{code.place}: {code.text}")
        for option in re.findall(r"(?<![\w-])--[a-z][\w-]+", code.text):
            own = helps.get(command[1], "") if command else known
            if option not in own and "_" not in option:  # with "_": of run_mlm.py
                wrong.append(f"{code.place}: {option} in {code.text}")
    assert wrong == []


SOURCE = re.compile(r"\.(cpp|h|cu|cuh|py|txt|cmake|sh)$|Presets\.json$|^dev$|^\.ci/run$")
SOURCES = {
    name: path.read_text() for name, path in THERE.items() if SOURCE.search(name) and path.is_file()
}
TEXT = "\n".join(SOURCES.values())


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md", "docs/library.md"])
def test_symbols_exist(page: str) -> None:
    known = set(re.findall(r"\w+", " ".join([TEXT, *THERE])))
    known |= {"target_clones", "CMAKE_ARGS", "DCMAKE_CUDA_ARCHITECTURES"}
    known.add("epsilon_root")  # see NOT_HERE
    named = [(c, word) for c in words(page) for word in re.findall(r"[A-Za-z]\w{3,}", c.text)]
    # What ends with _ is a prefix, as max_.
    unknown = [
        f"{c.place}: {word}"
        for c, word in named
        if word not in known and "NAME" not in word and not word.endswith("_")
    ]
    assert unknown == []


@pytest.mark.parametrize("recipe", sorted((ROOT / "tests/recipes").iterdir()), ids=lambda p: p.name)
def test_the_patch_of_a_recipe_applies(recipe: Path, tmp_path: Path) -> None:
    """That of an op and that of an option, as CONTRIBUTING.md describes them."""
    for name in re.findall(r"(?m)^\+\+\+ b/(.+)$", recipe.read_text()):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    subprocess.run(["git", "apply", "--verbose", recipe], cwd=tmp_path, check=True)


def test_functions_are_where_architecture_says() -> None:
    wrong = []
    for number, line in enumerate((ROOT / "docs/architecture.md").read_text().split("\n"), 1):
        if (row := re.fullmatch(r"\|.* `([\w/.]+)`.*\| (.*) \|", line)) and row[1] in SOURCES:
            for name in re.findall(r"`([\w:]+)(?:\(\))?`", row[2]):
                source = SOURCES[row[1]]
                if not all(re.search(rf"\b{word}\b", source) for word in name.split("::")):
                    wrong.append(f"docs/architecture.md:{number}: {name} in {row[1]}")
    assert wrong == []


@pytest.mark.parametrize("page", NAMES)
def test_lines_of_cpp_stand_in_sources(page: str) -> None:
    """Those of a whole program are built and run by tests/install_test.cmake."""
    text = re.sub(r"\s+", " ", TEXT)
    blocks = [c for c in words(page, "cpp", "cmake") if "int main" not in c.text]
    parts = [(c, part.strip()) for c in blocks for part in re.split("\n|…", c.text)]
    example = re.compile("epsilon_root|my_program|find_package")
    wrong = [(c, part) for c, part in parts if part not in text and not example.search(part)]
    assert [f"{c.place}: {part}" for c, part in wrong] == []
