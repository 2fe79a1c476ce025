"""Definitions of event operators that combine occurrences: sequence, and, any of several, several times the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product

from headrace.model.events import event as events
from headrace.model.events.event import Event, Mode
from headrace.testing.oracle.event_oracle import EventOracle
from headrace.testing.oracle.occurrences import Occurrence, Waiting, arrivals, by_end

Fit = Callable[[Occurrence, Occurrence], bool]
#: The occurrences of several operands in the order in which they end, each with the number of its operand.
Arrivals = Sequence[tuple[int, Occurrence]]


def sequence(oracle: EventOracle, event: events.Sequence, span: int | None) -> list[Occurrence]:
    """Return the occurrences of a right operand after a left one has ended."""
    lefts, rights = oracle.all(event.left, span), oracle.all(event.right, span)

    def fit(left: Occurrence, right: Occurrence) -> bool:
        return (
            left.end < right.start
            and oracle.usable(event.left, left, right.end, span)
            and oracle.hold(event, [left, right])
        )

    return [oracle.union([*group, right], right.end) for right, group in paired(oracle, event.left, lefts, rights, fit)]


def both(oracle: EventOracle, event: events.And, span: int | None) -> list[Occurrence]:
    """Return the occurrences of both operands, in any order."""
    sides = (event.left, event.right)
    waiting: tuple[list[Occurrence], list[Occurrence]] = ([], [])
    results: list[Occurrence] = []
    for side, new in arrivals([oracle.all(event.left, span), oracle.all(event.right, span)]):
        partners = [
            partner
            for partner in waiting[1 - side]
            if oracle.usable(sides[1 - side], partner, new.end, span) and oracle.hold(event, [partner, new])
        ]
        if oracle.mode in (Mode.UNRESTRICTED, Mode.RECENT, Mode.PROXIMAL):
            waiting[side][:] = oracle.kept(sides[side], [*waiting[side], new])
        elif not partners:
            waiting[side].append(new)
        groups, gone = _groups(oracle, partners, new)
        for occurrences in waiting:
            occurrences[:] = [occurrence for occurrence in occurrences if occurrence not in gone]
        results += [oracle.union([*group, new], new.end) for group in groups]
    return results


def any_of(oracle: EventOracle, event: events.AnyOf, span: int | None) -> list[Occurrence]:
    """Return the occurrences of several different operands of many, in any order."""
    came = arrivals([oracle.all(operand, span) for operand in event.events])
    if event.count == 1:
        alone = [(isinstance(event.events[operand], events.Primitive), new) for operand, new in came]
        return [new if is_primitive else oracle.union([new], new.end) for is_primitive, new in alone]
    match oracle.mode:
        case Mode.UNRESTRICTED:
            return _any_combination(oracle, event, came, span)
        case Mode.RECENT | Mode.PROXIMAL | Mode.CHRONICLE:
            return _any_one_each(oracle, event, came, span)
        case Mode.CUMULATIVE:
            return _any_together(oracle, event, came, span)
        case Mode.CONTINUOUS:
            return _any_begun(oracle, event, came, span)


def times(oracle: EventOracle, event: events.Times, span: int | None) -> list[Occurrence]:
    """Return the occurrences of the same operand several times."""
    inner = oracle.all(event.event, span)
    results: list[Occurrence] = []
    group: list[Occurrence] = []
    for place, new in enumerate(inner):
        if oracle.mode in (Mode.UNRESTRICTED, Mode.RECENT, Mode.CONTINUOUS):
            group = [occurrence for occurrence in inner[: place + 1] if occurrence.lasts(new.end, span)][-event.count :]
        else:
            group = [*(occurrence for occurrence in group if occurrence.lasts(new.end, span)), new]
        if len(group) == event.count:
            results.append(oracle.union(group, new.end))
            group = []
    return results


def paired(
    oracle: EventOracle, left: Event, lefts: list[Occurrence], rights: list[Occurrence], fit: Fit
) -> list[tuple[Occurrence, list[Occurrence]]]:
    """Return each right with the lefts that go with it, group by group."""
    match oracle.mode:
        case Mode.UNRESTRICTED | Mode.RECENT:
            kept = {
                right: oracle.kept(left, [candidate for candidate in lefts if candidate.end < right.end])
                for right in rights
            }
            return [(right, [candidate]) for right in rights for candidate in kept[right] if fit(candidate, right)]
        case Mode.PROXIMAL:
            return _paired_with_newest(oracle, left, lefts, rights, fit)
        case Mode.CHRONICLE | Mode.CONTINUOUS | Mode.CUMULATIVE:
            return _paired_once(oracle, lefts, rights, fit)


def _paired_with_newest(
    oracle: EventOracle, left: Event, lefts: list[Occurrence], rights: list[Occurrence], fit: Fit
) -> list[tuple[Occurrence, list[Occurrence]]]:
    """Pair each right with the newest left that waits and fits; that left waits no longer."""
    pairs: list[tuple[Occurrence, list[Occurrence]]] = []
    waiting = Waiting(lambda earlier: oracle.kept(left, earlier), lefts)
    for right in rights:
        newest = [candidate for candidate in waiting.before(right.end) if fit(candidate, right)][-1:]
        waiting.remove(newest)
        if newest:
            pairs.append((right, newest))
    return pairs


def _paired_once(
    oracle: EventOracle, lefts: list[Occurrence], rights: list[Occurrence], fit: Fit
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
        if oracle.mode is Mode.CHRONICLE:
            fits = fits[:1]
        used |= set(fits)
        if oracle.mode is not Mode.CUMULATIVE:
            pairs += [(right, [candidate]) for candidate in fits]
        elif fits:
            pairs.append((right, fits))
    return pairs


def _groups(
    oracle: EventOracle, partners: list[Occurrence], new: Occurrence
) -> tuple[list[list[Occurrence]], list[Occurrence]]:
    """Return the groups of partners that a new occurrence meets, and what waits no longer after that."""
    one_by_one = [[partner] for partner in partners]
    match oracle.mode:
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


def _any_combination(oracle: EventOracle, event: events.AnyOf, came: Arrivals, span: int | None) -> list[Occurrence]:
    """Combine each arrival with every choice of earlier occurrences of different other operands."""
    results = []
    for place, (operand, new) in enumerate(came):
        earlier = _by_operand(came[:place], new, span)
        others = [other for other in earlier if other != operand]
        for chosen in combinations(others, event.count - 1):
            for occurrences in product(*(earlier[other] for other in chosen)):
                parts = by_end([*occurrences, new])
                if oracle.hold(event, parts):
                    results.append(oracle.union(parts, new.end))
    return results


def _any_one_each(oracle: EventOracle, event: events.AnyOf, came: Arrivals, span: int | None) -> list[Occurrence]:
    """Combine each arrival with one occurrence of each other operand: the oldest unused (CHRONICLE) or the newest.

    Of more operands than are needed, those whose occurrence is the oldest (CHRONICLE) or the newest are taken.
    """
    is_oldest_first = oracle.mode is Mode.CHRONICLE
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
        if len(parts) == event.count and oracle.hold(event, parts):
            results.append(oracle.union(parts, new.end))
            used |= set(parts) if oracle.mode is not Mode.RECENT else set()
    return results


def _any_together(oracle: EventOracle, event: events.AnyOf, came: Arrivals, span: int | None) -> list[Occurrence]:
    """Combine each arrival with all that came before it, once there are enough operands; then all is used up."""
    results: list[Occurrence] = []
    first = 0  # of the arrivals that are not used up
    for place, (operand, new) in enumerate(came):
        unused = _by_operand(came[first:place], new, span)
        parts = [*by_end([occurrence for occurrences in unused.values() for occurrence in occurrences]), new]
        if len(unused.keys() - {operand}) >= event.count - 1 and oracle.hold(event, parts):
            results.append(oracle.union(parts, new.end))
            first = place + 1
    return results


def _any_begun(oracle: EventOracle, event: events.AnyOf, came: Arrivals, span: int | None) -> list[Occurrence]:
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
            elif oracle.hold(event, list(longer.values())):
                completed.append(oracle.union(list(longer.values()), new.end))
            else:
                going_on.append(group)
        results += completed
        groups = going_on if completed else [*going_on, {operand: new}]
    return results


def _by_operand(came: Arrivals, new: Occurrence, span: int | None) -> dict[int, list[Occurrence]]:
    """Return what came, by operand, as far as it can be part of an occurrence that ends with a new one."""
    occurrences: dict[int, list[Occurrence]] = {}
    for operand, occurrence in sorted(came, key=lambda pair: pair[0]):
        if occurrence.lasts(new.end, span):
            occurrences.setdefault(operand, []).append(occurrence)
    return occurrences
