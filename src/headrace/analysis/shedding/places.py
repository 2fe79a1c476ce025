"""Where to shed: what a dropped tuple frees for the error that it causes, and the best places of shared paths.

Paths go from a stream to the results of a query. A place is the input of one of their operators. Where paths share
operators, they are a tree: it is cut into segments behind each operator after which paths part, and each segment has
one place at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.analysis.capacity.capacity import PathOperator


@dataclass(frozen=True, slots=True)
class QueryPath:
    """The operators from a stream to a query's results, the stream's rate, and the share that may be lost."""

    query: str
    labels: tuple[str, ...]
    rate: float
    error: float


@dataclass(frozen=True, slots=True)
class Place:
    """The input of an operator: its rate (tuples per second), and what a tuple costs from there on (processor seconds).

    `test` is what a shedder there takes for each tuple that comes; `error` is the share that all who read it bear.
    """

    label: str
    rate: float
    cost: float
    test: float
    error: float
    paths: int = 1
    above: tuple[str, ...] = ()  # the places before it on the same path

    def freed(self, share: float) -> float:
        """Return the share of the processor that dropping a share of the tuples frees, less the cost of the shedder."""
        return share * self.rate * self.cost - self.rate * self.test

    @property
    def weight(self) -> float:
        """Return what is freed per error, at the largest share that may be dropped."""
        harm = self.error * self.paths  # each path suffers
        return self.freed(self.error) / harm if harm else 0.0  # (7.9)


@dataclass(slots=True)
class _Node:
    label: str
    place: Place
    paths: list[QueryPath] = field(default_factory=list)
    children: dict[str, _Node] = field(default_factory=dict)


@dataclass(slots=True)
class _Segment:
    """A run of operators behind which paths part or end, the best place in it, and the segments that follow."""

    best: Place | None
    remaining: float  # the share that may still be dropped there
    branches: list[_Segment]


def places_of(
    paths: Sequence[QueryPath],
    operators: Mapping[str, PathOperator],
    *,
    test: float = 0.0,
    barred: frozenset[str] = frozenset(),
) -> dict[str, Place]:
    """Return all places by label, with their weights, except `barred` ones and those that several streams lead to."""
    places: dict[str, Place] = {}
    twice: set[str] = set()
    for node in _walk(_trees(paths, operators, test)):
        if node.label in places:
            twice.add(node.label)
        places[node.label] = node.place
    return {label: place for label, place in places.items() if label not in barred and label not in twice}


def choose_places(
    paths: Sequence[QueryPath],
    operators: Mapping[str, PathOperator],
    *,
    test: float = 0.0,
    barred: frozenset[str] = frozenset(),
) -> tuple[Place, ...]:
    """Return the places to shed at, each with the share that may be dropped there.

    Along a path the shares add up to no more than its query tolerates.
    """
    allowed = places_of(paths, operators, test=test, barred=barred)
    chosen: list[Place] = []
    for tree in _trees(paths, operators, test):
        segment = _segment(tree, allowed)
        _merge(segment)
        chosen += _remaining_places(segment)
    return tuple(chosen)


def _trees(paths: Sequence[QueryPath], operators: Mapping[str, PathOperator], test: float) -> list[_Node]:
    """Return the paths as trees, one for each leaf."""
    roots: dict[str, _Node] = {}
    for path in paths:
        level = roots
        for label in path.labels:
            node = level.setdefault(label, _Node(label, Place(label, 0.0, 0.0, test, 0.0)))
            node.paths.append(path)
            level = node.children
    for root in roots.values():
        _measure(root, operators, test, root.paths[0].rate, ())
    return list(roots.values())


def _measure(
    node: _Node, operators: Mapping[str, PathOperator], test: float, rate: float, above: tuple[str, ...]
) -> float:
    """Find what comes to a node and what a tuple costs from there on, each operator behind it counted once."""
    operator = operators[node.label]
    behind = sum(
        _measure(child, operators, test, rate * operator.selectivity, (*above, node.label))
        for child in node.children.values()
    )
    cost = 1 / operator.capacity + operator.selectivity * behind
    node.place = Place(node.label, rate, cost, test, min(path.error for path in node.paths), len(node.paths), above)
    return cost


def _walk(nodes: Sequence[_Node]) -> Iterator[_Node]:
    for node in nodes:
        yield node
        yield from _walk(list(node.children.values()))


def _segment(node: _Node, allowed: Mapping[str, Place]) -> _Segment:
    run = [node]
    while len(node.children) == 1 and not _ends_at(node):
        (node,) = node.children.values()
        run.append(node)
    candidates = [member.place for member in run if member.label in allowed and member.place.weight > 0]
    best = max(
        candidates, key=lambda place: place.weight, default=None
    )  # (7.10); none if shedding costs more than it frees
    ended = min((path.error for path in node.paths if path.labels[-1] == node.label), default=0.0)
    if not node.children:
        return _Segment(best, ended, [])
    # what ends here bears something, but there is no place behind it; an inner segment has to be given its share
    branches = [_segment(child, allowed) for child in node.children.values()]
    return _Segment(best, 0.0, [*branches, _Segment(None, ended, [])] if _ends_at(node) else branches)


def _ends_at(node: _Node) -> bool:
    return any(path.labels[-1] == node.label for path in node.paths)


def _merge(segment: _Segment) -> None:
    """Shed before paths part, rather than behind, where that frees more for the same error.

    Those nearest to the results first.
    """
    if not segment.branches:
        return
    for branch in segment.branches:
        _merge(branch)
    if segment.best is None:
        return
    behind = _first(segment.branches)
    if len(behind) * segment.best.weight <= sum(_weight(later) for later in behind):
        segment.best = None
        return
    segment.remaining = min(later.remaining for later in behind)
    for later in behind:
        later.remaining -= segment.remaining
        if later.remaining <= 1e-12:
            later.remaining, later.best = 0.0, None


def _first(segments: Sequence[_Segment]) -> list[_Segment]:
    """Return the first segment with a remaining share on each way to the results, or the last segment."""
    return [
        holder
        for segment in segments
        for holder in ([segment] if segment.remaining or not segment.branches else _first(segment.branches))
    ]


def _weight(segment: _Segment) -> float:
    return segment.best.weight if segment.best is not None else 0.0


def _remaining_places(segment: _Segment) -> Iterator[Place]:
    if segment.best is not None and segment.remaining > 0:
        place = segment.best
        yield Place(place.label, place.rate, place.cost, place.test, segment.remaining, place.paths, place.above)
    for branch in segment.branches:
        yield from _remaining_places(branch)
