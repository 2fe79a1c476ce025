"""The meaning of complex events, computed from whole histories: slow, simple, and independent of the operators.

Each event operator is defined over the lists of all occurrences of its operands: which of them go together in which
mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

from headrace.model.events import event as events
from headrace.model.events.event import Context, Event, Mode, primitives
from headrace.model.events.output import Count, Ended, Output, Pick, Started
from headrace.model.expressions.expression import Expr, columns
from headrace.model.time import END
from headrace.plan.nodes import Detect
from headrace.testing.oracle.expressions import value_of
from headrace.testing.oracle.occurrences import Occurrence, Waiting, arrivals, by_end, names_in, operands_of, scope_of
from headrace.testing.oracle.rows import Row
from headrace.testing.oracle.values import identity

Fit = Callable[[Occurrence, Occurrence], bool]
#: The occurrences of several operands in the order in which they end, each with the number of its operand.
Arrivals = Sequence[tuple[int, Occurrence]]


def detections(
    event: Event,
    context: Context,
    histories: Mapping[str, Sequence[Row]],
    conditions: Sequence[Expr] = (),
    *,
    until: int,
) -> list[Occurrence]:
    """Return all occurrences that end before `until`, given the tuples of each part (of one key) as they arrive."""
    occurrences = _Oracle(context, histories, conditions, until).all(event, None)
    return [occurrence for occurrence in occurrences if occurrence.end < until]


def detect(node: Detect, parts: Sequence[Sequence[Row]]) -> list[Row]:
    """Return the results of a plan node, given the tuples of each input in order.

    A periodic event that never ends is followed up to the last tuple.
    """
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
        for occurrence in detections(node.event, node.context, mine, node.conditions, until=until):
            values = {output.name: _output(output, occurrence) for output in node.outputs}
            results.append(Row(occurrence.end, values))
    return results


def _output(output: Output, occurrence: Occurrence) -> Any:
    match output:
        case Pick(part=part, column=column):
            row = occurrence.newest(part)
            return None if row is None else row.values[column]
        case Count(part=part):
            return sum(name == part for name, _ in occurrence.rows)
        case Started():
            return occurrence.begin
        case Ended():
            return occurrence.end


def _ticks(event: Event) -> bool:
    return isinstance(event, events.Periodic) or any(map(_ticks, operands_of(event)))


class _Oracle:
    def __init__(
        self, context: Context, histories: Mapping[str, Sequence[Row]], conditions: Sequence[Expr], until: int
    ) -> None:
        self.context, self.mode = context, context.mode
        self.histories, self.conditions, self.until = histories, conditions, until

    def all(self, event: Event, span: int | None) -> list[Occurrence]:
        """Return the occurrences of an event within a span of time, in the order in which they end."""
        return by_end([occurrence for occurrence in self._all(event, span) if occurrence.end < self.until])

    def _all(self, event: Event, span: int | None) -> list[Occurrence]:
        match event:
            case events.Primitive():
                return self._primitive(event, span)
            case events.Within(event=inner, span=own):
                return self.all(inner, own if span is None else min(own, span))
            case events.Or(left=left, right=right):
                return [*self.all(left, span), *self.all(right, span)]
            case events.Sequence():
                return self._sequence(event, span)
            case events.And():
                return self._and(event, span)
            case events.AnyOf():
                return self._any(event, span)
            case events.Times():
                return self._times(event, span)
            case events.Not():
                return self._not(event, span)
            case events.Absent():
                return self._absent(event, span)
            case events.Aperiodic():
                return self._aperiodic(event, span)
            case events.AperiodicStar():
                return self._aperiodic_star(event, span)
            case events.Periodic():
                return self._periodic(event, span)
            case events.PeriodicStar():
                return self._periodic_star(event, span)
            case events.Plus():
                return self._plus(event)

    # One operand

    def _primitive(self, event: events.Primitive, span: int | None) -> list[Occurrence]:
        """Return the tuples that the mask lets through; a tuple of a named event may have begun earlier."""
        occurrences = []
        for row in self.histories[event.name]:
            if event.mask is None or value_of(event.mask, scope_of([(event.name, row)])) is True:
                begin = row.ts if event.start is None else row.values[event.start]
                start = row.ts if self.context.point else begin
                occurrences.append(Occurrence(start, row.ts, begin, ((event.name, row),)))
        return [occurrence for occurrence in occurrences if occurrence.lasts(occurrence.end, span)]

    def _plus(self, event: events.Plus) -> list[Occurrence]:
        """Return each occurrence again, some time later."""
        later = [(occurrence.end + event.span, occurrence.rows) for occurrence in self.all(event.event, None)]
        return [Occurrence(at, at, at, rows) for at, rows in later]

    # Two operands

    def _sequence(self, event: events.Sequence, span: int | None) -> list[Occurrence]:
        lefts, rights = self.all(event.left, span), self.all(event.right, span)

        def fit(left: Occurrence, right: Occurrence) -> bool:
            return (
                left.end < right.start
                and self._usable(event.left, left, right.end, span)
                and self._hold(event, [left, right])
            )

        return [
            self._union([*group, right], right.end) for right, group in self._paired(event.left, lefts, rights, fit)
        ]

    def _paired(
        self, left: Event, lefts: list[Occurrence], rights: list[Occurrence], fit: Fit
    ) -> list[tuple[Occurrence, list[Occurrence]]]:
        """Return each right with the lefts that go with it, group by group."""
        match self.mode:
            case Mode.UNRESTRICTED | Mode.RECENT:
                kept = {
                    right: self._kept(left, [candidate for candidate in lefts if candidate.end < right.end])
                    for right in rights
                }
                return [(right, [candidate]) for right in rights for candidate in kept[right] if fit(candidate, right)]
            case Mode.PROXIMAL:
                return self._paired_with_newest(left, lefts, rights, fit)
            case Mode.CHRONICLE | Mode.CONTINUOUS | Mode.CUMULATIVE:
                return self._paired_once(lefts, rights, fit)

    def _paired_with_newest(
        self, left: Event, lefts: list[Occurrence], rights: list[Occurrence], fit: Fit
    ) -> list[tuple[Occurrence, list[Occurrence]]]:
        """Pair each right with the newest left that waits and fits; that left waits no longer."""
        pairs: list[tuple[Occurrence, list[Occurrence]]] = []
        waiting = Waiting(lambda earlier: self._kept(left, earlier), lefts)
        for right in rights:
            newest = [candidate for candidate in waiting.before(right.end) if fit(candidate, right)][-1:]
            waiting.remove(newest)
            if newest:
                pairs.append((right, newest))
        return pairs

    def _paired_once(
        self, lefts: list[Occurrence], rights: list[Occurrence], fit: Fit
    ) -> list[tuple[Occurrence, list[Occurrence]]]:
        """Pair each right with unused lefts: the oldest (CHRONICLE), each (CONTINUOUS) or all together (CUMULATIVE)."""
        pairs: list[tuple[Occurrence, list[Occurrence]]] = []
        used: set[Occurrence] = set()
        for right in rights:
            fits = [
                candidate
                for candidate in lefts
                if candidate.end < right.end and candidate not in used and fit(candidate, right)
            ]
            if self.mode is Mode.CHRONICLE:
                fits = fits[:1]
            used |= set(fits)
            if self.mode is not Mode.CUMULATIVE:
                pairs += [(right, [candidate]) for candidate in fits]
            elif fits:
                pairs.append((right, fits))
        return pairs

    def _and(self, event: events.And, span: int | None) -> list[Occurrence]:
        sides = (event.left, event.right)
        waiting: tuple[list[Occurrence], list[Occurrence]] = ([], [])
        results: list[Occurrence] = []
        for side, new in arrivals([self.all(event.left, span), self.all(event.right, span)]):
            partners = [
                partner
                for partner in waiting[1 - side]
                if self._usable(sides[1 - side], partner, new.end, span) and self._hold(event, [partner, new])
            ]
            if self.mode in (Mode.UNRESTRICTED, Mode.RECENT, Mode.PROXIMAL):
                waiting[side][:] = self._kept(sides[side], [*waiting[side], new])
            elif not partners:
                waiting[side].append(new)
            groups, gone = self._and_groups(partners, new)
            for occurrences in waiting:
                occurrences[:] = [occurrence for occurrence in occurrences if occurrence not in gone]
            results += [self._union([*group, new], new.end) for group in groups]
        return results

    def _and_groups(
        self, partners: list[Occurrence], new: Occurrence
    ) -> tuple[list[list[Occurrence]], list[Occurrence]]:
        """Return the groups of partners that a new occurrence meets, and what waits no longer after that."""
        one_by_one = [[partner] for partner in partners]
        match self.mode:
            case Mode.UNRESTRICTED | Mode.RECENT:
                return one_by_one, []  # nothing is used up
            case Mode.CHRONICLE:
                return one_by_one[:1], partners[:1]
            case Mode.PROXIMAL:  # the new one is used up too, even if it has replaced others
                return one_by_one[-1:], [*partners[-1:], new] if partners else []
            case Mode.CONTINUOUS:
                return one_by_one, partners
            case Mode.CUMULATIVE:
                return [partners] if partners else [], partners

    # Many operands

    def _any(self, event: events.AnyOf, span: int | None) -> list[Occurrence]:
        came = arrivals([self.all(operand, span) for operand in event.events])
        if event.count == 1:
            alone = [(isinstance(event.events[operand], events.Primitive), new) for operand, new in came]
            return [new if is_primitive else self._union([new], new.end) for is_primitive, new in alone]
        match self.mode:
            case Mode.UNRESTRICTED:
                return self._any_combination(event, came, span)
            case Mode.RECENT | Mode.PROXIMAL | Mode.CHRONICLE:
                return self._any_one_each(event, came, span)
            case Mode.CUMULATIVE:
                return self._any_together(event, came, span)
            case Mode.CONTINUOUS:
                return self._any_begun(event, came, span)

    def _any_combination(self, event: events.AnyOf, came: Arrivals, span: int | None) -> list[Occurrence]:
        """Combine each arrival with every choice of earlier occurrences of different other operands."""
        results = []
        for place, (operand, new) in enumerate(came):
            earlier = _by_operand(came[:place], new, span)
            others = [other for other in earlier if other != operand]
            for chosen in combinations(others, event.count - 1):
                for occurrences in product(*(earlier[other] for other in chosen)):
                    parts = by_end([*occurrences, new])
                    if self._hold(event, parts):
                        results.append(self._union(parts, new.end))
        return results

    def _any_one_each(self, event: events.AnyOf, came: Arrivals, span: int | None) -> list[Occurrence]:
        """Combine each arrival with one occurrence of each other operand: the oldest unused (CHRONICLE) or the newest.

        Of more operands than are needed, those whose occurrence is the oldest (CHRONICLE) or the newest are taken.
        """
        is_oldest_first = self.mode is Mode.CHRONICLE
        results: list[Occurrence] = []
        used: set[Occurrence] = set()
        for place, (operand, new) in enumerate(came):
            unused = _by_operand([arrival for arrival in came[:place] if arrival[1] not in used], new, span)
            newest = dict(came[:place])  # of each operand, used or not: it has replaced those before it
            candidates = {
                other: occurrences[0] if is_oldest_first else newest[other]
                for other, occurrences in unused.items()
                if other != operand and (is_oldest_first or newest[other] in occurrences)
            }
            sign = 1 if is_oldest_first else -1
            ranked = sorted(candidates, key=lambda other: (sign * candidates[other].end, other))
            parts = [*by_end([candidates[other] for other in ranked[: event.count - 1]]), new]
            if len(parts) == event.count and self._hold(event, parts):
                results.append(self._union(parts, new.end))
                used |= set(parts) if self.mode is not Mode.RECENT else set()
        return results

    def _any_together(self, event: events.AnyOf, came: Arrivals, span: int | None) -> list[Occurrence]:
        """Combine each arrival with all that came before it, once there are enough operands; then all is used up."""
        results: list[Occurrence] = []
        first = 0  # of the arrivals that are not used up
        for place, (operand, new) in enumerate(came):
            unused = _by_operand(came[first:place], new, span)
            parts = [*by_end([occurrence for occurrences in unused.values() for occurrence in occurrences]), new]
            if len(unused.keys() - {operand}) >= event.count - 1 and self._hold(event, parts):
                results.append(self._union(parts, new.end))
                first = place + 1
        return results

    def _any_begun(self, event: events.AnyOf, came: Arrivals, span: int | None) -> list[Occurrence]:
        """Let each arrival begin a group and go on with those that lack its operand, until a group is complete.

        An arrival that completes a group begins none.
        """
        results: list[Occurrence] = []
        groups: list[dict[int, Occurrence]] = []  # occurrences by operand, in the order in which they came
        for operand, new in came:
            completed: list[Occurrence] = []
            going_on: list[dict[int, Occurrence]] = []
            for group in groups:
                if not all(occurrence.lasts(new.end, span) for occurrence in group.values()):
                    continue
                longer = group if operand in group else {**group, operand: new}
                if len(longer) < event.count:
                    going_on.append(longer)
                elif self._hold(event, list(longer.values())):
                    completed.append(self._union(list(longer.values()), new.end))
                else:
                    going_on.append(group)
            results += completed
            groups = going_on if completed else [*going_on, {operand: new}]
        return results

    def _times(self, event: events.Times, span: int | None) -> list[Occurrence]:
        inner = self.all(event.event, span)
        results: list[Occurrence] = []
        group: list[Occurrence] = []
        for place, new in enumerate(inner):
            if self.mode in (Mode.UNRESTRICTED, Mode.RECENT, Mode.CONTINUOUS):
                group = [occurrence for occurrence in inner[: place + 1] if occurrence.lasts(new.end, span)][
                    -event.count :
                ]
            else:
                group = [*(occurrence for occurrence in group if occurrence.lasts(new.end, span)), new]
            if len(group) == event.count:
                results.append(self._union(group, new.end))
                group = []
        return results

    # Between a start and an end

    def _not(self, event: events.Not, span: int | None) -> list[Occurrence]:
        starts, middles, ends = self.all(event.start, span), self.all(event.middle, None), self.all(event.end, span)

        def free(start: Occurrence, end: Occurrence) -> bool:
            inside = [middle for middle in middles if start.end <= middle.start and middle.end <= end.start]
            return not any(self._hold(event, [start, middle, end], with_=event.middle) for middle in inside)

        def fit(start: Occurrence, end: Occurrence) -> bool:
            return (
                start.end < end.start
                and self._usable(event.start, start, end.end, span)
                and self._hold(event, [start, end], without=event.middle)
            )

        if self.mode in (Mode.UNRESTRICTED, Mode.CHRONICLE):
            pairs = self._paired(event.start, starts, ends, lambda start, end: fit(start, end) and free(start, end))
            return [self._union([*group, end], end.end) for end, group in pairs]
        return self._closed(event.start, starts, ends, fit, lambda start, end: [] if free(start, end) else None)

    def _closed(
        self,
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
        waiting = self._open(start, starts)
        for end in ends:
            fits = [opened for opened in waiting.before(end.end) if fit(opened, end)]
            fits = fits[:1] if self.mode is Mode.CHRONICLE else fits
            if self.mode is not Mode.UNRESTRICTED:
                waiting.remove(fits)
            filled = [(opened, parts) for opened in fits if (parts := inside(opened, end)) is not None]
            if self.mode is Mode.PROXIMAL:
                filled = filled[-1:]
            if self.mode is Mode.CUMULATIVE and filled:
                middles = list(dict.fromkeys(part for _, parts in filled for part in parts))
                results.append(self._union([*(opened for opened, _ in filled), *middles, end], end.end))
            else:
                results += [self._union([opened, *parts, end], end.end) for opened, parts in filled]
        return results

    def _absent(self, event: events.Absent, span: int | None) -> list[Occurrence]:
        starts, middles = self.all(event.start, span), self.all(event.middle, None)
        waiting = Waiting(lambda waiting: self._kept(event.start, waiting), starts)

        def prevented(middle: Occurrence, open_starts: list[Occurrence]) -> list[Occurrence]:
            return [start for start in open_starts if start.end <= middle.start and self._hold(event, [start, middle])]

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
            results += [self._union([start], at) for start in due if self._usable(event.start, start, at, span)]
            for middle in met:  # what came at the same instant, too
                waiting.remove(prevented(middle, waiting.before(at + 1)))
        return results

    def _aperiodic(self, event: events.Aperiodic, span: int | None) -> list[Occurrence]:
        middles = self.all(event.middle, span)
        waiting = self._open(event.start, self.all(event.start, span))

        def fit(start: Occurrence, middle: Occurrence) -> bool:
            return (
                start.end < middle.start
                and self._usable(event.start, start, middle.end, span)
                and self._hold(event, [start, middle], without=event.end)
            )

        results: list[Occurrence] = []
        # at the same instant, ends come before middles
        for is_middle, occurrence in sorted(
            [*((False, end) for end in self.all(event.end, None)), *((True, middle) for middle in middles)],
            key=_ends_before_middles,
        ):
            if not is_middle:
                self._close(event, waiting, occurrence, span)
                continue
            fits = [start for start in waiting.before(occurrence.end) if fit(start, occurrence)]
            match self.mode:
                case Mode.CHRONICLE:
                    fits = fits[:1]
                case Mode.PROXIMAL:
                    fits = fits[-1:]
                    waiting.remove(fits)
                case Mode.CUMULATIVE:
                    results += [self._union([*fits, occurrence], occurrence.end)] if fits else []
                    continue
                case Mode.UNRESTRICTED | Mode.RECENT | Mode.CONTINUOUS:
                    pass
            results += [self._union([start, occurrence], occurrence.end) for start in fits]
        return results

    def _aperiodic_star(self, event: events.AperiodicStar, span: int | None) -> list[Occurrence]:
        starts, middles, ends = self.all(event.start, span), self.all(event.middle, span), self.all(event.end, span)

        def fit(start: Occurrence, end: Occurrence) -> bool:
            return (
                start.end < end.start
                and self._usable(event.start, start, end.end, span)
                and self._hold(event, [start, end], without=event.middle)
            )

        def inside(start: Occurrence, end: Occurrence) -> list[Occurrence] | None:
            results = [
                middle
                for middle in middles
                if start.end < middle.start and middle.end < end.start and middle.lasts(end.end, span)
            ]
            results = [middle for middle in results if self._hold(event, [start, middle, end], with_=event.middle)]
            return results or None

        return self._closed_by(event.start, starts, ends, fit, inside)

    def _closed_by(
        self,
        start: Event,
        starts: list[Occurrence],
        ends: list[Occurrence],
        fit: Fit,
        inside: Callable[[Occurrence, Occurrence], list[Occurrence] | None],
    ) -> list[Occurrence]:
        if self.mode is not Mode.PROXIMAL:
            return self._closed(start, starts, ends, fit, inside)
        # the newest start alone, even if nothing comes of it
        results: list[Occurrence] = []
        waiting = self._open(start, starts)
        for end in ends:
            fits = [opened for opened in waiting.before(end.end) if fit(opened, end)]
            waiting.remove(fits)
            for newest in fits[-1:]:
                parts = inside(newest, end)
                results += [] if parts is None else [self._union([newest, *parts, end], end.end)]
        return results

    def _periodic(self, event: events.Periodic, span: int | None) -> list[Occurrence]:
        starts, ends = self.all(event.start, span), self.all(event.end, None)
        waiting = self._open(event.start, starts)
        ticked: set[Occurrence] = set()
        results: list[Occurrence] = []
        for at in range(min((start.end for start in starts), default=self.until), self.until):
            open_starts = waiting.before(at)
            if not waiting.coming and not any(self._usable(event.start, start, at, span) for start in open_starts):
                break
            for end in ends:
                if end.end == at:
                    self._close(event, waiting, end, span)
            mine = [
                start
                for start in open_starts
                if start in waiting.waiting
                and (at - start.end) % event.span == 0
                and self._usable(event.start, start, at, span)
                and not (start in ticked and self.mode is Mode.PROXIMAL)
            ]
            ticked |= set(mine)
            if self.mode is Mode.PROXIMAL:
                waiting.remove(mine)
            results += [
                self._union(group, at)
                for group in ([mine] if self.mode is Mode.CUMULATIVE and mine else [[start] for start in mine])
            ]
        return results

    def _periodic_star(self, event: events.PeriodicStar, span: int | None) -> list[Occurrence]:
        starts, ends = self.all(event.start, span), self.all(event.end, span)

        def fit(start: Occurrence, end: Occurrence) -> bool:
            return (
                start.end < end.start
                and self._usable(event.start, start, end.end, span)
                and self._hold(event, [start, end])
            )

        return self._closed_by(
            event.start, starts, ends, fit, lambda start, end: [] if start.end + event.span < end.end else None
        )

    def _close(
        self, event: events.Aperiodic | events.Periodic, waiting: Waiting, end: Occurrence, span: int | None
    ) -> None:
        """Let an end that is no constituent close the starts that it fits, in CHRONICLE the oldest."""
        fits = [
            start
            for start in waiting.before(end.end)
            if start.end < end.start
            and self._usable(event.start, start, end.end, span)
            and self._hold(event, [start, end], with_=event.end)
        ]
        waiting.remove(fits[:1] if self.mode is Mode.CHRONICLE else fits)

    def _open(self, start: Event, starts: list[Occurrence]) -> Waiting:
        """Return the starts that wait for an end."""
        limited = self.mode in (Mode.RECENT, Mode.PROXIMAL, Mode.UNRESTRICTED)
        return Waiting(lambda waiting: self._kept(start, waiting) if limited else waiting, starts)

    # What all share

    def _union(self, parts: list[Occurrence], end: int) -> Occurrence:
        rows = tuple(row for part in parts for row in part.rows)
        start = end if self.context.point else min(part.start for part in parts)
        return Occurrence(start, end, min(part.begin for part in parts), rows)

    def _hold(
        self, event: Event, parts: list[Occurrence], *, with_: Event | None = None, without: Event | None = None
    ) -> bool:
        """Say whether the conditions hold that belong to this operator and whose parts are all there."""
        own = names_in(event)
        below = [names_in(operand) for operand in operands_of(event)]
        scope = scope_of([row for part in parts for row in part.rows])
        for term in self.conditions:
            named = {name.partition(".")[0] for name in columns(term)}
            if not named <= own or any(named <= names for names in below):
                continue
            if (with_ is not None and not named & names_in(with_)) or (
                without is not None and named & names_in(without)
            ):
                continue
            if all(name in scope for name in columns(term)) and value_of(term, scope) is not True:
                return False
        return True

    def _usable(self, operand: Event, occurrence: Occurrence, now: int, span: int | None) -> bool:
        retention = self.context.retention(operand.name) if isinstance(operand, events.Primitive) else None
        young = retention is None or retention.age is None or now - occurrence.end <= retention.age
        return young and occurrence.lasts(now, span)

    def _kept(self, operand: Event, earlier: list[Occurrence]) -> list[Occurrence]:
        """Return the newest of each kind."""
        return [
            occurrence
            for place, occurrence in enumerate(earlier)
            if not self._replaced(operand, occurrence, earlier[place + 1 :])
        ]

    def _replaced(self, operand: Event, occurrence: Occurrence, later: Sequence[Occurrence]) -> bool:
        retention = self.context.retention(operand.name) if isinstance(operand, events.Primitive) else None
        latest = 1 if self.mode in (Mode.RECENT, Mode.PROXIMAL) else None
        keep = retention.keep if retention is not None and retention.keep is not None else latest
        if keep is None:
            return False
        return sum(self._kind(operand, newer) == self._kind(operand, occurrence) for newer in later) >= keep

    def _kind(self, operand: Event, occurrence: Occurrence) -> list[Any]:
        kinds = [(part.name, self.context.retention(part.name)) for part in primitives(operand)]
        rows = [
            (occurrence.newest(name), column)
            for name, retention in kinds
            if retention is not None
            for column in retention.by
        ]
        return [None if row is None else row.values[column] for row, column in rows]


def _by_operand(came: Arrivals, new: Occurrence, span: int | None) -> dict[int, list[Occurrence]]:
    """Return what came, by operand, as far as it can be part of an occurrence that ends with a new one."""
    occurrences: dict[int, list[Occurrence]] = {}
    for operand, occurrence in sorted(came, key=lambda pair: pair[0]):
        if occurrence.lasts(new.end, span):
            occurrences.setdefault(operand, []).append(occurrence)
    return occurrences


def _ends_before_middles(arrival: tuple[bool, Occurrence]) -> tuple[int, bool]:
    is_middle, occurrence = arrival
    return occurrence.end, is_middle
