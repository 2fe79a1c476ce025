"""Decisions of the controller: a closed union; each says in words what changed, for which query, and why."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from headrace.control.promise_checks import PromiseCheck


class SetBudget(Struct, frozen=True, tag="set_budget"):
    """Limit the work of a bucket per micro-batch (nanoseconds); None: no limit."""

    budget: int | None

    @property
    def query(self) -> str | None:
        return None

    @property
    def action(self) -> str:
        if self.budget is None:
            return "do all at once"
        return f"do about {self.budget / 1e6:.0f} ms of work in a bucket at a time"

    @property
    def reason(self) -> str:
        return "none must be quicker" if self.budget is None else "queries differ in how quick they must be"


class LeaveUnread(Struct, frozen=True, tag="leave_unread"):
    """Do not read a stream while many of its tuples wait (`unread`), or read it again."""

    stream: str
    unread: bool
    waiting: int  # tuples that wait for the query that has most of them

    @property
    def query(self) -> str | None:
        return None

    @property
    def action(self) -> str:
        return f"leave {self.stream} unread" if self.unread else f"read {self.stream} again"

    @property
    def reason(self) -> str:
        return f"{self.waiting:,} tuples wait for those who read it, and they may wait"


class UseScheduler(Struct, frozen=True, tag="use_scheduler"):
    """Schedule a query, or all (None), by another scheduler.

    For one query because its promises are broken, with the scores of all strategies; for all because the budget began or ended.
    """

    query: str | None
    scheduler: str
    broken: tuple[PromiseCheck, ...] = ()
    scores: dict[str, float] = {}
    in_circles: bool = False
    budget: bool = False  # whether a budget is in force

    @property
    def action(self) -> str:
        return f"schedule by {self.scheduler}"

    @property
    def reason(self) -> str:
        if not self.broken:
            return "what must be quick comes first" if self.budget else "nothing waits"
        worth = ", ".join(f"{name} {value:.2f}" for name, value in self.scores.items())
        return f"{', '.join(map(str, self.broken))}; worth {worth}{'; else in circles' if self.in_circles else ''}"


class Defer(Struct, frozen=True, tag="defer"):
    """Run an operator in the buckets, where the budget applies, and not in the ingest."""

    operator: str
    work: float  # busy seconds per second

    @property
    def query(self) -> str | None:
        return None

    @property
    def action(self) -> str:
        return f"put {self.operator} off"

    @property
    def reason(self) -> str:
        return f"it takes {self.work:.2f} s of work a second, and nobody waits for it"


class EndDeferral(Struct, frozen=True, tag="end_deferral"):
    """Run an operator in the ingest again."""

    operator: str

    @property
    def query(self) -> str | None:
        return None

    @property
    def action(self) -> str:
        return f"put {self.operator} off no longer"

    @property
    def reason(self) -> str:
        return "it may not wait now, or nothing must be quick"


class Overload(Struct, frozen=True):
    """The load in micro-batches of `seconds`, as a share of what they can process; `correction` is what promises have shown to be missing in it."""

    load: float
    seconds: float
    correction: float = 0.0

    def __str__(self) -> str:
        corrected = f", corrected by {self.correction:+.0%}" if self.correction else ""
        return f"load {self.load:.2f} of what micro-batches of {self.seconds * 1e3:.0f} ms can do{corrected}"


class ShedBefore(Struct, frozen=True, tag="shed_before"):
    """Drop another share of an operator's input on behalf of a query; no overload: no latency must hold any more."""

    query: str
    operator: str
    share: float
    overload: Overload | None

    @property
    def action(self) -> str:
        return f"shed {self.share:.0%} before {self.operator}"

    @property
    def reason(self) -> str:
        return "no latency must hold" if self.overload is None else str(self.overload)


class NoteShortfall(Struct, frozen=True, tag="note_shortfall"):
    """All that queries may lose is shed, and a share of the processor is missing; 0: no more."""

    load: float
    shortfall: float

    @property
    def query(self) -> str | None:
        return None

    @property
    def action(self) -> str:
        return "shed all that may be lost" if self.shortfall else "shed less than may be lost"

    @property
    def reason(self) -> str:
        missing = f"{self.shortfall:.0%} of the processor is missing even so"
        return f"load {self.load:.2f}: {missing if self.shortfall else 'that is enough again'}"


Decision: TypeAlias = SetBudget | LeaveUnread | UseScheduler | Defer | EndDeferral | ShedBefore | NoteShortfall
