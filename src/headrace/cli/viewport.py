"""A screen that shows a few segments of the road and moves: what it tells the query, and what that saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.table import Table

from headrace.engine.statistics import Statistics
from headrace.model.time import SECOND, format_instant

SEGMENTS = 12
#: Operators as people call them; tuples are dropped where they would have been read.
PLACES = {"filter": "the filter", "union": "the union", "orderedunion": "the union", "project": "a projection"}
PLACES |= {
    "partialaggregate": "the average",
    "paneaggregate": "the average",
    "output": "the result",
    "tap": "the way to the buckets",
}


@dataclass(frozen=True, slots=True)
class Viewport:
    """Shows `width` segments and moves on by `step` after `every` seconds of the data's time, to the end of the road and back."""

    width: int = 4
    step: int = 2
    every: int = 6
    lead: int = 2  # so many seconds ahead it says where it will be

    def visible(self, instant: int) -> tuple[int, ...]:
        """The segments on the screen for windows that end then."""
        return self._visible(self._stretch(instant))

    def assume(self, stretch: int, query: str) -> str:
        """What is not needed while it stands still; it ends by itself, so nothing has to be taken back."""
        begin, end = (format_instant(number * self.every * SECOND) for number in (stretch, stretch + 1))
        shown = ", ".join(map(str, self._visible(stretch)))
        return f"ASSUME {query} WHERE segment NOT IN ({shown}) AND window_end > TIMESTAMP '{begin}' AND window_end <= TIMESTAMP '{end}'"

    def newest(self, now: int) -> int:
        """The stretch that must be known by now."""
        return self._stretch(now + self.lead * SECOND)

    def _stretch(self, instant: int) -> int:
        return (instant - 1) // (self.every * SECOND)  # a window that ends with a stretch is the last in it

    def _visible(self, stretch: int) -> tuple[int, ...]:
        far = -(-(SEGMENTS - self.width) // self.step)  # moves from one end of the road to the other
        place = stretch % (2 * far)
        first = min((place if place <= far else 2 * far - place) * self.step, SEGMENTS - self.width)
        return tuple(range(first + 1, first + 1 + self.width))


class Display:
    """Says what the viewport does not show, each stretch once."""

    def __init__(self, viewport: Viewport, say: Callable[[str], object], query: str = "speed_map") -> None:
        self.viewport = viewport
        self.savings = Savings()
        self.moves = 0
        self._say, self._query = say, query
        self._said: int | None = None

    def look(self, now: int, statistics: Statistics) -> None:
        """Speak if the viewport has moved or is about to, and note what was saved."""
        newest = self.viewport.newest(now)
        if self._said is None or newest > self._said:
            self._say(self.viewport.assume(newest, self._query))
            self._said = newest
            self.moves += 1
        self.savings.look(statistics)


class Savings:
    """What feedback has saved so far, by place; a deployment forgets guards that ended long ago, so they are added up here."""

    def __init__(self) -> None:
        self.dropped: dict[str, int] = {}
        self.read = self.skipped = self.purged = self.active = 0
        self._seen: dict[tuple[str, str], int] = {}

    def look(self, statistics: Statistics) -> None:
        """Take over what has been counted since the last look."""
        try:
            guards = {key: (guard.saved, guard.active) for key, guard in statistics.guards.items()}
        except RuntimeError:  # one was added just now: the next look will do
            return
        for key, (saved, _) in guards.items():
            place = PLACES.get(key[0].split("-")[0], key[0])
            self.dropped[place] = self.dropped.get(place, 0) + saved - self._seen.get(key, 0)
        self._seen = {key: saved for key, (saved, _) in guards.items()}
        self.active = sum(1 for _, active in guards.values() if active)
        streams = list(statistics.streams.values())
        self.read, self.skipped = sum(stream.tuples for stream in streams), sum(stream.skipped for stream in streams)
        self.purged = statistics.purged

    def table(self) -> Table:
        """A row for each place."""
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
        """In one line."""
        saved = sum(self.dropped.values())
        return (
            f"saved: {saved:,} of {self.read:,} tuples dropped early ({saved / max(1, self.read):.0%}), {self.skipped:,} not read, "
            f"{self.purged:,} rows of state purged, {self.active} guards active"
        )
