"""Row patterns: which consecutive rows of a partition are a match, as MATCH_RECOGNIZE says it.

A variable takes all rows that satisfy its condition. If its number of rows is not fixed, the row behind its last must
not satisfy it. An optional variable (`B?`) is the only one that leaves a choice: it may pass over a row that it could
take. Of all ways to match from a row on, the one that ends first counts; of several, the one that takes a row earlier.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from headrace.model.expressions.expression import Expr, columns
from headrace.model.time import format_duration
from headrace.model.window import AggregateCall

Place: TypeAlias = Literal["first", "last", "prev"]


class Variable(Struct, frozen=True):
    """`least` to `most` (None: any number of) rows that satisfy a condition over a row's columns, lookups and folds."""

    name: str
    least: int
    most: int | None
    condition: Expr

    @property
    def is_optional(self) -> bool:
        return (self.least, self.most) == (0, 1)

    def __str__(self) -> str:
        return f"{self.name}{_quantifier(self.least, self.most)}"


class Lookup(Struct, frozen=True):
    """A value of another row: the n-th (from 0) of a variable from its first or last on, or n rows before.

    Without a variable, all rows of the match count. NULL if there is no such row.
    """

    name: str
    of: Expr
    variable: str | None
    place: Place
    offset: int = 0


class Fold(Struct, frozen=True):
    """An aggregate over the rows of a variable so far, or over all rows of the match."""

    variable: str | None
    call: AggregateCall


class RowPattern(Struct, frozen=True):
    """Variables one after the other, each with a name of its own.

    The rows of a match span less than `within` microseconds. A further match begins behind the last row of one before,
    or if matches may be `overlapping`, at any other row.
    """

    variables: tuple[Variable, ...]
    within: int | None
    overlapping: bool
    lookups: tuple[Lookup, ...]
    folds: tuple[Fold, ...]

    @property
    def read(self) -> frozenset[str]:
        """Return the columns of a row that conditions read."""
        own = {lookup.name for lookup in self.lookups} | {fold.call.name for fold in self.folds}
        read = set().union(*(columns(variable.condition) for variable in self.variables))
        read |= set().union(*(columns(lookup.of) for lookup in self.lookups))
        read |= set().union(*(columns(arg) for fold in self.folds for arg in fold.call.args))
        return frozenset(read - own)

    def number(self, variable: str) -> int:
        """Return the place of a variable in the pattern."""
        return next(i for i, known in enumerate(self.variables) if known.name == variable)

    def __str__(self) -> str:
        within = "" if self.within is None else f" WITHIN {format_duration(self.within)}"
        return f"({' '.join(map(str, self.variables))}){within}"


def _quantifier(least: int, most: int | None) -> str:
    match least, most:
        case 1, 1:
            return ""
        case 0, 1:
            return "?"
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case _ if least == most:
            return f"{{{least}}}"
        case _:
            return f"{{{least},{'' if most is None else most}}}"
