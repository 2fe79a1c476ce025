"""The parts of an experiment: a question with its source, a run, findings beside the published ones, and a figure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

#: How much is measured: seconds of work, about a minute, or the sizes of the publication.
Scale: TypeAlias = Literal["quick", "normal", "full"]
#: Computed from our numbers. `calibrated`: a parameter was fitted to the published number, so that it had to come out;
#: `consistent`: different, but no contradiction; `not comparable`: the setting is unknown.
Verdict: TypeAlias = Literal["confirmed", "calibrated", "consistent", "not confirmed", "not comparable"]


@dataclass(frozen=True, slots=True)
class Range:
    """The range between two numbers."""

    low: float
    high: float


#: A number, a range of numbers, or a claim in words.
Value: TypeAlias = float | Range | str


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of the findings: the question, the values of the paper and of an independent simulator, and ours."""

    what: str
    ours: Value
    verdict: Verdict
    paper: Value | None = None
    simulator: Value | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """The points of one curve.

    `level` is one value, drawn across; `marks` are published values, drawn as crosses; `bars` of a panel stand side by
    side.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    kind: Literal["line", "dashed", "level", "marks", "bars"] = "line"
    like: str = ""  # another series whose color it has


@dataclass(frozen=True, slots=True)
class Panel:
    """A pair of axes of the figure; labels name the units, and `ticks` the positions 0, 1, ... on the x axis."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    ticks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run. Notes say how long each measurement took and explain differences."""

    findings: tuple[Finding, ...]
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()


#: What is being measured, how many parts are done, of how many.
Progress: TypeAlias = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Trial:
    """The settings of one run; the seed is the first of as many as the scale needs."""

    scale: Scale = "normal"
    seed: int = 1
    progress: Progress = lambda what, done, of: None

    def seeds(self, count: int) -> range:
        """Return the seeds for a number of repetitions."""
        return range(self.seed, self.seed + count)


@dataclass(frozen=True, slots=True)
class Experiment:
    """An entry of the table."""

    name: str
    title: str
    question: str
    source: str
    run: Callable[[Trial], Outcome]
    takes: str = "1 min"  # at the normal scale
    needs: str = "nothing"
    on_spark: Callable[[Trial], Outcome] | None = None  # the same question in a running deployment, smaller if need be

    @property
    def hosts(self) -> str:
        """Return where it runs."""
        if self.needs == "Java":
            return "Spark"
        return "simulation" if self.on_spark is None else "simulation, Spark"


def text_of(value: Value | None, unit: str = "") -> str:
    """Return a value as text; times are in seconds and shown in a suitable unit."""
    match value:
        case None:
            return ""
        case str():
            return value
        case Range(low=low, high=high):
            return f"{_number(low, unit)} - {_number(high, unit)}"
        case _:
            return _number(value, unit)


def _number(value: float, unit: str) -> str:
    if unit == "s":
        return f"{_digits(value)} s" if abs(value) >= 1 else f"{_digits(value * 1000)} ms"
    return f"{_digits(value)} {unit}".rstrip()


def _digits(value: float) -> str:
    if math.isnan(value):
        return "?"
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 100 else f"{value:.3g}"
