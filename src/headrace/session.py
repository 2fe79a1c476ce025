"""The composition root: text in, running queries out."""

from __future__ import annotations

import copy
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from headrace.catalog.catalog import Catalog
from headrace.catalog.define import define_aggregate, define_connector, define_query, define_stream, define_table, define_view
from headrace.catalog.definitions import Aggregate, Connector, Definition, Query, Stream, Table
from headrace.catalog.journal import Entry, Journal
from headrace.connectors import check_sink, check_source, infer_schema, push, read_table
from headrace.connectors.memory import MemorySink
from headrace.elements.page import Page
from headrace.errors import HeadraceError, HostFault, NameFault, Span
from headrace.graph.command import AddQuery, Drain, DropQuery, Running, UseStrategy
from headrace.graph.explain import explain_graph
from headrace.graph.graph import Graph
from headrace.graph.lower import lower, streams_of, tables_of
from headrace.hosts.host import Deployment
from headrace.hosts.intake import Deployments
from headrace.hosts.local import LocalDeployment
from headrace.language.names import did_you_mean
from headrace.language.parser import parse
from headrace.language.syntax import (
    Alter,
    CreateAggregate,
    CreateQuery,
    CreateStream,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Explain,
    Name,
    Select,
    Show,
    Split,
    Statement,
)
from headrace.optimizer.optimizer import best
from headrace.plan.binder import bind
from headrace.plan.explain import explain as explain_plan
from headrace.plan.nodes import Node, Scan
from headrace.plan.traversal import transform
from headrace.runtime.rules import strategy_named
from headrace.runtime.statistics import Statistics


@dataclass(frozen=True, slots=True)
class Message:
    """What a statement did, in a sentence."""

    text: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What a SHOW or DESCRIBE found."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class Started:
    """A query now runs."""

    query: str


Outcome: TypeAlias = Message | Listing | Started
Subscriber: TypeAlias = Callable[[int, list[dict[str, Any]]], None]


