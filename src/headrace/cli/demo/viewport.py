"""A screen that shows a few segments of the road and moves: the feedback that it gives, and what that saves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.table import Table

from headrace.engine.statistics import Statistics
from headrace.model.time import SECOND, format_instant

SEGMENTS = 12
#: Kinds of operators by the name that the display shows. Tuples are dropped before the operator reads them.
PLACES = {"filter": "the filter", "union": "the union", "orderedunion": "the union", "project": "a projection"}
PLACES |= {
    "partialaggregate": "the average",
    "paneaggregate": "the average",
    "output": "the result",
    "tap": "the way to the buckets",
}


@dataclass(frozen=True, slots=True)
class Viewport:
    """`width` visible segments that move by `step` every `every` seconds of event time, along the road and back."""

    width: int = 4
    step: int = 2
    every: int = 6
    lead: int = 2  # feedback is given this many seconds ahead

    def visible(self, instant: int) -> tuple[int, ...]:
        """Return the segments on the screen for windows that end at an instant."""
        return self._visible(self._stretch(instant))

    def assume(self, stretch: int, query: str) -> str:
        """Return the ASSUME for one position of the viewport; it is limited to the windows of that position."""
        begin, end = (format_instant(number * self.every * SECOND) for number in (stretch, stretch + 1))
        shown = ", ".join(map(str, self._visible(stretch)))
        windows = f"window_end > TIMESTAMP '{begin}' AND window_end <= TIMESTAMP '{end}'"
        return f"ASSUME {query} WHERE segment NOT IN ({shown}) AND {windows}"

    def newest(self, now: int) -> int:
        """Return the newest stretch of time for which feedback is due."""
        return self._stretch(now + self.lead * SECOND)

    def _stretch(self, instant: int) -> int:
        return (instant - 1) // (self.every * SECOND)  # a window that ends with a stretch is the last in it

    def _visible(self, stretch: int) -> tuple[int, ...]:
        far = -(-(SEGMENTS - self.width) // self.step)  # moves from one end of the road to the other
        place = stretch % (2 * far)
        first = min((place if place <= far else 2 * far - place) * self.step, SEGMENTS - self.width)
        return tuple(range(first + 1, first + 1 + self.width))


class Display:
    """Gives feedback about the segments that the viewport does not show, once per stretch of time."""

    def __init__(self, viewport: Viewport, execute: Callable[[str], object], query: str = "speed_map") -> None:
        self.viewport = viewport
        self.savings = Savings()
        self.moves = 0
        self._execute, self._query = execute, query
        self._newest: int | None = None

    def look(self, now: int, statistics: Statistics) -> None:
        """Give feedback if the viewport is about to move, and count what was saved."""
        newest = self.viewport.newest(now)
        if self._newest is None or newest > self._newest:
            self._execute(self.viewport.assume(newest, self._query))
            self._newest = newest
            self.moves += 1
        self.savings.look(statistics)


class Savings:
    """The work that feedback has saved so far, by place; a deployment forgets old guards, so counts are kept here."""

    def __init__(self) -> None:
        self.dropped: dict[str, int] = {}
        self.read = self.skipped = self.purged = self.active = 0
        self._counted: dict[tuple[str, str], int] = {}

    def look(self, statistics: Statistics) -> None:
        """Add what has been counted since the last look."""
        guards = statistics.guards
        for key, guard in guards.items():
            place = PLACES.get(key[0].split("-")[0], key[0])
            self.dropped[place] = self.dropped.get(place, 0) + guard.saved - self._counted.get(key, 0)
        self._counted = {key: guard.saved for key, guard in guards.items()}
        self.active = sum(guard.active for guard in guards.values())
        streams = list(statistics.streams.values())
        self.read, self.skipped = sum(stream.tuples for stream in streams), sum(stream.skipped for stream in streams)
        self.purged = statistics.purged

    def table(self) -> Table:
        """Return a table with a row for each place."""
        table = Table(
            box=None, header_style="bold", pad_edge=False, title=self.line(), title_justify="left", title_style=""
        )
        table.add_column("not needed, dropped before")
        for heading in ("tuples", "of all read"):
            table.add_column(heading, justify="right")
        for place, count in sorted(self.dropped.items(), key=lambda item: -item[1]):
            if count:
                table.add_row(place, f"{count:,}", f"{count / max(1, self.read):.0%}")
        return table

    def line(self) -> str:
        """Return the totals in one line."""
        saved = sum(self.dropped.values())
        return (
            f"saved: {saved:,} of {self.read:,} tuples dropped early ({saved / max(1, self.read):.0%}), "
            f"{self.skipped:,} not read, {self.purged:,} rows of state purged, {self.active} guards active"
        )
