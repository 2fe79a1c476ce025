"""Rates and times of a deployment, from its counters at two moments."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.table import Table

from headrace.engine.statistics import Statistics
from headrace.model.time import DAY, MILLISECOND, SECOND, format_instant


class Meter:
    """Keeps earlier counters, so that totals become rates."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._looks: list[tuple[float, Statistics]] = []

    def look(self, statistics: Statistics) -> None:
        """Take the counters of now; rates are over the last few seconds."""
        now = self._clock()
        self._looks.append((now, statistics))
        while len(self._looks) > 2 and now - self._looks[1][0] >= 5.0:
            self._looks.pop(0)

    @property
    def latest(self) -> Statistics:
        return self._looks[-1][1] if self._looks else Statistics()

    def stream_rate(self, name: str) -> float:
        """Return the tuples read per second."""
        return self._rate(lambda look: look.streams[name].tuples if name in look.streams else 0)

    def query_rate(self, name: str) -> float:
        """Return the results delivered per second."""
        return self._rate(lambda look: look.queries[name].results if name in look.queries else 0)

    def lag(self, name: str) -> str:
        """Return how far a stream's frontier is behind the clock; for old data, the frontier itself."""
        stream = self.latest.streams.get(name)
        if stream is None or stream.frontier is None:
            return "-"
        behind = round(self._clock() * SECOND) - stream.frontier
        return f"{behind / SECOND:.1f} s" if abs(behind) < DAY else format_instant(stream.frontier)

    def table(self) -> Table:
        """Return a table with a row for each stream and query."""
        table = Table(
            box=None, header_style="bold", pad_edge=False, title=self.headline(), title_justify="left", title_style=""
        )
        for heading in ("stream or query", "per second", "total", "frontier lag", "latency", "late", "bad"):
            table.add_column(heading, justify="left" if heading.startswith("stream") else "right")
        for name, stream in self.latest.streams.items():
            table.add_row(
                name,
                f"{self.stream_rate(name):,.0f} in",
                f"{stream.tuples:,}",
                self.lag(name),
                "",
                f"{stream.late:,}",
                f"{stream.bad:,}",
            )
        for name, query in self.latest.queries.items():
            table.add_row(
                name,
                f"{self.query_rate(name):,.1f} out",
                f"{query.results:,}",
                "",
                milliseconds(query.latency_ms),
                "",
                "",
            )
        return table

    def headline(self) -> str:
        """Return one line about the last micro-batch, queues and state."""
        look = self.latest
        queued = sum(vertex.queued for vertex in look.vertices.values())
        held = sum(vertex.held for vertex in look.vertices.values())
        state = sum(vertex.state_bytes for vertex in look.vertices.values())
        return (
            f"micro-batch {max(look.batch, 0):,} took {milliseconds(look.batch_ms)}, "
            f"{queued:,} tuples queued, {held:,} in state ({state / 2**20:.1f} MB), "
            f"{look.sent.tasks} tasks sent {look.sent.bytes / 1000:,.1f} kB" + self._backlog()
        )

    def _backlog(self) -> str:
        """Return the streams of which records that have come are not read yet."""
        streams = [
            f"{name} {milliseconds(stream.behind / MILLISECOND)} behind"
            + (f" ({stream.backlog})" if stream.unread else "")
            for name, stream in self.latest.streams.items()
            if stream.behind
        ]
        return f"; unread input: {', '.join(streams)}" if streams else ""

    def _rate(self, count: Callable[[Statistics], int]) -> float:
        if len(self._looks) < 2:
            return 0.0
        (start, first), (end, last) = self._looks[0], self._looks[-1]
        return max(0, count(last) - count(first)) / (end - start) if end > start else 0.0


def milliseconds(value: float | None) -> str:
    """Return a time in ms or s; '-' if unknown."""
    if value is None:
        return "-"
    return f"{value:,.0f} ms" if value < 10_000 else f"{value / 1000:,.1f} s"
