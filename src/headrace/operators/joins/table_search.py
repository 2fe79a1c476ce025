"""Find the rows of a stored table that belong to tuples: by keys, and by a condition on pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import polars as pl

from headrace.model.expressions.expression import Column, Expr, Literal, columns, rebuilt
from headrace.operators.arrays import PAIRS_AT_ONCE, gather, matches, starts_of
from headrace.operators.expressions.evaluate import compile_predicate, evaluate
from headrace.operators.expressions.hashing import hash_columns


class TableSearch:
    """A table sorted by the hash of its keys, or by its only key if that is a whole number, probed page by page.

    A key is an expression over tuples and one over the table's own columns, of one type. NULL keys never match.
    `residual` is over tuples and the table's columns under `names`. Pairs that it rejects are never made whole: only
    what it reads is gathered, and what it computes of one side alone is computed once for each tuple, or once for each
    row of the table.
    """

    def __init__(
        self, table: pl.DataFrame, keys: Sequence[tuple[Expr, Expr]], residual: Expr | None, names: Sequence[str]
    ) -> None:
        self._keys = [expr for expr, _ in keys]
        if keys:
            types = [expr.type for _, expr in keys]
            found = evaluate(table, [expr for _, expr in keys])
            values = pl.DataFrame([series.alias(f"__k{i}") for i, series in enumerate(found)])
            complete = ~values.select(pl.any_horizontal(pl.all().is_null())).to_series()
            table, values = table.filter(complete), values.filter(complete)
            self._is_exact = len(types) == 1 and types[0].is_integer
            numbers = self._numbers(values.get_columns())
            order = np.argsort(numbers, kind="stable")
            table, values = table[order], values[order]
            self._table_keys, self._sorted = values.get_columns(), numbers[order]
            self._starts = starts_of(self._sorted) if self._is_exact else None
        self.height = table.height
        # One row of NULL at the end: the partner of tuples without one.
        self.rows = pl.concat([table, table.clear(1)]).rename(dict(zip(table.columns, names, strict=True)))
        self._test = None if residual is None else _Test(residual, self.rows)

    def pairs(self, tuples: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Return places of tuples and of table rows that belong together, by tuple."""
        keys = evaluate(tuples, self._keys)
        test = None if self._test is None else self._test.of(tuples)
        pairs = []
        for left, right in self._candidates(tuples, keys):
            if self._keys and (not self._is_exact or keys[0].null_count()):
                agree = np.ones(len(left), dtype=bool)
                for ours, theirs in zip(keys, self._table_keys, strict=True):
                    agree &= (ours.gather(left) == theirs.gather(right)).fill_null(False).to_numpy()
                left, right = left[agree], right[agree]
            pairs.append((left, right) if test is None else test(left, right))
        if len(pairs) == 1:
            return pairs[0]
        empty = np.empty(0, dtype=np.int64)
        return np.concatenate([left for left, _ in pairs] or [empty]), np.concatenate(
            [right for _, right in pairs] or [empty]
        )

    def _candidates(self, tuples: pl.DataFrame, keys: list[pl.Series]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield candidates in portions; without keys, every tuple with every row of the table."""
        if self._keys:
            yield from matches(self._numbers(keys), self._sorted, self._starts)
            return
        step = max(1, PAIRS_AT_ONCE // max(1, self.height))
        for start in range(0, tuples.height, step):
            portion = np.arange(start, min(start + step, tuples.height))
            yield np.repeat(portion, self.height), np.tile(np.arange(self.height), len(portion))

    def _numbers(self, keys: list[pl.Series]) -> np.ndarray:
        """Return a number for each row by which equal keys are found: the key itself if it is one, else a hash."""
        return keys[0].cast(pl.Int64).fill_null(0).to_numpy() if self._is_exact else hash_columns(keys)


class _Test:
    """A condition on pairs, split into what can be computed of the tuple, of the row of the table, and only of both."""

    def __init__(self, condition: Expr, table: pl.DataFrame) -> None:
        theirs = frozenset(table.columns)
        self._tuples: dict[str, Expr] = {}
        rows: dict[str, Expr] = {}

        def split(part: Expr) -> Expr:
            read = columns(part)
            if isinstance(part, Column | Literal) or not read or (read & theirs and read - theirs):
                return rebuilt(part, split)
            known = rows if read <= theirs else self._tuples
            name = next(
                (name for name, expr in known.items() if expr == part),
                f"__{'row' if known is rows else 'tuple'}{len(known)}",
            )
            known[name] = part
            return Column(name, part.type)

        self._predicate = compile_predicate(split(condition))
        needed = columns(split(condition))
        self._of_tuples = sorted(needed - theirs - self._tuples.keys() - rows.keys())
        self._of_rows = _named(table, sorted(needed & theirs), rows)

    def of(self, tuples: pl.DataFrame) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Return the condition for the tuples of one page, a function that says which pairs satisfy it."""
        of_tuples = _named(tuples, self._of_tuples, self._tuples)

        def passing(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            sides = [
                gather(frame, places) for frame, places in ((of_tuples, left), (self._of_rows, right)) if frame.width
            ]
            pairs = (
                pl.concat(sides, how="horizontal") if sides else pl.DataFrame({"__pair": left})
            )  # a condition may read nothing
            kept = np.flatnonzero(pairs.with_columns(self._predicate.alias("__kept"))["__kept"].to_numpy())
            return left[kept], right[kept]

        return passing


def _named(frame: pl.DataFrame, names: list[str], made: dict[str, Expr]) -> pl.DataFrame:
    """Return some columns as they are, and some that are computed."""
    computed = [series.alias(name) for name, series in zip(made, evaluate(frame, [*made.values()]), strict=True)]
    return pl.DataFrame([*(frame[name] for name in names), *computed])
