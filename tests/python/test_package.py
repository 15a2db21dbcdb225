"""The package as a whole: quick to import, nothing left behind, typed."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from conftest import ROOT, python

PACKAGE = Path(__import__("nystrom").__file__).parent


def output_of(script: str, **environment: str) -> str:
    done = python(script, env=os.environ | environment, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_importing_is_quick_and_brings_no_numpy(tmp_path):
    script = """
        import sys, time
        started = time.process_time()
        import nystrom
        print(time.process_time() - started)
        assert "numpy" not in sys.modules
    """
    compiled = {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    assert min(float(output_of(script, **compiled)) for _ in range(6)) < 0.05


def test_the_module_is_the_program(program):
    done = subprocess.run([sys.executable, "-m", "nystrom", "--version"], capture_output=True,
                          text=True, env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)})  # fmt: skip
    assert done.stdout == program.run("--version")


def test_importing_leaves_the_environment_alone():
    script = "import os; before = dict(os.environ); import nystrom; assert os.environ == before"
    output_of(script)
    output_of(script, OMP_WAIT_POLICY="passive")


def test_nothing_is_left_behind(trained, tmp_path):
    script = """
        import os, sys, nystrom
        model = nystrom.load(sys.argv[1])
        model.fill_mask("the [MASK] was calm")
        model.encode(["the sea"] * 100)
        model.export("exported")
    """
    before = sorted(trained.rglob("*"))
    environment = {"TMPDIR": str(tmp_path), "PYTHONPATH": str(PACKAGE.parent)}
    done = python(script, trained, cwd=tmp_path, env=os.environ | environment, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["exported"]
    assert sorted(trained.rglob("*")) == before


def test_loading_leaks_nothing(trained):
    """check_leaks.py does it a thousand times."""
    script = ROOT / "tests" / "python" / "check_leaks.py"
    done = subprocess.run([sys.executable, script, trained, "60"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_types_hold(monkeypatch):
    mypy = pytest.importorskip("mypy.api")
    monkeypatch.setenv("MYPYPATH", str(PACKAGE.parent))
    output, errors, code = mypy.run(
        ["--config-file", str(ROOT / "pyproject.toml"), "-p", "nystrom"]
    )
    assert code == 0, output + errors


def test_predictions_are_typed_by_task(monkeypatch, tmp_path):
    mypy = pytest.importorskip("mypy.api")
    monkeypatch.setenv("MYPYPATH", str(PACKAGE.parent))
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            from typing import Any, assert_type
            import nystrom
            from nystrom.types import Answer, Label, Value

            reviews: nystrom.Model[list[Label]] = nystrom.load("runs/reviews")
            assert_type(reviews.predict("A gripping film."), list[Label])
            assert_type(reviews.predict(["A gripping film."])[0][0]["score"], float)
            scores: nystrom.Model[Value] = nystrom.load("runs/scores")
            assert_type(scores.predict(["a"], ["b"]), list[Value])
            squad: nystrom.Model[list[Answer]] = nystrom.load("runs/squad")
            squad.predict("Who?", "Brunel.")[0]["answr"]  # wrong
            squad.predict(3)  # wrong
            unknown: nystrom.Model = nystrom.load("runs/mine")
            assert_type(unknown.predict("A gripping film."), Any)
            """
        )
    )
    output, errors, code = mypy.run(["--config-file", str(ROOT / "pyproject.toml"), str(script)])
    wrong = [at for at, line in enumerate(script.read_text().splitlines(), 1) if "# wrong" in line]
    told = [line for line in output.splitlines() if ": error: " in line]
    assert [int(line.split(":")[1]) for line in told] == wrong, output + errors
