"""How large is the error of an average after shedding at random, and after shedding by value?

Cars report speeds at 2,000 tuples per second, doubled at times; the average over 20 s is compared with that of a twin
that sheds nothing. The engine's own shedders drop tuples only during overload (QoS book, figures 10.14 and 10.15). The
book's shedders by value drop a band of the range of values, ours a share of the tuples; both are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.analysis.shedding.decision import ActiveSheds, decide
from headrace.analysis.shedding.places import Place
from headrace.engine.shedding.random import RandomShedder
from headrace.engine.shedding.semantic import SemanticShedder
from headrace.experiments.experiment import Finding, Outcome, Panel, Scale, Series, Trial, Verdict
from headrace.experiments.judging import claim
from headrace.experiments.qos.self_similar import Times, poisson_times
from headrace.experiments.sample import Sample
from headrace.model.qos import Shedding, ShedKind

RATE, WINDOW = 2000.0, 20.0
#: The share of the processor that the rate needs, and its factors from window to window.
LOAD, FEED = 0.75, (1.0, 2.0, 1.0, 2.0, 2.0, 1.0)
TOLERANCES = (0.05, 0.1, 0.2, 0.3)
KINDS: tuple[ShedKind, ...] = ("LARGEST", "SMALLEST", "CENTER", "OUTLIER")
#: Names of the kinds as the book has them.
BANDS = {"LARGEST": "highest", "SMALLEST": "lowest", "CENTER": "center"}
Kept = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Size:
    """Windows of 20 s for each seed."""

    seeds: int
    windows: int


SIZES: Mapping[Scale, Size] = {"quick": Size(2, 6), "normal": Size(5, 12), "full": Size(10, 60)}


def run(trial: Trial) -> Outcome:
    """Run at the size of the trial's scale."""
    return report(SIZES[trial.scale], trial)


def report(size: Size, trial: Trial) -> Outcome:
    """Measure every kind at every tolerance."""
    random: dict[float, Sample] = {}
    shares: dict[tuple[str, float], Sample] = {}
    bands: dict[tuple[str, float], Sample] = {}
    for done, tolerance in enumerate(TOLERANCES):
        trial.progress(f"tolerance {tolerance:.0%}", done, len(TOLERANCES))
        random[tolerance] = _worst(size, trial, tolerance, lambda share: RandomShedder(share).kept)
        for kind in KINDS:
            shares[kind, tolerance] = _worst(size, trial, tolerance, partial(_semantic, kind))
        for end in BANDS:
            bands[end, tolerance] = _worst(size, trial, tolerance, partial(_band, end))
    notes = (
        f"{size.seeds} seeds of {size.windows} windows of {WINDOW:g} s; "
        "the error is that of the worst window, averaged over the seeds",
        "speeds are random: most around 60, a fifth, in congestion, around 25, few up to 100 "
        "(published: modified Linear Road)",
        f"the rate needs {LOAD:.0%} of the processor, twice that while it is doubled; "
        "the excess is shed, up to the tolerance",
        "a band of values holds few tuples at the ends of the range and many in the middle; "
        "a share of the tuples is the same everywhere",
    )
    return Outcome(tuple(_findings(random, shares, bands)), _panels(random, shares, bands), notes)


def speeds(count: int, chance: np.random.Generator) -> Times:
    """Draw the reported speeds."""
    congested, fast = chance.random(count) < 0.2, chance.random(count) < 0.002
    values = np.where(congested, chance.normal(25, 6, count), chance.normal(60, 8, count))
    return np.asarray(np.clip(np.where(fast, chance.uniform(85, 100, count), values), 0, 100))


#: Given the values of a while, which stay.
Shedder = Callable[[pl.DataFrame, np.random.Generator], Kept]


def errors(shedder: Callable[[float], Shedder], tolerance: float, windows: int, seed: int) -> list[float]:
    """Return the relative error of each window's average, compared with the twin that sheds nothing."""
    chance, draws = np.random.default_rng(seed), np.random.default_rng((seed, 1))
    plan, relative_errors = ActiveSheds(), []
    current: tuple[float, Shedder] | None = None
    for number in range(windows):
        rate = RATE * FEED[number % len(FEED)]
        kept_sum, kept_count, whole_sum, whole_count = 0.0, 0, 0.0, 0
        for _ in range(int(WINDOW)):  # second by second, as a running shedder sees them
            values = speeds(len(poisson_times(rate, 1.0, chance)), chance)
            plan = decide(plan, LOAD * rate / RATE, [Place("average", rate, LOAD / RATE, 0.0, tolerance)])
            share = plan.sheds[0].share if plan.sheds else 0.0
            if current is None or current[0] != share:
                current = share, shedder(share)
            kept = current[1](pl.DataFrame({"speed": values}), draws) if share else np.ones(len(values), np.bool_)
            kept_sum, kept_count = kept_sum + float(values[kept].sum()), kept_count + int(kept.sum())
            whole_sum, whole_count = whole_sum + float(values.sum()), whole_count + len(values)
        relative_errors.append(abs(kept_sum / max(1, kept_count) / (whole_sum / whole_count) - 1))
    return relative_errors


