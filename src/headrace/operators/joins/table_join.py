"""Join each tuple with the rows of a stored table."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import polars as pl
from msgspec import UNSET, UnsetType

from headrace.errors import InternalError
from headrace.model.expressions.expression import Cast, Column, Expr, Literal, columns, rebuilt
from headrace.model.page import Element, Page
from headrace.model.schema import HIDDEN, Schema
from headrace.model.types import DataType, common_type
from headrace.operators.arrays import PAIRS_AT_ONCE, gather, matches
from headrace.operators.expressions.evaluate import compile_predicate, evaluate
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.operator import Operator
from headrace.operators.partitioning import Keys, columns_in
from headrace.operators.spec import Order, Spec
from headrace.operators.tables import stored_table
from headrace.operators.text import equalities, with_inputs


class TableJoin(Spec, frozen=True, tag="table_join"):
    """Each tuple with the table rows that agree on all `keys` (tuple expression = table column) and satisfy `residual`.

    `rows` is the table as an Arrow IPC stream, or empty if there is a `digest` of it (`operators.tables`).
    `table_names` are its columns' names in the output, which `residual` uses.
    NULL keys never match. A left join pads a tuple that has no partner.
    """

    rows: bytes
    schema: Schema
    kind: typing.Literal["inner", "left"]
    keys: tuple[tuple[Expr, str], ...]
    residual: Expr | None
    table_names: tuple[str, ...]
    digest: str | UnsetType = UNSET  # not NULL, so that others are called as ever

    @property
    def is_stateless(self) -> bool:
        return True

    def build(self) -> TableJoinOperator:
        return TableJoinOperator(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        word = "join" if self.kind == "inner" else f"{self.kind} join"
        sides = (*inputs, "table") if inputs else ()
        return with_inputs(word, sides, " x ") + equalities(self.keys, self.residual)

    def keys_after(self, keys: Keys) -> Keys | None:
        return keys

    def keys_before(self, keys: Keys) -> Keys | None:
        return keys if columns_in(keys).isdisjoint(self.table_names) else None

    @property
    def output_order(self) -> Order:
        return Order.KEPT


class TableJoinOperator(Operator):
    """The running half of `TableJoin`: the table sorted by the hash of its keys, probed page by page.

    Pairs that the residual rejects are never made whole: only what it reads is gathered, and what it computes of one
    side alone is computed once for each tuple, or once for each row of the table.
    """

    def __init__(self, spec: TableJoin) -> None:
        stored = stored_table(spec.rows, spec.digest)
        types = spec.schema.polars()
        table = stored.select([pl.col(name).cast(type_) for name, type_ in types.items()])
        common = [_common(expr, spec.schema, name) for expr, name in spec.keys]
        if spec.keys:
            named = [
                pl.col(name).cast(type_.polars).alias(f"__k{i}")
                for i, ((_, name), type_) in enumerate(zip(spec.keys, common, strict=True))
            ]
            keys = table.select(named)
            complete = ~keys.select(pl.any_horizontal(pl.all().is_null())).to_series()
            table, keys = table.filter(complete), keys.filter(complete)
            self._is_exact = len(common) == 1 and common[0].is_integer
            numbers = self._numbers(keys.get_columns())
            order = np.argsort(numbers, kind="stable")
            table, keys = table[order], keys[order]
            self._table_keys, self._sorted = keys.get_columns(), numbers[order]
        self._height = table.height
        self._is_left = spec.kind == "left"
        self._keys = [
            expr if expr.type == type_ else Cast(expr, type_)
            for (expr, _), type_ in zip(spec.keys, common, strict=True)
        ]
        # One row of NULL at the end: the partner of tuples without one.
        self._table = pl.concat([table, table.clear(1)]).rename(dict(zip(types, spec.table_names, strict=True)))
        self._test = None if spec.residual is None else _Test(spec.residual, self._table)

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        left, right = self._pairs(page.rows)
        if self._is_left:
            alone = np.ones(len(page), dtype=bool)
            alone[left] = False
            unmatched = np.flatnonzero(alone)
            left = np.concatenate([left, unmatched])
            right = np.concatenate([right, np.full(len(unmatched), self._height)])
            order = np.argsort(left, kind="stable")
            left, right = left[order], right[order]
        return (Page(self._joined(page.rows, left, right)),) if len(left) else ()

    def _pairs(self, rows: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Return places of tuples and of table rows that belong together, by tuple."""
        keys = evaluate(rows, self._keys)
        test = None if self._test is None else self._test.of(rows)
        pairs = []
        for left, right in self._candidates(rows, keys):
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

    def _candidates(self, rows: pl.DataFrame, keys: list[pl.Series]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield candidates in portions; without keys, every tuple with every row of the table."""
        if self._keys:
            yield from matches(self._numbers(keys), self._sorted)
            return
        step = max(1, PAIRS_AT_ONCE // max(1, self._height))
        for start in range(0, rows.height, step):
            tuples = np.arange(start, min(start + step, rows.height))
            yield np.repeat(tuples, self._height), np.tile(np.arange(self._height), len(tuples))

    def _numbers(self, keys: list[pl.Series]) -> np.ndarray:
        """Return a number for each row by which equal keys are found: the key itself if it is one, else a hash."""
        return keys[0].cast(pl.Int64).fill_null(0).to_numpy() if self._is_exact else hash_columns(keys)

    def _joined(self, rows: pl.DataFrame, left: np.ndarray, right: np.ndarray) -> pl.DataFrame:
        hidden = [name for name in rows.columns if name in HIDDEN]
        return (
            rows[left]
            .hstack(self._table[right])
            .select([*(name for name in rows.columns if name not in HIDDEN), *self._table.columns, *hidden])
        )


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


def _common(expr: Expr, schema: Schema, name: str) -> DataType:
    field = schema.find(name)
    common = None if field is None else common_type(expr.type, field.type)
    if common is None:
        raise InternalError(f"table column {name!r} cannot be a key for {expr.type.value}")
    return common
