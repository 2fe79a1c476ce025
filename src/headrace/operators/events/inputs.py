"""Tuples of several inputs, held back until the frontier of all has passed them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from headrace.model.events.event import Primitive, primitives
from headrace.model.events.rewrite import own_names
from headrace.model.expressions.expression import columns
from headrace.model.page import Element, Page, Punctuation
from headrace.model.schema import TS
from headrace.model.time import BEGIN
from headrace.operators.capabilities import Choose, chosen_by
from headrace.operators.events.detection import Detection
from headrace.operators.events.masks import mask_tests
from headrace.operators.expressions.evaluate import compile_expr
from headrace.operators.operator import Frontier, Operator, State
from headrace.operators.order.held_back import Pending
from headrace.operators.partitioning import Keys
from headrace.operators.state.given import given_up, kept_as

#: The n-th key of a tuple.
KEYS = "__key{}"


class Inputs:
    """The tuples of each port that wait, with the columns that are needed and their keys.

    Tuples that cannot matter are dropped.
    """

    def __init__(self, spec: Detection) -> None:
        ports = range(len(spec.schemas))
        needed = spec.needed()
        events = tuple(primitives(spec.event))
        self._keys = spec.keys
        self.key_names = [KEYS.format(i) for i in range(len(spec.keys[0]))]
        self._pending = [Pending() for _ in ports]
        self._frontier = Frontier(len(ports))
        self._bounds: pl.DataFrame | None = None
        self._read = [any(part.port == port for part in events) for port in ports]
        tests = dict(zip((part.name for part in events), mask_tests(spec.event), strict=True))
        parts = [[part for part in events if part.port == port] for port in ports]
        self._tests = [_any_of([tests[part.name] for part in mine]) for mine in parts]
        self._columns = [_columns(spec, port, mine, needed) for port, mine in enumerate(parts)]

    def add(self, port: int, page: Page) -> None:
        """Take in a page."""
        if not self._read[port]:
            return
        test = self._tests[port]
        rows = page.rows if test is None else page.rows.filter(test)
        rows = rows.select(self._columns[port])
        if self.key_names:
            rows = rows.drop_nulls(self.key_names)
        self._pending[port].add(rows)

    def advance(self, port: int, bound: int) -> int | None:
        """Raise a port's bound; returns the frontier if it rose."""
        if bound > self._frontier.bounds[port]:
            self._bounds = None
        return self._frontier.advance(port, bound)

    def take(self, port: int, bound: int) -> pl.DataFrame | None:
        """Remove and return a port's tuples below the bound, in the order of arrival; None if there are none."""
        return self._pending[port].take(bound)

    def kept_keys(self, port: int, keys: Sequence[Keys]) -> Keys:
        """Return some of the keys of a port as the columns under which they are kept."""
        return kept_as(keys[port], self._keys[port], self.key_names)

    def give(self, keys: Sequence[Keys], choose: Choose) -> dict[str, pl.DataFrame]:
        """Give up the tuples that are chosen by some of the keys."""
        given = [
            given_up(pending=pending.give(chosen_by(choose, self.kept_keys(port, keys))))
            for port, pending in enumerate(self._pending)
        ]
        return numbered("", given)

    def take_in(self, given: State) -> None:
        """Go on with tuples of keys that are not known here."""
        for port, pending in enumerate(self._pending):
            if f"{port}/pending" in given:
                pending.add(given[f"{port}/pending"])

    def held(self) -> int:
        return sum(map(len, self._pending))

    def oldest(self) -> int:
        """Return the smallest timestamp of a tuple that waits; END if none does."""
        return min(pending.oldest() for pending in self._pending)

    def state(self) -> dict[str, pl.DataFrame]:
        if self._bounds is None:
            self._bounds = pl.DataFrame({"bound": self._frontier.bounds}, schema={"bound": pl.Int64})
        return {"bounds": self._bounds} | numbered("", (pending.state() for pending in self._pending))

    def restore(self, state: State) -> None:
        self._bounds = state.get("bounds")
        self._frontier.bounds = (
            [BEGIN] * len(self._pending) if self._bounds is None else self._bounds["bound"].to_list()
        )
        for port, pending in enumerate(self._pending):
            pending.restore(part_of(state, f"{port}/"))


class InputsOperator(Operator, ABC):
    """An operator that looks at tuples once the frontier of all its inputs has passed them."""

    def __init__(self, spec: Detection) -> None:
        self._inputs = Inputs(spec)

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        self._inputs.add(port, page)
        return ()

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterator[Element]:
        bound = self._inputs.advance(port, mark.bound)
        if bound is None:
            return
        detections = self._detect(bound)
        if detections is not None:
            yield Page(detections)
        yield Punctuation(bound)

    @abstractmethod
    def _detect(self, bound: int) -> pl.DataFrame | None:
        """Return what ends below the bound, in timestamp order; None if nothing does."""


def numbered(head: str, states: Iterable[State]) -> dict[str, pl.DataFrame]:
    """Put the states of several parts into one; the names begin with the number of the part behind `head`."""
    return {f"{head}{number}/{name}": chunk for number, state in enumerate(states) for name, chunk in state.items()}


def part_of(state: State, head: str) -> dict[str, pl.DataFrame]:
    """Return the chunks of a state whose names begin with `head`, by the rest of their names."""
    return {name.removeprefix(head): chunk for name, chunk in state.items() if name.startswith(head)}


def _any_of(tests: Sequence[pl.Expr | None]) -> pl.Expr | None:
    """Return the test that a tuple passes if it may be one of the parts with these tests; None: every tuple may."""
    known = [test for test in tests if test is not None]
    return pl.any_horizontal(known) if known and len(known) == len(tests) else None


def _columns(spec: Detection, port: int, parts: Sequence[Primitive], needed: frozenset[str]) -> list[pl.Expr]:
    """Return what is kept of a port's tuples: columns that conditions or results read, the timestamp and the keys."""
    names = {part.name for part in parts}
    read = {column for part, _, column in (name.partition(".") for name in needed) if part in names}
    if len(parts) > 1:  # masks are tested again if not all parts of the port have the same
        read |= {name for part in parts if part.mask is not None for name in columns(own_names(part.mask))}
    read |= {part.start for part in parts if part.start is not None}
    kept = [pl.col(field.name) for field in spec.schemas[port] if field.name in read]
    keys = [compile_expr(expr).alias(KEYS.format(i)) for i, expr in enumerate(spec.keys[port])]
    return [*kept, pl.col(TS), *keys]
