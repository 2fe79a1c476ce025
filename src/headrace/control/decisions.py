"""Decisions of the controller: a closed union; each says in words what changed, for which query, and why."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from headrace.control.promise_checks import PromiseCheck
from headrace.engine.scheduling.schedulers import NONE


class SetBudget(Struct, frozen=True, tag="set_budget"):
    """Limit the work of a bucket per micro-batch (nanoseconds); None: no limit."""

    budget: int | None
    scheduled: bool = False  # only because a user chose a scheduler

    @property
    def query(self) -> str | None:
        return None

    @property
    def action(self) -> str:
        if self.budget is None:
            return "lift the work limit of buckets"
        return f"limit the work of a bucket to about {self.budget / 1e6:.0f} ms per micro-batch"

    @property
    def reason(self) -> str:
        if self.scheduled:
            return "a scheduler was chosen"
        return "no query has priority" if self.budget is None else "some latency promises are stricter than others"


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
        return f"pause reading of {self.stream}" if self.unread else f"resume reading of {self.stream}"

    @property
    def reason(self) -> str:
        waiting = f"{self.waiting:,} tuples wait for its queries"
        return f"{waiting}, which have no strict latency promise" if self.unread else waiting


class UseScheduler(Struct, frozen=True, tag="use_scheduler"):
    """Schedule a query, or all (None), by another scheduler.

    For one query because its promises are broken, with the scores of all strategies; for all because the budget began
    or ended.
    """

    query: str | None
    scheduler: str
    broken: tuple[PromiseCheck, ...] = ()
    scores: dict[str, float] = {}
    in_circles: bool = False
    budget: bool = False  # whether a budget is in force

    @property
    def action(self) -> str:
        return "schedule without a scheduler" if self.scheduler == NONE else f"schedule by {self.scheduler}"

    @property
    def reason(self) -> str:
        if not self.broken:
            return "strict latency promises come first" if self.budget else "no query has priority"
        scores = ", ".join(f"{name} {value:.2f}" for name, value in self.scores.items())
        circles = "; it went back and forth before" if self.in_circles else ""
        return f"{', '.join(map(str, self.broken))}; scores: {scores}{circles}"


class Defer(Struct, frozen=True, tag="defer"):
    """Run an operator in the buckets, where the budget applies, and not in the ingest."""

    operator: str
    work: float  # busy seconds per second

    @property
    def query(self) -> str | None:
        return None

    @property
    def action(self) -> str:
        return f"run '{self.operator}' in the buckets"

    @property
    def reason(self) -> str:
        return f"it needs {self.work:.2f} s of work per second, and its queries may wait"


class EndDeferral(Struct, frozen=True, tag="end_deferral"):
    """Run an operator in the ingest again."""

    operator: str

    @property
    def query(self) -> str | None:
        return None

    @property
    def action(self) -> str:
        return f"run '{self.operator}' in the ingest again"

    @property
    def reason(self) -> str:
        return "its queries may not wait, or no strict latency promise is active"


class Overload(Struct, frozen=True):
    """The load in micro-batches of `seconds` (None: however long), as a share of what they can process.

    `correction` is the part of it that only broken promises have shown.
    """

    load: float
    seconds: float | None
    correction: float = 0.0

    def __str__(self) -> str:
        corrected = f", corrected by {self.correction:+.0%}" if self.correction else ""
        if self.seconds is None:
            return f"load is {self.load:.2f} of what can be processed, and a throughput MUST be kept{corrected}"
        return f"load is {self.load:.2f} of what micro-batches of {self.seconds * 1e3:.0f} ms can process{corrected}"


class ShedBefore(Struct, frozen=True, tag="shed_before"):
    """Drop another share of an operator's input on behalf of a query.

    Because of an overload, or of the memory that the query promises. Without either, nothing MUST hold any more.
    """

    query: str
    operator: str
    share: float
    overload: Overload | None
    memory: PromiseCheck | None = None

    @property
    def action(self) -> str:
        return (
            f"shed {self.share:.0%} before '{self.operator}'"
            if self.share
            else f"stop shedding before '{self.operator}'"
        )

    @property
    def reason(self) -> str:
        if self.memory is not None:
            return str(self.memory)
        return "no MUST promise needs it" if self.overload is None else str(self.overload)


class NoteShortfall(Struct, frozen=True, tag="note_shortfall"):
    """All that queries may lose is shed, and a share of the processor is missing; 0: no more."""

    load: float
    shortfall: float

    @property
    def query(self) -> str | None:
        return None

    @property
    def action(self) -> str:
        return "shed all that queries may lose" if self.shortfall else "shed less than queries may lose"

    @property
    def reason(self) -> str:
        missing = f"{self.shortfall:.0%} of the processor is still missing"
        return f"load is {self.load:.2f}; {missing if self.shortfall else 'that is enough'}"


class CatchUp(Struct, frozen=True, tag="catch_up"):
    """Do the work that waits for a query in portions, although others are slower for it, or do so no more (`ends`)."""

    query: str
    waiting: int
    ends: bool = False

    @property
    def action(self) -> str:
        return "let it wait again" if self.ends else "let it catch up"

    @property
    def reason(self) -> str:
        return f"{self.waiting:,} tuples wait for it"


class Suspend(Struct, frozen=True, tag="suspend"):
    """Stop a query for a while: a promise of another does not hold otherwise, or too many tuples wait for it."""

    query: str
    cause: str
    work: float  # busy seconds per second
    waiting: int = 0

    @property
    def action(self) -> str:
        return "suspend it"

    @property
    def reason(self) -> str:
        if self.waiting:
            return f"{self.cause}, and others come first"
        return f"{self.cause}; nothing more may be shed, and it needs {self.work:.2f} s of work per second"


class Resume(Struct, frozen=True, tag="resume"):
    """Start a suspended query again; `load` is what is expected then, None if nothing hinders it any more."""

    query: str
    load: float | None

    @property
    def action(self) -> str:
        return "resume it"

    @property
    def reason(self) -> str:
        if self.load is None:
            return "no other query comes first, or one of its own promises MUST hold"
        return f"promises that MUST hold are kept, and the load would be {self.load:.2f} with it"


class ChangePlan(Struct, frozen=True, tag="change_plan"):
    """Let a join of several inputs go on with another plan."""

    query: str
    plan: str
    before: str
    how: str
    why: str
    buckets: list[int] = []  # that change; none: all

    @property
    def action(self) -> str:
        where = f" in bucket{'s' if len(self.buckets) > 1 else ''} {', '.join(map(str, self.buckets))}"
        return f"run its join{where if self.buckets else ''} as {self.plan} instead of {self.before}, {_HOW[self.how]}"

    @property
    def reason(self) -> str:
        return self.why


class BarPlan(Struct, frozen=True, tag="bar_plan"):
    """Do not choose a plan again for some minutes: it needs far more work than was predicted."""

    query: str
    plan: str
    times: float

    @property
    def action(self) -> str:
        return f"bar the plan {self.plan} for five minutes"

    @property
    def reason(self) -> str:
        return f"it needs {self.times:.1f} times the work that was predicted"


_HOW = {"moving": "at once", "stepwise": "in portions", "parallel": "with both plans for a while"}


class MoveParcels(Struct, frozen=True, tag="move_parcels"):
    """Let parcels of keys go from the busiest processor to buckets of the idlest; loads are parts of a micro-batch."""

    queries: list[str]
    parcels: int
    buckets: list[int]
    busiest: float
    idlest: float
    mean: float
    load: float  # that goes over
    bytes: int

    @property
    def query(self) -> str | None:
        return self.queries[0] if len(self.queries) == 1 else None

    @property
    def action(self) -> str:
        word = "parcel" if self.parcels == 1 else "parcels"
        return f"move {self.parcels} {word} of {', '.join(self.queries)} to bucket {', '.join(map(str, self.buckets))}"

    @property
    def reason(self) -> str:
        return (
            f"the busiest processor works for {self.busiest:.0%} of a micro-batch and the idlest for "
            f"{self.idlest:.0%}; these parcels take {self.load:.0%} and about {self.bytes / 1e6:.1f} MB"
        )


class SplitParcel(Struct, frozen=True, tag="split_parcel"):
    """Let joins have a parcel with a heavy key in several buckets; loads are parts of a micro-batch."""

    queries: list[str]
    parcel: int
    buckets: list[int]
    load: float
    share: float  # that a processor should have

    @property
    def query(self) -> str | None:
        return self.queries[0] if len(self.queries) == 1 else None

    @property
    def action(self) -> str:
        return f"split parcel {self.parcel} of {', '.join(self.queries)} over {len(self.buckets)} buckets"

    @property
    def reason(self) -> str:
        return (
            f"its keys alone take {self.load:.0%} of a micro-batch, {self.load / self.share:.1f} times the fair share "
            "of a processor: no move makes processors even"
        )


class GatherParcel(Struct, frozen=True, tag="gather_parcel"):
    """Let joins have a parcel in one bucket again."""

    queries: list[str]
    parcel: int
    bucket: int
    load: float
    share: float  # that a processor should have

    @property
    def query(self) -> str | None:
        return self.queries[0] if len(self.queries) == 1 else None

    @property
    def action(self) -> str:
        return f"gather parcel {self.parcel} of {', '.join(self.queries)} in bucket {self.bucket}"

    @property
    def reason(self) -> str:
        return f"its keys take only {self.load:.0%} of a micro-batch; the fair share of a processor is {self.share:.0%}"


class KeepParcels(Struct, frozen=True, tag="keep_parcels"):
    """Move no parcel although the loads of processors differ."""

    busiest: float
    idlest: float
    why: str

    @property
    def query(self) -> str | None:
        return None

    @property
    def action(self) -> str:
        return "move no parcels"

    @property
    def reason(self) -> str:
        return (
            f"{self.why}; the busiest processor works for {self.busiest:.0%} of a micro-batch and the idlest for "
            f"{self.idlest:.0%}"
        )


class RestartQueries(Struct, frozen=True, kw_only=True, tag="restart_queries"):
    """Start all queries again after a pause (seconds): Spark gave up a micro-batch, for the n-th time (`failures`)."""

    batch: int
    failures: int
    pause: float
    cause: str

    @property
    def query(self) -> str | None:
        return None

    @property
    def action(self) -> str:
        return f"repeat micro-batch {self.batch} after {self.pause:.0f} s"

    @property
    def reason(self) -> str:
        return f"it has failed {_times(self.failures)}: {self.cause}"


class GiveUp(Struct, frozen=True, kw_only=True, tag="give_up"):
    """Start nothing again: a micro-batch fails again and again for the same reason."""

    batch: int
    failures: int
    cause: str

    @property
    def query(self) -> str | None:
        return None

    @property
    def action(self) -> str:
        return f"stop all queries at micro-batch {self.batch}"

    @property
    def reason(self) -> str:
        return f"it has failed {_times(self.failures)}, again and again for the same reason: {self.cause}"


def _times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == 2 else f"{count} times"


Decision: TypeAlias = (
    SetBudget
    | LeaveUnread
    | CatchUp
    | UseScheduler
    | Defer
    | EndDeferral
    | ShedBefore
    | NoteShortfall
    | Suspend
    | Resume
    | ChangePlan
    | BarPlan
    | MoveParcels
    | SplitParcel
    | GatherParcel
    | KeepParcels
    | RestartQueries
    | GiveUp
)
