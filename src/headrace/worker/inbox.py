"""The rows that a bucket receives in a micro-batch, by kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.commands.command import Command, decode_command
from headrace.engine.statistics import greatest
from headrace.model.parcels import Moved
from headrace.model.stint import Stint
from headrace.worker.wire import Control, Kind, Row, decode_control


@dataclass(frozen=True, slots=True)
class Inbox:
    """The rows from the ingest tasks of a micro-batch: a control each, pages, and notes of staged results."""

    controls: Sequence[Control]
    pages: Sequence[Row]
    staged: Sequence[Row]

    @staticmethod
    def of(rows: Iterable[Row]) -> Inbox:
        """Sort rows by kind, those of a kind by the task that sent them."""
        ordered = sorted(rows, key=lambda row: (row.kind, row.part))
        controls = [decode_control(row.payload) for row in ordered if row.kind is Kind.CONTROL]
        pages = [row for row in ordered if row.kind is Kind.PAGE]
        return Inbox(controls, pages, [row for row in ordered if row.kind is Kind.STAGED])

    @property
    def time(self) -> int | None:
        """The time of the micro-batch; None if no control has it."""
        return next((control.time for control in self.controls if control.time is not None), None)

    @property
    def budget(self) -> int | None:
        """Nanoseconds of estimated service that the bucket may spend; None: no limit."""
        return next((control.budget for control in self.controls if control.budget is not None), None)

    def commands(self) -> list[Command]:
        """Return the commands that take effect with this micro-batch."""
        return [decode_command(data) for control in self.controls for data in control.commands]

    def moved(self) -> list[Moved]:
        """Return the files with parcels that buckets are to take in."""
        return [moved for control in self.controls for moved in control.moved]

    @property
    def running(self) -> bytes:
        """What was in force before the commands, as JSON; empty if no bucket begins with this micro-batch."""
        return next((control.running for control in self.controls if control.running), b"")

    @property
    def buckets(self) -> list[int]:
        """All buckets of this micro-batch; empty: those with which the checkpoint began."""
        return next((control.buckets for control in self.controls if control.buckets), [])

    def begun(self) -> list[Stint]:
        """Return the stints whose first tuples come with this micro-batch, in their order."""
        stints = {stint for control in self.controls for stint in control.begun}
        return sorted(stints, key=lambda stint: (stint.query, stint.number))

    def dropped(self) -> tuple[str, ...]:
        """Return the queries that were removed before this micro-batch could succeed."""
        return tuple(name for control in self.controls for name in control.dropped)

    def clocks(self) -> dict[str, int]:
        """Return the bounds that silent streams have reached by the clock."""
        return {stream: bound for control in self.controls for stream, bound in control.clocks.items()}

    def lanes(self) -> dict[str, dict[str, int]]:
        """Return how far each lane of a stream with several is; a stream that waits for none of them is left out."""
        reached: dict[str, dict[str, int]] = {}
        for control in self.controls:
            for stream, lanes in control.lanes.items():
                reached[stream] = greatest(reached.get(stream, {}), lanes)
        return {stream: lanes for stream, lanes in reached.items() if lanes}

    def arrived(self) -> dict[str, int]:
        """Return when the oldest tuple of each stream can have come."""
        return {stream: time for control in self.controls for stream, time in control.arrived.items()}

    def unread(self) -> dict[str, int]:
        """Return how much of streams is left unread, in rows or bytes."""
        return {stream: unread for control in self.controls for stream, unread in control.unread.items()}

    def behind(self) -> dict[str, int]:
        """Return for how long at most unread records of streams have been there."""
        return {stream: time for control in self.controls for stream, time in control.behind.items()}
