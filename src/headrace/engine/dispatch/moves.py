"""The functions that select the next move of the dispatch cycle; each row of the dispatch table names one of them.

Forward and Encore execute the chosen vertex; Backtrack goes to the predecessor's row without executing it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Protocol, TypeAlias

from headrace.engine.dispatch.table import Row


class Move(Enum):
    """The ways in which control leaves a row."""

    FORWARD = auto()  # to the reader of what was produced
    SIGNAL = auto()  # to the operator whose register was written
    ENCORE = auto()  # the same again
    RENEW = auto()  # the same again, as a new batch
    BACKTRACK = auto()  # to the producer of the input that is missing
    ASK = auto()  # an empty source: for a bound, or leave
    EXIT = auto()  # leave


class View(Protocol):
    """The questions about a row that decide its move."""

    def yields(self, row: Row) -> bool:
        """Return whether something that it produced is unread."""
        ...

    def signals(self, row: Row) -> bool:
        """Return whether it wrote a register whose operator has not run since."""
        ...

    def more(self, row: Row) -> bool:
        """Return whether it can execute."""
        ...

    def fresh(self, row: Row) -> bool:
        """Return whether its batch is not used up."""
        ...


Selection: TypeAlias = Callable[[Row, View], Move]


def dfs_nos(row: Row, view: View) -> Move:
    """Forward, Encore, Backtrack."""
    if view.yields(row):
        return Move.FORWARD
    return Move.ENCORE if view.more(row) else Move.BACKTRACK


def batch_nos(row: Row, view: View) -> Move:
    """Choose Encore while the batch lasts, Forward, Encore with a new batch, or Backtrack; for BFS and DFS-k."""
    if view.fresh(row) and view.more(row):
        return Move.ENCORE
    if view.yields(row):
        return Move.FORWARD
    return Move.RENEW if view.more(row) else Move.BACKTRACK


def rr_nos(row: Row, view: View) -> Move:
    """Choose Encore, Forward or Exit."""
    if view.fresh(row) and view.more(row):
        return Move.ENCORE
    return Move.FORWARD if view.yields(row) else Move.EXIT


def sink(row: Row, view: View) -> Move:
    """Choose Encore or Backtrack; before a sink there is no Forward, as the outside takes what is produced."""
    return Move.ENCORE if view.more(row) else Move.BACKTRACK


def rr_sink(row: Row, view: View) -> Move:
    """Choose Encore or Exit."""
    return Move.ENCORE if view.more(row) else Move.EXIT


def source(row: Row, view: View) -> Move:
    """Forward what has arrived; an empty source may be asked for a bound."""
    return Move.FORWARD if view.yields(row) else Move.ASK


def fork(row: Row, view: View) -> Move:
    """Forward to a branch that has unread elements; a fork itself executes nothing."""
    return Move.FORWARD if view.yields(row) else Move.BACKTRACK


def eqg_dfs_nos(row: Row, view: View) -> Move:
    """Select like `dfs_nos`; if no tuple was produced but a register written, go to that register's operator."""
    if view.yields(row):
        return Move.FORWARD
    if view.signals(row):
        return Move.SIGNAL
    return Move.ENCORE if view.more(row) else Move.BACKTRACK


def eqg_batch_nos(row: Row, view: View) -> Move:
    """Select like `batch_nos`, with registers."""
    if view.fresh(row) and view.more(row):
        return Move.ENCORE
    if view.yields(row):
        return Move.FORWARD
    if view.signals(row):
        return Move.SIGNAL
    return Move.RENEW if view.more(row) else Move.BACKTRACK


def eqg_rr_nos(row: Row, view: View) -> Move:
    """Select like `rr_nos`, with registers."""
    if view.fresh(row) and view.more(row):
        return Move.ENCORE
    if view.yields(row):
        return Move.FORWARD
    return Move.SIGNAL if view.signals(row) else Move.EXIT


#: By the name that a row has.
SELECTIONS: Mapping[str, Selection] = {
    "DFS-NOS": dfs_nos,
    "DFS-SINK": sink,
    "BFS-NOS": batch_nos,
    "BFS-SINK": sink,
    "RR-NOS": rr_nos,
    "RR-SINK": rr_sink,
    "DFSK-NOS": batch_nos,
    "DFSK-SINK": sink,
    "EQG-DFS-NOS": eqg_dfs_nos,
    "EQG-DFS-SINK": sink,
    "EQG-BFS-NOS": eqg_batch_nos,
    "EQG-BFS-SINK": sink,
    "EQG-RR-NOS": eqg_rr_nos,
    "EQG-RR-SINK": rr_sink,
    "EQG-DFSK-NOS": eqg_batch_nos,
    "EQG-DFSK-SINK": sink,
    "SOURCE": source,
    "SOURCE-VIRTUAL": source,
    "FORK": fork,
}
