"""The steps of demands that cross exchanges: what operators sent goes to the buckets of the next micro-batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from headrace.commands.command import Command, SendFeedback, SentPage
from headrace.commands.running import Running
from headrace.engine.shedding.shedders import Shedders
from headrace.graph.graph import VertexId
from headrace.graph.place import Placement
from headrace.model.page import Page
from headrace.model.streams import exchange_of, exchange_scan
from headrace.worker.ingest import PAGE_TUPLES
from headrace.worker.router import Router
from headrace.worker.wire import Report

#: So many bytes of results that are not final travel at most for one demand: they are part of a command.
MOST_SENT = 64 * 1024 * 1024


def going_on(reports: Sequence[Report]) -> list[SendFeedback]:
    """Return the demands that need another micro-batch."""
    return list(dict.fromkeys(demand for report in reports for demand in report.demands))


def next_steps(
    reports: Sequence[Report],
    sent: Mapping[int, Mapping[VertexId, Sequence[Page]]],
    running: Running,
    placement: Placement,
    buckets: Sequence[int],
    later: Sequence[Command],
) -> Iterator[SendFeedback]:
    """Yield the demands that go on, with what was sent by exchanges; not those that are among `later` commands.

    A micro-batch that is delivered again finds there what it led to the first time.
    """
    known = {(command.demand, command.step) for command in later if isinstance(command, SendFeedback)}
    for demand in going_on(reports):
        if (demand.demand, demand.step) not in known:
            pages = _routed(sent.get(demand.demand, {}), running, placement, buckets)
            yield replace(demand, sent=tuple(pages))


def is_too_large(demand: SendFeedback) -> bool:
    """Return whether a demand sends more than a command should have."""
    return sum(len(sent.page) for sent in demand.sent) > MOST_SENT


def _routed(
    sent: Mapping[VertexId, Sequence[Page]], running: Running, placement: Placement, buckets: Sequence[int]
) -> Iterator[SentPage]:
    """Yield what goes to which bucket, divided as the pages of the next micro-batch are."""
    router = Router(
        0,
        placement.routes(),
        buckets,
        in_use=running.buckets,
        allotments=running.allotments,
        page=PAGE_TUPLES,
        ends={},
        stage=None,
        shedders=Shedders(),
    )
    for exchange, pages in sent.items():
        for page in pages:
            router.add(exchange_scan(exchange_of(exchange) or ""), page)
    for row in router.flush():
        yield SentPage(row.bucket, row.name, row.payload)
