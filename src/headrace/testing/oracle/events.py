"""What a complex event means, computed from whole histories: slow, plain, and independent of the operators.

Every operator is a statement about the lists of all occurrences of its operands: which of them go together in which mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from headrace.model.events.event import (
    Absent,
    And,
    AnyOf,
    Aperiodic,
    AperiodicStar,
    Context,
    Event,
    Mode,
    Not,
    Or,
    Periodic,
    PeriodicStar,
    Plus,
    Primitive,
    Times,
    Within,
    primitives,
)
from headrace.model.events.event import Sequence as Following
from headrace.model.events.output import Count, Ended, Output, Pick, Started
from headrace.model.expressions.expression import Expr, columns
from headrace.model.schema import TS
from headrace.model.time import END
from headrace.plan.nodes import Detect
from headrace.testing.oracle.expressions import value_of
from headrace.testing.oracle.rows import Row
from headrace.testing.oracle.values import identity


@dataclass(frozen=True, eq=False)
class Found:
    """An occurrence: what operators see of it, when it began, and its tuples with the parts they are of."""

    start: int
    end: int
    begin: int
    rows: tuple[tuple[str, Row], ...]

    def newest(self, part: str) -> Row | None:
        mine = [row for name, row in self.rows if name == part]
        latest = max((row.ts for row in mine), default=0)
        return [row for row in mine if row.ts == latest][-1] if mine else None


Fit = Callable[[Found, Found], bool]


def detections(
    event: Event,
    context: Context,
    histories: Mapping[str, Sequence[Row]],
    conditions: Sequence[Expr] = (),
    *,
    until: int,
) -> list[Found]:
    """All occurrences that end before `until`, given the tuples of each part (of one key) in order of arrival."""
    found = _Oracle(context, histories, conditions, until).all(event, None)
    return [each for each in found if each.end < until]


def detect(node: Detect, parts: Sequence[Sequence[Row]]) -> list[Row]:
    """The results of a plan node, given the tuples of each input in order; what ticks for ever ends with the last tuple."""
    until = END if not _ticks(node.event) else max((row.ts for rows in parts for row in rows), default=0) + 1
    histories: dict[tuple[Any, ...], dict[int, list[Row]]] = {}
    for port, rows in enumerate(parts):
        for row in rows:
            key = tuple(value_of(expr, row.scope) for expr in node.keys[port])
            if None not in key:  # NULL equals nothing
                histories.setdefault(tuple(map(identity, key)), {}).setdefault(port, []).append(row)
    results: list[Row] = []
    for history in histories.values():
        mine = {part.name: history.get(part.port, []) for part in primitives(node.event)}
        for one in detections(node.event, node.context, mine, node.conditions, until=until):
            results.append(Row(one.end, {output.name: _shown(output, one) for output in node.outputs}))
    return results


def _shown(output: Output, one: Found) -> Any:
    match output:
        case Pick(part=part, column=column):
            row = one.newest(part)
            return None if row is None else row.values[column]
        case Count(part=part):
            return sum(name == part for name, _ in one.rows)
        case Started():
            return one.begin
        case Ended():
            return one.end


def _ticks(event: Event) -> bool:
    return isinstance(event, Periodic) or any(map(_ticks, _operands(event)))


class _Oracle:
    def __init__(
        self, context: Context, histories: Mapping[str, Sequence[Row]], conditions: Sequence[Expr], until: int
    ) -> None:
        self.context, self.mode = context, context.mode
        self.histories, self.conditions, self.until = histories, conditions, until

    def all(self, event: Event, span: int | None) -> list[Found]:
        """The occurrences of an event in the order in which they end."""
        found = self._all(event, span)
        return sorted((each for each in found if each.end < self.until), key=lambda each: each.end)

    def _all(self, event: Event, span: int | None) -> list[Found]:
        match event:
            case Primitive(name=name, mask=mask, start=start):
                rows = [
                    row for row in self.histories[name] if mask is None or value_of(mask, _scope([(name, row)])) is True
                ]
                begun = [(row, row.ts if start is None else row.values[start]) for row in rows]
                found = [
                    Found(row.ts if self.context.point else begin, row.ts, begin, ((name, row),))
                    for row, begin in begun
                ]
                return [each for each in found if _lasts(each, each.end, span)]
            case Within(event=inner, span=own):
                return self.all(inner, own if span is None else min(own, span))
            case Or(left=left, right=right):
                return [*self.all(left, span), *self.all(right, span)]
            case Following():
                return self._sequence(event, span)
            case And():
                return self._and(event, span)
            case AnyOf():
                return self._any(event, span)
            case Times():
                return self._times(event, span)
            case Not():
                return self._not(event, span)
            case Absent():
                return self._absent(event, span)
            case Aperiodic():
                return self._aperiodic(event, span)
            case AperiodicStar():
                return self._aperiodic_star(event, span)
            case Periodic():
                return self._periodic(event, span)
            case PeriodicStar():
                return self._periodic_star(event, span)
            case Plus(event=inner, span=length):
                return [Found(at, at, at, each.rows) for each in self.all(inner, None) for at in (each.end + length,)]

    # Two operands

    def _sequence(self, event: Following, span: int | None) -> list[Found]:
        lefts, rights = self.all(event.left, span), self.all(event.right, span)

        def fit(one: Found, other: Found) -> bool:
            return (
                one.end < other.start
                and self._usable(event.left, one, other.end, span)
                and self._hold(event, [one, other])
            )

        return [
            self._union([*group, right], right.end) for right, group in self._paired(event.left, lefts, rights, fit)
        ]

    def _paired(
        self, left: Event, lefts: list[Found], rights: list[Found], fit: Fit
    ) -> list[tuple[Found, list[Found]]]:
        """Which lefts go with which right, group by group."""
        before = {right: [one for one in lefts if one.end < right.end] for right in rights}
        waiting = _Waiting(lambda waiting: self._kept(left, waiting), lefts)
        used: set[Found] = set()
        pairs: list[tuple[Found, list[Found]]] = []
        match self.mode:
            case Mode.UNRESTRICTED | Mode.RECENT:
                pairs = [
                    (right, [one]) for right in rights for one in self._kept(left, before[right]) if fit(one, right)
                ]
            case Mode.CHRONICLE:
                for right in rights:
                    first = [one for one in before[right] if one not in used and fit(one, right)][:1]
                    used |= set(first)
                    pairs += [(right, first)] if first else []
            case Mode.PROXIMAL:
                for right in rights:
                    last = [one for one in waiting.before(right.end) if fit(one, right)][-1:]
                    waiting.end(last)
                    pairs += [(right, last)] if last else []
            case Mode.CONTINUOUS | Mode.CUMULATIVE:
                for right in rights:
                    mine = [one for one in before[right] if one not in used and fit(one, right)]
                    used |= set(mine)
                    pairs += (
                        [(right, [one]) for one in mine]
                        if self.mode is Mode.CONTINUOUS
                        else [(right, mine)]
                        if mine
                        else []
                    )
        return pairs

    def _and(self, event: And, span: int | None) -> list[Found]:
        arrivals = _arrivals([self.all(event.left, span), self.all(event.right, span)])
        sides = (event.left, event.right)
        found: list[Found] = []
        waiting: tuple[list[Found], list[Found]] = ([], [])
        for side, new in arrivals:
            fits = [
                each
                for each in waiting[1 - side]
                if self._usable(sides[1 - side], each, new.end, span) and self._hold(event, [each, new])
            ]
            if self.mode in (Mode.UNRESTRICTED, Mode.RECENT, Mode.PROXIMAL):
                waiting[side][:] = self._kept(sides[side], [*waiting[side], new])
            elif not fits:
                waiting[side].append(new)
            groups = [[each] for each in fits]
            match self.mode:
                case Mode.UNRESTRICTED | Mode.RECENT:
                    fits = []  # nothing is used up
                case Mode.CHRONICLE:
                    groups = groups[:1]
                case Mode.PROXIMAL:
                    groups = groups[-1:]
                    fits = [*fits[-1:], new] if fits else []  # even if it has replaced others
                case Mode.CUMULATIVE:
                    groups = [fits] if fits else []
                case Mode.CONTINUOUS:
                    pass
            gone = fits[:1] if self.mode is Mode.CHRONICLE else fits
            for each in waiting:
                each[:] = [one for one in each if one not in gone]
            found += [self._union([*group, new], new.end) for group in groups]
        return found

    # Many operands

    def _any(self, event: AnyOf, span: int | None) -> list[Found]:
        arrivals = _arrivals([self.all(each, span) for each in event.events])
        found: list[Found] = []
        used: set[Found] = set()
        begun: list[tuple[set[int], list[Found]]] = []
        for place, (kind, new) in enumerate(arrivals):
            if event.count == 1:
                found.append(self._union([new], new.end) if not isinstance(event.events[kind], Primitive) else new)
                continue
            open_ = {
                i: [each for other, each in arrivals[:place] if other == i and each not in used and _lasts(each, new.end, span)]
                for i in range(len(event.events))
            }  # fmt: skip
            if self.mode in (Mode.RECENT, Mode.PROXIMAL):
                latest = {i: [each for other, each in arrivals[:place] if other == i][-1:] for i in open_}
                open_ = {i: [each for each in latest[i] if each in open_[i]] for i in open_}
            others = [i for i in open_ if i != kind and open_[i]]
            match self.mode:
                case Mode.UNRESTRICTED:
                    sets = [
                        [*parts, new]
                        for kinds in combinations(others, event.count - 1)
                        for parts in product(*(open_[i] for i in kinds))
                    ]
                    found += [
                        self._union(_by_end(parts), new.end) for parts in sets if self._hold(event, _by_end(parts))
                    ]
                case Mode.RECENT | Mode.PROXIMAL | Mode.CHRONICLE:
                    old = self.mode is Mode.CHRONICLE
                    heads = sorted(((open_[i][0].end if old else -open_[i][-1].end), i) for i in others)[
                        : event.count - 1
                    ]
                    parts = [*_by_end([open_[i][0 if old else -1] for _, i in heads]), new]
                    if len(parts) == event.count and self._hold(event, parts):
                        found.append(self._union(parts, new.end))
                        used |= set(parts) if self.mode is not Mode.RECENT else set()
                case Mode.CUMULATIVE:
                    parts = [*_by_end([each for i in sorted(open_) for each in open_[i]]), new]
                    if len(others) >= event.count - 1 and self._hold(event, parts):
                        found.append(self._union(parts, new.end))
                        used |= {each for _, each in arrivals[: place + 1]}
                case Mode.CONTINUOUS:
                    begun = [
                        (kinds, parts) for kinds, parts in begun if all(_lasts(each, new.end, span) for each in parts)
                    ]
                    done, rest = [], []
                    for kinds, parts in begun:
                        longer = (kinds | {kind}, [*parts, new])
                        if kind in kinds:
                            rest.append((kinds, parts))
                        elif len(longer[0]) < event.count:
                            rest.append(longer)
                        elif self._hold(event, longer[1]):
                            done.append(self._union(longer[1], new.end))
                        else:
                            rest.append((kinds, parts))
                    found += done
                    begun = rest if done else [*rest, ({kind}, [new])]
        return found

    def _times(self, event: Times, span: int | None) -> list[Found]:
        inner = self.all(event.event, span)
        found: list[Found] = []
        group: list[Found] = []
        for place, new in enumerate(inner):
            if self.mode in (Mode.UNRESTRICTED, Mode.RECENT, Mode.CONTINUOUS):
                group = [each for each in inner[: place + 1] if _lasts(each, new.end, span)][-event.count :]
            else:
                group = [*(each for each in group if _lasts(each, new.end, span)), new]
            if len(group) == event.count:
                found.append(self._union(group, new.end))
                group = []
        return found

    # Between a start and an end

    def _not(self, event: Not, span: int | None) -> list[Found]:
        starts, middles, ends = self.all(event.start, span), self.all(event.middle, None), self.all(event.end, span)

        def free(one: Found, other: Found) -> bool:
            inside = [each for each in middles if one.end <= each.start and each.end <= other.start]
            return not any(self._hold(event, [one, each, other], with_=event.middle) for each in inside)

        def fit(one: Found, other: Found) -> bool:
            return (
                one.end < other.start
                and self._usable(event.start, one, other.end, span)
                and self._hold(event, [one, other], without=event.middle)
            )  # fmt: skip

        if self.mode in (Mode.UNRESTRICTED, Mode.CHRONICLE):
            pairs = self._paired(event.start, starts, ends, lambda one, other: fit(one, other) and free(one, other))
            return [self._union([*group, end], end.end) for end, group in pairs]
        return self._closed(event.start, starts, ends, fit, lambda one, other: [] if free(one, other) else None)

    def _closed(
        self,
        start: Event,
        starts: list[Found],
        ends: list[Found],
        fit: Fit,
        inside: Callable[[Found, Found], list[Found] | None],
    ) -> list[Found]:
        """Each end closes the starts it fits, in CHRONICLE the oldest; each with what is inside comes out, unless that is None."""
        found: list[Found] = []
        waiting = self._open(start, starts)
        for end in ends:
            fits = [one for one in waiting.before(end.end) if fit(one, end)]
            fits = fits[:1] if self.mode is Mode.CHRONICLE else fits
            if self.mode is not Mode.UNRESTRICTED:
                waiting.end(fits)
            filled = [(one, parts) for one in fits if (parts := inside(one, end)) is not None]
            if self.mode is Mode.PROXIMAL:
                filled = filled[-1:]
            if self.mode is Mode.CUMULATIVE and filled:
                middles = list(dict.fromkeys(part for _, parts in filled for part in parts))
                found.append(self._union([*(one for one, _ in filled), *middles, end], end.end))
            else:
                found += [self._union([one, *parts, end], end.end) for one, parts in filled]
        return found

    def _absent(self, event: Absent, span: int | None) -> list[Found]:
        starts, middles = self.all(event.start, span), self.all(event.middle, None)
        waiting = _Waiting(lambda waiting: self._kept(event.start, waiting), starts)

        def prevented(middle: Found, open_: list[Found]) -> list[Found]:
            return [one for one in open_ if one.end <= middle.start and self._hold(event, [one, middle])]

        found: list[Found] = []
        for at in sorted(
            {at for one in starts for at in (one.end, one.end + event.span)} | {each.end for each in middles}
        ):
            met = [each for each in middles if each.end == at]
            for middle in met:
                waiting.end(prevented(middle, waiting.before(at)))
            due = [one for one in waiting.before(at) if one.end + event.span <= at]
            waiting.end(due)
            found += [self._union([one], at) for one in due if self._usable(event.start, one, at, span)]
            for middle in met:  # what came at the same instant, too
                waiting.end(prevented(middle, waiting.before(at + 1)))
        return found

    def _aperiodic(self, event: Aperiodic, span: int | None) -> list[Found]:
        middles = self.all(event.middle, span)
        waiting = self._open(event.start, self.all(event.start, span))

        def fit(one: Found, other: Found) -> bool:
            return (
                one.end < other.start
                and self._usable(event.start, one, other.end, span)
                and self._hold(event, [one, other], without=event.end)
            )

        found: list[Found] = []
        # at the same instant, ends come before middles
        for is_middle, one in sorted(
            [*((False, end) for end in self.all(event.end, None)), *((True, each) for each in middles)], key=_instant
        ):
            if not is_middle:
                self._close(event, waiting, one, span)
                continue
            fits = [start for start in waiting.before(one.end) if fit(start, one)]
            match self.mode:
                case Mode.CHRONICLE:
                    fits = fits[:1]
                case Mode.PROXIMAL:
                    fits = fits[-1:]
                    waiting.end(fits)
                case Mode.CUMULATIVE:
                    found += [self._union([*fits, one], one.end)] if fits else []
                    continue
                case Mode.UNRESTRICTED | Mode.RECENT | Mode.CONTINUOUS:
                    pass
            found += [self._union([start, one], one.end) for start in fits]
        return found

    def _aperiodic_star(self, event: AperiodicStar, span: int | None) -> list[Found]:
        starts, middles, ends = self.all(event.start, span), self.all(event.middle, span), self.all(event.end, span)

        def fit(one: Found, other: Found) -> bool:
            return (
                one.end < other.start
                and self._usable(event.start, one, other.end, span)
                and self._hold(event, [one, other], without=event.middle)
            )  # fmt: skip

        def inside(one: Found, other: Found) -> list[Found] | None:
            found = [
                each
                for each in middles
                if one.end < each.start and each.end < other.start and _lasts(each, other.end, span)
            ]
            found = [each for each in found if self._hold(event, [one, each, other], with_=event.middle)]
            return found or None

        return self._closed_by(event.start, starts, ends, fit, inside)

    def _closed_by(
        self,
        start: Event,
        starts: list[Found],
        ends: list[Found],
        fit: Fit,
        inside: Callable[[Found, Found], list[Found] | None],
    ) -> list[Found]:
        if self.mode is not Mode.PROXIMAL:
            return self._closed(start, starts, ends, fit, inside)
        # the newest start alone, even if nothing comes of it
        found: list[Found] = []
        waiting = self._open(start, starts)
        for end in ends:
            fits = [one for one in waiting.before(end.end) if fit(one, end)]
            waiting.end(fits)
            for one in fits[-1:]:
                parts = inside(one, end)
                found += [] if parts is None else [self._union([one, *parts, end], end.end)]
        return found

    def _periodic(self, event: Periodic, span: int | None) -> list[Found]:
        starts, ends = self.all(event.start, span), self.all(event.end, None)
        waiting = self._open(event.start, starts)
        ticked: set[Found] = set()
        found: list[Found] = []
        for at in range(min((one.end for one in starts), default=self.until), self.until):
            open_ = waiting.before(at)
            if not waiting.coming and not any(self._usable(event.start, one, at, span) for one in open_):
                break
            for end in ends:
                if end.end == at:
                    self._close(event, waiting, end, span)
            mine = [
                one for one in open_
                if one in waiting.waiting and (at - one.end) % event.span == 0 and self._usable(event.start, one, at, span)
                and not (one in ticked and self.mode is Mode.PROXIMAL)
            ]  # fmt: skip
            ticked |= set(mine)
            if self.mode is Mode.PROXIMAL:
                waiting.end(mine)
            found += [
                self._union(group, at)
                for group in ([mine] if self.mode is Mode.CUMULATIVE and mine else [[one] for one in mine])
            ]
        return found

    def _periodic_star(self, event: PeriodicStar, span: int | None) -> list[Found]:
        starts, ends = self.all(event.start, span), self.all(event.end, span)

        def fit(one: Found, other: Found) -> bool:
            return (
                one.end < other.start
                and self._usable(event.start, one, other.end, span)
                and self._hold(event, [one, other])
            )

        return self._closed_by(
            event.start, starts, ends, fit, lambda one, other: [] if one.end + event.span < other.end else None
        )

    def _close(self, event: Aperiodic | Periodic, waiting: _Waiting, end: Found, span: int | None) -> None:
        """Let an end that is no constituent close the starts that it fits, in CHRONICLE the oldest."""
        fits = [
            one for one in waiting.before(end.end)
            if one.end < end.start and self._usable(event.start, one, end.end, span) and self._hold(event, [one, end], with_=event.end)
        ]  # fmt: skip
        waiting.end(fits[:1] if self.mode is Mode.CHRONICLE else fits)

    def _open(self, start: Event, starts: list[Found]) -> _Waiting:
        """Starts that wait for an end."""
        limited = self.mode in (Mode.RECENT, Mode.PROXIMAL, Mode.UNRESTRICTED)
        return _Waiting(lambda waiting: self._kept(start, waiting) if limited else waiting, starts)

    # What all share

    def _union(self, parts: list[Found], end: int) -> Found:
        rows = tuple(row for part in parts for row in part.rows)
        start = end if self.context.point else min(part.start for part in parts)
        return Found(start, end, min(part.begin for part in parts), rows)

    def _hold(
        self, event: Event, parts: list[Found], *, with_: Event | None = None, without: Event | None = None
    ) -> bool:
        """Whether the conditions hold that are this operator's and whose parts are all there."""
        own = _names(event)
        below = [_names(operand) for operand in _operands(event)]
        scope = _scope([row for part in parts for row in part.rows])
        for term in self.conditions:
            named = {name.partition(".")[0] for name in columns(term)}
            if not named <= own or any(named <= names for names in below):
                continue
            if (with_ is not None and not named & _names(with_)) or (without is not None and named & _names(without)):
                continue
            if all(name in scope for name in columns(term)) and value_of(term, scope) is not True:
                return False
        return True

    def _usable(self, operand: Event, one: Found, now: int, span: int | None) -> bool:
        retention = self.context.retention(operand.name) if isinstance(operand, Primitive) else None
        young = retention is None or retention.age is None or now - one.end <= retention.age
        return young and _lasts(one, now, span)

    def _kept(self, operand: Event, earlier: list[Found]) -> list[Found]:
        """The newest of each kind."""
        return [one for place, one in enumerate(earlier) if not self._replaced(operand, one, earlier[place + 1 :])]

    def _replaced(self, operand: Event, one: Found, later: Sequence[Found]) -> bool:
        retention = self.context.retention(operand.name) if isinstance(operand, Primitive) else None
        latest = 1 if self.mode in (Mode.RECENT, Mode.PROXIMAL) else None
        keep = retention.keep if retention is not None and retention.keep is not None else latest
        if keep is None:
            return False
        return sum(self._kind(operand, each) == self._kind(operand, one) for each in later) >= keep

    def _kind(self, operand: Event, one: Found) -> list[Any]:
        kinds = [(part.name, self.context.retention(part.name)) for part in primitives(operand)]
        rows = [
            (one.newest(name), column) for name, retention in kinds if retention is not None for column in retention.by
        ]
        return [None if row is None else row.values[column] for row, column in rows]


