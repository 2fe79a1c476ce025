"""Unread input and registers of a vertex as chunks of its state, so that a restart finds them again."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from headrace.engine.buffer import Waiting
from headrace.engine.network import Network
from headrace.graph.graph import VertexId
from headrace.model.page import Completion, Page, Punctuation
from headrace.operators.operator import State

#: Begins the names of these chunks; an operator's own never do.
MARK = "@"
_QUEUE, _REGISTERS = f"{MARK}queue", f"{MARK}registers"
#: In the name of a chunk that is not a page, but the end of some keys.
_COMPLETION = f"{MARK}completion-"
#: A page, the end of some keys or a bound, when it arrived, and how many of the page's tuples were taken.
_QUEUE_SCHEMA = {"port": pl.Int64, "chunk": pl.String, "bound": pl.Int64, "arrived": pl.Int64, "taken": pl.Int64}


class Unread:
    """The chunks of unread input; one whose content did not change is the same object as before."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[pl.DataFrame, str]] = {}  # of rows saved before, by identity
        self._next = 0
        self._frames: dict[tuple[VertexId, str], tuple[object, pl.DataFrame]] = {}

    def save(self, network: Network, name: VertexId) -> dict[str, pl.DataFrame]:
        """Return the chunks of a vertex; none if nothing waits."""
        chunks: dict[str, pl.DataFrame] = {}
        order: list[tuple[int, str, int | None, int, int]] = []
        for port in network.ports[name]:
            if (name, port) not in network.ready:
                continue
            elements, taken = network.waiting((name, port))
            for element, arrived in elements:
                if not isinstance(element, Punctuation):
                    chunk = self._name(element)
                    chunks[chunk] = element.rows  # whole, though some of it was taken: so it need not be written again
                    order.append((port, chunk, None, arrived, taken))
                else:
                    order.append((port, "", element.bound, arrived, 0))
                taken = 0
        if order:
            chunks[_QUEUE] = self._frame(name, _QUEUE, tuple(order), _QUEUE_SCHEMA)
        registers = network.registers.get(name)
        if registers is not None:
            rows = tuple((value, registers.late) for value in registers.values)
            chunks[_REGISTERS] = self._frame(name, _REGISTERS, rows, {"value": pl.Int64, "late": pl.Int64})
        return chunks

    def load(self, network: Network, name: VertexId, chunks: State) -> None:
        """Restore what `save` returned."""
        registers = network.registers.get(name)
        if registers is not None and _REGISTERS in chunks:
            registers.values, registers.raised = chunks[_REGISTERS]["value"].to_list(), True
            registers.late = chunks[_REGISTERS]["late"][0]
        if _QUEUE not in chunks:
            return
        pages: dict[str, Page | Completion] = {}
        waiting: dict[int, list[Waiting]] = {}
        begun: dict[int, int] = {}
        for port, chunk, bound, arrived, taken in chunks[_QUEUE].iter_rows():
            if bound is None:
                kind = Completion if chunk.startswith(_COMPLETION) else Page
                page = pages.setdefault(chunk, kind(chunks[chunk]))
                self._names[id(page.rows)] = (page.rows, chunk)
                self._next = max(self._next, int(chunk.rsplit("-", 1)[1]) + 1)
            waiting.setdefault(port, []).append((Punctuation(bound) if bound is not None else pages[chunk], arrived))
            begun.setdefault(port, taken)
        for port, elements in waiting.items():
            network.give((name, port), elements, begun[port])

    def sweep(self, kept: Mapping[VertexId, State]) -> None:
        """Forget the names of rows that no state holds any more."""
        alive = {id(frame) for chunks in kept.values() for frame in chunks.values()}
        self._names = {key: value for key, value in self._names.items() if key in alive}

    def _name(self, element: Page | Completion) -> str:
        known = self._names.get(id(element.rows))
        if known is None or known[0] is not element.rows:
            begin = f"{MARK}page-" if isinstance(element, Page) else _COMPLETION
            known = self._names[id(element.rows)] = (element.rows, f"{begin}{self._next}")
            self._next += 1
        return known[1]

    def _frame(
        self, name: VertexId, chunk: str, rows: tuple[tuple[object, ...], ...], schema: dict[str, type[pl.DataType]]
    ) -> pl.DataFrame:
        before = self._frames.get((name, chunk))
        if before is None or before[0] != rows:
            before = self._frames[name, chunk] = (rows, pl.DataFrame(rows, schema=schema, orient="row"))
        return before[1]
