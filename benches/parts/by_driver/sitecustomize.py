"""On the path of a Python process, lets exchanged pages pass through the driver, as if tasks could not write them."""

from __future__ import annotations

from headrace.commands.running import Running
from headrace.driver.staged_results import Writer
from headrace.graph.graph import VertexId
from headrace.model.streams import exchange_of

_can_write = Writer.can_write


def _can_write_results(self: Writer, vertex: VertexId, running: Running) -> bool:
    return exchange_of(vertex) is None and _can_write(self, vertex, running)


Writer.can_write = _can_write_results  # type: ignore[method-assign]
