"""Immutable chunks of rows sorted by key, in a tree by ranges of keys: a search meets few, and a change moves few rows.

New rows go to a root, where chunks of like size merge. A node with many full chunks hands its rows down to its
children, of which each has a range of the keys: to one child after the other, while the chunks stay with the rest of
their rows. The next child gets its rows, about a chunk, once as many new ones have come. So what is moved is
spread evenly over what is added. How far it should be follows from the chunks alone: a tree that is restored between
any two changes goes on at the same pace. Besides, it is paid for by what was added, so that no single change has to
move more than its share and the rows of one child, also if several nodes are about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from operator import is_not
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import polars as pl

from headrace.operators.arrays import Array

#: Chunks of a node before it hands them down, and children of a node.
FAN = 8
#: Trees that grow alike begin to hand down at so many different times.
_PHASES = 4
_CHILD = "~"


class Piece(Protocol):
    """Rows sorted by key that are to be stored."""

    def __len__(self) -> int: ...


PieceT = TypeVar("PieceT", bound=Piece)


class Sorted(Protocol):
    """A chunk of a tree."""

    @property
    def keys(self) -> Array: ...
    @property
    def min_key(self) -> int: ...
    @property
    def max_key(self) -> int: ...
    @property
    def is_cut(self) -> bool:
        """Return whether the first of its rows were handed down."""
        ...

    def __len__(self) -> int: ...
    def cut(self, start: int, stop: int) -> Any: ...
    def rest(self, start: int) -> Any:
        """Return the same chunk with the rows from a place on."""
        ...


ChunkT = TypeVar("ChunkT", bound=Sorted)


class KeyTree(Generic[ChunkT, PieceT]):
    """Trees by the names of their roots; `make` merges pieces for a node into chunks of at most `largest` rows.

    `phase` tells trees apart that grow alike, like those of the inputs of a join: they do not move rows all at once.
    """

    def __init__(self, make: Callable[[str, list[PieceT]], list[ChunkT]], phase: int = 0) -> None:
        self._make = make
        self._later = (phase % _PHASES) / _PHASES  # of the way to the next child
        self.nodes: dict[str, list[ChunkT]] = {}
        #: The keys at which the second child of a node and those after it begin.
        self._fences: dict[str, Array] = {}
        self._fences_chunk: pl.DataFrame | None = None
        self._full: set[str] | None = None  # nodes with more than they should have; None if that must be found out
        self._debt = 0  # rows handed down before they were paid for

    def chunks(self) -> Iterator[ChunkT]:
        for chunks in self.nodes.values():
            yield from chunks

    def roots(self) -> list[str]:
        """Return the names of the trees that hold something."""
        return list(dict.fromkeys(root_of(node) for node in self.nodes))

    def meeting(self, keys: Array) -> Iterator[tuple[ChunkT, int, int]]:
        """Yield the chunks that may hold some of these sorted keys, and which of the keys.

        The keys are given by their places: from one up to another.
        """
        for root in self.roots():
            waiting = [(root, 0, len(keys))]
            while waiting:
                node, start, stop = waiting.pop()
                for chunk in self.nodes.get(node, ()):
                    if keys[start] <= chunk.max_key and keys[stop - 1] >= chunk.min_key:
                        yield chunk, start, stop
                fences = self._fences.get(node)
                if fences is not None:
                    cuts = [start, *(start + np.searchsorted(keys[start:stop], fences)).tolist(), stop]
                    waiting += [
                        (_child(node, i), low, high) for i, (low, high) in enumerate(pairwise(cuts)) if low < high
                    ]

    def add(self, root: str, piece: PieceT, largest: int, *, merges: bool = True) -> None:
        """Store rows in a tree, then hand down what is due and paid for.

        Unless it `merges`, they become chunks of their own as long as the root has few.
        """
        self._append(root, [piece], largest, merges=merges or len(self.nodes.get(root, ())) >= FAN)
        if self._full is None:
            self._full = {node for node in self.nodes if self._is_full(node, largest)}
        # each row that is added is handed down once at every level, in the long run
        self._debt -= len(piece) * (1 + max(node.count(_CHILD) for node in self.nodes))
        while self._debt <= 0 and (due := [node for node in self._full if self._is_due(node, largest)]):
            # those above feed those below
            node = min(due, key=lambda name: (name.count(_CHILD), -self._rows(name), name))
            self._full.discard(node)
            self._hand_down(node, largest)
        self._debt = max(0, self._debt)

    def keep(self, alive: Callable[[ChunkT], bool]) -> None:
        """Forget the chunks that are not alive."""
        self.replace(lambda node, chunk: chunk if alive(chunk) else None)

    def replace(self, change: Callable[[str, ChunkT], ChunkT | None]) -> None:
        """Put for each chunk of a node what is left of it; None if that is nothing."""
        changed = False
        for node, chunks in list(self.nodes.items()):
            kept = [change(node, chunk) for chunk in chunks]
            if any(map(is_not, kept, chunks)):
                changed = True
                self._set(node, [chunk for chunk in kept if chunk is not None])
        if changed and self._fences:
            roots = set(self.roots())
            self._set_fences({node: fences for node, fences in self._fences.items() if root_of(node) in roots})

    def fences(self) -> pl.DataFrame | None:
        """Return the borders of all children as a state value, the same object while they do not change.

        None if none.
        """
        if self._fences_chunk is None and self._fences:
            nodes = [node for node, fences in self._fences.items() for _ in fences]
            self._fences_chunk = pl.DataFrame({"node": nodes, "fence": np.concatenate(list(self._fences.values()))})
        return self._fences_chunk

    def restore(self, nodes: dict[str, list[ChunkT]], fences: pl.DataFrame | None) -> None:
        self.nodes, self._full, self._debt = nodes, None, 0
        parts: Mapping[Any, pl.DataFrame] = (
            {} if fences is None else fences.partition_by("node", maintain_order=True, as_dict=True)
        )
        self._fences = {node: part["fence"].to_numpy() for (node,), part in parts.items()}
        self._fences_chunk = fences

    def _rows(self, node: str) -> int:
        return sum(map(len, self.nodes.get(node, ())))

    def _is_full(self, node: str, largest: int) -> bool:
        """Return whether a node has rows to hand down, or is about it."""
        return self._rows(node) >= FAN * largest or any(chunk.is_cut for chunk in self.nodes.get(node, ()))

    def _is_due(self, node: str, largest: int) -> bool:
        """Return whether a node has got so many rows that it should hand some down to its next child."""
        held = self.nodes.get(node, [])
        begun = _begun(held)
        if not begun:
            return self._rows(node) >= (FAN + self._later) * largest
        fences, fresh = self._fences[node], sum(map(len, held[begun:]))
        steps = _next_child(held[:begun], fences) + self._later
        return fresh * (1 + len(fences)) >= steps * FAN * largest

    def _append(self, node: str, pieces: list[PieceT], largest: int, *, merges: bool = True) -> None:
        """Add pieces to a node's chunks; if it merges, they swallow those before them that are not much larger."""
        chunks = self.nodes.get(node, [])
        first, total = len(chunks), sum(map(len, pieces))
        while (
            merges
            and first
            and len(chunks[first - 1]) <= min(2 * total, largest - total)
            and not chunks[first - 1].is_cut
        ):
            first -= 1
            total += len(chunks[first])
        self._set(
            node, chunks[:first] + self._make(node, [*(chunk.cut(0, len(chunk)) for chunk in chunks[first:]), *pieces])
        )
        if self._full is not None and self._is_full(node, largest):
            self._full.add(node)

    def _hand_down(self, node: str, largest: int) -> None:
        """Move rows of a node to one of its children: those of so many chunks as make it full, child after child."""
        held = self.nodes.get(node, [])
        chunks = held[: _begun(held)] or self._filling(held, largest)
        fences = self._fences.get(node)
        if fences is None and chunks:
            fences = _choose(chunks)
            if fences is not None:
                self._set_fences(self._fences | {node: fences})
        if fences is None:
            return
        child = _next_child(chunks, fences)
        pieces: list[PieceT] = []
        rest: list[ChunkT] = []
        for chunk in chunks:
            end = int(np.searchsorted(chunk.keys, fences[child])) if child < len(fences) else len(chunk)
            if end:
                pieces.append(chunk.cut(0, end))
            if end < len(chunk):
                rest.append(chunk.rest(end) if end else chunk)
        self._set(node, rest + held[len(chunks) :])
        self._debt += sum(map(len, pieces))
        self._append(_child(node, child), pieces, largest)
        if self._full is not None and self._is_full(node, largest):
            self._full.add(node)

    def _filling(self, chunks: list[ChunkT], largest: int) -> list[ChunkT]:
        """Return the oldest chunks, so many as make a node full; none if some have died, and it is not full."""
        if sum(map(len, chunks)) < FAN * largest:
            return []
        count = int(np.searchsorted(np.cumsum([len(chunk) for chunk in chunks]), FAN * largest, "right"))
        return chunks[: max(1, count)]

    def _set(self, node: str, chunks: list[ChunkT]) -> None:
        if chunks:
            self.nodes[node] = chunks
        else:
            self.nodes.pop(node, None)

    def _set_fences(self, fences: dict[str, Array]) -> None:
        self._fences, self._fences_chunk = fences, None


