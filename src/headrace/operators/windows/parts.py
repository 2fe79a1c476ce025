"""What an aggregate keeps of the rows of a group, and how its value comes from that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import polars as pl


@dataclass(frozen=True, slots=True)
class Part:
    """One column of a partial: how it comes from raw rows, and from other partials."""

    name: str
    fold: pl.Expr
    merge: pl.Expr
    #: Python work that turns the column of lists which `fold` or `merge` gathered into the part: users' aggregates,
    #: and those that keep less of long lists.
    folded: Callable[[pl.Series], pl.Series] | None = None
    merged: Callable[[pl.Series], pl.Series] | None = None
    #: Says what the part is where many overlapping slices have a faster way than `fold`, and of which column.
    kind: Literal["rows", "count", "sum", "min", "max", "first", "last"] | None = None
    arg: str = ""
    #: Whether it is a list that `merge` makes of the lists of others: of one alone, the same list.
    gathers: bool = False


@dataclass(frozen=True, slots=True)
class Split:
    """The parts of one call and its final value over them."""

    parts: tuple[Part, ...]
    final: pl.Expr


def distinct(arg: str) -> Part:
    """Keep each different value once, as a list."""
    name = f"{arg}_distinct"
    return Part(name, pl.col(arg).drop_nulls().unique(maintain_order=True), gathered(name).unique(maintain_order=True))


def values(arg: str) -> Part:
    """Keep all values, as a list."""
    name = f"{arg}_values"
    return Part(name, pl.col(arg).drop_nulls(), gathered(name), gathers=True)


def gathered(name: str) -> pl.Expr:
    """Return the elements of the lists of several partials."""
    return pl.col(name).explode(empty_as_null=False, keep_nulls=False)