class _Band:
    """The published shedder: it drops a band of the values so far, at the upper or lower end or around the mean."""

    def __init__(self, kind: str, share: float) -> None:
        self._kind, self._share = kind, share
        self._low, self._high, self._sum, self._count = np.inf, -np.inf, 0.0, 0

    def kept(self, rows: pl.DataFrame, draws: np.random.Generator) -> Kept:
        values = rows["speed"].to_numpy()
        self._low, self._high = min(self._low, float(values.min())), max(self._high, float(values.max()))
        self._sum, self._count = self._sum + float(values.sum()), self._count + len(values)
        width, mean = self._share * (self._high - self._low), self._sum / self._count
        match self._kind:
            case "LARGEST":
                return np.asarray(values <= self._high - width)
            case "SMALLEST":
                return np.asarray(values >= self._low + width)
            case _:
                return np.asarray(np.abs(values - mean) > width / 2)


def _semantic(kind: ShedKind, share: float) -> Shedder:
    center = 53.0 if kind in ("CENTER", "OUTLIER") else None  # about the mean
    return SemanticShedder(Shedding(kind, "speed", center), share).kept


def _band(kind: str, share: float) -> Shedder:
    return _Band(kind, share).kept


def _worst(size: Size, trial: Trial, tolerance: float, shedder: Callable[[float], Shedder]) -> Sample:
    return Sample(tuple(max(errors(shedder, tolerance, size.windows, seed)) for seed in trial.seeds(size.seeds)))


def _findings(
    random: Mapping[float, Sample],
    shares: Mapping[tuple[str, float], Sample],
    bands: Mapping[tuple[str, float], Sample],
) -> Iterator[Finding]:
    for tolerance, error in random.items():
        what = f"at random, tolerance {100 * tolerance:.0f} %: error of the average"
        yield Finding(what, 100 * error.mean, claim(error.high < tolerance / 5), "well below the tolerance", None, "%")
    top = TOLERANCES[-1]
    for tolerance in (0.1, top):
        center, ends = (
            bands["CENTER", tolerance].mean,
            max(bands["LARGEST", tolerance].mean, bands["SMALLEST", tolerance].mean),
        )
        yield Finding(
            f"bands of {100 * tolerance:.0f} %: center first to the worse end",
            center / ends,
            _clearly(center / ends),
            "clearly worst",
            None,
            "x",
        )
        yield Finding(
            f"bands of {100 * tolerance:.0f} %: the worse end", 100 * ends, claim(ends < 0.02), "very small", None, "%"
        )
    ends = max(shares["LARGEST", top].mean, shares["SMALLEST", top].mean)
    ratio = shares["CENTER", top].mean / ends
    yield Finding(
        f"shares of {100 * top:.0f} %: center first to the worse end",
        ratio,
        _clearly(ratio),
        "clearly worst",
        None,
        "x",
    )
    yield Finding(
        f"shares of {100 * top:.0f} %: the worse end", 100 * ends, claim(ends < top), "below the tolerance", None, "%"
    )


def _clearly(ratio: float) -> Verdict:
    """Judge whether a value is larger by a fifth; consistent if it is only larger."""
    return "confirmed" if ratio > 1.2 else "consistent" if ratio > 1 else "not confirmed"


def _panels(
    random: Mapping[float, Sample],
    shares: Mapping[tuple[str, float], Sample],
    bands: Mapping[tuple[str, float], Sample],
) -> tuple[Panel, ...]:
    def series(name: str, values: Mapping[float, Sample]) -> Series:
        return Series(name, tuple((100 * tolerance, 100 * sample.mean) for tolerance, sample in values.items()))

    def by(kind: str, samples: Mapping[tuple[str, float], Sample]) -> dict[float, Sample]:
        return {tolerance: samples[kind, tolerance] for tolerance in TOLERANCES}

    chance = series("at random", random)
    ours = (chance, *(series(f"{kind.lower()} first", by(kind, shares)) for kind in KINDS))
    theirs = (chance, *(series(f"{name} first", by(kind, bands)) for kind, name in BANDS.items()))
    axes = "tolerance, %", "% of the average, worst window"
    return Panel("A share of the tuples, as the engine sheds", *axes, ours), Panel(
        "A band of the range, as published", *axes, theirs
    )
