"""A session: text in, running queries out; the one place where catalog, compiler, host and sinks meet."""

from __future__ import annotations

import copy
import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from headrace.analysis.facts import Facts
from headrace.analysis.report import CapacityReport, format_report
from headrace.catalog.catalog import Catalog
from headrace.catalog.define import define_aggregate, define_connector, define_event, define_query, define_stream, define_table, define_view
from headrace.catalog.definitions import Connector, Query, Stream
from headrace.catalog.journal import Journal
from headrace.connectors import check_source, infer_schema, push
from headrace.connectors.memory import MemorySink
from headrace.elements.feedback import Intent
from headrace.elements.page import Page
from headrace.elements.time import BEGIN, END
from headrace.errors import HeadraceError, HostFault, NameFault, Span
from headrace.graph.command import AddQuery, Command, Drain
from headrace.graph.running import Running
from headrace.hosts.host import Deployment
from headrace.hosts.intake import Deployments
from headrace.hosts.local import LocalDeployment
from headrace.language.parser import parse
from headrace.language.rule_syntax import CreateRule, CreateSink, DeclareEvent, SwitchRule
from headrace.language.switch_syntax import TurnQuery
from headrace.language.syntax import (
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
    Name,
    Select,
    Show,
    Split,
    Statement,
    Tell,
)
from headrace.runtime.clock import SystemClock
from headrace.runtime.ingest import PAGE_TUPLES
from headrace.runtime.statistics import Statistics
from headrace.session.admission import check_admission
from headrace.session.compile import (
    command_for,
    event_warnings,
    explain,
    how_ordered,
    plan_event,
    plan_rule,
    plan_select,
    plan_target,
    warnings_of,
)
from headrace.session.feedback import tell
from headrace.session.flexible import by_name, switched, turned_off, turned_on
from headrace.session.forecast import Stated, declared_rate, foretell, measured
from headrace.session.outcome import Listing, Message, Outcome
from headrace.session.promises import check_promises
from headrace.session.rules import stage_declared, stage_rule, stage_sink, stage_switch
from headrace.session.show import describe, describe_rule, show
from headrace.session.staged import Staged

#: How long a DEMAND waits for the micro-batch that answers it.
DEMAND_SECONDS = 30.0
Subscriber: TypeAlias = Callable[[int, list[dict[str, Any]]], None]


