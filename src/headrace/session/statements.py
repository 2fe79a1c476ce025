"""What each statement would do: checked and noted first, so that all that belong together are done or none."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from headrace.analysis.forecast.facts import Facts
from headrace.analysis.forecast.report import format_report
from headrace.catalog.define import (
    define_aggregate,
    define_connector,
    define_event,
    define_query,
    define_stream,
    define_table,
    define_view,
)
from headrace.catalog.definitions import Connector, Query
from headrace.commands.command import AddQuery
from headrace.connectors import check_source, infer_schema
from headrace.driver.delivery import Delivery
from headrace.driver.deployed import Deployments
from headrace.engine.clock import SystemClock
from headrace.engine.statistics import Statistics
from headrace.errors import NameFault, Span
from headrace.hosts.host import Deployment
from headrace.language.syntax.names import Name
from headrace.language.syntax.rules import CreateRule, CreateSink, DeclareEvent, SwitchRule
from headrace.language.syntax.statements import (
    Alter,
    AlterPromises,
    CreateAggregate,
    CreateEvent,
    CreateQuery,
    CreateStream,
    CreateTable,
    CreateView,
    Describe,
    Detection,
    Drop,
    Explain,
    Select,
    Show,
    Split,
    Statement,
    Tell,
)
from headrace.language.syntax.stints import TurnQuery
from headrace.model.patterns.feedback import Intent
from headrace.model.time import BEGIN, END
from headrace.session.admission import check_admission
from headrace.session.compile import (
    command_for,
    event_warnings,
    explain,
    how_ordered,
    plan_event,
    plan_select,
    plan_target,
    warnings_of,
)
from headrace.session.feedback import tell
from headrace.session.forecast import foretell, measured
from headrace.session.outcome import Listing, Message, Outcome
from headrace.session.promises import check_promises
from headrace.session.rules import stage_declared, stage_rule, stage_sink, stage_switch
from headrace.session.show import describe, describe_rule, show
from headrace.session.stints import switched
from headrace.session.transaction import Staged

#: How long a DEMAND waits for the micro-batch that answers it.
DEMAND_SECONDS = 30.0


class Staging:
    """Checks statements against a catalog, a deployment and what runs there."""

    def __init__(self, deployment: Deployment, deployments: Deployments) -> None:
        self._deployment, self._deployments = deployment, deployments

    def stage(self, statement: Statement, staged: Staged) -> None:
        """Check a statement and note what it would do."""
        match statement:
            case CreateStream():
                schema = statement.columns or infer_schema(define_connector(statement.connector))
                stream = define_stream(statement, schema)
                check_source(stream)
                staged.define(stream, statement, f"stream {stream.name}")
            case CreateTable():
                schema = statement.columns or infer_schema(define_connector(statement.connector))
                staged.define(define_table(statement, schema), statement, f"table {statement.name.text}")
            case CreateAggregate():
                staged.define(define_aggregate(statement), statement, f"aggregate {statement.name.text}")
            case CreateQuery():
                plan = plan_select(
                    statement.select, statement.text, staged.catalog, ordered=how_ordered(statement.options)
                )
                query = define_query(statement, plan.schema)
                command = command_for(query, plan, staged.catalog)
                if statement.switch is not None:
                    command = switched(command, statement.switch, staged.catalog, self._deployment.now())
                check_promises(query.qos, command.streams, statement.option_spans)
                if staged.define(query, statement, f"query {query.name}"):
                    self._admit(command, statement, staged)
                    staged.start(command)
            case CreateView():
                self._stage_view(statement, statement.text, staged)
            case CreateEvent(body=body):
                plan = (
                    plan_event(body, staged.catalog)
                    if isinstance(body, Detection)
                    else plan_select(body.select, statement.text, staged.catalog)
                )
                said = "".join(f"\nwarning: {warning}" for warning in warnings_of(plan))
                staged.define(define_event(statement, plan.schema), statement, f"event {statement.name.text}", said)
            case DeclareEvent():
                stage_declared(statement, staged)
            case CreateRule():
                stage_rule(
                    statement,
                    staged,
                    self._deployment.delivery.reactions.functions,
                    lambda command: self._admit(command, statement, staged),
                )
            case SwitchRule():
                stage_switch(statement, staged)
            case CreateSink():
                stage_sink(statement, staged)
            case Detection():
                raise NameFault(
                    "an event needs a name",
                    span=Span(0, len("DETECT")),
                    hint="CREATE EVENT name AS ..., then SELECT * FROM name",
                )
            case Split(views=views):
                for view in views:
                    self._stage_view(view, statement.text, staged)
            case Select():
                plan = plan_select(statement.select, statement.text, staged.catalog)
                name = "select_" + hashlib.blake2b(statement.text.encode(), digest_size=4).hexdigest()
                sinks = tuple(map(define_connector, statement.sinks)) or (Connector("CONSOLE", {}),)
                staged.start(command_for(Query(name, statement.select_text, plan.schema, sinks), plan, staged.catalog))
            case TurnQuery():
                staged.turn(statement, self._deployment.now())
            case Drop():
                staged.drop(statement)
            case Alter():
                staged.alter(statement)
            case AlterPromises():
                staged.promise(statement)
            case Tell():
                self._stage_feedback(statement, staged)
            case Show():
                staged.outcomes.append(lambda: self._shown(statement, staged))
            case Describe() if staged.catalog.has_rule(statement.name.text):
                rule = staged.catalog.rule(statement.name.text)
                staged.outcomes.append(lambda: describe_rule(rule))
            case Describe():
                found = staged.catalog.find(statement.name.text, span=statement.name.span)
                staged.outcomes.append(
                    lambda: describe(
                        found, self._deployments.newest(), event_warnings(found, staged.catalog), self._statistics
                    )
                )
            case Explain(capacity=True):
                self._stage_capacity(statement, staged)
            case Explain():
                plan = plan_target(statement.target, statement.text, staged.catalog)
                shown = explain(plan, statement.form, staged.catalog, self._statistics if statement.analyze else None)
                staged.outcomes.append(lambda: Message(shown))

    def _shown(self, statement: Show, staged: Staged) -> Outcome:
        decided = self._deployment.control.decisions.all()
        return show(
            statement.what,
            staged.catalog,
            self._deployments.newest(),
            self._statistics,
            self._deployment.now(),
            decided,
        )

    def _admit(self, command: AddQuery, statement: CreateQuery | CreateRule, staged: Staged) -> None:
        """Refuse what would break a promise that must hold, unless it is forced."""
        if not statement.options.get("force"):
            check_admission(command, staged.running, self._measured(staged), self._speed(), statement.name.span)

    def _stage_capacity(self, statement: Explain, staged: Staged) -> None:
        """Predict a query beside all that run; one that does not run yet is taken as if it did."""
        known = staged.catalog.get(statement.target.text) if isinstance(statement.target, Name) else None
        queries = dict(staged.running)
        if known is not None and known.name in queries:
            name = known.name
        else:
            plan = plan_target(statement.target, statement.text, staged.catalog)
            name, options = (known.name, known.options) if isinstance(known, Query) else ("this query", {})
            queries[name] = command_for(Query(name, "", plan.schema, (), options), plan, staged.catalog)
        found = foretell(queries.values(), self._measured(staged), speed=self._speed(), only=name)
        shown = (
            msgspec.json.format(msgspec.json.encode(found)).decode()
            if statement.form == "json"
            else format_report(found)
        )
        staged.outcomes.append(lambda: Message(shown))

    def _speed(self) -> float:
        """How many busy seconds pass in a second of a micro-batch: as many as there are cores, until more is known."""
        seen = self._deployment.control.latest
        return float(self._deployment.cores) if seen is None else seen.machine.speed

    def _measured(self, staged: Staged) -> Facts:
        """What the deployment's counters say now."""
        return measured(self._statistics, self._deployment.control.latest, staged.catalog.streams())

    def _stage_feedback(self, statement: Tell, staged: Staged) -> None:
        """Tell a query what its readers need; a demand is answered with what there is."""
        known = staged.running.get(statement.query.text)
        bound = BEGIN if known is None else self._deployment.delivery.bounds.get(known.output, BEGIN)
        now = bound if BEGIN < bound < END else SystemClock().now()
        command = tell(statement, staged.catalog, staged.running, self._deployments.newest(), since=bound, now=now)
        staged.commands.append(command)
        if command.feedback.intent is not Intent.DEMANDED:
            staged.outcomes.append(lambda: Message(f"{command.query}: {command.feedback}"))
            return
        staged.outcomes.append(lambda: self._demanded(command.query))

    def _demanded(self, query: str) -> Outcome:
        """What the last DEMAND of a query found, once the micro-batch that took it is through."""
        self._deployment.settle(self._deployments.count(), DEMAND_SECONDS)
        rows = partial_rows(self._deployment.delivery, query)
        names = tuple(rows[0]) if rows else ("partial",)
        return Listing(names, tuple(tuple(row.values()) for row in rows))

    def _stage_view(self, statement: CreateView, text: str, staged: Staged) -> None:
        """Name a SELECT that is written in `text`; nothing runs until a query reads it."""
        plan = plan_select(statement.select, text, staged.catalog)
        staged.define(define_view(statement, plan.schema), statement, f"view {statement.name.text}")

    @property
    def _statistics(self) -> Statistics:
        return self._deployment.delivery.statistics


def partial_rows(delivery: Delivery, query: str) -> list[dict[str, Any]]:
    """What the last DEMAND of a query gave, flagged."""
    return [
        {**row, "partial": True}
        for page in delivery.partials.get(query, [])
        for row in page.visible().iter_rows(named=True)
    ]
