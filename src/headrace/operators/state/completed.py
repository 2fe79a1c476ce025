"""How far keys are complete at each input of an operator, where they are further than the bound of the input.

A key that the bound of an input has reached is forgotten there, so that only what was said ahead of time is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from headrace.model.expressions.expression import Column, Expr
from headrace.model.page import Completion
from headrace.model.schema import TS
from headrace.model.time import BEGIN

_CHUNK = "completed-"


class Completed:
    """For each port, keys and the time before which no tuple of theirs comes any more."""

    def __init__(self, ports: int) -> None:
        self._rows: list[pl.DataFrame | None] = [None] * ports
        self._told: pl.DataFrame | None = None  # what `news` returned; lost at a restart, as it may be told again

    def __bool__(self) -> bool:
        return any(rows is not None for rows in self._rows)

    def __len__(self) -> int:
        return sum(0 if rows is None else rows.height for rows in self._rows)

    def add(self, port: int, rows: pl.DataFrame, bound: int) -> bool:
        """Learn of keys of a port; return whether anything is new. Other keys than those known are not taken."""
        names = self.names
        if names and set(rows.columns) != {*names, TS}:
            return False
        fresh = rows.filter(pl.col(TS) > bound).select(*(names or _keys(rows)), TS)
        known = self._rows[port]
        if not fresh.height:
            return False
        merged = fresh if known is None else latest(pl.concat([known, fresh]))
        if known is not None and merged.equals(known):
            return False
        self._rows[port] = merged
        return True

    @property
    def names(self) -> list[str]:
        """Return the columns of the keys; none if no key is known."""
        return next((_keys(rows) for rows in self._rows if rows is not None), [])

    def expire(self, port: int, bound: int) -> None:
        """Forget the keys that the bound of a port has reached."""
        rows = self._rows[port]
        if rows is not None and bound >= int(rows[TS].min()):  # type: ignore[arg-type]  # it is not empty
            left = rows.filter(pl.col(TS) > bound)
            self._rows[port] = left if left.height else None

    def of(self, port: int) -> pl.DataFrame | None:
        """Return the keys of a port with their times; None if there are none."""
        return self._rows[port]

    def common(self, ports: Iterable[int], bounds: Sequence[int]) -> pl.DataFrame | None:
        """Return how far keys are complete at all of these ports, where that is further than the bounds; or None."""
        ports = list(ports)
        least = min(bounds[port] for port in ports)
        parts = [rows for port in ports if (rows := self._rows[port]) is not None]
        if not parts:
            return None
        names = _keys(parts[0])
        reached = pl.concat([rows.select(names) for rows in parts]).unique(maintain_order=True)
        columns = []
        for port in ports:
            rows, column = self._rows[port], f"__at{port}"
            columns.append(column)
            if rows is None:
                reached = reached.with_columns(pl.lit(bounds[port], pl.Int64).alias(column))
            else:
                named = rows.rename({TS: column})
                reached = reached.join(named, on=names, how="left", nulls_equal=True, maintain_order="left")
                reached = reached.with_columns(pl.col(column).fill_null(bounds[port]))
        found = reached.select(*names, pl.min_horizontal(columns).alias(TS)).filter(pl.col(TS) > least)
        return found if found.height else None

    def news(self, bounds: Sequence[int]) -> pl.DataFrame | None:
        """Return the keys that are complete at all ports further than what was returned before; or None."""
        if not self:
            self._told = None
            return None
        found = self.common(range(len(self._rows)), bounds)
        told, self._told = self._told, found
        if found is None or told is None:
            return found
        return _further(found, told)

    def state(self) -> dict[str, pl.DataFrame]:
        return {f"{_CHUNK}{port}": rows for port, rows in enumerate(self._rows) if rows is not None}

    def restore(self, state: Mapping[str, pl.DataFrame]) -> None:
        self._rows = [state.get(f"{_CHUNK}{port}") for port in range(len(self._rows))]
        self._told = None


def latest(rows: pl.DataFrame) -> pl.DataFrame:
    """Return each key once, with its latest time."""
    return rows.group_by(_keys(rows), maintain_order=True).agg(pl.col(TS).max())


def times_of(rows: pl.DataFrame, completed: pl.DataFrame) -> pl.Series:
    """Return for each row how far its key is complete; BEGIN where nothing is known."""
    names = _keys(completed)
    found = rows.select(names).join(completed, on=names, how="left", nulls_equal=True, maintain_order="left")
    return found[TS].fill_null(BEGIN)


def shown_as(computed: Iterable[tuple[str, Expr]]) -> dict[str, str]:
    """Return the names under which columns of an input appear among computed ones."""
    return {expr.name: name for name, expr in reversed(list(computed)) if isinstance(expr, Column)}


def named_as(completion: Completion, names: Mapping[str, str]) -> tuple[Completion, ...]:
    """Return the completion with its keys under other names; nothing if one of them is not shown."""
    if not all(key in names for key in completion.keys):
        return ()
    return (Completion(completion.rows.select(*(pl.col(key).alias(names[key]) for key in completion.keys), TS)),)


def _further(found: pl.DataFrame, told: pl.DataFrame) -> pl.DataFrame | None:
    """Return the keys that are complete further than was told."""
    rows = found.filter(found[TS] > times_of(found, told))
    return rows if rows.height else None


def _keys(rows: pl.DataFrame) -> list[str]:
    return [name for name in rows.columns if name != TS]
