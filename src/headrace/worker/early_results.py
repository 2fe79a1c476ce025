"""Results that a bucket gives before they are final: those that readers demand, and those that operators do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec
import polars as pl

from headrace.catalog.definitions import PARTIAL
from headrace.commands.command import AddQuery, Command, SendFeedback
from headrace.engine.engine import Engine
from headrace.graph.graph import VertexId
from headrace.model.page import Page
from headrace.model.patterns.feedback import Intent
from headrace.model.patterns.pattern import matches
from headrace.worker.demands import exchanges_before, given_to, is_lost, name_of, steps, unneeded_for
from headrace.worker.wire import Kind, Row


def answer(
    commands: Sequence[Command],
    bucket: int,
    engine: Engine,
    queries: Collection[AddQuery],
    receives: Sequence[VertexId],
) -> tuple[list[Row], list[SendFeedback]]:
    """Return results that readers demand before they are final, and the demands that need another micro-batch.

    `receives` are the vertices at which tuples enter the bucket.
    """
    answers: list[Row] = []
    unanswered: list[SendFeedback] = []
    for command in commands:
        if isinstance(command, SendFeedback) and command.feedback.intent is Intent.DEMANDED:
            rows, is_complete = _answer(command, bucket, engine, queries, is_lost(command, receives))
            answers += rows
            if not is_complete:
                step = 0 if is_lost(command, receives) else command.step + 1
                unanswered.append(msgspec.structs.replace(command, step=step, sent=()))
    return answers, unanswered


def early_results(engine: Engine, queries: Collection[AddQuery]) -> dict[VertexId, list[Page]]:
    """Return results that operators demanded in this micro-batch before they are final, flagged as partial."""
    early: dict[VertexId, list[Page]] = {}
    for query in queries:
        if PARTIAL in query.schema.names and engine.runs(query.output):
            pages = engine.demanded_now(query.output)
            flagged = [Page(page.rows.with_columns(pl.lit(True).alias(PARTIAL))) for page in pages]
            early |= {query.output: flagged} if flagged else {}
    engine.forget_demands()
    return early


def rows_of(bucket: int, kind: Kind, name: str, pages: Sequence[Page]) -> Iterator[Row]:
    """Yield the rows by which a bucket sends pages."""
    for index, page in enumerate(pages):
        yield Row(bucket, kind, name, index, len(page), page.encode())


def _answer(
    demand: SendFeedback, bucket: int, engine: Engine, queries: Collection[AddQuery], lost: bool
) -> tuple[list[Row], bool]:
    """Return what a query would still deliver if its streams ended now, or what it sends by exchanges for that."""
    own = [query for query in queries if query.query == demand.query and engine.runs(query.output)]
    exchanges = {query.output: exchanges_before(engine.graph, query.output) for query in own}
    is_last = demand.step >= max(map(steps, exchanges.values()), default=0) and not lost
    given = given_to(bucket, demand)
    wanted = demand.feedback.pattern
    rows: list[Row] = []
    for query in own:
        unneeded = unneeded_for(query, wanted)
        if is_last:
            pages = engine.results_now(query.output, unneeded[query.output], given)
            pages = [Page(page.rows.filter(matches(wanted, page.rows))) for page in pages]
            rows += rows_of(bucket, Kind.PARTIAL, str(demand.demand), [page for page in pages if len(page)])
            continue
        for exchange in (name for name, level in exchanges[query.output].items() if level <= demand.step):
            pages = engine.results_now(exchange, unneeded.get(exchange, ()), given)
            rows += rows_of(bucket, Kind.DEMANDED, name_of(demand.demand, exchange), pages)
    return rows, is_last
