"""One report for all buckets of a task: the driver gets one row from each task, however many buckets that has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from headrace.engine.shedding.shedders import ShedSeen
from headrace.engine.statistics import QueueStatistics, VertexCounts
from headrace.model.time import BEGIN
from headrace.operators.multijoin.seen import merged_boxes
from headrace.storage.requests import Requests, added
from headrace.worker.wire import Kind, Report, Row, Wait, decode_report, encode


class TaskRows:
    """The rows that a task sends to the driver: those of each bucket as they come, but one report at the end.

    `buckets` are those of the task. All of them run in every micro-batch, since each gets a control. `finish` returns
    what was held back until all have run; `requests`, what the process has asked of stores since its last task.
    """

    def __init__(
        self,
        buckets: Collection[int],
        finish: Callable[[], Iterable[Row]],
        requests: Callable[[], dict[str, Requests]] = dict,
    ) -> None:
        self._missing = set(buckets)
        self._finish = finish
        self._requests = requests
        self._reports: list[Row] = []

    @property
    def is_complete(self) -> bool:
        """Whether all buckets of the task have run."""
        return not self._missing

    def after(self, bucket: int, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield what goes to the driver once a bucket has run; a bucket that was not expected reports on its own."""
        is_expected = bucket in self._missing
        self._missing.discard(bucket)
        for row in rows:
            if row.kind is Kind.REPORT and is_expected:
                self._reports.append(row)
            else:
                yield row
        if not is_expected:
            yield from self._finish()
        elif not self._missing:
            yield from self._finish()
            yield _merged_row(self._reports, self._requests())


def _merged_row(rows: Sequence[Row], stores: dict[str, Requests]) -> Row:
    if len(rows) == 1 and not stores:
        return rows[0]
    report = merged([decode_report(row.payload) for row in rows])
    report = msgspec.structs.replace(report, stores=added([report.stores, stores]))
    return Row(rows[0].bucket, Kind.REPORT, "", 0, max(row.n for row in rows), encode(report))


def merged(reports: Sequence[Report]) -> Report:
    """Return what several reports of a micro-batch say together; merging in steps gives the same."""
    return Report(
        buckets=[note for report in reports for note in report.buckets],
        time=max(report.time for report in reports),
        arrived=_least(report.arrived for report in reports),
        behind=_greatest(report.behind for report in reports),
        unread_input=_greatest(report.unread_input for report in reports),
        bounds=least_bounds([report.bounds for report in reports]),
        vertices=_sums(report.vertices for report in reports),
        tasks=[task for report in reports for task in report.tasks],
        waits=least_waits(reports),
        asked=sum(report.asked for report in reports),
        purged=sum(report.purged for report in reports),
        noticed=list(dict.fromkeys(name for report in reports for name in report.noticed)),
        begun=list(dict.fromkeys(stint for report in reports for stint in report.begun)),
        reached=least_bounds([report.reached for report in reports]),
        state_bytes=sum(report.state_bytes for report in reports),
        chunks=sum(report.chunks for report in reports),
        restored=any(report.restored for report in reports),
        busy_ns=sum(report.busy_ns for report in reports),
        unread=sum(report.unread for report in reports),
        waiting=_least(report.waiting for report in reports),
        shed=_shed(shed for report in reports for shed in report.shed),
        queues=_queues(report.queues for report in reports),
        stores=added(report.stores for report in reports),
        boxes=merged_boxes(report.boxes for report in reports),
        apart={bucket: boxes for report in reports for bucket, boxes in report.apart.items()},
        building=sum(report.building for report in reports),
        moved=[moved for report in reports for moved in report.moved],
        demands=list(dict.fromkeys(demand for report in reports for demand in report.demands)),
    )


def least_bounds(bounds: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return the least bound of each name; one that is missing somewhere is not known there."""
    names = dict.fromkeys(name for some in bounds for name in some)
    return {name: min(some.get(name, BEGIN) for some in bounds) for name in names}


def least_waits(reports: Iterable[Report]) -> list[Wait]:
    """Return for each set of streams the least bound that would release something."""
    least: dict[tuple[tuple[str, ...], bool], int] = {}
    for wait in (wait for report in reports for wait in report.waits):
        key = wait.streams, wait.anyhow
        least[key] = min(wait.bound, least.get(key, wait.bound))
    return [Wait(bound, streams, anyhow) for (streams, anyhow), bound in least.items()]


def _least(times: Iterable[Mapping[str, int]]) -> dict[str, int]:
    least: dict[str, int] = {}
    for name, time in (item for some in times for item in some.items()):
        least[name] = min(time, least.get(name, time))
    return least


def _greatest(numbers: Iterable[Mapping[str, int]]) -> dict[str, int]:
    greatest: dict[str, int] = {}
    for name, number in (item for some in numbers for item in some.items()):
        greatest[name] = max(number, greatest.get(name, number))
    return greatest


def _sums(counted: Iterable[Mapping[str, VertexCounts]]) -> dict[str, VertexCounts]:
    sums: dict[str, VertexCounts] = {}
    for name, counts in (item for vertices in counted for item in vertices.items()):
        sums.setdefault(name, VertexCounts()).add(counts)
    return sums


def _shed(counted: Iterable[ShedSeen]) -> list[ShedSeen]:
    sums: dict[tuple[str, int], ShedSeen] = {}
    for shed in counted:
        before = sums.get((shed.reader, shed.port), ShedSeen(shed.reader, shed.port, 0, 0))
        sums[shed.reader, shed.port] = ShedSeen(
            shed.reader, shed.port, before.seen + shed.seen, before.dropped + shed.dropped
        )
    return list(sums.values())


def _queues(queues: Iterable[QueueStatistics]) -> QueueStatistics:
    total = QueueStatistics()
    for some in queues:
        total = total.plus(some)
    return total
