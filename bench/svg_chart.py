"""Line charts as SVG files, with nothing but the standard library. Black on a white ground:
readable in light and dark mode."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, TOP, BETWEEN, BOTTOM = 760, 78, 16, 40, 30, 46
LEGEND_LINE, CHARACTER = 22, 7.2  # pixels: a sample of a line, about the width of a letter
GREY, BLUE, ORANGE, BLACK = "#b3b3b3", "#1f5fbf", "#d95f02", "#222222"


@dataclass
class Series:
    """`points` are (x, y); `dash` is SVG's stroke-dasharray; `dots` draws the points too."""

    points: list[tuple[float, float]]
    colour: str
    name: str = ""  # in the legend; without one it is not there
    width: float = 1.5
    dash: str = ""
    dots: bool = False


@dataclass
class Panel:
    y_label: str
    series: list[Series]
    height: int = 280
    log: bool = False  # y in powers of ten; values below `low` are drawn there
    low: float | None = None
    high: float | None = None
    ticks: list[float] = field(init=False)

    def __post_init__(self) -> None:
        values = [y for series in self.series for _, y in series.points]
        low = min(values) if self.low is None else self.low
        high = max(values) if self.high is None else self.high
        if self.log:
            first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
            self.ticks = [10.0**power for power in range(first, last + 1)]
        else:
            self.ticks = round_ticks(low, high)
        self.low, self.high = self.ticks[0], self.ticks[-1]

    def share(self, y: float) -> float:
        """Where y lies between the bottom, 0, and the top, 1."""
        y = max(y, self.low)
        if self.log:
            return math.log(y / self.low) / math.log(self.high / self.low)
        return (y - self.low) / (self.high - self.low)


def round_ticks(low: float, high: float, wanted: int = 6) -> list[float]:
    """About `wanted` multiples of 1, 2 or 5 times a power of ten, from below `low` to above
    `high`."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / wanted))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor * wanted >= span)
    return [step * i for i in range(math.floor(low / step), math.ceil(high / step) + 1)]


def text(x: float, y: float, content: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, more: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {more}/>'


def stroke(series: Series) -> str:
    dash = f' stroke-dasharray="{series.dash}"' if series.dash else ""
    return f'stroke="{series.colour}" stroke-width="{series.width}"{dash}'


def draw_series(series: Series, place) -> list[str]:
    places = [place(x, y) for x, y in series.points]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    drawn = [f'<polyline points="{points}" fill="none" stroke-linejoin="round" {stroke(series)}/>']
    if series.dots:
        drawn += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{series.colour}"/>' for x, y in places
        ]
    return drawn


def draw_panel(panel: Panel, top: float, x_ticks: list[float]) -> list[str]:
    right, bottom = WIDTH - RIGHT, top + panel.height

    def place(x: float, y: float) -> tuple[float, float]:
        along = (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])
        return LEFT + along * (right - LEFT), bottom - panel.share(y) * panel.height

    drawn = []
    for tick in panel.ticks:
        _, y = place(x_ticks[0], tick)
        drawn += [
            line(LEFT, y, right, y, 'stroke="#e0e0e0"'),
            text(LEFT - 6, y + 4, f"{tick:g}".replace("e-0", "e-"), 'text-anchor="end"'),
        ]
    for tick in x_ticks:
        x, _ = place(tick, panel.low)
        drawn.append(line(x, top, x, bottom, 'stroke="#e0e0e0"'))
    drawn += [
        line(LEFT, bottom, right, bottom, 'stroke="#222222"'),
        line(LEFT, top, LEFT, bottom, 'stroke="#222222"'),
    ]
    for series in panel.series:
        drawn += draw_series(series, place)
    middle = top + panel.height / 2
    drawn.append(
        text(
            0,
            0,
            panel.y_label,
            f'transform="translate(18 {middle:.1f}) rotate(-90)" text-anchor="middle"',
        )
    )
    return drawn + draw_legend([series for series in panel.series if series.name], top, right)


def draw_legend(named: list[Series], top: float, right: float) -> list[str]:
    """In the upper right corner, where falling curves leave room."""
    if not named:
        return []
    width = LEGEND_LINE + 18 + CHARACTER * max(len(series.name) for series in named)
    left, height = right - 10 - width, 18 * len(named) + 8
    box = f'x="{left:.1f}" y="{top + 8:.1f}" width="{width:.1f}" height="{height}"'
    drawn = [f'<rect {box} fill="#ffffff" fill-opacity="0.9" stroke="#cccccc"/>']
    for number, series in enumerate(named):
        y = top + 25 + 18 * number
        drawn.append(line(left + 8, y - 4, left + 8 + LEGEND_LINE, y - 4, stroke(series)))
        if series.dots:
            drawn.append(
                f'<circle cx="{left + 8 + LEGEND_LINE / 2:.1f}" '
                f'cy="{y - 4:.1f}" r="3.5" fill="{series.colour}"/>'
            )
        drawn.append(text(left + 14 + LEGEND_LINE, y, series.name))
    return drawn


def write_chart(path: Path, title: str, x_label: str, panels: list[Panel]) -> None:
    """`panels` stand below each other over one x axis."""
    xs = [x for panel in panels for series in panel.series for x, _ in series.points]
    x_ticks = round_ticks(min(xs), max(xs), 5)
    drawn, top = [text(LEFT, 24, title, 'font-size="15" font-weight="bold"')], TOP
    for panel in panels:
        drawn += draw_panel(panel, top, x_ticks)
        top += panel.height + BETWEEN
    bottom = top - BETWEEN
    for tick in x_ticks:
        x = LEFT + (tick - x_ticks[0]) / (x_ticks[-1] - x_ticks[0]) * (WIDTH - RIGHT - LEFT)
        drawn.append(text(x, bottom + 18, f"{tick:g}", 'text-anchor="middle"'))
    drawn.append(text((LEFT + WIDTH - RIGHT) / 2, bottom + 38, x_label, 'text-anchor="middle"'))
    height = bottom + BOTTOM
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} '
        f'{height}" width="{WIDTH}" height="{height}" '
    )
    head += (
        f'font-family="sans-serif" font-size="12" fill="{BLACK}">\n<rect '
        f'width="{WIDTH}" height="{height}" fill="#ffffff"/>\n'
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + "\n".join(drawn) + "\n</svg>\n", encoding="utf-8")