class Session:
    """Streams, tables and queries by name, and the deployment that runs them.

    The statements of one `execute` take effect together: either all are right or nothing happens, and their queries see the same first tuple.
    """

    def __init__(
        self,
        checkpoint: Path | str | None = None,
        *,
        host: Literal["spark", "local"] = "spark",
        buckets: int | None = None,
        limit: int = 1_000_000,
        interval: float = 0.05,
    ) -> None:
        self._temporary = checkpoint is None
        self.directory = Path(tempfile.mkdtemp(prefix="headrace-")) if checkpoint is None else Path(checkpoint).resolve()
        self.catalog = Catalog()
        self.journal = Journal(self.directory / "catalog.jsonl")
        self.deployment = self._deployment(host, buckets, limit, interval)
        self._started = False
        self._replay()

    def execute(self, text: str) -> list[Outcome]:
        """Run statements in order, all or none; an error points into `text`."""
        staged = _Staged(copy.deepcopy(self.catalog), self._running())
        for statement in parse(text):
            try:
                self._stage(statement, staged)
            except HeadraceError as error:
                if error.span is not None and error.text is None:
                    error.span = Span(error.span.start + statement.offset, error.span.end + statement.offset)
                    error.text = text
                raise
        return self._commit(staged)

    def explain(self, text: str, *, form: Literal["text", "json"] = "text") -> str:
        """Show how the statements' queries would run: plan, optimised plan, graph."""
        staged = _Staged(copy.deepcopy(self.catalog), self._running())
        shown = []
        for statement in parse(text):
            try:
                match statement:
                    case CreateQuery() | Select():
                        shown.append(self._explain(self._bind(statement.select, statement.text, staged), form, staged.catalog))
                    case Explain(target=target):
                        chosen = statement.form if form == "text" else form
                        shown.append(self._explain(self._target(target, statement.text, staged), chosen, staged.catalog))
                    case _:
                        self._stage(statement, staged)
                if isinstance(statement, CreateQuery):
                    self._stage(statement, staged)
            except HeadraceError as error:
                if error.span is not None and error.text is None:
                    error.span = Span(error.span.start + statement.offset, error.span.end + statement.offset)
                    error.text = text
                raise
        return "\n\n".join(shown)

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

    def subscribe(self, query: str, take: Subscriber) -> None:
        """Call `take(batch, rows)` with each micro-batch's results of a query, from a background thread."""

        def pass_on(batch: int, pages: Sequence[Page]) -> None:
            take(batch, [row for page in pages for row in page.visible().iter_rows(named=True)])

        self.deployment.delivery.subscribers.setdefault(query, []).append(pass_on)

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
        if not self._running().queries:
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

    def _deployment(self, host: str, buckets: int | None, limit: int, interval: float) -> Deployment:
        if host == "local":
            return LocalDeployment(self.directory, buckets=buckets or 1, limit=limit)
        from headrace.hosts.spark.host import SparkDeployment  # here, so that all else works without Java and Spark

        return SparkDeployment(self.directory, buckets=buckets, limit=limit, interval=interval)

    def _replay(self) -> None:
        """Know again what earlier sessions on this checkpoint defined."""
        staged = _Staged(self.catalog, Running())
        for entry in self.journal.read():
            if entry.definition is not None:
                staged.catalog.replace(entry.definition)
            else:
                for statement in parse(entry.text):
                    self._stage(statement, staged)
        self.catalog = staged.catalog

    def _running(self) -> Running:
        deployments = Deployments(self.directory)
        return deployments.at(deployments.count()).running

    def _stage(self, statement: Statement, staged: _Staged) -> None:
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
                plan = self._bind(statement.select, statement.text, staged, ordered=bool(statement.options.get("ordered")))
                query = define_query(statement, plan.schema)
                if staged.define(query, statement, f"query {query.name}"):
                    staged.start(self._command(query, plan, staged.catalog))
            case CreateView():
                self._stage_view(statement, statement.text, staged)
            case Split(views=views):
                for view in views:
                    self._stage_view(view, statement.text, staged)
            case Select():
                plan = self._bind(statement.select, statement.text, staged)
                name = "select_" + hashlib.blake2b(statement.text.encode(), digest_size=4).hexdigest()
                sinks = tuple(map(define_connector, statement.sinks)) or (Connector("CONSOLE", {}),)
                staged.start(self._command(Query(name, statement.select_text, plan.schema, sinks), plan, staged.catalog))
            case Drop():
                staged.drop(statement)
            case Alter():
                staged.alter(statement)
            case Show():
                staged.outcomes.append(lambda: self._show(statement.what))
            case Describe():
                found = staged.catalog.find(statement.name.text, span=statement.name.span)
                staged.outcomes.append(lambda: _described(found))
            case Explain():
                plan = self._target(statement.target, statement.text, staged)
                shown = self._explain(plan, statement.form, staged.catalog, self.statistics() if statement.analyze else None)
                staged.outcomes.append(lambda: Message(shown))

    def _stage_view(self, statement: CreateView, text: str, staged: _Staged) -> None:
        """Name a SELECT that is written in `text`; nothing runs until a query reads it."""
        plan = self._bind(statement.select, text, staged)
        staged.define(define_view(statement, plan.schema), statement, f"view {statement.name.text}")

    def _commit(self, staged: _Staged) -> list[Outcome]:
        self.catalog = staged.catalog
        for entry in staged.entries:
            self.journal.append(entry)
        for command in staged.commands:
            if isinstance(command, AddQuery) and self._running().draining:
                raise HostFault("this checkpoint has been drained: its streams are closed", hint="use a new --checkpoint for a new run")
            self.deployment.send(command)
        if self._running().queries:
            self.start()
            self.deployment.delivery.open(self._running())
        return [outcome() for outcome in staged.outcomes]

    def _bind(self, select: Any, text: str, staged: _Staged, *, ordered: bool = False) -> Node:
        """The optimised plan of a SELECT. A named query that it reads is optimised by itself, so that both run it as one."""
        plan = bind(select, text, staged.catalog, queries=lambda name: _Named.scan(name, staged.catalog), ordered=ordered)
        return self._expand(best(plan), staged)

    def _expand(self, plan: Node, staged: _Staged) -> Node:
        def change(node: Node) -> Node:
            query = _Named.query(node, staged.catalog)
            return node if query is None else self._plan_of(query, staged)

        return transform(plan, change)

    def _plan_of(self, query: Query, staged: _Staged) -> Node:
        select = parse(query.text)[0]
        assert isinstance(select, Select)
        return self._bind(select.select, query.text, staged, ordered=bool(query.options.get("ordered")))

    def _target(self, target: Any, text: str, staged: _Staged) -> Node:
        if isinstance(target, Name):
            found = staged.catalog.find(target.text, span=target.span)
            if not isinstance(found, Query):
                raise NameFault(f"{target.text!r} is not a query", span=target.span, hint="EXPLAIN takes a query's name or a SELECT")
            return self._plan_of(found, staged)
        return self._bind(target, text, staged)

    def _command(self, query: Query, plan: Node, catalog: Catalog) -> AddQuery:
        for sink in query.sinks:
            check_sink(query.name, sink, query.schema)
        bases = {name.removesuffix(".late").removesuffix(".bad") for name in streams_of(plan)}
        streams = tuple(stream for name in sorted(bases) if isinstance(stream := catalog.find(name), Stream))
        return AddQuery(query.name, self._graph(plan, query.name, catalog), streams, query.sinks, query.schema)

    def _graph(self, plan: Node, name: str, catalog: Catalog) -> Graph:
        tables = {}
        for table_name in tables_of(plan):
            table = catalog.find(table_name)
            assert isinstance(table, Table)
            tables[table_name] = Page(read_table(table)).encode()
        return lower(plan, name, tables)

    def _explain(self, plan: Node, form: str, catalog: Catalog, seen: Statistics | None = None) -> str:
        graph = self._graph(plan, "query", catalog)
        if form == "json":
            return msgspec.json.format(msgspec.json.encode({"plan": plan, "graph": graph})).decode()
        notes = {}
        for name, vertex in seen.vertices.items() if seen is not None else ():
            selectivity = "" if vertex.selectivity is None else f", selectivity {vertex.selectivity:.3f}"
            service = "" if vertex.service_us is None else f", {vertex.service_us:.2f} us a tuple"
            notes[name] = f"in {vertex.tuples_in}, out {vertex.tuples_out}{selectivity}{service}, holds {vertex.held}"
        return f"plan\n{explain_plan(plan)}\n\n{explain_graph(graph, notes)}"

    def _show(self, what: str) -> Listing:
        match what:
            case "STREAMS":
                seen = self.statistics().streams
                rows: list[tuple[Any, ...]] = []
                for stream in self.catalog.streams():
                    counts = seen.get(stream.name)
                    told = (counts.tuples, counts.bad, counts.late) if counts else (0, 0, 0)
                    rows.append((stream.name, stream.connector.kind, stream.timing.value, *told))
                return Listing(("stream", "source", "timestamps", "tuples", "bad", "late"), tuple(rows))
            case "TABLES":
                return Listing(("table", "source"), tuple((table.name, table.connector.kind) for table in self.catalog.tables()))
            case "QUERIES":
                counted = self.statistics().queries
                running = {query.query: query for query in self._running().queries}
                listed = tuple(
                    (name, ", ".join(sink.kind for sink in query.sinks), counted[name].results if name in counted else 0)
                    for name, query in running.items()
                )
                views = tuple((query.name, "view", None) for query in self.catalog.queries() if query.is_view)
                return Listing(("query", "sinks", "results"), listed + views)
            case "AGGREGATES":
                found = self.catalog.aggregates()
                return Listing(("aggregate", "argument", "result", "target"), tuple((a.name, a.arg.value, a.result.value, a.target) for a in found))
            case _:
                vertices = self.statistics().vertices
                columns = ("vertex", "in", "out", "queued", "held", "state bytes", "us a tuple")
                return Listing(
                    columns,
                    tuple(
                        (n, v.tuples_in, v.tuples_out, v.queued, v.held, v.state_bytes, round(v.service_us or 0.0, 3)) for n, v in vertices.items()
                    ),
                )


