"""The fields that stream joins share, the keys of tuples, and the output rows of pairs and of unmatched tuples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import polars as pl

from headrace.model.expressions.expression import Column, Expr, columns, transform
from headrace.model.page import Page
from headrace.model.schema import EXPIRY, TS, Schema
from headrace.model.time import END
from headrace.model.window import Extent
from headrace.operators.arrays import EXACT, KEY, Flags, Ints
from headrace.operators.expressions.evaluate import compile_expr, compile_predicate
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.keyed_spec import ByKey
from headrace.operators.partitioning import KeyClass, Keys, computed_from, without_widening
from headrace.operators.text import equalities, with_inputs

JoinKind: TypeAlias = Literal["inner", "left", "right", "full"]
Manner: TypeAlias = Literal["plain", "thrifty", "impatient", "demanding"]

_SIDE_TS = ("__ts_left", "__ts_right")


class Pairing(ByKey, frozen=True, omit_defaults=True):
    """The fields of a join of two streams; port 0 is the left one. They mean what `plan.nodes.Join` says.

    `expiry` asks for the column `__exp` in the output, for a join further up. A `manner` lets the join speak to those
    before it.

    `both_keys` says that the output lies by the keys of both sides. Joins of earlier versions lack it: they lie by the
    left ones only, so that exchanges of running queries, whose pages are under way, stay.

    `life` is the longest time that a tuple of a preserved side waits for a partner, if there is a limit.
    """

    kind: JoinKind
    left: Schema
    right: Schema
    right_names: tuple[str, ...]
    keys: tuple[tuple[Expr, Expr], ...]
    residual: Expr | None
    left_extent: Extent | None
    right_extent: Extent | None
    expiry: bool
    manner: Manner = "plain"
    both_keys: bool = False
    life: int | None = None

    def describe(self, inputs: Sequence[str] = ()) -> str:
        words = ("" if self.manner == "plain" else self.manner, "" if self.kind == "inner" else self.kind, "join")
        return with_inputs(" ".join(filter(None, words)), inputs, " x ") + equalities(self.keys, self.residual)

    def preserves(self, port: int) -> bool:
        """Return whether a tuple of this side that finds no partner comes out padded."""
        return self.kind == "full" or self.kind == ("left", "right")[port]

    @property
    def has_own_time(self) -> bool:
        return self.kind != "inner" and self.life is None

    def earliest_padded(self, bound: int) -> int | None:
        """Return a bound of the tuples that can still come out padded, given that of the inputs they wait for.

        It is the same in all buckets. None if there is no limit: then the tuples that wait say it.
        """
        return None if self.life is None else END if bound >= END else bound - self.life

    def schema(self, port: int) -> Schema:
        return (self.left, self.right)[port]

    def extent(self, port: int) -> Extent | None:
        return (self.left_extent, self.right_extent)[port]

    def output_keys(self, positions: tuple[int, ...]) -> tuple[Expr, ...] | None:
        if self.kind in ("inner", "left"):
            return tuple(self.keys[i][0] for i in positions)
        if self.kind == "full":
            return None  # a padded row lies by the side that it came from
        columns = {
            field.name: Column(name, field.type) for field, name in zip(self.right, self.right_names, strict=True)
        }
        rights = [without_widening(self.keys[i][1]) for i in positions]
        shown = tuple(columns[key.name] for key in rights if isinstance(key, Column) and key.name in columns)
        return shown if len(shown) == len(rights) else None

    def output_classes(
        self, positions: tuple[int, ...], classes: tuple[tuple[KeyClass, ...], ...]
    ) -> tuple[KeyClass, ...] | None:
        if not self.both_keys:
            return super().output_classes(positions, classes)
        if self.kind == "full":
            return None  # a padded row lies by the side that it came from
        own = (self.kind != "right", self.kind != "left")  # a padded row shows NULL for the keys of the other side
        output = tuple(
            tuple(
                dict.fromkeys(
                    key
                    for port in (0, 1)
                    if own[port]
                    for key in (self.keys[position][port], *classes[port][place])
                    for key in self._shown(port, key)
                )
            )
            for place, position in enumerate(positions)
        )
        return output if all(output) else None

    def _shown(self, port: int, key: Expr) -> Keys:
        """Return a key of an input over the columns of the output; none if it reads the timestamp: two become one."""
        schema, names = self.schema(port), (self.left.names, self.right_names)[port]
        by = {field.name: Column(name, field.type) for field, name in zip(schema, names, strict=True)}
        return computed_from((key,), tuple(by.items())) or ()


class Pairer:
    """Computes the keys of a spec's tuples and builds its output rows."""

    def __init__(self, spec: Pairing) -> None:
        self.spec = spec
        self.names = (spec.left.names, spec.right.names)
        self._keys = tuple(
            tuple(compile_expr(pair[port]).alias(f"__key{i}") for i, pair in enumerate(spec.keys)) for port in (0, 1)
        )
        #: Whether the number of a key is the key itself, and not a hash of it.
        self.is_exact = len(spec.keys) == 1 and all(expr.type in EXACT for expr in spec.keys[0])
        self._predicate = self._compile_predicate()
        #: The columns of a side's rows that `join` reads.
        self.needed = tuple(self._needed(port) for port in (0, 1))
        self._expiry = tuple(expiry_of(spec.extent(port)) for port in (0, 1))

    def arrange(self, port: int, page: Page) -> tuple[pl.DataFrame, Flags | None]:
        """Return a page's rows with `__exp` and `__key`, and which rows have a whole key (None: all).

        NULL equals nothing.
        """
        count = len(self.spec.keys)
        stored = page.rows.select(*self.names[port], pl.col(TS), self._expiry[port], *self._keys[port]).get_columns()
        stored, keys = stored[: len(stored) - count], stored[len(stored) - count :]
        known: Flags | None = None
        for column in keys:
            if column.null_count():
                present = column.is_not_null().to_numpy()
                known = present if known is None else known & present
        number = self._number(keys) if keys else pl.zeros(len(page), pl.Int64, eager=True)
        return pl.DataFrame([*stored, number.alias(KEY)]), known

    def arranged(self, port: int) -> dict[str, pl.DataType]:
        """Return the columns of what `arrange` gives."""
        key = pl.Int64() if self.is_exact or not self.spec.keys else pl.UInt64()
        return {**self.spec.schema(port).polars(), TS: pl.Int64(), EXPIRY: pl.Int64(), KEY: key}

    def join(
        self, port: int, mine: pl.DataFrame, others: pl.DataFrame, ts: Ints, expiry: Ints
    ) -> tuple[Page, Flags | None]:
        """Pair row by row a port's rows with the other side's; say which pairs were kept (None: all).

        Candidates agree in the hash and in time; real equality of the keys and the residual are decided here.
        """
        left, right = (mine, others) if port == 0 else (others, mine)
        parts = [left[name] for name in self.names[0]]
        parts += [right[name].alias(new) for name, new in zip(self.names[1], self.spec.right_names, strict=True)]
        parts.append(pl.Series(TS, ts))
        if self.spec.expiry:
            parts.append(pl.Series(EXPIRY, expiry))
        out = pl.DataFrame(parts)
        if self._predicate is None:
            return Page(out), None
        sides = [side[TS].alias(name) for side, name in zip((left, right), _SIDE_TS, strict=True) if TS in side.columns]
        kept = out.hstack(sides).with_columns(self._predicate.alias("__kept"))["__kept"]
        return Page(out.filter(kept)), kept.to_numpy()

    def pad(self, port: int, rows: pl.DataFrame) -> Page:
        """Return rows that found no partner, with NULL for the other side's columns."""
        spec = self.spec
        own = dict(zip(self.names[port], self.names[port] if port == 0 else spec.right_names, strict=True))
        fields = [
            (name, field.type)
            for name, field in zip(self.names[0] if port == 1 else spec.right_names, spec.schema(1 - port), strict=True)
        ]
        padding = [pl.lit(None, dtype=type_.polars).alias(name) for name, type_ in fields]
        mine = [pl.col(name).alias(new) for name, new in own.items()]
        hidden = [TS, EXPIRY] if spec.expiry else [TS]
        visible = [*mine, *padding] if port == 0 else [*padding, *mine]
        return Page(rows.select(*visible, *hidden))

    def _needed(self, port: int) -> tuple[str, ...]:
        by_time = any(TS in columns(pair[port]) for pair in self.spec.keys)
        return (*self.names[port], TS) if by_time or not self.names[port] else self.names[port]

    def _number(self, columns: list[pl.Series]) -> pl.Series:
        if self.is_exact:
            return columns[0].to_physical().cast(pl.Int64).fill_null(0)
        return pl.Series(hash_columns(columns))

    def _compile_predicate(self) -> pl.Expr | None:
        spec = self.spec
        terms = [] if spec.residual is None else [compile_predicate(spec.residual)]
        if spec.keys and not self.is_exact:
            right = dict(zip(self.names[1], spec.right_names, strict=True))
            left = {name: name for name in self.names[0]}
            for left_key, right_key in spec.keys:
                here, there = _rename(left_key, left | {TS: _SIDE_TS[0]}), _rename(right_key, right | {TS: _SIDE_TS[1]})
                terms.append((compile_expr(here) == compile_expr(there)).fill_null(False))
        return pl.all_horizontal(terms) if terms else None


def expiry_of(extent: Extent | None) -> pl.Expr:
    """Return how the expiry of a tuple follows from its timestamp."""
    if extent is None:
        return pl.col(EXPIRY)
    if extent.span is None:
        return pl.lit(END, dtype=pl.Int64).alias(EXPIRY)
    return (pl.col(TS).clip(upper_bound=END - extent.span) + extent.span).alias(EXPIRY)


def _rename(expr: Expr, names: dict[str, str]) -> Expr:
    return transform(expr, lambda part: Column(names[part.name], part.type) if isinstance(part, Column) else part)
