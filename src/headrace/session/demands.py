"""Statements to which a micro-batch responds: feedback to a query, and what runs on demand."""

from __future__ import annotations

import time
from typing import Any

import polars as pl

from headrace.catalog.definitions import Timing
from headrace.commands.command import AddQuery, Release, SendFeedback
from headrace.errors import HostFault, NotSupported
from headrace.language.syntax import statements
from headrace.model.page import Page
from headrace.model.patterns.feedback import Intent
from headrace.model.schema import TS
from headrace.model.time import BEGIN, END
from headrace.operators.specs import Hold
from headrace.session.circumstances import Circumstances
from headrace.session.feedback import feedback_command
from headrace.session.outcome import Listing, Message, Outcome
from headrace.session.transaction import Transaction

#: How long a DEMAND waits for the micro-batch that answers it.
DEMAND_SECONDS = 30.0


class Demands:
    """Sends feedback to queries, and waits for what a DEMAND gives."""

    def __init__(self, around: Circumstances) -> None:
        self._around, self._deployment, self._deployments = around, around.deployment, around.deployments
        self._demands: dict[str, int] = {}  # the number of the last demand, by query

    def send_feedback(self, statement: statements.Tell, transaction: Transaction) -> None:
        """Send feedback to a query; a demand is answered with the results so far."""
        known = transaction.running.get(statement.query.text)
        bound = BEGIN if known is None else self._deployment.delivery.bounds.get(known.output, BEGIN)
        now = bound if BEGIN < bound < END else self._time_of(known)
        command = feedback_command(
            statement,
            transaction.catalog,
            transaction.running,
            self._deployments.newest(),
            since=bound,
            now=now,
            number=transaction.number,
        )
        transaction.commands.append(command)
        if command.feedback.intent is not Intent.DEMANDED:
            transaction.outcomes.append(lambda: Message(f"{command.query}: {command.feedback}"))
            return
        transaction.outcomes.append(lambda: self._answer(command))

    def ask(self, statement: statements.Ask, transaction: Transaction) -> None:
        """Let a query that runs on demand compute its results, and wait for the micro-batch that does."""
        query = transaction.altered(statement.query)
        if not any(isinstance(vertex.spec, Hold) for vertex in query.graph):
            raise NotSupported(
                f"{query.query} always runs: its results come by themselves",
                span=statement.query.span,
                hint=f"to see results before they are final, write DEMAND {query.query} WHERE ...; "
                f"CREATE QUERY {query.query} ON DEMAND AS SELECT ... makes one that waits to be asked",
            )
        transaction.send(Release(query.query))
        transaction.outcomes.append(lambda: self._asked(query.query))

    def _asked(self, query: str) -> Outcome:
        self._settle(query)
        return Message(f"{query} has computed what waited")

    def _time_of(self, query: AddQuery | None) -> int | None:
        """Return how far the slowest stream of a query has come in its own time; None if one has not begun."""
        if query is None:
            return None
        external = [stream.name for stream in query.streams if stream.timing is Timing.EXTERNAL]
        counted = self._around.statistics.streams
        reached = [counted[name].frontier if name in counted else None for name in external]
        known = [frontier for frontier in reached if frontier is not None]
        return None if len(known) < len(reached) else min(known, default=self._deployment.now())

    def _answer(self, command: SendFeedback) -> Outcome:
        """Return what a DEMAND gave, once its micro-batch is through."""
        self._demands[command.query] = command.demand
        self._settle(command.query, command.demand)
        rows = self.partials(command.query)
        names = tuple(rows[0]) if rows else ("partial",)
        return Listing(names, tuple(tuple(row.values()) for row in rows))

    def _settle(self, query: str, demand: int | None = None) -> None:
        """Wait for the micro-batch in which a DEMAND takes effect, and for those that it needs beyond that."""
        delivery, is_settled = self._deployment.delivery, self._deployment.settle
        deadline = time.monotonic() + DEMAND_SECONDS
        is_answered = is_settled(self._deployments.count(), DEMAND_SECONDS)
        while is_answered:
            commands = delivery.commands
            if demand not in delivery.unanswered:
                break
            is_answered = is_settled(commands + 1, max(0.0, deadline - time.monotonic()))
        if demand in delivery.refused:
            raise HostFault(
                f"the DEMAND of {query} sends too many results that are not final from one operator to another",
                hint=f"say which ones you need: DEMAND {query} WHERE ...",
            )
        if not is_answered:
            raise HostFault(
                f"no micro-batch has answered the DEMAND of {query} within {DEMAND_SECONDS:.0f} seconds",
                hint="SHOW QUERIES shows whether the deployment is alive; try again when it has caught up",
            )

    def partials(self, query: str) -> list[dict[str, Any]]:
        """Return the rows that the last DEMAND of a query gave in the order of time, flagged `partial`."""
        pages = self._deployment.delivery.demanded.get(self._demands.get(query, -1))
        if not pages:
            return []
        rows = pl.concat([page.rows for page in pages]).sort(TS, maintain_order=True)
        return [{**row, "partial": True} for row in Page(rows).visible().iter_rows(named=True)]
