"""What a running operator can do beside the four methods of every operator.

An operator has a capability if it has the method; nothing is declared. The functions below give the answer of an
operator that lacks it. Whether a class has a capability is looked up once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol, TypeAlias, TypeGuard, runtime_checkable

import polars as pl

from headrace.model.join_tree import Tree
from headrace.model.patterns.feedback import Feedback
from headrace.model.patterns.pattern import Pattern
from headrace.operators.arrays import Flags
from headrace.operators.multijoin.seen import BoxSeen, How
from headrace.operators.operator import Operator, State
from headrace.operators.partitioning import Keys

#: Says which rows belong to parcels that are to go, given keys over the columns of the rows.
Choose: TypeAlias = Callable[[pl.DataFrame, Keys], Flags]


def chosen_by(choose: Choose, keys: Keys) -> Callable[[pl.DataFrame], Flags]:
    """Return the choice among rows that have these keys."""
    return lambda rows: choose(rows, keys)


@runtime_checkable
class Holding(Protocol):
    """An operator that keeps tuples."""

    def held(self) -> int:
        """Return the number of tuples kept, for statistics."""
        ...


@runtime_checkable
class Punctual(Protocol):
    """An operator that does not take tuples which come too late."""

    def late(self) -> int:
        """Return how many tuples came too late since the last call."""
        ...


@runtime_checkable
class Timed(Protocol):
    """An operator that holds results back until a bound completes them."""

    def due(self) -> int | None:
        """Return the least bound that completes something held now, such as an open window; None if no bound does."""
        ...


@runtime_checkable
class Purgeable(Protocol):
    """An operator that can forget part of its state."""

    def purge(self, port: int, pattern: Pattern) -> int:
        """Forget what is kept of the matching tuples of a port, which no reader needs; return how many rows went."""
        ...


@runtime_checkable
class Settling(Protocol):
    """An operator that can say which of its groups are decided before their results are complete."""

    def settled(self, pattern: Pattern) -> Sequence[Pattern]:
        """Return the groups whose results match already, as patterns of the input.

        The engine asks only where a group that matches once matches forever.
        """
        ...


@runtime_checkable
class Speaking(Protocol):
    """An operator that gives feedback to the operators before it."""

    def said(self) -> Sequence[tuple[int, Feedback]]:
        """Return the feedback for each port since the last call; the engine asks after each element."""
        ...


@runtime_checkable
class Replannable(Protocol):
    """An operator whose plan can change while it runs."""

    def use(self, number: int, tree: Tree, how: How, portion: int) -> None:
        """Go on with another tree; a change with a number that was taken does nothing."""
        ...

    def advance(self) -> int:
        """Do a portion of the change that is under way; return how many rows are still to be built."""
        ...

    def seen(self, *, sample: bool) -> BoxSeen:
        """Return what was done since the last call, with samples of keys if they are asked for."""
        ...


def held_by(operator: Operator) -> int:
    """Return how many tuples an operator keeps."""
    return operator.held() if _is_holding(operator) else 0


def late_at(operator: Operator) -> int:
    """Return how many tuples came too late for an operator since the last call."""
    return operator.late() if _is_punctual(operator) else 0


def due_of(operator: Operator) -> int | None:
    """Return the least bound that would complete something that an operator holds; None if no bound would."""
    return operator.due() if is_timed(operator) else None


def purge(operator: Operator, port: int, pattern: Pattern) -> int:
    """Let an operator forget the matching tuples of a port; return how many rows went."""
    return operator.purge(port, pattern) if _is_purgeable(operator) else 0


def settled_in(operator: Operator, pattern: Pattern) -> Sequence[Pattern]:
    """Return the groups of an operator that match forever, as patterns of its input."""
    return operator.settled(pattern) if _is_settling(operator) else ()


@runtime_checkable
class Movable(Protocol):
    """An operator whose state can go to another bucket in part; its spec says whether it may (`Spec.hindrance`)."""

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        """Give up the rows that are chosen by the keys of each port; return them, with what it takes to go on."""
        ...

    def take(self, given: State) -> None:
        """Go on with what an operator of the same spec and the same bounds gave; none of its keys is known here.

        Of an operator that can be split, rows of these keys may be here: all pairs with them came out elsewhere.
        """
        ...


@runtime_checkable
class Splittable(Protocol):
    """A movable operator that may have a key in several buckets; its spec says whether (`Spec.can_be_split`)."""

    def copy(self, port: int, keys: Sequence[Keys], choose: Choose) -> State:
        """Return the rows of a port that are chosen by the keys of all ports, as `give` does, and keep them."""
        ...

    def forget(self, port: int, keys: Sequence[Keys], choose: Choose) -> None:
        """Forget the rows of a port that are chosen by the keys of all ports."""
        ...


@cache
def _has(operator: type[Operator], capability: Any) -> bool:
    """Return whether a class has a capability: checking a protocol takes microseconds, too long for each page."""
    return issubclass(operator, capability)


def is_speaking(operator: Operator) -> TypeGuard[Speaking]:
    """Return whether an operator gives feedback to those before it."""
    return _has(type(operator), Speaking)


def is_timed(operator: Operator) -> TypeGuard[Timed]:
    """Return whether an operator holds results back until a bound completes them."""
    return _has(type(operator), Timed)


def is_replannable(operator: Operator) -> TypeGuard[Replannable]:
    """Return whether the plan of an operator can change."""
    return _has(type(operator), Replannable)


def is_movable(operator: Operator) -> TypeGuard[Movable]:
    """Return whether an operator can give up part of its state."""
    return _has(type(operator), Movable)


def is_splittable(operator: Operator) -> TypeGuard[Splittable]:
    """Return whether an operator can have a key in several buckets."""
    return _has(type(operator), Splittable)


def _is_holding(operator: Operator) -> TypeGuard[Holding]:
    return _has(type(operator), Holding)


def _is_punctual(operator: Operator) -> TypeGuard[Punctual]:
    return _has(type(operator), Punctual)


def _is_purgeable(operator: Operator) -> TypeGuard[Purgeable]:
    return _has(type(operator), Purgeable)


def _is_settling(operator: Operator) -> TypeGuard[Settling]:
    return _has(type(operator), Settling)
