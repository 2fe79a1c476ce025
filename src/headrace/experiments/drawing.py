"""Draw an outcome as a PNG and an SVG file; the same numbers give the same files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace import extras
from headrace.experiments.experiment import Panel, Series

#: Distinct also for people who do not see all colors (Okabe and Ito).
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c510a", "#999999")
#: More points than this are a line without marks.
MARKED = 50
LOOK: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "svg.hashsalt": "headrace",
    "svg.fonttype": "path",
}


def check_drawing() -> None:
    """Raise HostFault if the package that draws is not installed."""
    extras.load("matplotlib", "experiments", "drawing figures")


def draw(name: str, title: str, panels: Sequence[Panel], folder: Path) -> tuple[Path, Path]:
    """Write `<name>.png` and `<name>.svg` into a folder and return both paths; needs the extra `experiments`."""
    check_drawing()
    import matplotlib  # takes half a second, so only when something is drawn

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / f"{name}.png", folder / f"{name}.svg"
    across = 1 if len(panels) == 1 else 2 if len(panels) in (2, 4) else 3
    down = math.ceil(len(panels) / across)
    with matplotlib.rc_context(LOOK):
        figure, grid = pyplot.subplots(
            down,
            across,
            figsize=(5.2 * across if across > 1 else 7, 4.3 * down + 0.4),
            squeeze=False,
            layout="constrained",
        )
        figure.suptitle(title, fontsize=12, fontweight="bold")
        axes = [axis for row in grid for axis in row]
        for axis, panel in zip(axes, panels, strict=False):
            _draw_panel(axis, panel)
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        figure.savefig(paths[0], dpi=150)
        figure.savefig(paths[1], metadata={"Date": None})
        pyplot.close(figure)
    return paths


def _draw_panel(axis: Any, panel: Panel) -> None:
    colors: dict[str, str] = {}
    for series in panel.series:
        if not series.like:
            colors[series.name] = COLORS[len(colors) % len(COLORS)]
    bars = [series.name for series in panel.series if series.kind == "bars"]
    width = 0.8 / max(1, len(bars))
    for series in panel.series:
        # what is published of bars stands on them
        place = (
            bars.index(series.name)
            if series.kind == "bars"
            else bars.index(series.like)
            if series.like in bars
            else None
        )
        shift = 0.0 if place is None else (place - (len(bars) - 1) / 2) * width
        _draw_series(axis, series, colors[series.like or series.name], shift, width)
    axis.set_title(panel.title)
    axis.set_xlabel(panel.x)
    axis.set_ylabel(panel.y)
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    plain = FuncFormatter(lambda value, _: f"{value:,.10g}")  # 1,000, not 10 to the third
    if panel.ticks:
        axis.set_xticks(range(len(panel.ticks)), panel.ticks)
    elif panel.log_x:
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(plain)
    else:
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    if panel.log_y:
        axis.set_yscale("log", nonpositive="clip")
        axis.yaxis.set_major_formatter(plain)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def _draw_series(axis: Any, series: Series, color: str, shift: float, width: float) -> None:
    xs, ys = [x + shift for x, _ in series.points], [y for _, y in series.points]
    match series.kind:
        case "line":
            axis.plot(
                xs,
                ys,
                color=color,
                marker="o" if len(xs) <= MARKED else None,
                markersize=4,
                linewidth=1.6,
                label=series.name,
            )
        case "dashed":
            axis.plot(xs, ys, color=color, linestyle=":", linewidth=1.3, label=series.name)
        case "level":
            axis.axhline(ys[0], color=color, linestyle="--", linewidth=1.2, label=series.name)
        case "bars":
            axis.bar(xs, ys, width=0.92 * width, color=color, alpha=0.75, label=series.name)
        case "marks":
            axis.plot(
                xs, ys, color=color, linestyle="none", marker="x", markersize=8, markeredgewidth=1.4, label=series.name
            )
