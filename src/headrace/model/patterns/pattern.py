"""Patterns: which tuples of a stream are meant, one match for each constrained attribute.

The timestamp `__ts` is an attribute too. A tuple matches if all its attributes do; an attribute without a term may be
anything, NULL too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from headrace.model.expressions.expression import TRUE, Call, Column, Expr, Literal, conjunction
from headrace.model.expressions.text import format_expr
from headrace.model.patterns.match import (
    Between,
    IsNull,
    Match,
    OneOf,
    Value,
    as_held,
    covers_match,
    intersect_matches,
    is_empty_match,
    others,
)
from headrace.model.schema import TS
from headrace.model.types import Type


class Term(Struct, frozen=True):
    """One constrained attribute."""

    column: Column
    match: Match


class Pattern(Struct, frozen=True):
    """The tuples that match all terms, one for each column, ordered by its name; without terms all tuples."""

    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return format_pattern(self)

    def get(self, name: str) -> Match | None:
        """Return the match of a column; None if it may have any value."""
        return next((term.match for term in self.terms if term.column.name == name), None)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(term.column.name for term in self.terms)


#: The timestamp as an attribute.
STAMP = Column(TS, Type.BIGINT)
ALL_TUPLES = Pattern()
_TRUE = pl.Series([True])


def pattern(*terms: tuple[Column, Match]) -> Pattern:
    """Return the pattern of the tuples that match all terms; several terms of a column are intersected."""
    by_name: dict[str, Term] = {}
    for column, match in terms:
        before = by_name.get(column.name)
        match = as_held(match, column.type)
        by_name[column.name] = Term(
            column, match if before is None else intersect_matches(before.match, match, column.type)
        )
    return Pattern(tuple(by_name[name] for name in sorted(by_name)))


def matches(condition: Pattern, rows: pl.DataFrame) -> pl.Series:
    """Return which rows match, never NULL."""
    if not condition.terms:
        return _TRUE.new_from_index(0, rows.height)
    return rows.select(_compiled(condition).alias("matches")).to_series()


@lru_cache(16_384)
def covers(e: Pattern, f: Pattern) -> bool:
    """Return whether every tuple that matches `f` matches `e`; False if that is not known."""
    if is_empty(f):
        return True
    for term in e.terms:
        other = f.get(term.column.name)
        if other is None or not covers_match(term.match, other, term.column.type):
            return False
    return True


def intersect(e: Pattern, f: Pattern) -> Pattern:
    """Return the tuples that match both."""
    return pattern(*((term.column, term.match) for term in (*e.terms, *f.terms)))


@lru_cache(4096)
def is_empty(condition: Pattern) -> bool:
    """Return whether no tuple can match."""
    return any(is_empty_match(term.match, term.column.type) for term in condition.terms)


def complement(condition: Pattern) -> tuple[Pattern, ...]:
    """Return patterns that match what a pattern does not match, each about one column."""
    return tuple(Pattern((replace(term, match=other),)) for term in condition.terms for other in others(term.match))


def one_of_all(conditions: Sequence[Pattern]) -> Pattern:
    """Return a pattern that matches what any of these does; it may match more."""
    first, *rest = conditions
    if not all(isinstance(term.match, OneOf) for each in conditions for term in each.terms):
        return first if all(each == first for each in rest) else ALL_TUPLES
    shared = [term for term in first.terms if all(term.column.name in each.names for each in rest)]
    values = {
        term: tuple(
            dict.fromkeys(
                value
                for each in conditions
                if isinstance(found := each.get(term.column.name), OneOf)
                for value in found.values
            )
        )
        for term in shared
    }
    return Pattern(tuple(Term(term.column, OneOf(values[term])) for term in shared))


def without(condition: Pattern, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that do not match; the very same frame if none does."""
    matching = matches(condition, rows)
    return rows.filter(~matching) if matching.any() else rows


def rename(original: Pattern, names: Mapping[str, str]) -> Pattern:
    """Return the pattern over other column names; columns that `names` lacks keep theirs."""
    return pattern(*((Column(names.get(t.column.name, t.column.name), t.column.type), t.match) for t in original.terms))