class _Waiting:
    """Those that wait for others, in the order in which they came; `keep` says who of them is kept when one more comes. Who has gone makes room."""

    def __init__(self, keep: Callable[[list[Found]], list[Found]], coming: list[Found]) -> None:
        self._keep, self.coming = keep, coming
        self.waiting: list[Found] = []

    def before(self, instant: int) -> list[Found]:
        """Who waits at an instant, of those that came earlier."""
        come = [one for one in self.coming if one.end < instant]
        self.coming = [one for one in self.coming if one.end >= instant]
        for one in come:
            self.waiting = self._keep([*self.waiting, one])
        return list(self.waiting)

    def end(self, gone: list[Found]) -> None:
        """These do not wait any more."""
        self.waiting = [one for one in self.waiting if one not in gone]


def _instant(arrival: tuple[bool, Found]) -> tuple[int, bool]:
    return arrival[1].end, arrival[0]


def _arrivals(operands: Sequence[list[Found]]) -> list[tuple[int, Found]]:
    together = [(kind, each) for kind, found in enumerate(operands) for each in found]
    return sorted(together, key=lambda pair: pair[1].end)


def _by_end(parts: Sequence[Found]) -> list[Found]:
    return sorted(parts, key=lambda each: each.end)


def _lasts(one: Found, now: int, span: int | None) -> bool:
    return span is None or now - one.begin <= span


def _scope(rows: Sequence[tuple[str, Row]]) -> dict[str, Any]:
    """The columns of all parts by qualified name; of a part with several tuples those of the newest."""
    scope: dict[str, Any] = {}
    for part, row in sorted(rows, key=lambda pair: pair[1].ts):
        scope |= {f"{part}.{name}": value for name, value in row.values.items()} | {f"{part}.{TS}": row.ts}
    return scope


def _names(event: Event) -> set[str]:
    return {part.name for part in primitives(event)}


def _operands(event: Event) -> list[Event]:
    fields = [getattr(event, name) for name in event.__struct_fields__]
    return [
        each
        for field in fields
        for each in (field if isinstance(field, tuple) else (field,))
        if isinstance(each, Event)
    ]
