"""Runs of rows in a tree by the hash of their group, so that no merge handles more than one node.

New rows go to the root. When the state is asked for, a node with many rows hands them down to its children, by the next
bits of the hash; how much is handed down is paid for by what was added. Rows of one group merge wherever they meet;
they may be in a node and in those above it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl

from headrace.model.patterns.pattern import Pattern
from headrace.model.time import BEGIN, END
from headrace.operators.arrays import Flags
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.state.runs import Runs

#: A node with so many rows hands them down.
LARGEST = 1 << 16
#: Of wide rows a node holds fewer, to stay at about this size.
LARGEST_BYTES = 2 << 20
_BITS = 3
_LEVELS = 60 // _BITS
#: So many rows may be handed down for each that is added.
_CREDIT = 4
_CHILD = "~"


class RunTree:
    """What `Runs` gives, for rows whose groups are in the columns `by`; without any there is one group and one node."""

    def __init__(
        self, prefix: str, order: str, merge: Callable[[pl.DataFrame], pl.DataFrame], by: Sequence[str]
    ) -> None:
        self._prefix, self._order, self._merge, self._by = prefix, order, merge, list(by)
        self.horizon = BEGIN
        self._debt = 0  # rows handed down before they were paid for
        self._owed = 0  # rows written anew before they were paid for
        self._full: set[str] | None = None  # nodes with many rows; None if that must be found out
        self._largest: int | None = None  # so many rows of the size of those that were added last are many
        self._nodes = {prefix: self._node(prefix)}

    def append(self, rows: pl.DataFrame) -> None:
        """Add rows; none may be below the horizon."""
        self._nodes[self._prefix].append(rows)
        self._owed = max(0, self._owed - rows.height)
        for node in self._nodes.values():
            self._owed = self._owed or node.write_thin()
        if self._by and rows.height:
            self._largest = max(1, min(LARGEST, LARGEST_BYTES * rows.height // max(1, int(rows.estimated_size()))))
            self._debt -= _CREDIT * rows.height

    def _balance(self) -> None:
        """Hand down rows of nodes with many of them, as far as rows that were added have paid for it.

        What expires in the micro-batch in which it came is not handed down.
        """
        if self._largest is None:
            return
        if self._full is None:
            self._full = {name for name, node in self._nodes.items() if _is_full(node, self._largest)}
        if _is_full(self._nodes[self._prefix], self._largest):
            self._full.add(self._prefix)
        while self._full and self._debt <= 0:
            name = min(self._full, key=lambda name: (name.count(_CHILD), name))  # those above feed those below
            self._full.discard(name)
            if name in self._nodes:
                self._hand_down(name, self._largest)
        self._debt, self._largest = max(0, self._debt), None

    def least(self) -> int:
        """Return the smallest value of the order column; END if there are no rows."""
        return min(node.least() for node in self._nodes.values())

    def between(self, low: int, high: int) -> list[pl.DataFrame]:
        """Return the rows with low <= order < high, as slices of the runs."""
        return [rows for node in self._nodes.values() for rows in node.between(low, high)]

    def expire(self, horizon: int) -> None:
        """Drop rows below the horizon."""
        self.horizon = max(self.horizon, horizon)
        for node in self._nodes.values():
            node.expire(horizon)
        self._nodes = {name: node for name, node in self._nodes.items() if len(node) or name == self._prefix}

    def remove(self, pattern: Pattern) -> int:
        """Drop rows that match; returns how many."""
        return sum(node.remove(pattern) for node in self._nodes.values())

    def give(self, choose: Callable[[pl.DataFrame], Flags]) -> list[pl.DataFrame]:
        """Give up the rows that are chosen."""
        given = [rows for node in self._nodes.values() for rows in node.give(choose)]
        self._nodes = {name: node for name, node in self._nodes.items() if len(node) or name == self._prefix}
        return given

    def state(self) -> dict[str, pl.DataFrame]:
        """Return all chunks by name; a chunk that is the same object has not changed."""
        self._balance()
        return {name: chunk for node in self._nodes.values() for name, chunk in node.state().items()}

    def restore(self, state: Mapping[str, pl.DataFrame]) -> None:
        """Take what `state` gave; names of others are ignored."""
        parts: dict[str, dict[str, pl.DataFrame]] = {self._prefix: {}}
        for name, chunk in state.items():
            node = name.partition(".")[0]
            if node == self._prefix or node.startswith(self._prefix + _CHILD):
                parts.setdefault(node, {})[name] = chunk
        self._nodes = {name: self._node(name) for name in parts}
        for name, chunks in parts.items():
            self._nodes[name].restore(chunks)
        self.horizon = max(node.horizon for node in self._nodes.values())
        self._debt, self._full, self._largest = 0, None, None

    def __len__(self) -> int:
        return sum(map(len, self._nodes.values()))

    def _hand_down(self, name: str, largest: int) -> None:
        """Move a node's rows to its children, if it still has many after merging them."""
        node, level = self._nodes[name], name.count(_CHILD)
        node.settle()
        if not _is_full(node, largest) or level == _LEVELS:
            return
        self._debt += len(node)
        self._nodes[name] = self._node(name)
        shift = np.uint64(64 - _BITS * (level + 1))
        for rows in node.between(BEGIN, END):
            places = (hash_columns([rows[key] for key in self._by]) >> shift) % np.uint64(1 << _BITS)
            for number in np.unique(places).tolist():
                child = f"{name}{_CHILD}{number}"
                if child not in self._nodes:
                    self._nodes[child] = self._node(child)
                self._nodes[child].append(rows.filter(places == number))
                if _is_full(self._nodes[child], largest) and self._full is not None:
                    self._full.add(child)

    def _node(self, name: str) -> Runs:
        node = Runs(name, self._order, self._merge)
        node.expire(self.horizon)
        return node


def _is_full(node: Runs, largest: int) -> bool:
    """Return whether a node has many rows, or lists of many values."""
    return len(node) >= largest or 8 * node.values >= LARGEST_BYTES
