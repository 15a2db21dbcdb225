"""Draws the learning curve of a run: training loss, raw and smoothed, and validation loss over the
steps.

    python3 bench/plot_run.py runs/quickstart docs/quickstart.svg --baseline 6.19

--baseline is the loss of always predicting by word frequency; `nystrom pretrain` tells it in its
last lines. Needs Python 3.10 and the build."""

import argparse
from pathlib import Path

import charts
from nystrom_runs import parser_of, records_of


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("run_dir", type=Path, help="folder of the run, with metrics.jsonl")
    parser.add_argument("output", type=Path, help="SVG file to write")
    parser.add_argument(
        "--baseline", type=float, help="loss of always predicting by word frequency"
    )
    parser.add_argument("--title", default="Masked-token loss", help="above the picture")
    parser.add_argument(
        "--window", type=int, default=5, help="records that the smooth line is the mean of"
    )
    return parser.parse_args()


def read_points(run: Path, key: str) -> list[tuple[int, float]]:
    return [(r["step"], r[key]) for r in records_of(run, key) if r[key] is not None]


def smoothed(points: list[tuple[int, float]], window: int) -> list[tuple[int, float]]:
    """Means over `window` records around each, fewer (as many on both sides) at the ends."""
    result = []
    for index, (step, _) in enumerate(points):
        reach = min(window // 2, index, len(points) - 1 - index)
        near = [loss for _, loss in points[index - reach : index + reach + 1]]
        result.append((step, sum(near) / len(near)))
    return result


def main() -> None:
    arguments = parse_arguments()
    metrics = arguments.run_dir / "metrics.jsonl"
    if not metrics.exists():
        raise SystemExit(
            f"{metrics} does not exist; expected the folder of a run of `nystrom pretrain`"
        )
    training = read_points(arguments.run_dir, "loss")
    validation = read_points(arguments.run_dir, "validation_loss")
    if not training:
        raise SystemExit(f"{metrics} holds no training loss yet")
    raw = charts.series("training, each record", training, colour=7)
    lines = [raw, charts.series("training", smoothed(training, arguments.window), colour=0)]
    if validation:
        lines.append(charts.series("validation", validation, colour=1))
    if arguments.baseline is not None:
        ends = [(0, arguments.baseline), (training[-1][0], arguments.baseline)]
        lines.append(charts.series("always predicting by word frequency", ends, dashed=True))
    charts.write_chart(
        arguments.output,
        title=arguments.title,
        x_label="step",
        y_label="loss, nats a token",
        series=lines,
    )


if __name__ == "__main__":
    main()
