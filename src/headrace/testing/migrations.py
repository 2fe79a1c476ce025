"""Changes of join trees, tried at random against all valid combinations, and operators that do them wrongly.

The wrong ones are negative controls: a test that does not notice them proves nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from headrace.model.expressions.expression import Call, Column, Expr
from headrace.model.join_tree import Branch, Tree, all_trees, branches, ports, with_late
from headrace.model.page import Element, Page, Punctuation, page_of
from headrace.model.python_function import function_name
from headrace.model.schema import EXPIRY, TS, Field, Schema
from headrace.model.time import END
from headrace.model.types import Type
from headrace.model.window import Extent
from headrace.operators.multijoin.arrangement import Place
from headrace.operators.multijoin.operator import MultiJoinOperator
from headrace.operators.multijoin.program import Program
from headrace.operators.multijoin.seen import How
from headrace.operators.multijoin.spec import MultiJoin
from headrace.operators.multijoin.tracks import OldTrack, Range, Track
from headrace.operators.operator import DERIVED

Shape: TypeAlias = Literal["one key", "chain", "star", "cycle", "cross", "two keys", "text", "terms", "conditions"]
SHAPES: tuple[Shape, ...] = get_args(Shape)
STRATEGIES: tuple[How, ...] = ("moving", "stepwise", "parallel")
SCHEMA = Schema((Field("id", Type.BIGINT), Field("k", Type.BIGINT), Field("j", Type.BIGINT), Field("s", Type.STRING)))

K, J, S = (Column(name, SCHEMA.fields[i].type) for i, name in ((1, "k"), (2, "j"), (3, "s")))


def join_of(shape: Shape, spans: Sequence[int | None]) -> MultiJoin:
    """Return a join of streams that are related in some way, with these windows."""
    count = len(spans)
    names = tuple(tuple(f"{name}{port}" for name in SCHEMA.names) for port in range(count))
    every: tuple[Expr | None, ...] = (K,) * count

    def pair(one: int, other: int, mine: Expr, theirs: Expr) -> tuple[Expr | None, ...]:
        return tuple(mine if port == one else theirs if port == other else None for port in range(count))

    classes: tuple[tuple[Expr | None, ...], ...] = (every,)
    terms: tuple[Expr, ...] = ()
    match shape:
        case "one key":
            pass
        case "chain":
            classes = tuple(pair(port, port + 1, J, K) for port in range(count - 1))
        case "star":
            classes = tuple(pair(0, port, (K, J)[port % 2], K) for port in range(1, count))
        case "cycle":
            classes = tuple(pair(port, (port + 1) % count, J, K) for port in range(count))
        case "cross":
            classes = ()
        case "two keys":
            classes = (every, pair(0, count - 1, J, J))
        case "text":
            classes = ((S,) * count,)
        case "terms":
            less = Call("<", (Column("j0", Type.BIGINT), Column(f"j{count - 1}", Type.BIGINT)), Type.BOOLEAN)
            terms = (less, Call("<>", (Column("id1", Type.BIGINT), Column("id2", Type.BIGINT)), Type.BOOLEAN))
        case "conditions":
            kept = function_name("rows", f"{__name__}:is_kept")
            terms = tuple(Call(kept, (Column(f"j{port}", Type.BIGINT),), Type.BOOLEAN) for port in (0, count - 1))
    extents = tuple(Extent(span=span) for span in spans)
    return MultiJoin((SCHEMA,) * count, names, extents, classes, terms, expiry=True)


def is_kept(value: int) -> bool:
    """Return what the conditions on single inputs say, which may be tested on tuples or on results."""
    return value != 1


@dataclass(frozen=True, slots=True)
class Tuple:
    """A tuple that was taken: its port, timestamp and values."""

    port: int
    ts: int
    values: dict[str, Any]


def combinations(spec: MultiJoin, taken: Sequence[Tuple]) -> Counter[tuple[int, ...]]:
    """Return the ids of all valid combinations of the tuples that were taken, by the definition."""
    found: list[tuple[Tuple, ...]] = [()]
    for port in range(len(spec.inputs)):
        own = [t for t in taken if t.port == port]
        found = [(*parts, t) for parts in found for t in own if _may_be_valid(spec, (*parts, t))]
    return Counter(tuple(t.values["id"] for t in parts) for parts in found if _satisfies(spec, parts))


def _may_be_valid(spec: MultiJoin, parts: Sequence[Tuple]) -> bool:
    """Return whether the tuples of the first ports are in their windows together and agree in all classes."""
    spans = [None if extent is None else extent.span for extent in spec.extents]
    ends = [END if span is None else t.ts + span for t, span in zip(parts, spans, strict=False)]
    if max(t.ts for t in parts) > min(ends):
        return False
    for members in spec.classes:
        keys = [t.values[expr.name] for t, expr in zip(parts, members, strict=False) if isinstance(expr, Column)]
        if None in keys or len(set(keys)) > 1:
            return False
    return True


def _satisfies(spec: MultiJoin, parts: Sequence[Tuple]) -> bool:
    row = {f"{name}{t.port}": value for t in parts for name, value in t.values.items()}
    return all(_holds(term, row) for term in spec.terms)


def _holds(term: Expr, row: dict[str, Any]) -> bool:
    assert isinstance(term, Call)
    if len(term.args) == 1:
        (value,) = (row[arg.name] for arg in term.args if isinstance(arg, Column))
        return value is not None and is_kept(value)
    left, right = (row[arg.name] for arg in term.args if isinstance(arg, Column))
    return left is not None and right is not None and (left < right if term.function == "<" else left != right)


@dataclass
class Run:
    """An operator under test, what it has taken, and what it has emitted."""

    spec: MultiJoin
    build: Callable[[MultiJoin], MultiJoinOperator] = MultiJoinOperator
    taken: list[Tuple] = field(default_factory=list)
    emitted: Counter[tuple[int, ...]] = field(default_factory=Counter)
    changes: int = 0

    def __post_init__(self) -> None:
        self.operator = self.build(self.spec)

    def push(self, port: int, rows: Sequence[Tuple]) -> None:
        """Give the operator a page."""
        page = page_of(SCHEMA, [t.values for t in rows], [t.ts for t in rows])
        self.taken += rows
        self.take(self.operator.on_page(port, page))

    def bound(self, port: int, bound: int) -> None:
        """Give the operator a bound."""
        self.take(self.operator.on_punctuation(port, Punctuation(bound)))

    def change(self, tree: Tree, how: How, portion: int) -> None:
        """Change the tree, and where conditions on single inputs are tested: on results every other time."""
        self.changes += 1
        late = [port for port in sorted(self.spec.conditions) if (self.changes >> (port > 0)) & 1]
        self.operator.use(self.changes, with_late(tree, late), how, portion)

    def restore(self, *, loses_derived: bool = False) -> None:
        """Go on with a new operator from the saved state, perhaps without what follows from the rest."""
        state = {
            name: Page.decode(Page(chunk).encode()).rows if chunk.width else chunk
            for name, chunk in self.operator.state().items()
            if not (loses_derived and name.startswith(DERIVED))
        }
        self.operator = self.build(self.spec)
        self.operator.restore(state)

    def difference(self) -> tuple[int, int]:
        """Return how many results are missing and how many are too many."""
        expected = combinations(self.spec, self.taken)
        return (expected - self.emitted).total(), (self.emitted - expected).total()

    def take(self, elements: Iterable[Element]) -> None:
        """Note what the operator emitted."""
        for element in elements:
            if isinstance(element, Page):
                assert element.rows.columns[-2:] == [TS, EXPIRY]
                ids = element.rows.select(f"id{port}" for port in range(len(self.spec.inputs)))
                self.emitted.update(ids.iter_rows())


def random_tuples(random_: random.Random, ids: Iterator[int], port: int, times: Sequence[int]) -> list[Tuple]:
    """Return tuples of a port with few different keys, some of them NULL."""

    def value() -> int | None:
        return None if random_.random() < 0.05 else random_.randrange(3)

    def text() -> str | None:
        return None if random_.random() < 0.05 else random_.choice("xyz")

    return [Tuple(port, ts, {"id": next(ids), "k": value(), "j": value(), "s": text()}) for ts in times]


def random_tree(random_: random.Random, count: int) -> Tree:
    """Return a tree of so many ports with random search orders."""

    def ordered(tree: Tree) -> Tree:
        if isinstance(tree, int):
            return tree
        children = [ordered(child) for child in tree.children]
        random_.shuffle(children)
        orders = []
        for place in range(len(children)):
            others = [other for other in range(len(children)) if other != place]
            random_.shuffle(others)
            orders.append(tuple(others))
        return Branch(tuple(children), tuple(orders))

    return ordered(random_.choice(TREES[count]))


TREES: dict[int, list[Tree]] = {count: list(all_trees(range(count))) for count in (3, 4)}
TREES[5] = [tree for number, tree in enumerate(all_trees(range(5))) if number % 9 == 0]


@dataclass(frozen=True, slots=True)
class Trial:
    """The sum of many random runs."""

    runs: int = 0
    results: int = 0
    missing: int = 0
    too_many: int = 0

    def plus(self, results: int, missing: int, too_many: int) -> Trial:
        """Return the sum with one more run."""
        return Trial(self.runs + 1, self.results + results, self.missing + missing, self.too_many + too_many)


def try_changes(
    build: Callable[[MultiJoin], MultiJoinOperator],
    seeds: Sequence[int],
    strategies: Sequence[How] = STRATEGIES,
    *,
    tuples: int = 60,
    shapes: Sequence[Shape] = ("one key",),
) -> Trial:
    """Run an operator on random streams that lag behind each other, with a change of tree every few tuples."""
    trial = Trial()
    for seed in seeds:
        run = try_once(build, random.Random(seed), strategies, tuples=tuples, shapes=shapes)
        missing, too_many = run.difference()
        trial = trial.plus(combinations(run.spec, run.taken).total(), missing, too_many)
    return trial


def try_once(
    build: Callable[[MultiJoin], MultiJoinOperator],
    random_: random.Random,
    strategies: Sequence[How],
    *,
    tuples: int,
    shapes: Sequence[Shape],
) -> Run:
    """Run an operator once."""
    count = random_.choice((3, 3, 4))
    spans: list[int | None] = [random_.choice((0, 2, 5, 8)) for _ in range(count)]
    run = Run(join_of(random_.choice(shapes), spans), build)
    lags = [random_.choice((0, 0, 3, 6)) for _ in range(count)]
    ids = iter(range(10**9))
    for now in range(tuples):
        port = random_.randrange(count)
        times = [now - lags[port] for _ in range(random_.choice((1, 1, 3)))]
        run.push(port, random_tuples(random_, ids, port, times))
        for other in range(count):
            if random_.random() < 0.5:
                run.bound(other, now - lags[other])
        if random_.random() < 0.2:
            run.change(random_tree(random_, count), random_.choice(strategies), random_.choice((1, 4, 50)))
        if random_.random() < 0.4:
            run.operator.advance()
        if random_.random() < 0.1:
            run.restore(loses_derived=random_.random() < 0.5)
    return run


class NeighborPurge(MultiJoinOperator):
    """Wrong: rows are purged by the bound of those that they are joined with now."""

    def _bound(self, place: Place) -> int:
        return min(self._frontier.bounds[port] for port in _neighbors(self._program.tree, place.ports))


class NeighborPurgeOfJoined(NeighborPurge):
    """Wrong: states of several inputs are purged so; those of the inputs are right."""

    def _bound(self, place: Place) -> int:
        return MultiJoinOperator._bound(self, place) if place.is_base else super()._bound(place)


class NoRecomputing(MultiJoinOperator):
    """Wrong: states that the old tree lacks begin empty."""

    def _build(self, program: Program, missing: Sequence[Place]) -> None:
        super()._build(program, [place for place in missing if place.is_base])
        for place in missing:
            self._arrangements.setdefault(place, self._arrangement(place))


class NoRootRule(MultiJoinOperator):
    """Wrong: while two trees run, the old one also gives combinations of new tuples only."""

    def _old_track(self) -> Track:
        return _WithoutRootRule(self._setting.epoch)


class NoEpochs(MultiJoinOperator):
    """Wrong: a state is filled with combinations of all rows, not only of those from before the change."""

    def _built_from(self) -> Track:
        return Track()


class TrustsStoredRows(MultiJoinOperator):
    """Wrong: when conditions are tested on tuples again, stored rows count as tested."""

    def _untested_under(self, tree: Tree) -> dict[int, int]:
        return {}


class _WithoutRootRule(OldTrack):
    def ranges(self, is_new: bool, *, is_last: bool) -> Sequence[Range]:
        return super().ranges(is_new, is_last=False)


def _neighbors(tree: Tree, own: tuple[int, ...]) -> tuple[int, ...]:
    """Return the ports that rows of some ports are joined with next."""
    for branch in branches(tree):
        for child in branch.children:
            if tuple(sorted(ports(child))) == own:
                return tuple(port for port in ports(branch) if port not in own)
    return tuple(port for port in ports(tree) if port not in own)
