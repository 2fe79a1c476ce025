"""Stints, the runs of a query from a start to a stop, and their schedule."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import UNSET, Struct, UnsetType

from headrace.model.time import BEGIN, DAY, END, format_duration, format_instant


class Stint(Struct, frozen=True):
    """One run of a query from a start to a stop.

    Tuples from `begin` and before `end` belong to it. It shares no state with other stints. Windows that begin before
    `since` were closed by an earlier stint and are not reported again.
    """

    query: str
    number: int
    begin: int = BEGIN
    end: int = END
    since: int | UnsetType = UNSET  # not NULL, so that the vertices of other stints are called as ever

    def __str__(self) -> str:
        return f"{self.query} #{self.number}"


class Schedule(Struct, frozen=True):
    """The times at which a query starts and stops by itself, and the interval at which they repeat (None: never).

    `daily`: they are times of day.
    """

    begin: int | None = None
    end: int | None = None
    every: int | None = None
    daily: bool = False

    def first(self, now: int) -> tuple[int, int] | None:
        """Return the begin and end of the first stint of a query that is created now.

        With dates it is the stint they name, even in the past, because old tuples may be read. With times of day it is
        the current one, else the next.
        """
        if self.begin is None:
            return BEGIN, self.stop_after(now) if self.daily else self.end or END
        if not self.daily:
            return self.begin, END if self.end is None else self.end
        return self.following(now) if self.end is None else self.following(BEGIN, come=now)

    def following(self, after: int, come: int = BEGIN) -> tuple[int, int] | None:
        """Return the begin and end of the next stint that the schedule starts; None if there is none.

        It does not begin before `after`, and is not over where tuples have `come` to.
        """
        if self.begin is None:
            return None
        turn = 0
        if self.every is not None:
            turn = max(0, -((self.begin - after) // self.every))
            if self.end is not None:
                turn = max(turn, (come - self.end) // self.every + 1)
        begin = self.begin + turn * (self.every or 0)
        return None if begin < after else (begin, self.stop_after(begin))

    def after(self, stint: Stint, begin: int) -> Stint:
        """Return the stint of a repeated schedule that begins at this time, with the number that follows from another.

        Stints are numbered by their turns, so that all who name one give it the same number.
        """
        assert self.every is not None
        return Stint(
            stint.query,
            stint.number + 1 + (begin - self._first_after(stint.end)) // self.every,
            begin,
            self.stop_after(begin),
        )

    def stints_of(self, times: npt.NDArray[np.int64], stint: Stint) -> list[Stint]:
        """Return the stints after another to which tuples of these times belong."""
        if self.begin is None or self.end is None or self.every is None or stint.end >= END:
            return []
        turns, inside = np.divmod(times[times >= stint.end] - self.begin, self.every)
        begins = (np.unique(turns[inside < self.end - self.begin]) * self.every + self.begin).tolist()
        return [self.after(stint, begin) for begin in begins if begin >= stint.end]

    def _first_after(self, instant: int) -> int:
        """Return the first time of the schedule at or after an instant."""
        assert self.begin is not None
        assert self.every is not None
        return self.begin - (self.begin - instant) // self.every * self.every

    def stop_after(self, begin: int) -> int:
        """Return when a stint that begins at this time stops by the schedule; END if never."""
        if self.end is None:
            return END
        if self.every is None:
            return self.end if self.end > begin else END
        return self.end + max(0, (begin - self.end) // self.every + 1) * self.every

    def __str__(self) -> str:
        def text(instant: int) -> str:
            return format_instant(instant)[11:16] if self.daily else f"'{format_instant(instant)}'"

        parts = [
            f"{word} {text(instant)}"
            for word, instant in (("START", self.begin), ("STOP", self.end))
            if instant is not None
        ]
        return " ".join(parts) + (
            ""
            if self.every is None or (self.daily and self.every == DAY)
            else f" EVERY {format_duration(self.every or 0)}"
        )