def restrict(original: Pattern, names: frozenset[str]) -> Pattern:
    """Keep only the terms of these columns, which gives a larger set of tuples."""
    return Pattern(tuple(term for term in original.terms if term.column.name in names))


def to_expr(condition: Pattern) -> Expr:
    """Return a condition that is true for the tuples that match and false, never NULL, for all others."""
    return conjunction(tuple(part for term in condition.terms for part in _conditions(term))) or TRUE


def keep_expr(condition: Pattern) -> Expr:
    """Return a condition that is true for the tuples that do not match, which a source must still deliver."""
    return Call("not", (to_expr(condition),), Type.BOOLEAN)


def format_pattern(condition: Pattern) -> str:
    """Write a pattern for users: `segment <> 3, at < TIMESTAMP '...'`."""
    return ", ".join(_format(term) for term in condition.terms) or "everything"


@lru_cache(maxsize=1024)
def _compiled(condition: Pattern) -> pl.Expr:
    return pl.all_horizontal(_column_expr(term) for term in condition.terms)


def _column_expr(term: Term) -> pl.Expr:
    x, dtype = pl.col(term.column.name), term.column.type.polars
    match term.match:
        case IsNull():
            return x.is_null()
        case OneOf(values=values):
            return x.is_in(_series(values, dtype).implode()).fill_null(False)
        case Between(low, high, open_low, open_high, but):
            parts = [x.is_not_null()]
            if low is not None:
                parts.append((x > pl.lit(low, dtype) if open_low else x >= pl.lit(low, dtype)).fill_null(False))
            if high is not None:
                parts.append((x < pl.lit(high, dtype) if open_high else x <= pl.lit(high, dtype)).fill_null(False))
            if but:
                parts.append(~x.is_in(_series(but, dtype).implode()).fill_null(False))
            return pl.all_horizontal(parts)


def _series(values: tuple[Value, ...], dtype: pl.DataType) -> pl.Series:
    return (
        pl.Series(list(values), dtype=pl.Int64).cast(dtype)
        if dtype.is_temporal()
        else pl.Series(list(values), dtype=dtype)
    )


def _conditions(term: Term) -> Iterator[Expr]:
    column, type_ = term.column, term.column.type
    missing = Call("is_null", (column,), Type.BOOLEAN)
    if isinstance(term.match, IsNull):
        yield missing
        return
    yield Call("not", (missing,), Type.BOOLEAN)
    match term.match:
        case OneOf(values=()):
            yield Literal(False, Type.BOOLEAN)
        case OneOf(values=(value,)):
            yield Call("=", (column, Literal(value, type_)), Type.BOOLEAN)
        case OneOf(values=values):
            yield Call("in", (column, *(Literal(value, type_) for value in values)), Type.BOOLEAN)
        case Between(low, high, open_low, open_high, but):
            if low is not None:
                yield Call(">" if open_low else ">=", (column, Literal(low, type_)), Type.BOOLEAN)
            if high is not None:
                yield Call("<" if open_high else "<=", (column, Literal(high, type_)), Type.BOOLEAN)
            if but:
                members = Call("in", (column, *(Literal(value, type_) for value in but)), Type.BOOLEAN)
                yield Call("not", (members,), Type.BOOLEAN)


def _format(term: Term) -> str:
    """Write the conditions of a term, without those that others imply; the timestamp is written as an instant."""
    column = Column("timestamp", Type.TIMESTAMP) if term.column.name == TS else term.column

    def text(function: str, *values: Value) -> str:
        return format_expr(Call(function, (column, *(Literal(value, column.type) for value in values)), Type.BOOLEAN))

    match term.match:
        case IsNull():
            return text("is_null")
        case OneOf(values=(value,)):
            return text("=", value)
        case OneOf(values=values):
            return text("in", *values)
        case Between(low, high, open_low, open_high, but):
            parts = [] if low is None else [text(">" if open_low else ">=", low)]
            parts += [] if high is None else [text("<" if open_high else "<=", high)]
            if len(but) == 1:
                parts.append(text("<>", but[0]))
            elif but:
                parts.append(f"{format_expr(column)} NOT{text('in', *but).removeprefix(format_expr(column))}")
            return ", ".join(parts) or f"{format_expr(column)} IS NOT NULL"
