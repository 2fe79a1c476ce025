"""Tuples of several inputs, held back until the frontier of all has passed them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from headrace.model.events.event import primitives
from headrace.model.events.rewrite import own_names
from headrace.model.expressions.expression import columns
from headrace.model.page import Page
from headrace.model.schema import TS
from headrace.model.time import BEGIN
from headrace.operators.events.masks import admissions
from headrace.operators.expressions.evaluate import compile_expr
from headrace.operators.operator import Frontier, State
from headrace.operators.order.held_back import Pending

if TYPE_CHECKING:
    from headrace.operators.events.detect import Detect

#: The n-th key of a tuple.
KEYS = "__key{}"


class Intake:
    """For each port what waits: columns that somebody needs, and the keys; what is no part's and what has no whole key is dropped at once."""

    def __init__(self, spec: Detect) -> None:
        ports = range(len(spec.schemas))
        needed = spec.needed()
        events = tuple(primitives(spec.event))
        self.key_names = [KEYS.format(i) for i in range(len(spec.keys[0]))]
        self._pending = [Pending() for _ in ports]
        self._frontier = Frontier(len(ports))
        self._bounds: pl.DataFrame | None = None
        self._read = [any(part.port == port for part in events) for port in ports]
        tests = dict(zip((part.name for part in events), admissions(spec.event), strict=True))
        self._tests: list[pl.Expr | None] = []
        self._columns: list[list[pl.Expr]] = []
        for port in ports:
            mine = [part for part in events if part.port == port]
            masks = [own_names(part.mask) for part in mine if part.mask is not None]
            admitted = [test for part in mine if (test := tests[part.name]) is not None]
            self._tests.append(pl.any_horizontal(admitted) if mine and len(admitted) == len(mine) else None)
            read = {name.partition(".")[2] for part in mine for name in needed if name.partition(".")[0] == part.name}
            # They are asked again if not all parts of the port have the same.
            read |= {name for mask in masks for name in columns(mask) if len(mine) > 1}
            read |= {part.start for part in mine if part.start is not None}
            kept = [pl.col(field.name) for field in spec.schemas[port] if field.name in read]
            keys = [compile_expr(expr).alias(KEYS.format(i)) for i, expr in enumerate(spec.keys[port])]
            self._columns.append([*kept, pl.col(TS), *keys])

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

    def held(self) -> int:
        return sum(map(len, self._pending))

    def oldest(self) -> int:
        """The smallest timestamp of a tuple that waits; END if none does."""
        return min(pending.oldest() for pending in self._pending)

    def state(self) -> dict[str, pl.DataFrame]:
        if self._bounds is None:
            self._bounds = pl.DataFrame({"bound": self._frontier.bounds}, schema={"bound": pl.Int64})
        chunks = {
            f"{port}/{name}": chunk
            for port, pending in enumerate(self._pending)
            for name, chunk in pending.state().items()
        }
        return {"bounds": self._bounds} | chunks

    def restore(self, state: State) -> None:
        self._bounds = state.get("bounds")
        self._frontier.bounds = (
            [BEGIN] * len(self._pending) if self._bounds is None else self._bounds["bound"].to_list()
        )
        for port, pending in enumerate(self._pending):
            head = f"{port}/"
            pending.restore({name.removeprefix(head): chunk for name, chunk in state.items() if name.startswith(head)})