def root_of(node: str) -> str:
    """Return the name of a node's root."""
    return node.partition(_CHILD)[0]


def _child(node: str, number: int) -> str:
    return f"{node}{_CHILD}{number}"


def _begun(chunks: list[Any]) -> int:
    """Return how many of a node's chunks are being handed down: those up to the last one that has lost rows."""
    return max((place for place, chunk in enumerate(chunks, 1) if chunk.is_cut), default=0)


def _next_child(chunks: list[Any], fences: Array) -> int:
    """Return the number of the child that gets rows next: the one of the least key."""
    return int(np.searchsorted(fences, min(chunk.min_key for chunk in chunks), "right"))


def _choose(chunks: list[Any]) -> Array | None:
    """Return keys that divide the rows into parts of like size; None if all rows have one key."""
    least = min(chunk.min_key for chunk in chunks)
    if all(chunk.max_key == least for chunk in chunks):
        return None
    sample = np.sort(np.concatenate([chunk.keys[:: max(1, len(chunk) // 256)] for chunk in chunks]))
    fences = np.unique(sample[[len(sample) * i // FAN for i in range(1, FAN)]])
    fences = fences[fences > least]
    if not len(fences):  # nearly all rows have the least key
        fences = np.array(
            [min(chunk.keys[np.searchsorted(chunk.keys, least, "right")] for chunk in chunks if chunk.max_key > least)]
        )
    return fences