class _Staged:
    """What checked statements will do once all of them are right."""

    def __init__(self, catalog: Catalog, running: Running) -> None:
        self.catalog = catalog
        self.running = {query.query: query for query in running.queries}
        self.entries: list[Entry] = []
        self.commands: list[AddQuery | DropQuery | UseStrategy] = []
        self.outcomes: list[Callable[[], Outcome]] = []

    def define(self, definition: Definition, statement: CreateStream | CreateTable | CreateAggregate | CreateQuery | CreateView, what: str) -> bool:
        """Add a definition; False if it was there already, just so (a file that is run again)."""
        taken = self.catalog.aggregate(definition.name) if isinstance(definition, Aggregate) else self.catalog.get(definition.name)
        if taken == definition or (taken is not None and statement.if_not_exists):
            self.outcomes.append(lambda: Message(f"{what} is there already"))
            return isinstance(definition, Query) and taken == definition and definition.name not in self.running
        if statement.or_replace:
            self.catalog.replace(definition, span=statement.name.span)
        else:
            self.catalog.add(definition, span=statement.name.span)
        self.entries.append(Entry(statement.text, definition))
        if not isinstance(definition, Query) or definition.is_view:
            self.outcomes.append(lambda: Message(f"{what} created"))
        return True

    def start(self, command: AddQuery) -> None:
        self.outcomes.append(lambda: Started(command.query))
        if self.running.get(command.query) != command:
            self.commands.append(command)
            self.running[command.query] = command

    def alter(self, statement: Alter) -> None:
        """Set something of a query or of all; today that is the strategy by which operators are chosen."""
        setting, query = statement.setting.text.lower(), statement.query
        if setting != "strategy":
            raise NameFault(f"no setting {statement.setting.text!r}", span=statement.setting.span, hint="there is strategy")
        if query is not None and query.text not in self.running:
            raise NameFault(f"no running query {query.text!r}", span=query.span, hint=did_you_mean(query.text, list(self.running)))
        strategy_named(statement.value)
        self.commands.append(UseStrategy(None if query is None else query.text, statement.value))
        self.outcomes.append(lambda: Message(f"{'all queries' if query is None else query.text}: strategy {statement.value}"))

    def drop(self, statement: Drop) -> None:
        name = statement.name.text
        if statement.kind == "QUERY" and name in self.running and self.catalog.get(name) is None:
            removed = name  # an unnamed SELECT
        elif statement.if_exists and self.catalog.get(name) is None and self.catalog.aggregate(name) is None:
            self.outcomes.append(lambda: Message(f"no {statement.kind.lower()} {name}"))
            return
        else:
            removed = self.catalog.remove(name, statement.kind, span=statement.name.span).name
            self.entries.append(Entry(statement.text))
        if statement.kind == "QUERY" and self.running.pop(removed, None) is not None:  # a view does not run
            self.commands.append(DropQuery(removed))
        self.outcomes.append(lambda: Message(f"{statement.kind.lower()} {removed} dropped"))


class _Named:
    """How a plan refers to a named query while it is optimised: as a scan of a stream that no user can name."""

    PREFIX = "query "

    @classmethod
    def scan(cls, name: str, catalog: Catalog) -> Node:
        return Scan(cls.PREFIX + name, catalog.find(name).schema)

    @classmethod
    def query(cls, node: Node, catalog: Catalog) -> Query | None:
        if not isinstance(node, Scan) or not node.name.startswith(cls.PREFIX):
            return None
        found = catalog.find(node.name.removeprefix(cls.PREFIX))
        assert isinstance(found, Query)
        return found


def _described(found: Stream | Table | Query) -> Listing:
    return Listing(("column", "type"), tuple((field.name, field.type.value) for field in found.schema))