class Session:
    """Streams, tables and queries by name, and the deployment that runs them.

    A micro-batch reads about `limit` tuples of a stream at most, and a page holds `page` at most; neither changes a result.
    The statements of one `execute` take effect together: either all are right or nothing happens, and their queries see the same first tuple.
    """

    def __init__(
        self,
        checkpoint: Path | str | None = None,
        *,
        host: Literal["spark", "local"] = "spark",
        buckets: int | None = None,
        limit: int = 1_000_000,
        page: int = PAGE_TUPLES,
        interval: float = 0.05,
    ) -> None:
        self._temporary = checkpoint is None
        self.directory = Path(tempfile.mkdtemp(prefix="headrace-")) if checkpoint is None else Path(checkpoint).resolve()
        self.catalog = Catalog()
        self.journal = Journal(self.directory / "catalog.jsonl")
        self.deployment = self._deployment(host, buckets, limit, page, interval)
        self.deployment.delivery.reactions.switch = self._switch
        self._started = False
        self._deployments = Deployments(self.directory)
        self._replay()

    def execute(self, text: str) -> list[Outcome]:
        """Run statements in order, all or none; an error points into `text`."""
        return self._commit(self._staged(text))

    def explain(self, text: str, *, form: Literal["text", "json"] = "text") -> str:
        """Show how the statements' queries would run: plan, optimised plan, graph."""
        staged = Staged(copy.deepcopy(self.catalog), self._running())
        shown = []
        for statement in parse(text):
            try:
                match statement:
                    case CreateQuery() | Select():
                        shown.append(explain(plan_select(statement.select, statement.text, staged.catalog), form, staged.catalog))
                    case Explain(target=target):
                        chosen = statement.form if form == "text" else form
                        shown.append(explain(plan_target(target, statement.text, staged.catalog), chosen, staged.catalog))
                    case CreateRule():
                        shown.append(explain(plan_rule(statement, staged.catalog).plan, form, staged.catalog))
                    case _:
                        self._stage(statement, staged)
                if isinstance(statement, CreateQuery | CreateRule):
                    self._stage(statement, staged)
            except HeadraceError as error:
                if error.span is not None and error.text is None:
                    error.span = Span(error.span.start + statement.offset, error.span.end + statement.offset)
                    error.text = text
                raise
        return "\n\n".join(shown)

    def foretell(self, text: str, stated: Stated, *, speed: float = 1.0) -> CapacityReport:
        """Predict what the queries of a text would do beside those that run, without running them, on a processor `speed` times as fast."""
        staged = self._staged(text)
        return foretell(staged.running.values(), stated.facts(staged.catalog.streams()), speed=speed)

    def streams_of(self, text: str) -> dict[str, float | None]:
        """The streams that the queries of a text read, with the rates of those that say how fast they come."""
        read = {stream.name: stream for query in self._staged(text).running.values() for stream in query.streams}
        return {name: declared_rate(stream) for name, stream in sorted(read.items())}

    def start_query(self, name: str) -> None:
        """Turn a query on, as START QUERY does; nothing if it is on."""
        self._turn(turned_on(self._running(), by_name(name), self._now()))

    def stop_query(self, name: str) -> None:
        """Turn a query off, as STOP QUERY does: its windows end, what is due comes out, and it stays defined; nothing if it is off."""
        self._turn(turned_off(self._running(), by_name(name), self._now()))

    def push(self, stream: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows to a MEMORY stream; durable when it returns."""
        found = self.catalog.find(stream)
        if not isinstance(found, Stream) or found.connector.kind != "MEMORY":
            raise NameFault(f"{stream!r} is not a MEMORY stream", hint="only streams created with FROM MEMORY take pushed rows")
        push(found, self.directory, rows)

    def results(self, query: str) -> list[dict[str, Any]]:
        """What a query with a MEMORY sink has delivered so far."""
        for sink in self.deployment.delivery.sinks.get(query, []):
            if isinstance(sink, MemorySink):
                return sink.rows()
        raise NameFault(f"no running query {query!r} with a MEMORY sink", hint="create it with INTO MEMORY")

    def partials(self, query: str) -> list[dict[str, Any]]:
        """What the last DEMAND of a query gave: rows as they were then, flagged `partial`; the final ones come in their time."""
        pages = self.deployment.delivery.partials.get(query, [])
        return [{**row, "partial": True} for page in pages for row in page.visible().iter_rows(named=True)]

    def subscribe(self, query: str, take: Subscriber) -> None:
        """Call `take(batch, rows)` with each micro-batch's results of a query, from a background thread."""

        def pass_on(batch: int, pages: Sequence[Page]) -> None:
            take(batch, [row for page in pages for row in page.visible().iter_rows(named=True)])

        self.deployment.delivery.subscribers.setdefault(query, []).append(pass_on)

    def register(self, name: str, function: Callable[..., Any]) -> None:
        """Let rules CALL a function by name: it takes the detection as a dictionary, or the arguments that CALL names, and `key`.

        A session that continues a checkpoint registers its functions again, before it starts.
        """
        self.deployment.delivery.reactions.functions[name] = function

    def statistics(self) -> Statistics:
        """Counters of the deployment as of the last finished micro-batch."""
        return self.deployment.delivery.statistics

    def start(self) -> None:
        """Start the queries that the checkpoint knows; `execute` does it by itself when it adds one."""
        if not self._started:
            self.deployment.start()
            self.deployment.delivery.open(self._running())
            self._started = True

    def drain(self, timeout: float | None = None) -> None:
        """Read all that the sources hold now, close the streams so that every window ends, deliver, and stop."""
        if not self._running().known:
            return
        if not self._running().draining:
            self.deployment.send(Drain())
        self.start()
        if not self.deployment.wait(timeout):
            raise HostFault(f"not drained within {timeout} s", hint="give it more time, or look at statistics() for what is slow")

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the deployment ends (True) or `timeout` seconds pass (False); raises if it failed."""
        return self.deployment.wait(timeout)

    def stop(self) -> None:
        """Finish the running micro-batch and stop; a session on the same checkpoint continues from here."""
        if self._started:
            self._started = False
            self.deployment.stop()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _deployment(self, host: str, buckets: int | None, limit: int, page: int, interval: float) -> Deployment:
        if host == "local":
            return LocalDeployment(self.directory, buckets=buckets or 1, limit=limit, page=page)
        from headrace.hosts.spark.host import SparkDeployment  # here, so that all else works without Java and Spark

        return SparkDeployment(self.directory, buckets=buckets, limit=limit, page=page, interval=interval)

    def _replay(self) -> None:
        """Know again what earlier sessions on this checkpoint defined."""
        staged = Staged(self.catalog, Running())
        for entry in self.journal.read():
            if entry.definition is not None:
                staged.catalog.replace(entry.definition)
            else:
                for statement in parse(entry.text):
                    self._stage(statement, staged)
        self.catalog = staged.catalog

    def _turn(self, commands: Sequence[Command]) -> None:
        for command in commands:
            self.deployment.send(command)

    def _now(self) -> int:
        """The time, by the clock of the deployment."""
        return self.deployment.now()

    def _running(self) -> Running:
        return self._deployments.running(self._deployments.count())

    def _staged(self, text: str) -> Staged:
        """Check statements in order, as if they were run."""
        staged = Staged(copy.deepcopy(self.catalog), self._running())
        for statement in parse(text):
            try:
                self._stage(statement, staged)
            except HeadraceError as error:
                if error.span is not None and error.text is None:
                    error.span = Span(error.span.start + statement.offset, error.span.end + statement.offset)
                    error.text = text
                raise
        return staged

    def _stage(self, statement: Statement, staged: Staged) -> None:
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
                plan = plan_select(statement.select, statement.text, staged.catalog, ordered=how_ordered(statement.options))
                query = define_query(statement, plan.schema)
                command = command_for(query, plan, staged.catalog)
                if statement.switch is not None:
                    command = switched(command, statement.switch, staged.catalog, self._now())
                check_promises(query.qos, command.streams, statement.option_spans)
                if staged.define(query, statement, f"query {query.name}"):
                    self._admit(command, statement, staged)
                    staged.start(command)
            case CreateView():
                self._stage_view(statement, statement.text, staged)
            case CreateEvent(body=body):
                plan = plan_event(body, staged.catalog) if isinstance(body, Detection) else plan_select(body.select, statement.text, staged.catalog)
                said = "".join(f"\nwarning: {warning}" for warning in warnings_of(plan))
                staged.define(define_event(statement, plan.schema), statement, f"event {statement.name.text}", said)
            case DeclareEvent():
                stage_declared(statement, staged)
            case CreateRule():
                stage_rule(statement, staged, self.deployment.delivery.reactions.functions, lambda command: self._admit(command, statement, staged))
            case SwitchRule():
                stage_switch(statement, staged)
            case CreateSink():
                stage_sink(statement, staged)
            case Detection():
                raise NameFault("an event needs a name", span=Span(0, len("DETECT")), hint="CREATE EVENT name AS ..., then SELECT * FROM name")
            case Split(views=views):
                for view in views:
                    self._stage_view(view, statement.text, staged)
            case Select():
                plan = plan_select(statement.select, statement.text, staged.catalog)
                name = "select_" + hashlib.blake2b(statement.text.encode(), digest_size=4).hexdigest()
                sinks = tuple(map(define_connector, statement.sinks)) or (Connector("CONSOLE", {}),)
                staged.start(command_for(Query(name, statement.select_text, plan.schema, sinks), plan, staged.catalog))
            case TurnQuery():
                staged.turn(statement, self._now())
            case Drop():
                staged.drop(statement)
            case Alter():
                staged.alter(statement)
            case AlterPromises():
                staged.promise(statement)
            case Tell():
                self._stage_feedback(statement, staged)
            case Show():
                staged.outcomes.append(
                    lambda: show(
                        statement.what, self.catalog, self._running(), self.statistics(), self._now(), self.deployment.controller.decisions.all()
                    )
                )
            case Describe() if staged.catalog.has_rule(statement.name.text):
                rule = staged.catalog.rule(statement.name.text)
                staged.outcomes.append(lambda: describe_rule(rule))
            case Describe():
                found = staged.catalog.find(statement.name.text, span=statement.name.span)
                staged.outcomes.append(lambda: describe(found, self._running(), event_warnings(found, staged.catalog), self.statistics()))
            case Explain(capacity=True):
                self._stage_capacity(statement, staged)
            case Explain():
                plan = plan_target(statement.target, statement.text, staged.catalog)
                shown = explain(plan, statement.form, staged.catalog, self.statistics() if statement.analyze else None)
                staged.outcomes.append(lambda: Message(shown))

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
        shown = msgspec.json.format(msgspec.json.encode(found)).decode() if statement.form == "json" else format_report(found)
        staged.outcomes.append(lambda: Message(shown))

    def _speed(self) -> float:
        """How many busy seconds pass in a second of a micro-batch: as many as there are cores, until more is known."""
        seen = self.deployment.controller.seen
        return float(self.deployment.cores) if seen is None else seen.machine.speed

    def _measured(self, staged: Staged) -> Facts:
        """What the deployment's counters say now."""
        return measured(self.statistics(), self.deployment.controller.seen, staged.catalog.streams())

    def _stage_feedback(self, statement: Tell, staged: Staged) -> None:
        """Tell a query what its readers need; a demand is answered with what there is."""
        known = staged.running.get(statement.query.text)
        bound = BEGIN if known is None else self.deployment.delivery.bounds.get(known.output, BEGIN)
        now = bound if BEGIN < bound < END else SystemClock().now()
        command = tell(statement, staged.catalog, staged.running, self._running(), since=bound, now=now)
        staged.commands.append(command)
        if command.feedback.intent is not Intent.DEMANDED:
            staged.outcomes.append(lambda: Message(f"{command.query}: {command.feedback}"))
            return
        staged.outcomes.append(lambda: self._demanded(command.query))

    def _demanded(self, query: str) -> Outcome:
        """What the last DEMAND of a query found, once the micro-batch that took it is through."""
        commands = self._deployments.count()
        deadline = time.monotonic() + DEMAND_SECONDS
        while self.deployment.delivery.commands < commands and time.monotonic() < deadline:
            if isinstance(self.deployment, LocalDeployment):
                self.deployment.step()
            else:
                time.sleep(0.01)
        rows = self.partials(query)
        names = tuple(rows[0]) if rows else ("partial",)
        return Listing(names, tuple(tuple(row.values()) for row in rows))

    def _stage_view(self, statement: CreateView, text: str, staged: Staged) -> None:
        """Name a SELECT that is written in `text`; nothing runs until a query reads it."""
        plan = plan_select(statement.select, text, staged.catalog)
        staged.define(define_view(statement, plan.schema), statement, f"view {statement.name.text}")

    def _switch(self, name: str, on: bool) -> None:
        """Turn a query on or off, as rules do it."""
        if on:
            self.start_query(name)
        else:
            self.stop_query(name)

    def _commit(self, staged: Staged) -> list[Outcome]:
        if self._running().draining and any(isinstance(command, AddQuery) for command in staged.commands):
            raise HostFault("this checkpoint has been drained: its streams are closed", hint="use a new --checkpoint for a new run")
        for entry in staged.entries:
            self.journal.append(entry)
        self.catalog = staged.catalog
        for command in staged.commands:
            self.deployment.send(command)
        if self._running().known:
            self.start()
            self.deployment.delivery.open(self._running())
        return [outcome() for outcome in staged.outcomes]
