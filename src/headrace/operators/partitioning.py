"""Keys by which tuples are divided among buckets, seen from both sides of an operator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from headrace.model.expressions.expression import Cast, Column, Expr, columns, substitute
from headrace.model.types import Type

#: Tuples that agree in these expressions are in one bucket; none: all tuples are in one.
Keys: TypeAlias = tuple[Expr, ...]
#: Expressions whose values have the same hash in each tuple, because an operator paired tuples that agree in them. The
#: first is the one that the operator states as its key.
KeyClass: TypeAlias = tuple[Expr, ...]
#: Computed columns: a name and what it is computed from.
Computed: TypeAlias = tuple[tuple[str, Expr], ...]


def renamed(keys: Keys, computed: Computed) -> Keys | None:
    """Return keys of an input as the columns that are computed from them; None if one is not among the columns."""
    names = {expr: Column(name, expr.type) for name, expr in computed}
    return tuple(names[key] for key in keys) if all(key in names for key in keys) else None


def computed_from(keys: Keys, computed: Computed) -> Keys | None:
    """Return keys over computed columns as expressions of the input; None if one uses other columns."""
    by_name = dict(computed)
    return tuple(substitute(key, by_name) for key in keys) if columns_in(keys) <= by_name.keys() else None


def columns_in(keys: Iterable[Expr]) -> frozenset[str]:
    """Return the names of all columns that keys use."""
    return frozenset().union(*map(columns, keys))


def single_classes(keys: Iterable[Expr]) -> tuple[KeyClass, ...]:
    """Return for each key a class of its own."""
    return tuple((key,) for key in keys)


def in_class(key: Expr, key_class: KeyClass) -> bool:
    """Return whether a key has the hash of a class."""
    return without_widening(key) in map(without_widening, key_class)


def without_widening(key: Expr) -> Expr:
    """Drop a cast that does not change the hash: INT widened to BIGINT."""
    if isinstance(key, Cast) and key.type is Type.BIGINT and key.arg.type is Type.INT:
        return key.arg
    return key
