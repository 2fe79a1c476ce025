"""Runs of schedulers on a deployment: the same bursts and the same budget for each, charged by the same costs.

Four joins of different costs, tuple sizes, selectivities, priorities and path lengths get a slice of input with each
micro-batch. A bucket may do somewhat less work per micro-batch than comes in on average, so bursts wait in queues, and
the scheduler decides what waits. What is compared is the order of work, not the noise of the machine: every run gets
the same input per micro-batch, and is charged by the costs that the first run has measured.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headrace.commands.command import Cost, UseCosts
from headrace.commands.running_graph import placement_of
from headrace.control import scheduling
from headrace.driver.progress import read_progress
from headrace.engine.statistics import Statistics, VertexStatistics
from headrace.errors import HostFault
from headrace.experiments.qos.sliced_bursts import Bursts, create_streams
from headrace.hosts.local import LocalDeployment
from headrace.session import Session

BUCKETS = 2
#: Slices without a budget, from which costs are learned.
WARM = 5
#: The work that comes in, as a share of the budgets of all micro-batches.
LOAD = 1.2
#: Seconds after which a run is given up.
PATIENCE_S = 180.0
#: Microseconds that do not pass.
NEVER = 2**62
#: The priority of each query, and the latency that it promises (seconds).
PRIORITIES = {"seen": 8, "unpaid": 2, "changed": 1, "near": 1}
PROMISES = {"seen": 1, "unpaid": 2, "changed": 8, "near": 8}
SELECTS = {
    # narrow tuples, cheap, each pair is a result
    "seen": """SELECT clicks.id, slice FROM clicks [RANGE 1 SECOND]
        JOIN views [RANGE 1 SECOND] ON clicks.id = views.id""",
    # a long path: join, filter, project, distinct; one pair in eight is a result
    "unpaid": """SELECT DISTINCT orders.id, slice FROM orders [RANGE 1 SECOND]
        JOIN payments [RANGE 1 SECOND] ON orders.id = payments.id WHERE paid < amount""",
    # wide tuples, whose texts go no further than the filter behind the join
    "changed": """SELECT articles.id, slice FROM articles [RANGE 1 SECOND]
        JOIN edits [RANGE 1 SECOND] ON articles.id = edits.id WHERE articles.body < edits.body""",
    # expensive: each tuple finds several partners, most of which are filtered out
    "near": """SELECT a.id, b.id AS other, greatest(a.slice, b.slice) AS slice FROM probes [RANGE 1 SECOND] AS a
        JOIN probes [RANGE 1 SECOND] AS b ON a.zone = b.zone AND a.x < b.x WHERE b.x - a.x < 0.1""",
}


@dataclass(slots=True)
class Run:
    """One scheduler: queues after each micro-batch, and how many micro-batches later than possible results came."""

    bytes: dict[int, int] = field(default_factory=dict)  # by micro-batch
    tuples: dict[int, int] = field(default_factory=dict)
    peak_bytes: int = 0
    delays: dict[str, list[int]] = field(default_factory=dict)  # micro-batches, by query
    output: dict[int, int] = field(default_factory=dict)  # results by micro-batch
    seconds: float = 0.0
    work: float = 0.0  # nanoseconds of the operators in the buckets, by their costs
    costs: dict[str, Cost] = field(default_factory=dict)
    results: dict[str, Counter[tuple[Any, ...]]] = field(default_factory=dict)

    @property
    def batches(self) -> int:
        """The number of micro-batches."""
        return len(self.bytes)

    @property
    def batch_seconds(self) -> float:
        """The mean length of a micro-batch."""
        return self.seconds / max(1, self.batches)

    @property
    def mean_bytes(self) -> float:
        """Bytes that wait on average."""
        return statistics.fmean(self.bytes.values())

    @property
    def mean_tuples(self) -> float:
        """Tuples that wait on average: by Little's law in proportion to the time that tuples wait."""
        return statistics.fmean(self.tuples.values())

    @property
    def latency(self) -> float:
        """The mean latency of all results, in micro-batches."""
        return statistics.fmean(delay for delays in self.delays.values() for delay in delays)

    @property
    def roughness(self) -> float:
        """The deviation of the results of a micro-batch, divided by their mean."""
        counts = [self.output.get(batch, 0) for batch in sorted(self.bytes)]
        return statistics.pstdev(counts) / statistics.fmean(counts) if any(counts) else 0.0

    @property
    def urgent(self) -> float:
        """The mean latency of the query with the highest priority."""
        return self.mean_delay(max(PRIORITIES, key=PRIORITIES.__getitem__))

    @property
    def longest(self) -> float:
        """The longest latency of any result."""
        return float(max(max(delays) for delays in self.delays.values()))

    @property
    def overdue(self) -> float:
        """By how much results are later than promised, on average: a share of the promise, each query the same."""
        late = []
        for query, delays in self.delays.items():
            promise = PROMISES[query]
            late.append(statistics.fmean(max(0.0, delay * self.batch_seconds / promise - 1.0) for delay in delays))
        return statistics.fmean(late)

    def mean_delay(self, query: str) -> float:
        """Return the mean latency of a query, in micro-batches."""
        return statistics.fmean(self.delays[query])

    def p99(self, query: str) -> float:
        """Return the latency of a query that one result in a hundred exceeds."""
        return float(np.percentile(self.delays[query], 99))


