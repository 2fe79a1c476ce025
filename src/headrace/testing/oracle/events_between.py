"""Definitions of event operators that look at what lies between a start and an end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from headrace.model.events import event as events
from headrace.model.events.event import Event, Mode
from headrace.model.expressions.expression import Expr
from headrace.testing.oracle.combined_events import Fit, paired
from headrace.testing.oracle.event_oracle import EventOracle
from headrace.testing.oracle.expressions import value_of
from headrace.testing.oracle.occurrences import Occurrence, Waiting


def not_between(oracle: EventOracle, event: events.Not, span: int | None) -> list[Occurrence]:
    """Return the occurrences of an end after a start with no middle between them."""
    starts, middles, ends = oracle.all(event.start, span), oracle.all(event.middle, None), oracle.all(event.end, span)

    def free(start: Occurrence, end: Occurrence) -> bool:
        inside = [middle for middle in middles if start.end <= middle.start and middle.end <= end.start]
        return not any(oracle.hold(event, [start, middle, end], with_=event.middle) for middle in inside)

    def fit(start: Occurrence, end: Occurrence) -> bool:
        return (
            start.end < end.start
            and oracle.usable(event.start, start, end.end, span)
            and oracle.hold(event, [start, end], without=event.middle)
        )

    if oracle.mode in (Mode.UNRESTRICTED, Mode.CHRONICLE):
        pairs = paired(oracle, event.start, starts, ends, lambda start, end: fit(start, end) and free(start, end))
        return [oracle.union([*group, end], end.end) for end, group in pairs]
    return _closed(oracle, event.start, starts, ends, fit, lambda start, end: [] if free(start, end) else None)


def absent(oracle: EventOracle, event: events.Absent, span: int | None) -> list[Occurrence]:
    """Return the starts after which no middle came for a time, at the end of that time."""
    starts, middles = oracle.all(event.start, span), oracle.all(event.middle, None)
    waiting = Waiting(lambda waiting: oracle.kept(event.start, waiting), starts)

    def prevented(middle: Occurrence, open_starts: list[Occurrence]) -> list[Occurrence]:
        return [start for start in open_starts if start.end <= middle.start and oracle.hold(event, [start, middle])]

    results: list[Occurrence] = []
    for at in sorted(
        {at for start in starts for at in (start.end, start.end + event.span)}
        | {occurrence.end for occurrence in middles}
    ):
        met = [occurrence for occurrence in middles if occurrence.end == at]
        for middle in met:
            waiting.remove(prevented(middle, waiting.before(at)))
        due = [start for start in waiting.before(at) if start.end + event.span <= at]
        waiting.remove(due)
        results += [oracle.union([start], at) for start in due if oracle.usable(event.start, start, at, span)]
        for middle in met:  # what came at the same instant, too
            waiting.remove(prevented(middle, waiting.before(at + 1)))
    return results


def aperiodic(oracle: EventOracle, event: events.Aperiodic, span: int | None) -> list[Occurrence]:
    """Return the occurrences of a middle after a start and before an end."""
    middles = oracle.all(event.middle, span)
    waiting = _open(oracle, event.start, oracle.all(event.start, span))

    def fit(start: Occurrence, middle: Occurrence) -> bool:
        return (
            start.end < middle.start
            and oracle.usable(event.start, start, middle.end, span)
            and oracle.hold(event, [start, middle], without=event.end)
        )

    results: list[Occurrence] = []
    # at the same instant, ends come before middles
    for is_middle, occurrence in sorted(
        [*((False, end) for end in oracle.all(event.end, None)), *((True, middle) for middle in middles)],
        key=_ends_before_middles,
    ):
        if not is_middle:
            _close(oracle, event, waiting, occurrence, span)
            continue
        fits = [start for start in waiting.before(occurrence.end) if fit(start, occurrence)]
        match oracle.mode:
            case Mode.CHRONICLE:
                fits = fits[:1]
            case Mode.PROXIMAL:
                fits = fits[-1:]
                waiting.remove(fits)
            case Mode.CUMULATIVE:
                results += [oracle.union([*fits, occurrence], occurrence.end)] if fits else []
                continue
            case Mode.UNRESTRICTED | Mode.RECENT | Mode.CONTINUOUS:
                pass
        results += [oracle.union([start, occurrence], occurrence.end) for start in fits]
    return results


def aperiodic_star(oracle: EventOracle, event: events.AperiodicStar, span: int | None) -> list[Occurrence]:
    """Return the ends with all middles since a start."""
    starts, middles, ends = oracle.all(event.start, span), oracle.all(event.middle, span), oracle.all(event.end, span)

    def fit(start: Occurrence, end: Occurrence) -> bool:
        return (
            start.end < end.start
            and oracle.usable(event.start, start, end.end, span)
            and oracle.hold(event, [start, end], without=event.middle)
        )

    def inside(start: Occurrence, end: Occurrence) -> list[Occurrence] | None:
        results = [
            middle
            for middle in middles
            if start.end < middle.start and middle.end < end.start and middle.lasts(end.end, span)
        ]
        results = [middle for middle in results if oracle.hold(event, [start, middle, end], with_=event.middle)]
        return results or None

    return _closed_by(oracle, event.start, starts, ends, fit, inside)


def repetition(oracle: EventOracle, event: events.Repetition, span: int | None) -> list[Occurrence]:
    """Return the ends with all middles since a start, or since the end before, if they are as written."""
    every = [oracle.all(middle, span) for middle in event.middles]
    ends = oracle.all(event.end, span)

    def between(start: Occurrence | None, end: Occurrence) -> list[list[Occurrence]]:
        before = [] if start is None else [start]
        return [
            [
                middle
                for middle in middles
                if all(first.end < middle.start for first in before)
                and middle.end < end.start
                and middle.lasts(end.end, span)
                and oracle.hold(event, [*before, middle, end], with_=kind)
            ]
            for kind, middles in zip(event.middles, every, strict=True)
        ]

    def inside(start: Occurrence | None, end: Occurrence) -> list[Occurrence] | None:
        groups: list[list[Occurrence]] = []
        links = event.links or ((),) * len(every)
        for kind, group, linked in zip(event.middles, between(start, end), links, strict=True):
            chosen = _linked(kind, group, linked, whole=start is not None)
            if chosen is None:
                return None
            groups.append(chosen)
        for group, (least, most) in zip(groups, event.counts, strict=True):
            if len(group) not in range(least, len(group) + 1 if most is None else most + 1):
                return None
        pairs = [(one, other) for i, group in enumerate(groups) for one in group for other in chain(*groups[i + 1 :])]
        if any(one.end >= other.start for one, other in pairs):
            return None
        return list(chain(*groups))

    if event.start is not None:
        opening = event.start

        def fit(start: Occurrence, end: Occurrence) -> bool:
            return (
                start.end < end.start
                and oracle.usable(opening, start, end.end, span)
                and oracle.hold(event, [start, end])
            )

        return _closed_by(oracle, opening, oracle.all(opening, span), ends, fit, inside)
    results: list[Occurrence] = []
    for end in ends:
        parts, taken = inside(None, end), list(chain(*between(None, end)))
        results += [] if parts is None else [oracle.union([*parts, end], end.end)]
        if oracle.mode is not Mode.UNRESTRICTED:
            every = [[middle for middle in middles if middle not in taken] for middles in every]
    return results


def _linked(kind: Event, group: list[Occurrence], links: tuple[Expr, ...], *, whole: bool) -> list[Occurrence] | None:
    """Return the occurrences that follow one another as the links say: all, or (not `whole`) those at the end."""
    chosen: list[Occurrence] = []
    for occurrence in reversed(group):
        if chosen and links and isinstance(kind, events.Primitive):
            (_, row), (_, later) = occurrence.rows[0], chosen[0].rows[0]
            scope = {**later.scope, **{events.PREVIOUS + name: value for name, value in row.scope.items()}}
            if not all(value_of(link, scope) is True for link in links):
                return None if whole else chosen
        chosen.insert(0, occurrence)
    return chosen


def periodic(oracle: EventOracle, event: events.Periodic, span: int | None) -> list[Occurrence]:
    """Return the instants at each multiple of a time after a start, before an end."""
    starts, ends = oracle.all(event.start, span), oracle.all(event.end, None)
    waiting = _open(oracle, event.start, starts)
    ticked: set[Occurrence] = set()
    results: list[Occurrence] = []
    instants = {end.end for end in ends}.union(*(_ticks(oracle, event, start, span) for start in starts))
    for at in sorted(instants):
        open_starts = waiting.before(at)
        for end in ends:
            if end.end == at:
                _close(oracle, event, waiting, end, span)
        mine = [
            start
            for start in open_starts
            if start in waiting.waiting
            and (at - start.end) % event.span == 0
            and oracle.usable(event.start, start, at, span)
            and not (start in ticked and oracle.mode is Mode.PROXIMAL)
        ]
        ticked |= set(mine)
        if oracle.mode is Mode.PROXIMAL:
            waiting.remove(mine)
        results += [
            oracle.union(group, at)
            for group in ([mine] if oracle.mode is Mode.CUMULATIVE and mine else [[start] for start in mine])
        ]
    return results


def _ticks(oracle: EventOracle, event: events.Periodic, start: Occurrence, span: int | None) -> Iterator[int]:
    """Yield the instants at each multiple of a time after a start, as long as it counts."""
    at = start.end + event.span
    while at < oracle.until and oracle.usable(event.start, start, at, span):
        yield at
        at += event.span


def periodic_star(oracle: EventOracle, event: events.PeriodicStar, span: int | None) -> list[Occurrence]:
    """Return the ends before which at least one multiple of a time after a start has passed."""
    starts, ends = oracle.all(event.start, span), oracle.all(event.end, span)

    def fit(start: Occurrence, end: Occurrence) -> bool:
        return (
            start.end < end.start
            and oracle.usable(event.start, start, end.end, span)
            and oracle.hold(event, [start, end])
        )

    return _closed_by(
        oracle, event.start, starts, ends, fit, lambda start, end: [] if start.end + event.span < end.end else None
    )


def _closed(
    oracle: EventOracle,
    start: Event,
    starts: list[Occurrence],
    ends: list[Occurrence],
    fit: Fit,
    inside: Callable[[Occurrence, Occurrence], list[Occurrence] | None],
) -> list[Occurrence]:
    """Let each end close the starts that it fits, in CHRONICLE the oldest.

    Each start gives a result with what is inside, unless that is None.
    """
    results: list[Occurrence] = []
    waiting = _open(oracle, start, starts)
    for end in ends:
        fits = [opened for opened in waiting.before(end.end) if fit(opened, end)]
        fits = fits[:1] if oracle.mode is Mode.CHRONICLE else fits
        if oracle.mode is not Mode.UNRESTRICTED:
            waiting.remove(fits)
        filled = [(opened, parts) for opened in fits if (parts := inside(opened, end)) is not None]
        if oracle.mode is Mode.PROXIMAL:
            filled = filled[-1:]
        if oracle.mode is Mode.CUMULATIVE and filled:
            middles = list(dict.fromkeys(part for _, parts in filled for part in parts))
            results.append(oracle.union([*(opened for opened, _ in filled), *middles, end], end.end))
        else:
            results += [oracle.union([opened, *parts, end], end.end) for opened, parts in filled]
    return results


def _closed_by(
    oracle: EventOracle,
    start: Event,
    starts: list[Occurrence],
    ends: list[Occurrence],
    fit: Fit,
    inside: Callable[[Occurrence, Occurrence], list[Occurrence] | None],
) -> list[Occurrence]:
    if oracle.mode is not Mode.PROXIMAL:
        return _closed(oracle, start, starts, ends, fit, inside)
    # the newest start alone, even if nothing comes of it
    results: list[Occurrence] = []
    waiting = _open(oracle, start, starts)
    for end in ends:
        fits = [opened for opened in waiting.before(end.end) if fit(opened, end)]
        waiting.remove(fits)
        for newest in fits[-1:]:
            parts = inside(newest, end)
            results += [] if parts is None else [oracle.union([newest, *parts, end], end.end)]
    return results


def _close(
    oracle: EventOracle, event: events.Aperiodic | events.Periodic, waiting: Waiting, end: Occurrence, span: int | None
) -> None:
    """Let an end that is no constituent close the starts that it fits, in CHRONICLE the oldest."""
    fits = [
        start
        for start in waiting.before(end.end)
        if start.end < end.start
        and oracle.usable(event.start, start, end.end, span)
        and oracle.hold(event, [start, end], with_=event.end)
    ]
    waiting.remove(fits[:1] if oracle.mode is Mode.CHRONICLE else fits)


def _open(oracle: EventOracle, start: Event, starts: list[Occurrence]) -> Waiting:
    """Return the starts that wait for an end."""
    limited = oracle.mode in (Mode.RECENT, Mode.PROXIMAL, Mode.UNRESTRICTED)
    return Waiting(lambda waiting: oracle.kept(start, waiting) if limited else waiting, starts)


def _ends_before_middles(arrival: tuple[bool, Occurrence]) -> tuple[int, bool]:
    is_middle, occurrence = arrival
    return occurrence.end, is_middle
