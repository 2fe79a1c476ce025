"""What a complex event means, computed from whole histories: slow, plain, and independent of the operators.

Every operator is a statement about the lists of all occurrences of its operands: which of them go together in which mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from headrace.elements.event import (
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
from headrace.elements.event import Sequence as Following
from headrace.elements.event_output import Count, Ended, Output, Pick, Started
from headrace.elements.expression import Expr, columns
from headrace.elements.schema import TS
from headrace.elements.time import END
from headrace.plan.nodes import Detect
from headrace.testing.oracle_expressions import value_of
from headrace.testing.oracle_rows import Row
from headrace.testing.oracle_values import identity


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


def detections(event: Event, context: Context, histories: Mapping[str, Sequence[Row]], conditions: Sequence[Expr] = (), *, until: int) -> list[Found]:
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
    def __init__(self, context: Context, histories: Mapping[str, Sequence[Row]], conditions: Sequence[Expr], until: int) -> None:
        self.context, self.mode = context, context.mode
        self.histories, self.conditions, self.until = histories, conditions, until

    def all(self, event: Event, span: int | None) -> list[Found]:
        """The occurrences of an event in the order in which they end."""
        found = self._all(event, span)
        return sorted((each for each in found if each.end < self.until), key=lambda each: each.end)

    def _all(self, event: Event, span: int | None) -> list[Found]:
        match event:
            case Primitive(name=name, mask=mask, start=start):
                rows = [row for row in self.histories[name] if mask is None or value_of(mask, _scope([(name, row)])) is True]
                begun = [(row, row.ts if start is None else row.values[start]) for row in rows]
                found = [Found(row.ts if self.context.point else begin, row.ts, begin, ((name, row),)) for row, begin in begun]
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
            return one.end < other.start and self._usable(event.left, one, other.end, span) and self._hold(event, [one, other])

        return [self._union([*group, right], right.end) for right, group in self._paired(event.left, lefts, rights, fit)]

    def _paired(self, left: Event, lefts: list[Found], rights: list[Found], fit: Fit) -> list[tuple[Found, list[Found]]]:
        """Which lefts go with which right, group by group."""
        before = {right: [one for one in lefts if one.end < right.end] for right in rights}
        used: set[Found] = set()
        pairs: list[tuple[Found, list[Found]]] = []
        match self.mode:
            case Mode.UNRESTRICTED | Mode.RECENT:
                pairs = [(right, [one]) for right in rights for one in self._kept(left, before[right]) if fit(one, right)]
            case Mode.CHRONICLE:
                for right in rights:
                    first = [one for one in before[right] if one not in used and fit(one, right)][:1]
                    used |= set(first)
                    pairs += [(right, first)] if first else []
            case Mode.PROXIMAL:
                for right in rights:
                    last = [one for one in self._kept(left, before[right]) if one not in used and fit(one, right)][-1:]
                    used |= set(last)
                    pairs += [(right, last)] if last else []
            case Mode.CONTINUOUS | Mode.CUMULATIVE:
                for right in rights:
                    mine = [one for one in before[right] if one not in used and fit(one, right)]
                    used |= set(mine)
                    pairs += [(right, [one]) for one in mine] if self.mode is Mode.CONTINUOUS else [(right, mine)] if mine else []
        return pairs

    def _and(self, event: And, span: int | None) -> list[Found]:
        arrivals = _arrivals([self.all(event.left, span), self.all(event.right, span)])
        sides = (event.left, event.right)
        found: list[Found] = []
        used: set[Found] = set()
        for place, (side, new) in enumerate(arrivals):
            earlier = [each for other, each in arrivals[:place] if other != side]
            if self.mode in (Mode.UNRESTRICTED, Mode.RECENT, Mode.PROXIMAL):
                earlier = self._kept(sides[1 - side], earlier)
            fits = [
                each for each in earlier
                if each not in used and self._usable(sides[1 - side], each, new.end, span) and self._hold(event, [each, new])
            ]  # fmt: skip
            if not fits:
                continue
            match self.mode:
                case Mode.UNRESTRICTED | Mode.RECENT:
                    found += [self._union([each, new], new.end) for each in fits]
                    continue
                case Mode.CHRONICLE:
                    fits = fits[:1]
                case Mode.PROXIMAL:
                    fits = fits[-1:]
                case Mode.CONTINUOUS:
                    pass
                case Mode.CUMULATIVE:
                    found.append(self._union([*fits, new], new.end))
                    used |= {*fits, new}
                    continue
            found += [self._union([each, new], new.end) for each in fits]
            used |= {*fits, new}
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
                    sets = [[*parts, new] for kinds in combinations(others, event.count - 1) for parts in product(*(open_[i] for i in kinds))]
                    found += [self._union(_by_end(parts), new.end) for parts in sets if self._hold(event, _by_end(parts))]
                case Mode.RECENT | Mode.PROXIMAL | Mode.CHRONICLE:
                    old = self.mode is Mode.CHRONICLE
                    heads = sorted(((open_[i][0].end if old else -open_[i][-1].end), i) for i in others)[: event.count - 1]
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
                    begun = [(kinds, parts) for kinds, parts in begun if all(_lasts(each, new.end, span) for each in parts)]
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
        self, start: Event, starts: list[Found], ends: list[Found], fit: Fit, inside: Callable[[Found, Found], list[Found] | None]
    ) -> list[Found]:
        """Each end closes the starts it fits, in CHRONICLE the oldest; each with what is inside comes out, unless that is None."""
        found: list[Found] = []
        closed: set[Found] = set()
        for end in ends:
            before = [one for one in starts if one.end < end.end]
            if self.mode in (Mode.RECENT, Mode.PROXIMAL, Mode.UNRESTRICTED):
                before = self._kept(start, before)
            fits = [one for one in before if one not in closed and fit(one, end)]
            fits = fits[:1] if self.mode is Mode.CHRONICLE else fits
            if self.mode is not Mode.UNRESTRICTED:
                closed |= set(fits)
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
        found = []
        for place, one in enumerate(starts):
            at = one.end + event.span
            met = [each for each in middles if one.end <= each.start and each.end <= at and self._hold(event, [one, each])]
            later = [each for each in starts[place + 1 :] if each.end < at]
            if not met and not self._replaced(event.start, one, later) and self._usable(event.start, one, at, span):
                found.append(self._union([one], at))
        return found

    def _aperiodic(self, event: Aperiodic, span: int | None) -> list[Found]:
        starts, middles = self.all(event.start, span), self.all(event.middle, span)
        closed = self._closings(event, starts, self.all(event.end, None), span)

        def fit(one: Found, other: Found) -> bool:
            return (
                one.end < other.start
                and self._usable(event.start, one, other.end, span)
                and closed.get(one, other.end + 1) > other.end
                and self._hold(event, [one, other], without=event.end)
            )  # fmt: skip

        found: list[Found] = []
        used: set[Found] = set()
        for middle in middles:
            before = [one for one in starts if one.end < middle.end]
            if self.mode in (Mode.RECENT, Mode.PROXIMAL, Mode.UNRESTRICTED):
                before = self._kept(event.start, before)
            fits = [one for one in before if one not in used and fit(one, middle)]
            match self.mode:
                case Mode.CHRONICLE:
                    fits = fits[:1]
                case Mode.PROXIMAL:
                    fits = fits[-1:]
                    used |= set(fits)
                case Mode.CUMULATIVE:
                    found += [self._union([*fits, middle], middle.end)] if fits else []
                    continue
                case Mode.UNRESTRICTED | Mode.RECENT | Mode.CONTINUOUS:
                    pass
            found += [self._union([one, middle], middle.end) for one in fits]
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
            found = [each for each in middles if one.end < each.start and each.end < other.start and _lasts(each, other.end, span)]
            found = [each for each in found if self._hold(event, [one, each, other], with_=event.middle)]
            return found or None

        return self._closed_by(event.start, starts, ends, fit, inside)

    def _closed_by(
        self, start: Event, starts: list[Found], ends: list[Found], fit: Fit, inside: Callable[[Found, Found], list[Found] | None]
    ) -> list[Found]:
        if self.mode is not Mode.PROXIMAL:
            return self._closed(start, starts, ends, fit, inside)
        # the newest start alone, even if nothing comes of it
        found: list[Found] = []
        closed: set[Found] = set()
        for end in ends:
            fits = [one for one in self._kept(start, [one for one in starts if one.end < end.end]) if one not in closed and fit(one, end)]
            closed |= set(fits)
            for one in fits[-1:]:
                parts = inside(one, end)
                found += [] if parts is None else [self._union([one, *parts, end], end.end)]
        return found

    def _periodic(self, event: Periodic, span: int | None) -> list[Found]:
        starts = self.all(event.start, span)
        closed = self._closings(event, starts, self.all(event.end, None), span)
        ticks: dict[int, list[Found]] = {}
        for place, one in enumerate(starts):
            for number, at in enumerate(range(one.end + event.span, self.until, event.span)):
                later = [each for each in starts[place + 1 :] if each.end < at]
                over = closed.get(one, self.until) <= at or self._replaced(event.start, one, later) or not self._usable(event.start, one, at, span)
                if over or (number and self.mode is Mode.PROXIMAL):
                    break
                ticks.setdefault(at, []).append(one)
        if self.mode is Mode.CUMULATIVE:
            return [self._union(mine, at) for at, mine in ticks.items()]
        return [self._union([one], at) for at, mine in ticks.items() for one in mine]

    def _periodic_star(self, event: PeriodicStar, span: int | None) -> list[Found]:
        starts, ends = self.all(event.start, span), self.all(event.end, span)

        def fit(one: Found, other: Found) -> bool:
            return one.end < other.start and self._usable(event.start, one, other.end, span) and self._hold(event, [one, other])

        return self._closed_by(event.start, starts, ends, fit, lambda one, other: [] if one.end + event.span < other.end else None)

    def _closings(self, event: Aperiodic | Periodic, starts: list[Found], ends: list[Found], span: int | None) -> dict[Found, int]:
        """When each start is closed by an end that is no constituent."""
        closed: dict[Found, int] = {}
        for end in ends:
            fits = [
                one for one in starts
                if one not in closed and one.end < end.start and self._usable(event.start, one, end.end, span)
                and self._hold(event, [one, end], with_=event.end)
            ]  # fmt: skip
            for one in fits[:1] if self.mode is Mode.CHRONICLE else fits:
                closed[one] = end.end
        return closed

    # What all share

    def _union(self, parts: list[Found], end: int) -> Found:
        rows = tuple(row for part in parts for row in part.rows)
        start = end if self.context.point else min(part.start for part in parts)
        return Found(start, end, min(part.begin for part in parts), rows)

    def _hold(self, event: Event, parts: list[Found], *, with_: Event | None = None, without: Event | None = None) -> bool:
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
        rows = [(one.newest(name), column) for name, retention in kinds if retention is not None for column in retention.by]
        return [None if row is None else row.values[column] for row, column in rows]


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
    return [each for field in fields for each in (field if isinstance(field, tuple) else (field,)) if isinstance(each, Event)]
