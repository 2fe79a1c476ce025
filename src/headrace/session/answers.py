"""Statements that ask: SHOW, DESCRIBE and EXPLAIN."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headrace.analysis.forecast.report import format_report
from headrace.catalog.definitions import Aggregate, Function, Query, Rule, Sink, Stream, Table
from headrace.catalog.journal import Journal
from headrace.driver.progress import read_progress
from headrace.engine.statistics import VertexStatistics
from headrace.errors import NameFault
from headrace.graph.graph import VertexId
from headrace.graph.incarnations import meaning_of
from headrace.language.syntax import statements
from headrace.language.syntax.names import Name
from headrace.redaction import redact_statement
from headrace.session.circumstances import Circumstances
from headrace.session.compile import command_for, event_warnings, explain, plan_target
from headrace.session.explain_plans import explain_plans, format_plans, plans_as_json
from headrace.session.forecast import forecast_together
from headrace.session.listings.show import describe, describe_rule, show
from headrace.session.outcome import Listing, Message, Outcome
from headrace.session.parcels import explain_splits, show_parcels
from headrace.session.plans import explain_local
from headrace.session.promises import unshed_places
from headrace.session.proposals import show_proposals
from headrace.session.tables_alone import explain_on_tables, is_on_tables
from headrace.session.transaction import Transaction
from headrace.storage.mirror import left_requests
from headrace.storage.storage import OBJECTS

#: What SHOW CREATE names that has names of its own.
_APART: dict[str, type[Aggregate | Function | Sink]] = {"AGGREGATE": Aggregate, "FUNCTION": Function, "SINK": Sink}


class Answers:
    """Answers questions about a catalog and a deployment."""

    def __init__(self, around: Circumstances) -> None:
        self._around, self._deployment, self._deployments = around, around.deployment, around.deployments

    def show(self, statement: statements.Show, transaction: Transaction) -> Outcome:
        """Return what a SHOW lists, as it is now."""
        if statement.what == "PROPOSALS":
            reactions = self._deployment.delivery.reactions
            return show_proposals(reactions, transaction.catalog, self._deployment.now())
        if statement.what == "PARCELS":
            loads = self._deployment.control.balancer.loads
            return show_parcels(self._deployments.newest(), self._deployment.buckets, loads).redacted()
        return show(
            statement.what,
            transaction.catalog,
            self._deployments.newest(),
            self._around.statistics,
            self._deployment.now(),
            self._deployment.control.decisions.all(),
            self._deployment.failure(),
            read_progress(self._deployments.directory).budget if statement.what == "SETTINGS" else None,
            [note for report in self._deployment.delivery.reports for note in report.buckets],
            {
                "driver": OBJECTS.counted,
                "planning": left_requests(self._deployments.directory),
                "tasks": self._around.statistics.stores,
            },
            self._deployment.control.migrations,
            self._deployment.turn.refreshing.problems,
        ).redacted()

    def describe(self, statement: statements.Describe, transaction: Transaction) -> None:
        """Note an answer that says what a name stands for."""
        catalog, name = transaction.catalog, statement.name
        if catalog.has_rule(name.text):
            rule = catalog.rule(name.text)
            transaction.outcomes.append(lambda: describe_rule(rule).redacted())
            return
        definition = catalog.find(name.text, span=name.span)
        transaction.outcomes.append(
            lambda: describe(
                definition, self._deployments.newest(), event_warnings(definition, catalog), self._around.statistics
            ).redacted()
        )

    def show_create(self, statement: statements.ShowCreate, transaction: Transaction) -> None:
        """Note an answer that gives the statement that defined something.

        Of an INSERT INTO it is the query that it stands for.
        """
        catalog, name = transaction.catalog, statement.name
        is_relation = catalog.get(name.text) is not None or catalog.has_rule(name.text)
        apart = (_APART[statement.kind],) if statement.kind in _APART else () if is_relation else tuple(_APART.values())
        kinds = apart or (Stream, Table, Query, Rule)
        if not any(isinstance(known, kinds) and known.name.lower() == name.text.lower() for known in catalog):
            catalog.find(name.text, span=name.span)  # a fault, unless it is a stream that comes with another
        earlier = [*Journal(self._deployments.directory / "catalog.jsonl").read(), *transaction.entries]
        written = [
            entry.text
            for entry in earlier
            if isinstance(entry.definition, kinds) and entry.definition.name.lower() == name.text.lower()
        ]
        if not written:
            raise NameFault(
                f"{name.text!r} has no statement of its own",
                span=name.span,
                hint=f"write SHOW CREATE {name.text.rpartition('.')[0] or 'name'}",
            )
        text = redact_statement(written[-1])
        transaction.outcomes.append(lambda: Listing(("statement",), ((text,),)).redacted())

    def explain(self, statement: statements.Explain, transaction: Transaction) -> None:
        """Note an answer that says how a query runs, or would run."""
        if not isinstance(statement.target, Name) and is_on_tables(statement.target, transaction.catalog):
            text = explain_on_tables(statement.target, statement.text, transaction.catalog)
            transaction.outcomes.append(lambda: Message(text))
            return
        plan = plan_target(statement.target, statement.text, transaction.catalog)
        counters = self._counters(statement, transaction) if statement.analyze else None
        deferrals = transaction.deployed.deferrals if statement.analyze else ()
        name = statement.target.text if isinstance(statement.target, Name) else ""
        running = transaction.running.get(name), transaction.deployed.trees
        grid = self._around.grid_of(statement, transaction)
        shown = explain(
            plan,
            statement.form,
            transaction.catalog,
            counters,
            deferrals,
            running,
            choose_grid=grid,
            cells=self._around.cells(transaction),
        )
        if statement.form != "json":
            shown += explain_local(name, transaction.deployed)
            shown += explain_splits(name, transaction.deployed, self._deployment.buckets)
        transaction.outcomes.append(lambda: Message(shown))

    def _counters(self, statement: statements.Explain, transaction: Transaction) -> dict[VertexId, VertexStatistics]:
        """Return the counters of operators by what they compute: those of the target if it runs, else of any query."""
        name = statement.target.text if isinstance(statement.target, Name) else ""
        running = transaction.running.get(name)
        own = None if running is None else {vertex.id for vertex in running.graph}
        counted = self._around.statistics.vertices.items()
        return {meaning_of(vertex): counts for vertex, counts in counted if own is None or vertex in own}

    def explain_capacity(self, statement: statements.Explain, transaction: Transaction) -> None:
        """Forecast a query beside all that run; one that does not run is treated as if it did."""
        known = transaction.catalog.get(statement.target.text) if isinstance(statement.target, Name) else None
        queries = dict(transaction.running)
        if known is not None and known.name in queries:
            name = known.name
        else:
            plan = plan_target(statement.target, statement.text, transaction.catalog)
            name, options = (known.name, known.options) if isinstance(known, Query) else ("this query", {})
            made, grid = Query(name, "", plan.schema, (), options), self._around.grid_of(statement, transaction)
            queries[name] = command_for(made, plan, transaction.catalog, choose_grid=grid)
        facts, speed = self._around.measured(transaction), self._around.speed()
        report = forecast_together(queries.values(), facts, speed=speed, only=name)
        as_json = statement.form == "json"
        shown = msgspec.json.format(msgspec.json.encode(report)).decode() if as_json else format_report(report)
        if not as_json:
            shown += self._backlog(stream.name for stream in queries[name].streams)
            shown += "".join(
                f"\nnothing is shed before '{place}', where a loss would create results"
                for place in (unshed_places(queries[name]) if queries[name].qos.error else ())
            )
        transaction.outcomes.append(lambda: Message(shown))

    def explain_plans(self, statement: statements.Explain, transaction: Transaction) -> None:
        """Show the plans of the joins of a query; of one that does not run, by assumed rates."""
        known = transaction.catalog.get(statement.target.text) if isinstance(statement.target, Name) else None
        query = transaction.running.get(known.name) if known is not None else None
        if query is None:
            plan = plan_target(statement.target, statement.text, transaction.catalog)
            name = known.name if known is not None else "this query"
            made, grid = Query(name, "", plan.schema, ()), self._around.grid_of(statement, transaction)
            query = command_for(made, plan, transaction.catalog, choose_grid=grid)
        control = self._deployment.control
        buckets = self._around.count_of_buckets(transaction)
        rates = self._around.measured(transaction).rates
        joins = explain_plans(query, transaction.deployed, control.views, rates, buckets)
        shown = plans_as_json(joins) if statement.form == "json" else format_plans(joins)
        transaction.outcomes.append(lambda: Message(shown))

    def _backlog(self, streams: Iterable[str]) -> str:
        """Return a note on streams of which the rate of reading, which the forecast uses, is not that of arrival."""
        latest = self._deployment.control.latest
        behind = {} if latest is None else {name: latest.behind[name] for name in streams if name in latest.behind}
        counted = self._around.statistics.streams
        unread = {name: f" ({counted[name].backlog} unread)" for name in behind if counted[name].unread}
        return "".join(
            f"\n{name} is {seconds:.1f} s behind{unread.get(name, '')}: the forecast goes by the rate at which it is "
            "read, which is less than the rate at which it arrives while it falls behind, and more while it catches up"
            for name, seconds in behind.items()
        )
