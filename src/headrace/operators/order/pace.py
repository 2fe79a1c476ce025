"""Merge inputs at the pace of the fastest: leave out tuples that lag too far behind, and spare their input the work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.feedback import Feedback, Intent
from headrace.model.patterns.match import less
from headrace.model.patterns.pattern import STAMP, pattern
from headrace.model.schema import HIDDEN, TS
from headrace.model.time import BEGIN, END, format_duration
from headrace.operators.operator import Frontier, Operator, State
from headrace.operators.spec import Spec
from headrace.operators.text import with_inputs


class Pace(Spec, frozen=True, tag="pace", omit_defaults=True):
    """WITH PACE: the tuples of all ports that are at most `tolerance` older than the newest before them.

    If `late`, the others.

    Once one comes too late, tuples older than a cut are assumed: `share` of the tolerance before the newest, since a
    tuple at the very edge of the tolerance is late by the time it has been worked on; and late enough for two more that
    take `service` each.
    """

    ports: int
    tolerance: int
    share: float = 0.5
    service: int = 0
    late: bool = False

    def build(self) -> PaceOperator:
        return PaceOperator(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        if self.late:
            return with_inputs(
                f"tuples more than {format_duration(self.tolerance)} late at", inputs or ("the pace",), ", "
            )
        union, work = (
            with_inputs("union", inputs, ", "),
            f", service {format_duration(self.service)}" if self.service else "",
        )
        return f"{union} with pace {format_duration(self.tolerance)}, cut {self.share:g}{work}"

    def cut(self, newest: int) -> int:
        """Return the timestamp before which a tuple is not worth the work any more."""
        return max(newest - round(self.share * self.tolerance), newest - self.tolerance + 2 * self.service)


class PaceOperator(Operator):
    """The running half of `Pace`: it keeps the newest timestamp, so the tuples that it would refuse give a bound.

    If it gives the late tuples, it sends no feedback; they get the timestamp of the newest, since their own lies below
    the bound.
    """

    def __init__(self, spec: Pace) -> None:
        self._spec = spec
        self.speaks = not spec.late
        self._frontier = Frontier(spec.ports)
        self._newest = BEGIN
        self._promised = BEGIN
        self._announced = [BEGIN] * spec.ports  # what each port knows
        self._late: set[int] = set()  # ports that have not got feedback yet
        self._chunk: pl.DataFrame | None = None
        self.ignored = self._uncounted = 0

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        if not len(page):
            return ()
        rows = page.rows.select([*(name for name in page.rows.columns if name not in HIDDEN), TS])
        newest = pl.Series([self._newest]).append(rows[TS]).cum_max()[1:]
        timely = rows[TS] >= newest - self._spec.tolerance
        late = rows.height - int(timely.sum())
        if self._spec.late:
            self._newest = int(newest[-1])
            missed: list[Element] = [Page(rows.with_columns(newest.alias(TS)).filter(~timely))] if late else []
            return [*missed, *self._promise()]
        if late:
            self.ignored += late
            self._uncounted += late
            self._late.add(port)
        self._newest = int(newest[-1])
        kept: list[Element] = [Page(rows.filter(timely) if late else rows)] if late < rows.height else []
        return [*kept, *self._promise()]

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        self._frontier.advance(port, mark.bound)
        return self._promise()

    def said(self) -> Sequence[tuple[int, Feedback]]:
        if not self.speaks or not self._late:
            return ()
        ports, cut = sorted(self._late), self._spec.cut(self._newest)
        self._late.clear()
        ports = [port for port in ports if cut > self._announced[port]]
        for port in ports:
            self._announced[port] = cut
        return [(port, Feedback(Intent.ASSUMED, pattern((STAMP, less(cut))))) for port in ports]

    def late(self) -> int:
        late, self._uncounted = self._uncounted, 0
        return late

    def state(self) -> State:
        bounds = [*self._frontier.bounds, *self._announced, self._newest, self._promised]
        if self._chunk is None or self._chunk["bound"].to_list() != bounds:
            self._chunk = pl.DataFrame({"bound": bounds})
        return {"pace": self._chunk}

    def restore(self, state: State) -> None:
        if "pace" in state:
            self._chunk = state["pace"]
            *both, self._newest, self._promised = self._chunk["bound"].to_list()
            self._frontier.bounds, self._announced = both[: self._spec.ports], both[self._spec.ports :]

    def _promise(self) -> list[Element]:
        by_pace = BEGIN if self._newest == BEGIN else self._newest - self._spec.tolerance
        bound = min(END, max(self._frontier.minimum, by_pace))
        if bound <= self._promised:
            return []
        self._promised = bound
        return [Punctuation(bound)]
