"""The walk of docs/python.md, in less time: fewer steps of a smaller model."""

import re
from pathlib import Path

import pytest

from conftest import ROOT

TEXT = (ROOT / "docs" / "python.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_the_walk_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    walk = EXAMPLES[0].replace(
        '{"steps": 400}', '{"steps": 3, "batch_size": 2, "micro_batch_size": 2}'
    )
    assert len(walk.splitlines()) < 40 and walk != EXAMPLES[0]
    small = (ROOT / "configs" / "quickstart.yaml").read_text()
    small = small.replace("steps: 100", "steps: 1").replace("vocab_size: 8000", "vocab_size: 300")
    for name in ("configs", "examples"):
        (tmp_path / name).mkdir()
    (tmp_path / "configs" / "quickstart.yaml").write_text(small)
    (tmp_path / "examples" / "quickstart").symlink_to(ROOT / "examples" / "quickstart")
    monkeypatch.chdir(tmp_path)
    exec(compile(walk, "docs/python.md", "exec"), {})
    assert (tmp_path / "walk.png").stat().st_size > 10_000
    assert "sequence" in capsys.readouterr().out


def test_the_sine_runs(capsys):
    sine = next(example for example in EXAMPLES if "np.sin" in example)
    exec(compile(sine, "docs/python.md", "exec"), {})
    assert float(capsys.readouterr().out) < 1e-3
