"""The examples of docs/python.md and the notebook, in less time: fewer steps of smaller models."""

import json
import re
import threading
import urllib.request
from pathlib import Path

import pytest

from conftest import ROOT

TEXT = (ROOT / "docs" / "python.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def in_a_repository(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goes to a folder with the bundled novels."""
    (folder / "examples").mkdir()
    (folder / "examples" / "quickstart").symlink_to(ROOT / "examples" / "quickstart")
    monkeypatch.chdir(folder)


def test_the_walk_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    example = next(each for each in EXAMPLES if "matplotlib" in each)
    walk = example.replace(
        '{"steps": 400}', '{"steps": 3, "batch_size": 2, "micro_batch_size": 2}'
    )
    assert len(walk.splitlines()) < 40 and walk != example
    small = (ROOT / "configs" / "quickstart.yaml").read_text()
    small = small.replace("warmup_steps: 20", "warmup_steps: 1")
    small = small.replace("vocab_size: 8000", "vocab_size: 300")
    in_a_repository(tmp_path, monkeypatch)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "quickstart.yaml").write_text(small)
    exec(compile(walk, "docs/python.md", "exec"), {})
    assert (tmp_path / "walk.png").stat().st_size > 10_000
    assert "sequence" in capsys.readouterr().out


def test_a_data_frame_becomes_a_served_model(tmp_path, monkeypatch, capsys, trained):
    pytest.importorskip("pandas")
    in_a_repository(tmp_path, monkeypatch)
    training, serving = EXAMPLES[:2]
    short = training.replace('{"epochs": 2}', '{"steps": 2, "batch_size": 2, "micro_batch_size": 2}')
    short = short.replace("runs/quickstart", str(trained)).replace("> 200", "> 1500")
    short = short.replace('"training"', '"data": {"sequence_length": 32}, "training"')
    assert short.count("steps") > training.count("steps")
    exec(compile(short, "docs/python.md", "exec"), {})
    assert "nystrom.Run('runs/finetuned-1', 2 steps, best accuracy" in capsys.readouterr().out
    names: dict[str, object] = {}
    *setup, start = serving.rstrip().splitlines()
    assert start.endswith(".serve_forever()")
    exec(compile("\n".join(setup), "docs/python.md", "exec"), names)
    server = names["ThreadingHTTPServer"](("127.0.0.1", 0), names["Handler"])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.server_port}", json.dumps(["The sea was rough."]).encode()
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert json.load(answer)[0][0]["label"] in ("treasure", "lighthouse")
    server.shutdown()
    server.server_close()


def test_the_notebook_runs(tmp_path, monkeypatch, capsys):
    """Its cells, one after another, without Jupyter."""
    in_a_repository(tmp_path, monkeypatch)
    notebook = json.loads((ROOT / "examples" / "data_frames.ipynb").read_text())
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    whole = "\n".join(cells)
    for slow, quick in (('"steps": 60', '"steps": 3'), ('"every": 30', '"every": 3'),
                        ('"epochs": 2', '"steps": 3'), ("> 200", "> 1000")):  # fmt: skip
        assert slow in whole
        whole = whole.replace(slow, quick)
    exec(compile(whole, "data_frames.ipynb", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert (tmp_path / "novels-classifier" / "model.safetensors").is_file()
    assert not any(c.get("outputs") for c in notebook["cells"])


def test_the_sine_runs(capsys):
    sine = next(example for example in EXAMPLES if "np.sin" in example)
    exec(compile(sine, "docs/python.md", "exec"), {})
    assert float(capsys.readouterr().out) < 1e-3
