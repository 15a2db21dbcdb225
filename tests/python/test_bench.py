"""Scripts of bench/ never mix runs of one folder."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return importlib.import_module("nystrom_runs")


def test_other_settings_are_refused(runs: ModuleType, tmp_path: Path) -> None:
    file, settings = tmp_path / "run.yaml", {"training": {"steps": 100}}
    start = tmp_path / "start"
    start.mkdir()
    (start / "model.safetensors").write_bytes(b"weights")
    for _ in range(2):
        assert runs.write_settings(file, settings, start, threads=2) == file
    (start / "state.json").write_text("what decides nothing")
    runs.write_settings(file, settings, start, threads=2)
    message = "run.yaml: an earlier call had other settings; give another --work$"
    with pytest.raises(SystemExit, match=message):
        runs.write_settings(file, {"training": {"steps": 200}}, start, threads=2)
    with pytest.raises(SystemExit, match=message):
        runs.write_settings(file, settings, start, threads=1)
    (start / "model.safetensors").write_bytes(b"others in the same place")
    with pytest.raises(SystemExit, match=message):
        runs.write_settings(file, settings, start, threads=2)


def test_a_stop_leaves_no_half_of_a_folder(runs: ModuleType, tmp_path: Path) -> None:
    def stop(folder: Path) -> None:
        folder.mkdir()
        (folder / "train.txt").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runs.made(tmp_path / "texts", stop)
    assert not (tmp_path / "texts").exists()
    assert list(runs.made(tmp_path / "texts", Path.mkdir).iterdir()) == []


def test_a_peak_is_not_that_of_this_process(runs: ModuleType) -> None:
    held = bytearray(1) * 200_000_000
    output, seconds, peak = runs.measured(["echo", "two words"])
    assert (output, seconds < 60, peak < len(held) / 2) == ("two words\n", True, True)
