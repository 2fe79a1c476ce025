"""From what joins of several inputs report to the join graph by which their plans are compared.

Rates and rows that are held are counted for each input. How often keys agree is estimated from key samples: the same
keys are in the samples of all inputs, so sums of products of their counts, scaled up, estimate the same sums over all
keys. The keys with most rows are counted one by one. Steps of the running tree measure how many combinations they find;
where both are known, the measurement corrects the estimate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from headrace.model.join_tree import Tree, late_ports
from headrace.operators.multijoin.seen import BoxSeen, KeySample
from headrace.optimizer.joins.join_graph import (
    Condition,
    Estimates,
    JoinGraph,
    KeyClass,
    Keys,
    Stream,
    Term,
    members,
    port_set,
    uniform,
)

#: The selectivity of a condition that nothing has measured.
UNKNOWN_TERM = 0.5
#: The seconds of a call of a user's function that nothing has measured.
UNKNOWN_PRICE = 2e-6
#: Keys of a class of which nothing is known.
UNKNOWN_KEYS = 100.0
#: Rows that must have searched a state before what they found counts.
FEW = 100
#: A correction that is smaller than this share is noise.
SMALL = 0.05


class Shape(Struct, frozen=True):
    """What a join of several inputs joins: the ports of each key class, and port sets of the other conditions.

    `conditions` are the ports with conditions that can be tested on tuples or on results. `grid` has the number of
    cells along each class, if the join runs in one: reports of its cells then count a tuple as often as it is copied.
    """

    ports: int
    classes: tuple[tuple[int, ...], ...] = ()
    terms: tuple[int, ...] = ()
    conditions: tuple[int, ...] = ()
    grid: tuple[int, ...] = ()

    def copies(self, ports: int) -> int:
        """Return in how many cells a combination of a set of ports is."""
        sizes = zip(self.grid, self.classes, strict=False)
        return math.prod(size for size, having in sizes if not port_set(having) & ports)


class Tally(Struct, frozen=True):
    """What one join did over some time: sums of its reports, and the newest of what is a state.

    `pages` are micro-batches in which an input had tuples. Sizes and samples come with some reports only; `sampled` are
    the rows that were held then. `conditions` are rows tested, rows passed and seconds by port, of this time and, with
    less weight, of earlier ones; `testing` are the seconds of this time.
    """

    seconds: float = 0.0
    reports: int = 0
    taken: tuple[int, ...] = ()
    pages: tuple[int, ...] = ()
    held: tuple[int, ...] = ()
    widths: tuple[float, ...] = ()
    sampled: tuple[int, ...] = ()
    steps: Mapping[str, tuple[int, int]] = {}
    stored: int = 0
    busy: float = 0.0
    tree: Tree | None = None
    samples: tuple[KeySample, ...] = ()
    conditions: Mapping[int, tuple[float, float, float]] = {}
    testing: float = 0.0

    def after(self, seen: BoxSeen, seconds: float) -> Tally:
        """Return the tally with one more report, which comes some seconds after the one before."""
        taken = tuple(port.taken for port in seen.ports)
        held = tuple(port.held for port in seen.ports)
        widths = tuple(port.bytes / port.held if port.held else 0.0 for port in seen.ports)
        steps = dict(self.steps)
        for name, step in seen.steps.items():
            searched, matched = steps.get(name, (0, 0))
            steps[name] = searched + step.searched, matched + step.matched
        conditions = dict(self.conditions)
        for port, seen_of in seen.conditions.items():
            tested, passed, busy = conditions.get(port, (0.0, 0.0, 0.0))
            conditions[port] = tested + seen_of.tested, passed + seen_of.passed, busy + seen_of.busy_ns / 1e9
        return Tally(
            self.seconds + seconds,
            self.reports + 1,
            _sums(self.taken, taken),
            _sums(self.pages, tuple(int(count > 0) for count in taken)),
            held,
            widths if any(widths) or not self.widths else self.widths,
            held if seen.samples else self.sampled,
            steps,
            self.stored + seen.stored,
            self.busy + seen.busy_ns / 1e9,
            seen.tree,
            tuple(seen.samples) or self.samples,
            conditions,
            self.testing + sum(seen_of.busy_ns for seen_of in seen.conditions.values()) / 1e9,
        )

    def begun_again(self, *, keeps_samples: bool) -> Tally:
        """Return the tally with which the next time begins."""
        half = {port: (tested / 2, passed / 2, busy / 2) for port, (tested, passed, busy) in self.conditions.items()}
        if keeps_samples:
            return Tally(widths=self.widths, sampled=self.sampled, samples=self.samples, conditions=half)
        return Tally(widths=self.widths, conditions=half)


class Facts(Struct, frozen=True):
    """A join graph, and whether its selectivities were measured; if not, they are assumed."""

    graph: JoinGraph
    is_measured: bool
    learned: Mapping[int, float] = {}


def facts_of(shape: Shape, tally: Tally, learned: Mapping[int, float] | None = None) -> Facts:
    """Return the join graph of what was counted; `learned` are corrections of earlier times, by port set."""
    seconds = max(tally.seconds, 1e-9)
    conditions = tuple(_condition(port, tally) for port in shape.conditions)
    passing = {condition.port: condition.selectivity for condition in conditions}
    late = late_ports(tally.tree) if tally.tree is not None else ()
    streams = tuple(
        Stream(
            rate=tally.taken[port] / shape.copies(1 << port) / seconds * passing.get(port, 1.0),
            held=tally.held[port] / shape.copies(1 << port) * (passing.get(port, 1.0) if port in late else 1.0),
            width=tally.widths[port],
            pages=tally.pages[port] / seconds,
        )
        for port in range(shape.ports)
    )
    sampled = [_key_class(place, ports, tally) for place, ports in enumerate(shape.classes)]
    classes = tuple(known or uniform(ports, UNKNOWN_KEYS) for known, ports in zip(sampled, shape.classes, strict=True))
    terms_ = tuple(Term(ports, UNKNOWN_TERM) for ports in shape.terms)
    graph = JoinGraph(streams, classes, terms_, conditions, shape.grid)
    corrections = _corrections(graph.testing_late(late), tally.steps, learned or {})
    corrected = replace(graph, terms=(*graph.terms, *(Term(ports, share) for ports, share in corrections)))
    terms = {ports: share for ports, share in corrections if any(not term & ~ports for term in shape.terms)}
    return Facts(corrected, all(known is not None for known in sampled), terms)


def assumed(shape: Shape, rates: Sequence[float], held: Sequence[float], width: float) -> Facts:
    """Return the join graph of a join of which only rates and windows are known, or assumed."""
    streams = tuple(Stream(rate, rows, width, 1.0) for rate, rows in zip(rates, held, strict=True))
    classes = tuple(uniform(ports, UNKNOWN_KEYS) for ports in shape.classes)
    terms = tuple(Term(ports, UNKNOWN_TERM) for ports in shape.terms)
    conditions = tuple(Condition(port, UNKNOWN_TERM, UNKNOWN_PRICE) for port in shape.conditions)
    return Facts(JoinGraph(streams, classes, terms, conditions, shape.grid), False)


def _condition(port: int, tally: Tally) -> Condition:
    """Return what is known of the conditions of a port; what nothing has measured takes no time."""
    tested, passed, busy = tally.conditions.get(port, (0.0, 0.0, 0.0))
    if tested < 1:
        return Condition(port, UNKNOWN_TERM, 0.0)
    return Condition(port, max(passed, 0.5) / tested, busy / tested)


def _key_class(place: int, ports: Sequence[int], tally: Tally) -> KeyClass | None:
    """Return the keys of a class with their shares; None without a sample of each of its inputs."""
    samples = {sample.port: sample for sample in tally.samples if sample.key_class == place}
    if any(port not in samples or not tally.sampled[port] for port in ports):
        return None
    zeros = max(samples[port].zeros for port in ports)
    heavy = {key for port in ports for key in samples[port].heaviest if _is_known(key, zeros, ports, samples)}
    groups: Counter[tuple[int, ...]] = Counter()
    for key in {key for port in ports for key in samples[port].counts if _is_sampled(key, zeros)}:
        if key not in heavy:
            groups[tuple(samples[port].counts.get(key, 0) for port in ports)] += 1
    keys = [
        Keys(float(count << zeros), _shares(counts, ports, tally))
        for counts, count in groups.items()
        if sum(rows > 0 for rows in counts) > 1  # the others agree with nothing
    ]
    keys += [Keys(1.0, _shares([_count(samples[port], key) for port in ports], ports, tally)) for key in sorted(heavy)]
    return KeyClass(tuple(ports), tuple(keys))


def _is_sampled(key: int, zeros: int) -> bool:
    return not key & ((1 << zeros) - 1)


def _is_known(key: int, zeros: int, ports: Iterable[int], samples: Mapping[int, KeySample]) -> bool:
    """Return whether the rows of a heavy key are counted in all inputs."""
    return _is_sampled(key, zeros) or all(
        key in samples[port].heaviest or _is_sampled(key, samples[port].zeros) for port in ports
    )


def _count(sample: KeySample, key: int) -> int:
    return sample.heaviest.get(key, sample.counts.get(key, 0))


def _shares(counts: Iterable[int], ports: Iterable[int], tally: Tally) -> tuple[float, ...]:
    return tuple(rows / tally.sampled[port] for rows, port in zip(counts, ports, strict=True))


def _corrections(
    graph: JoinGraph, steps: Mapping[str, tuple[int, int]], learned: Mapping[int, float]
) -> list[tuple[int, float]]:
    """Return factors by which measured selectivities of port sets differ, small sets first, as further conditions.

    A factor holds for every set that contains its ports. So those of smaller sets are taken into account first.
    """
    measured: dict[int, tuple[int, float, int]] = {}
    for name, (searched, matched) in steps.items():
        rows, _, other = name.partition(">")
        before = port_set(map(int, rows.split(".")))
        whole = before | port_set(map(int, other.split(".")))
        if searched >= FEW and searched > measured.get(whole, (0, 0.0, 0))[2]:
            measured[whole] = before, matched / searched, searched
    found: list[tuple[int, float]] = []
    for whole in sorted({*measured, *learned}, key=lambda ports: (ports.bit_count(), ports)):
        if whole not in measured:
            found.append((whole, learned[whole]))
            continue
        before, ratio, _ = measured[whole]
        terms = (*graph.terms, *(Term(ports, factor) for ports, factor in found))
        estimates = Estimates(JoinGraph(graph.streams, graph.classes, terms, grid=graph.grid))
        if any(graph.streams[port].held <= 0 for port in members(whole)):
            continue
        # what searches is counted in each of its cells, and so is what is found
        expected = estimates.matches(before, whole & ~before) * estimates.copies(whole) / estimates.copies(before)
        factor = ratio / expected if expected > 0 else 1.0
        if abs(factor - 1.0) > SMALL:
            found.append((whole, factor))
    return found


def _sums(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(sum, zip(one, other, strict=True))) if one else other