def run(
    scheduler: str,
    budget: str,
    bursts: Bursts,
    host: Literal["spark", "local"],
    costs: Mapping[str, Cost] | None = None,
) -> Run:
    """Run one scheduler until all slices are read and nothing waits; with these costs, or those that it measures."""
    seen, read = Run(), dict[int, int]()  # micro-batches by slice
    arrived: list[tuple[str, int, list[int]]] = []  # query, micro-batch, slices of its results
    with tempfile.TemporaryDirectory(prefix="schedulers-") as name, _held_costs(costs):
        folder = Path(name)
        with Session(folder / "checkpoint", host=host, buckets=BUCKETS) as session:
            session.execute(create_streams(folder) + _queries())
            session.execute(f"ALTER SYSTEM SET scheduler = '{scheduler}'; ALTER SYSTEM SET budget = 'off'")

            def tick(batch: int, rows: list[dict[str, Any]]) -> None:
                for row in rows:
                    read[row["slice"]] = batch
                    if row["slice"] + 1 not in (WARM, len(bursts.loads)):
                        bursts.release(folder, row["slice"] + 1)  # before the next micro-batch is planned

            session.subscribe("tick", tick)
            for query in SELECTS:
                session.subscribe(query, _taker(query, arrived))
            bursts.release(folder, 0)
            _until(session, lambda: WARM - 1 in read)
            before = session.statistics()
            session.execute(f"ALTER SYSTEM SET budget = '{budget}'")
            if costs is not None:
                session.deployment.send(UseCosts(dict(costs)))
            session.deployment.settle(session.running().commands, PATIENCE_S)
            began = time.monotonic()
            bursts.release(folder, WARM)
            last = len(bursts.loads) - 1
            _until(
                session, lambda: _note_queues(session, read, seen) and last in read and _is_idle(session, read[last])
            )
            seen.seconds = time.monotonic() - began
            seen.costs = session.running().costs
            seen.work = _work(session, seen.costs, before)
            session.drain(PATIENCE_S)
            seen.results = {query: _multiset(session.results(query)) for query in SELECTS}
    for query, batch, slices in arrived:
        counted = [batch - read[number] for number in slices if number >= WARM]
        seen.delays.setdefault(query, []).extend(counted)
        seen.output[batch] = seen.output.get(batch, 0) + len(counted)
    return seen


def budget_of(free: Run, bursts: Bursts) -> str:
    """Return a budget that is too small for the work of a run without one."""
    return f"{max(1, round(free.work / (len(bursts.loads) - WARM) / BUCKETS / LOAD / 1e6))} ms"


def _queries() -> str:
    tick = "CREATE QUERY tick WITH (force, latency '1 s') AS SELECT slice FROM ticks INTO MEMORY;"
    return tick + "".join(
        f"CREATE QUERY {name} WITH (force, latency '{PROMISES[name]} s', priority {PRIORITIES[name]}) AS {select} "
        "INTO MEMORY;"
        for name, select in SELECTS.items()
    )


def _taker(query: str, arrived: list[tuple[str, int, list[int]]]) -> Callable[[int, list[dict[str, Any]]], None]:
    def take(batch: int, rows: list[dict[str, Any]]) -> None:
        arrived.append((query, batch, [row["slice"] for row in rows]))

    return take


def _until(session: Session, is_done: Callable[[], bool]) -> None:
    """Let micro-batches run until a condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_done():
        if time.monotonic() > deadline:
            raise HostFault(f"not done after {PATIENCE_S:.0f} s", hint="let nothing else run on the machine")
        if isinstance(session.deployment, LocalDeployment):
            session.deployment.step()
        else:
            time.sleep(0.01)


def _note_queues(session: Session, read: Mapping[int, int], seen: Run) -> bool:
    """Note the queues after the last micro-batch, if it is one of those that count."""
    counted = session.statistics()
    if WARM in read and counted.batch >= read[WARM]:
        seen.bytes[counted.batch], seen.tuples[counted.batch] = counted.queues.bytes, counted.queues.tuples
        seen.peak_bytes = max(seen.peak_bytes, counted.queues.peak_bytes)
    return True


def _is_idle(session: Session, last: int) -> bool:
    counted = session.statistics()
    return counted.batch >= last and not counted.queues.tuples and not read_progress(session.directory).unread


def _work(session: Session, costs: Mapping[str, Cost], before: Statistics) -> float:
    """Return the nanoseconds of the operators in the buckets since then, by their costs."""
    keyed, now = placement_of(session.running()).keyed.by_id(), session.statistics().vertices
    total = 0.0
    for name in keyed.keys() & costs.keys() & now.keys():
        then = before.vertices.get(name, VertexStatistics())
        total += costs[name].service_ns * (now[name].tuples_in - then.tuples_in)
        total += costs[name].page_ns * (now[name].pages_in - then.pages_in)
    return total


@contextmanager
def _held_costs(costs: Mapping[str, Cost] | None) -> Iterator[None]:
    """Let the controller send no other costs, if some are given."""
    interval = scheduling.COSTS_INTERVAL
    scheduling.COSTS_INTERVAL = interval if costs is None else NEVER
    try:
        yield
    finally:
        scheduling.COSTS_INTERVAL = interval


def _multiset(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in rows)
