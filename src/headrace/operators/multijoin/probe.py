"""Rows of a join on their way: read from pages, sorted by a key, and joined with what an arrangement holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl

from headrace.model.expressions.expression import columns
from headrace.model.page import Page
from headrace.model.schema import EXPIRY, TS
from headrace.operators.arrays import KEY, Ints, gather
from headrace.operators.expressions.evaluate import compile_expr, compile_predicate
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.joins.hits import Hits, portions_of_hits
from headrace.operators.joins.pairing import expiry_of
from headrace.operators.multijoin.arrangement import Arrangement
from headrace.operators.multijoin.columns import SharedKeys
from headrace.operators.multijoin.program import Step, key_columns
from headrace.operators.multijoin.spec import MultiJoin
from headrace.operators.state.sorted_chunk import Chunk

_TIMES = (TS, EXPIRY)


class Batch(NamedTuple):
    """Joined rows of some ports, under output names, with `__ts` and `__exp`.

    Of columns that have the same values there is one (`columns.SharedKeys`). `classes` are those by which rows were
    read or searched, None: by none yet; `__key` is their number, if it is there. `is_new` if all parts came after the
    change of plan that is under way.
    """

    rows: pl.DataFrame
    ports: tuple[int, ...]
    classes: tuple[int, ...] | None = None
    is_sorted: bool = False
    is_new: bool = True


class Reader:
    """Makes rows of pages, and gives rows the keys by which they search or are stored."""

    def __init__(self, spec: MultiJoin) -> None:
        self._spec = spec
        self.keys = SharedKeys(spec)
        self._selected = tuple(
            [
                *(pl.col(field.name).alias(name) for field, name in zip(schema, names, strict=True)),
                pl.col(TS),
                expiry_of(extent),
            ]
            for schema, names, extent in zip(spec.inputs, spec.names, spec.extents, strict=True)
        )
        ports = range(len(spec.inputs))
        #: The classes of each port.
        self._classes = tuple(
            tuple(n for n, members in enumerate(spec.classes) if members[p] is not None) for p in ports
        )
        self._keys = tuple(
            [compile_expr(expr).alias(f"__key{n}") for n, m in enumerate(spec.classes) if (expr := m[port]) is not None]
            for port in ports
        )
        conditions = spec.conditions
        self._own = tuple(
            [compile_predicate(t) for t in spec.terms if spec.port_of(t) == port and t not in conditions.get(port, ())]
            for port in ports
        )
        #: What may be tested on results, by port, with the columns that it reads.
        self._conditions = {
            port: (
                pl.all_horizontal(map(compile_predicate, terms)),
                sorted({name for term in terms for name in columns(term)}),
            )
            for port, terms in conditions.items()
        }
        self._numbers: dict[tuple[tuple[int, ...], tuple[int, ...]], list[pl.Expr]] = {}

    def read(self, port: int, page: Page) -> Batch:
        """Return the tuples of a page that may be part of a result: NULL equals nothing."""
        count = len(self._keys[port])
        found = page.rows.select(*self._selected[port], *self._keys[port]).get_columns()
        found, keys = found[: len(found) - count], found[len(found) - count :]
        rows, classes = pl.DataFrame(found), None
        if count == 1:  # then it is searched by this key, or by none
            rows, classes = pl.DataFrame([*found, self._numbered(keys, self._classes[port])]), self._classes[port]
        for column in keys:
            if column.null_count():
                rows = rows.filter(pl.all_horizontal(key.is_not_null() for key in keys))
                break
        if self._own[port]:
            rows = rows.filter(pl.all_horizontal(self._own[port]))
        return Batch(rows, (port,), classes)

    @property
    def conditioned(self) -> frozenset[int]:
        """Return the inputs whose own conditions may be tested on their tuples or on results."""
        return frozenset(self._conditions)

    def passing(self, port: int, batch: Batch) -> Batch:
        """Return the rows whose part of an input satisfies the conditions on it that may take long."""
        condition, names = self._conditions[port]
        read = pl.DataFrame([self.keys.column(batch.rows, name) for name in names])
        passed = read.select(condition).to_series()
        return batch if passed.all() else batch._replace(rows=batch.rows.filter(passed))

    def arranged(self, batch: Batch, classes: tuple[int, ...]) -> Batch:
        """Return the rows sorted by the key of these classes."""
        if batch.classes == classes and batch.is_sorted and KEY in batch.rows.columns:
            return batch
        rows, is_sorted = batch.rows, batch.is_sorted
        if batch.classes != classes or KEY not in rows.columns:
            is_sorted = not classes or (is_sorted and batch.classes == classes)
            others = [column for column in rows.get_columns() if column.name != KEY]
            rows = pl.DataFrame([*others, self._number(rows, batch.ports, classes)])
        if not is_sorted:
            rows = gather(rows, np.argsort(rows[KEY].to_numpy(), kind="stable"))
        return batch._replace(rows=rows, classes=classes, is_sorted=True)

    def number(self, chunk: Chunk, ports: tuple[int, ...], classes: tuple[int, ...]) -> pl.Series:
        """Return the key of stored rows by other classes."""
        return self._number(chunk.rows, ports, classes)

    def _number(self, rows: pl.DataFrame, ports: tuple[int, ...], classes: tuple[int, ...]) -> pl.Series:
        if not classes:
            return pl.zeros(rows.height, pl.Int64, eager=True).alias(KEY)
        if (ports, classes) not in self._numbers:
            keys = key_columns(self._spec, ports, classes)
            self._numbers[ports, classes] = [key.alias(f"__key{i}") for i, key in enumerate(keys)]
        whole = self.whole(rows, ports)
        return self._numbered(whole.select(self._numbers[ports, classes]).get_columns(), classes)

    def whole(self, rows: pl.DataFrame, ports: Iterable[int], hidden: Iterable[str] = ()) -> pl.DataFrame:
        """Return all columns of some ports, also those that have the same values."""
        names = (*(name for port in ports for name in self._spec.names[port]), *hidden)
        return pl.DataFrame([self.keys.column(rows, name) for name in names])

    def _numbered(self, keys: list[pl.Series], classes: tuple[int, ...]) -> pl.Series:
        if self._spec.is_exact(classes):
            return keys[0].to_physical().cast(pl.Int64).fill_null(0).alias(KEY)
        return pl.Series(KEY, hash_columns(keys))


def search(
    batch: Batch, arrangement: Arrangement, since: int | None, before: int | None, step: Step, reader: Reader
) -> Iterator[Batch]:
    """Yield rows, sorted by the key of an arrangement, with what they meet in it, in portions of bounded size."""
    for hits in portions_of_hits(batch.rows, partial(arrangement.meeting, since=since, before=before)):
        yield from _joined(batch, hits, step, reader)


def _joined(batch: Batch, collected: Sequence[Hits], step: Step, reader: Reader) -> Iterator[Batch]:
    mine, ts, exp = collected[0].mine, collected[0].ts, collected[0].exp
    if len(collected) > 1:
        mine, ts, exp = (np.concatenate([hits[i] for hits in collected]) for i in (1, 3, 4))
    left_out = _TIMES if step.keeps_key else (*_TIMES, KEY)
    own = [column for column in batch.rows.get_columns() if column.name not in left_out]
    parts = [*_at(own, mine), *_found(collected, step.columns), pl.Series(TS, ts), pl.Series(EXPIRY, exp)]
    rows = pl.DataFrame(parts)
    ports = tuple(sorted((*batch.ports, *step.place.ports)))
    if step.condition is not None:
        rows = rows.filter(reader.whole(rows, ports).select(step.condition).to_series())
        rows = rows.select(reader.keys.without_repeats(rows.columns))
    if rows.height:
        is_sorted = len(collected) == 1  # pairs of one chunk come in the order of the keys
        yield Batch(rows, ports, batch.classes, is_sorted, batch.is_new)


def _at(columns: list[pl.Series], places: Ints) -> list[pl.Series]:
    return gather(pl.DataFrame(columns), places).get_columns() if columns else []


def _found(collected: Sequence[Hits], names: Sequence[str]) -> list[pl.Series]:
    """Return columns of the rows that were found."""
    if not names:
        return []
    parts = [
        gather(pl.DataFrame([hits.chunk.rows.get_column(name) for name in names]), hits.theirs) for hits in collected
    ]
    return (pl.concat(parts) if len(parts) > 1 else parts[0]).get_columns()
