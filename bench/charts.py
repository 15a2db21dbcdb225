"""Draws charts with nystrom's own code, build/release/draw_chart: what reports show, too."""

import json
import subprocess
import tempfile
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[1] / "build/release/draw_chart"


def series(name: str, points: list[tuple[float, float]], **look) -> dict:
    """A line through points; `look` may be dashed=True and colour=NUMBER (default: the next)."""
    return {"name": name, "x": [x for x, _ in points], "y": [y for _, y in points]} | look


def write_chart(path: Path, **chart) -> None:
    """Writes an SVG of title, x_label, y_label and series; logarithmic_y=True for that axis."""
    if not PROGRAM.exists():
        raise SystemExit(f"{PROGRAM} does not exist; build it: ./dev build")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(chart, file)
        file.flush()
        subprocess.run([PROGRAM, file.name, path], check=True)
