"""The promises of a query: latency, memory, throughput and smoothness, how strict each is, and what may be shed.

`qos_of` reads the options of a WITH clause:

    latency '500 ms' MUST, memory '64 MB' BEST EFFORT, error 0.15, shed SMALLEST speed, priority 2
    latency p99 '2 s' MUST, smoothness 1.5

A value that changes over the time since the query began is written as points, linear in between: `'0s: 1 s, 500s: 200
ms'`.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from enum import Enum
from itertools import pairwise
from typing import Literal, TypeAlias

from msgspec import Struct

from headrace.model.option import Option
from headrace.model.time import SECOND, UNITS, format_duration, parse_duration

ShedKind: TypeAlias = Literal["RANDOM", "SMALLEST", "LARGEST", "CENTER", "OUTLIER"]

#: What a query can promise about its results, with a strictness.
Metric: TypeAlias = Literal["latency", "memory", "throughput", "smoothness"]
METRICS: tuple[Metric, ...] = ("latency", "memory", "throughput", "smoothness")
OPTIONS = (*METRICS, "error", "shed", "priority")
SHED_KINDS: tuple[ShedKind, ...] = ("RANDOM", "SMALLEST", "LARGEST", "CENTER", "OUTLIER")
_BYTES = {"b": 1, "kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40}
_SIZE = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*([kmgt]?b)\s*", re.IGNORECASE)
_PERCENTILE = re.compile(r"p([0-9]+(?:\.[0-9]+)?)", re.IGNORECASE)
_RATE = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*(?:/|per\s)\s*([a-z]+)\s*", re.IGNORECASE)


class Strictness(Enum):
    """The class of a promise: how strict it is, and what may be done to keep it."""

    MUST = "MUST"  # change the strategy; if that is not enough, shed
    BEST_EFFORT = "BEST EFFORT"  # change the strategy, never shed
    DONT_CARE = "DONT CARE"  # the first to give way

    @property
    def weight(self) -> float:
        """Return how much the promise counts beside others."""
        return {Strictness.MUST: 1.0, Strictness.BEST_EFFORT: 0.5, Strictness.DONT_CARE: 0.01}[self]


class Curve(Struct, frozen=True):
    """A value over the time since the query began (microseconds).

    Linear between points, constant before the first and after the last.
    """

    points: tuple[tuple[int, float], ...]

    def at(self, elapsed: int) -> float:
        """Return the value at a time."""
        place = bisect_right([instant for instant, _ in self.points], elapsed)
        if place == 0:
            return self.points[0][1]
        if place == len(self.points):
            return self.points[-1][1]
        (start, before), (end, after) = self.points[place - 1], self.points[place]
        return before + (after - before) * (elapsed - start) / (end - start)

    @property
    def least(self) -> float:
        return min(value for _, value in self.points)

    @property
    def most(self) -> float:
        return max(value for _, value in self.points)


class Promise(Struct, frozen=True):
    """A limit to keep, and how strictly.

    At most so much latency (microseconds) or memory (bytes), at least so many results a second, or at most so uneven a
    rate of results: (most - least) / mean of each second of a minute. A latency may be that of a share of the tuples,
    such as 0.99 (`percentile`).
    """

    curve: Curve
    strictness: Strictness = Strictness.BEST_EFFORT
    percentile: float | None = None

    @property
    def is_must(self) -> bool:
        return self.strictness is Strictness.MUST


class Shedding(Struct, frozen=True):
    """The tuples that are dropped first: random ones, or by an attribute.

    By an attribute the smallest, the largest, those nearest to a center or those farthest from it. With `bounds_sum`,
    no more than the share of the sum of the attribute (of its absolute values) is dropped either. With a `pane`, the
    shares hold for each pane of so many microseconds: windows consist of whole panes.
    """

    kind: ShedKind = "RANDOM"
    attribute: str | None = None
    center: float | None = None
    bounds_sum: bool = False
    pane: int = 0


class Qos(Struct, frozen=True, omit_defaults=True):
    """All that one query promises; None where it promises nothing."""

    latency: Promise | None = None
    memory: Promise | None = None
    throughput: Promise | None = None
    error: float | None = None  # the share of its input that may be lost
    shed: Shedding | None = None
    priority: int | None = None
    smoothness: Promise | None = None

    def promise(self, metric: Metric) -> Promise | None:
        """Return the promise about a metric."""
        match metric:
            case "latency":
                return self.latency
            case "memory":
                return self.memory
            case "throughput":
                return self.throughput
            case "smoothness":
                return self.smoothness


def qos_of(options: Mapping[str, Option]) -> Qos:
    """Read the promises among the options of a WITH clause; ValueError says what is wrong with one."""
    shed = options.get("shed")
    priority = options.get("priority")
    if priority is not None and (isinstance(priority, bool) or not isinstance(priority, int) or priority < 0):
        raise ValueError("expected a whole number such as 2; a larger one means a higher priority")
    return Qos(
        latency=_promise(options, "latency", _latency),
        memory=_promise(options, "memory", parse_size),
        throughput=_promise(options, "throughput", parse_rate),
        error=None if "error" not in options else _share(options["error"]),
        shed=None if shed is None else _shedding(str(shed).upper(), options),
        priority=priority,
        smoothness=_promise(options, "smoothness", _unevenness),
    )


def parse_size(text: str) -> float:
    """Read '64 MB' as bytes."""
    parsed = _SIZE.fullmatch(text)
    if parsed is None:
        raise ValueError(f"{text!r} is not an amount of memory such as '64 MB'")
    return float(parsed[1]) * _BYTES[parsed[2].lower()]


def parse_rate(text: str) -> float:
    """Read '1000/s' or '5 per minute' as tuples a second."""
    parsed = _RATE.fullmatch(text)
    if parsed is None or parsed[2].lower() not in UNITS:
        raise ValueError(f"{text!r} is not a rate such as '1000/s' or '5 per minute'")
    return float(parsed[1]) * SECOND / UNITS[parsed[2].lower()]


def parse_percentile(text: str) -> float:
    """Read 'p99.9' as the share 0.999."""
    parsed = _PERCENTILE.fullmatch(text)
    share = 0.0 if parsed is None else round(float(parsed[1]) / 100, 9)
    if not 0 < share < 1:
        raise ValueError(f"{text!r} is not a percentile such as p99 or p99.9")
    return share


def format_percentile(share: float) -> str:
    """Write the share 0.999 as 'p99.9'."""
    return f"p{100 * share:.9g}"


def format_qos(qos: Qos) -> list[tuple[str, str]]:
    """Write each promise as in a WITH clause, by name."""
    promises = []
    for name, promise, write in (
        ("latency", qos.latency, _write_latency),
        ("memory", qos.memory, format_size),
        ("throughput", qos.throughput, _write_rate),
        ("smoothness", qos.smoothness, lambda value: f"{value:g}"),
    ):
        if promise is not None:
            which = "" if promise.percentile is None else f"{format_percentile(promise.percentile)} "
            promises.append((name, f"{which}{_curve_text(promise.curve, write)} {promise.strictness.value}"))
    if qos.error is not None:
        promises.append(("error", f"{qos.error:g}"))
    if qos.shed is not None:
        parts = (qos.shed.kind, qos.shed.attribute, None if qos.shed.center is None else f"{qos.shed.center:g}")
        promises.append(("shed", " ".join(part for part in parts if part is not None)))
    if qos.priority is not None:
        promises.append(("priority", str(qos.priority)))
    return promises


def _promise(options: Mapping[str, Option], name: str, parse: Callable[[str], float]) -> Promise | None:
    value = options.get(name)
    if value is None:
        return None
    if name == "smoothness" and isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise ValueError(f"expected a value in quotes, such as {_SAMPLES[name]}")
    strictness = Strictness(str(options.get(f"{name}.class", "BEST EFFORT")))
    percentile = options.get(f"{name}.percentile")
    return Promise(_curve(value, parse), strictness, None if percentile is None else parse_percentile(str(percentile)))


_SAMPLES = {"latency": "'500 ms'", "memory": "'64 MB'", "throughput": "'1000/s'", "smoothness": "'1.5'"}


def _curve(text: str, parse: Callable[[str], float]) -> Curve:
    if ":" not in text:
        return Curve(((0, parse(text)),))
    points: list[tuple[int, float]] = []
    for part in text.split(","):
        instant, colon, value = part.partition(":")
        if not colon:
            raise ValueError(f"{part.strip()!r} is not a point such as '500s: 200 ms'")
        points.append((parse_duration(instant), parse(value)))
    if any(after <= before for (before, _), (after, _) in pairwise(points)):
        raise ValueError(f"the times of {text!r} must grow from point to point")
    return Curve(tuple(points))


def _latency(text: str) -> float:
    value = parse_duration(text)
    if value <= 0:
        raise ValueError("expected a latency above zero, such as '500 ms'")
    return float(value)


def _unevenness(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        raise ValueError("expected a number such as 1.5: (most - least) / mean of the results per second")
    return value


def _share(value: Option) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("expected a share from 0 to 1, such as 0.15")
    return float(value)


def _shedding(kind: str, options: Mapping[str, Option]) -> Shedding:
    attribute, center = options.get("shed.attribute"), options.get("shed.center")
    for known in SHED_KINDS:
        if kind == known:
            break
    else:
        raise ValueError(f"{kind} is not a way to shed; choose one of {', '.join(SHED_KINDS)}")
    if known == "RANDOM" and attribute is not None:
        raise ValueError("RANDOM takes no attribute")
    if known != "RANDOM" and attribute is None:
        raise ValueError(
            f"{known} needs an attribute, such as shed {known} speed{' 40' if known in ('CENTER', 'OUTLIER') else ''}"
        )
    if (known in ("CENTER", "OUTLIER")) != (center is not None):
        raise ValueError(
            f"{known} needs a center, such as shed {known} speed 40" if center is None else f"{known} takes no center"
        )
    return Shedding(known, None if attribute is None else str(attribute), None if center is None else float(center))


def _curve_text(curve: Curve, write: Callable[[float], str]) -> str:
    if len(curve.points) == 1:
        return f"'{write(curve.points[0][1])}'"
    return (
        "'"
        + ", ".join(
            f"{format_duration(instant) if instant else '0 s'}: {write(value)}" for instant, value in curve.points
        )
        + "'"
    )


def _write_latency(value: float) -> str:
    return format_duration(round(value))


def format_size(value: float) -> str:
    """Write bytes as '64 MB'."""
    for name, unit in reversed(_BYTES.items()):
        if value >= unit:
            return f"{value / unit:g} {name.upper()}"
    return f"{value:g} B"


def _write_rate(value: float) -> str:
    return f"{value:g}/s"
