"""What each statement does: it is checked and noted first, so that all statements of a text take effect or none."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec
import polars as pl

from headrace.analysis.forecast.facts import Facts
from headrace.analysis.forecast.report import format_report
from headrace.catalog.define import define_connector, define_query
from headrace.catalog.definitions import EARLY, LATE_BINDING, Connector, Query, Table, Timing
from headrace.catalog.references import learn_references, references, references_of
from headrace.commands.command import AddQuery, Release, SendFeedback
from headrace.commands.rebucketing import rebucketing
from headrace.driver.deployed import Deployments
from headrace.driver.progress import read_progress
from headrace.engine.statistics import Statistics, VertexStatistics
from headrace.errors import HeadraceError, HostFault, NameFault, NotSupported, Span
from headrace.graph.graph import VertexId
from headrace.graph.incarnations import meaning_of
from headrace.hosts.host import Deployment
from headrace.language.names import did_you_mean
from headrace.language.read.options import result_order
from headrace.language.syntax import parcels, rules, statements, stints
from headrace.language.syntax.names import Name
from headrace.language.syntax.statements import Statement
from headrace.model.page import Page
from headrace.model.patterns.feedback import Intent
from headrace.model.schema import TS
from headrace.model.time import BEGIN, END
from headrace.operators.specs import Hold
from headrace.session.admission import check_admission, check_altered
from headrace.session.compile import command_for, event_warnings, explain, plan_rule, plan_select, plan_target
from headrace.session.definitions import (
    create_aggregate,
    create_event,
    create_function,
    create_stream,
    create_table,
    create_view,
)
from headrace.session.early import check_early, with_early_results
from headrace.session.explain_plans import explain_plans, format_plans, plans_as_json
from headrace.session.feedback import feedback_command
from headrace.session.forecast import forecast_together, measured
from headrace.session.frontiers import reset_frontier
from headrace.session.grids import GridChoice
from headrace.session.inserting import query_of
from headrace.session.listings.show import describe, describe_rule, show
from headrace.session.outcome import Listing, Message, Outcome
from headrace.session.parcels import buckets_said, explain_splits, move, read_count, show_parcels
from headrace.session.parcels import said as moves_said
from headrace.session.plans import explain_local, migrate, said, set_plan
from headrace.session.promises import check_on_demand, check_promises, unshed_places
from headrace.session.proposals import decide, show_proposals
from headrace.session.raising import raise_by_hand
from headrace.session.replacing import Kept, compare, replaced_by, with_state
from headrace.session.rules import create_rule, create_sink, declare_event, define_inline, enable_rule
from headrace.session.secrets import check_secrets, secret_warnings
from headrace.session.steering import steer_stream
from headrace.session.stints import bound_late, with_activation
from headrace.session.tables_alone import answer_on_tables, explain_on_tables, is_on_tables
from headrace.session.transaction import Transaction, digest_of
from headrace.storage.mirror import left_requests
from headrace.storage.storage import OBJECTS

#: How long a DEMAND waits for the micro-batch that answers it.
DEMAND_SECONDS = 30.0


class Statements:
    """Checks statements against a catalog and a deployment, and notes in a transaction what they do."""

    def __init__(self, deployment: Deployment, deployments: Deployments) -> None:
        self._deployment, self._deployments = deployment, deployments
        self._demands: dict[str, int] = {}  # the number of the last demand, by query

    def prepare(self, statement: Statement, transaction: Transaction) -> None:
        """Check a statement and note what it does."""
        match statement:
            case statements.CreateStream():
                create_stream(statement, transaction)
            case statements.CreateTable():
                create_table(statement, transaction)
            case statements.CreateAggregate():
                create_aggregate(statement, transaction)
            case statements.CreateFunction():
                create_function(statement, transaction)
            case statements.CreateView():
                create_view(statement, statement.text, transaction)
            case statements.Split(views=views):
                for view in views:
                    create_view(view, statement.text, transaction)
            case statements.CreateEvent():
                create_event(statement, transaction)
            case rules.DeclareEvent():
                declare_event(statement, transaction)
            case rules.CreateSink():
                create_sink(statement, transaction)
            case rules.CreateRule():
                self._create_rule(statement, transaction)
            case rules.EnableRule():
                enable_rule(statement, transaction)
            case rules.RaiseByHand():
                raise_by_hand(statement, transaction, self._deployment.now())
            case rules.Decide():
                decide(statement, transaction, self._deployment.delivery.reactions, self._deployment.now())
            case statements.CreateQuery():
                self._create_query(statement, transaction)
            case statements.Select():
                self._select(statement, transaction)
            case statements.Insert():
                self._insert(statement, transaction)
            case statements.Detection():
                hint = "CREATE EVENT name AS ..., then SELECT * FROM name"
                raise NameFault("an event needs a name", span=Span(0, len("DETECT")), hint=hint)
            case stints.TurnQuery():
                transaction.turn(statement, self._deployment.now())
            case statements.Drop():
                transaction.drop(statement)
            case statements.Alter(query=query, setting=setting) if query and setting.text.lower() == "plan":
                self._plan(statement, transaction)
            case statements.Alter(query=None, setting=setting) if setting.text.lower() == "buckets":
                self._rebucket(statement, transaction)
            case statements.Alter():
                transaction.alter(statement)
            case statements.Migrate():
                self._plan(statement, transaction)
            case statements.RefreshTable():
                self._refresh(statement, transaction)
            case parcels.MoveParcels():
                self._move(statement, transaction)
            case statements.AlterPromises():
                self._promise(statement, transaction)
            case statements.ResetFrontier():
                reset_frontier(statement, transaction, self._deployment.now())
            case statements.SteerStream():
                steer_stream(statement, transaction)
            case statements.Ask():
                self._ask(statement, transaction)
            case statements.Tell():
                self._send_feedback(statement, transaction)
            case statements.Show():
                transaction.outcomes.append(lambda: self._show(statement, transaction))
            case statements.Describe():
                self._describe(statement, transaction)
            case statements.Explain(capacity=True):
                self._explain_capacity(statement, transaction)
            case statements.Explain(plans=True):
                self._explain_plans(statement, transaction)
            case statements.Explain():
                self._explain(statement, transaction)
            case statements.ExplainReplace():
                self._explain_replace(statement, transaction)

    def preview(self, statement: Statement, form: str, transaction: Transaction) -> list[str]:
        """Return how the query of a statement would run, as plan and graph.

        A statement without a query only takes effect.
        """
        catalog = transaction.catalog
        if isinstance(statement, statements.Select) and is_on_tables(statement.select, catalog):
            return [explain_on_tables(statement.select, statement.text, catalog)]
        if isinstance(statement, statements.Select):
            plan = plan_select(statement.select, statement.text, catalog)
            grid = self._choose_grid(transaction, "", references_of(statement.select).relations)
            return [explain(plan, form, catalog, choose_grid=grid, cells=self._cells(transaction))]
        if isinstance(statement, statements.Explain):
            chosen = statement.form if form == "text" else form
            plan = plan_target(statement.target, statement.text, catalog)
            grid = self._grid_of(statement, transaction)
            return [explain(plan, chosen, catalog, choose_grid=grid, cells=self._cells(transaction))]
        shown = []
        if isinstance(statement, statements.Insert):
            statement = query_of(statement, catalog)
        if isinstance(statement, statements.CreateQuery):
            plan = plan_select(statement.select, statement.text, catalog)
            grid = self._choose_grid(transaction, statement.name.text, references_of(statement.select).relations)
            shown.append(explain(plan, form, catalog, choose_grid=grid, cells=self._cells(transaction)))
        elif isinstance(statement, rules.CreateRule):
            define_inline(statement, transaction)
            shown.append(explain(plan_rule(statement, catalog).plan, form, catalog))
        self.prepare(statement, transaction)
        return shown

    def _refresh(self, statement: statements.RefreshTable, transaction: Transaction) -> None:
        """Let a table be read again as soon as possible."""
        name = statement.name
        table = transaction.catalog.find(name.text, span=name.span)
        if not isinstance(table, Table) or not table.refresh:
            raise NameFault(
                f"{name.text!r} is no table with REFRESH",
                span=name.span,
                hint="CREATE TABLE ... FROM FILES (...) REFRESH '1 minute' is read again while queries use it",
            )
        is_used = any(
            version.table.name == table.name for query in transaction.deployed.added for version in query.tables
        )
        refreshing = self._deployment.turn.refreshing

        def hurry() -> Outcome:
            refreshing.hurry(table.name)
            said = "is read again now" if is_used else "is read when a query uses it"
            return Message(f"table {table.name} {said}")

        transaction.outcomes.append(hurry)

    def _create_query(self, statement: statements.CreateQuery, transaction: Transaction) -> None:
        query, command, kept = self._compiled(statement, transaction)
        check_promises(query.qos, command.streams, statement.option_spans)
        if transaction.define(query, statement, f"query {query.name}", command=command):
            _warn(statement, transaction)
            self._admit(command, statement, transaction)
            note = f"query {query.name} {kept}" if kept is not None and str(kept) else ""
            transaction.start(command, references(query.text).relations, note)

    def _explain_replace(self, statement: statements.ExplainReplace, transaction: Transaction) -> None:
        name = statement.query.name
        if transaction.running.get(name.text) is None:
            is_off = any(query.query == name.text for query in transaction.deployed.added)
            otherwise = "it is off: the new query begins empty" if is_off else "EXPLAIN takes a SELECT"
            hint = did_you_mean(name.text, list(transaction.running), otherwise=otherwise)
            raise NameFault(f"no running query {name.text!r} that could be replaced", span=name.span, hint=hint)
        _, _, kept = self._compiled(statement.query, transaction)
        assert kept is not None
        transaction.outcomes.append(kept.listing)

    def _compiled(
        self, statement: statements.CreateQuery, transaction: Transaction
    ) -> tuple[Query, AddQuery, Kept | None]:
        """Return the definition of a query, the command that starts it, and what it keeps of the one it replaces."""
        order = result_order(statement.options)
        grid = self._choose_grid(transaction, statement.name.text, references_of(statement.select).relations)
        plan = plan_select(statement.select, statement.text, transaction.catalog, ordered=order)
        check_secrets(*statement.sinks)
        early = statement.options.get(EARLY), statement.option_spans.get(EARLY)
        if early[0]:
            plan = with_early_results(plan, early[1])
        query = define_query(statement, plan.schema)
        running = transaction.running.get(query.name) if statement.or_replace else None
        if running is not None:
            query, plan = with_state(query, plan, transaction, grid)
        if statement.on_demand is not None:
            check_on_demand(query.qos, statement.option_spans)
        command = command_for(query, plan, transaction.catalog, choose_grid=grid)
        if early[0]:
            check_early(query.name, command.graph, early[1])
        command = msgspec.structs.replace(command, definition=digest_of(query))
        if query.options.get(LATE_BINDING):
            command = self._bound_late(statement, command, transaction)
        if statement.stint is not None:
            watched = self._choose_grid(transaction, "", query.watched)
            command = with_activation(command, statement.stint, transaction.catalog, self._deployment.now(), watched)
        if running is None:
            return query, command, None
        readers = transaction.catalog.readers(query.name)
        return query, command, compare(command.graph, replaced_by(query, transaction)[1], readers)

    def _bound_late(self, statement: statements.CreateQuery, command: AddQuery, transaction: Transaction) -> AddQuery:
        """Return the command of a query that is on while the queries that it reads are."""
        if statement.stint is not None:
            span = statement.option_spans[LATE_BINDING]
            raise NotSupported(f"{LATE_BINDING} cannot be combined with START and STOP", span=span, hint="choose one")
        beside = transaction.catalog.queries_in(references_of(statement.select).relations)
        return bound_late(command, beside, transaction.running, self._deployment.now())

    def _select(self, statement: statements.Select, transaction: Transaction) -> None:
        """Run a SELECT without a name; the same text is the same query. One on tables alone is answered at once."""
        if is_on_tables(statement.select, transaction.catalog):
            listing = answer_on_tables(statement, transaction.catalog)
            transaction.outcomes.append(lambda: listing)
            return
        plan = plan_select(statement.select, statement.text, transaction.catalog)
        name = "select_" + hashlib.blake2b(statement.text.encode(), digest_size=4).hexdigest()
        check_secrets(*statement.sinks)
        _warn(statement, transaction)
        sinks = tuple(map(define_connector, statement.sinks)) or (Connector("CONSOLE", {}),)
        learn_references(statement.select_text, statement.select)
        query = Query(name, statement.select_text, plan.schema, sinks)
        grid = self._choose_grid(transaction, name, references(query.text).relations)
        command = command_for(query, plan, transaction.catalog, choose_grid=grid)
        transaction.start(command, references(query.text).relations)

    def _insert(self, statement: statements.Insert, transaction: Transaction) -> None:
        """Run a query into a named sink; errors point at the sink."""
        query = query_of(statement, transaction.catalog)
        try:
            self._create_query(query, transaction)
        except HeadraceError as error:
            error.span = statement.sink.span
            raise

    def _create_rule(self, statement: rules.CreateRule, transaction: Transaction) -> None:
        functions = self._deployment.delivery.reactions.functions
        create_rule(
            statement,
            transaction,
            functions,
            lambda command: self._admit(command, statement, transaction),
            lambda rule: self._choose_grid(transaction, rule.name, [rule.event]),
            self._deployment.now(),
        )

    def _admit(
        self, command: AddQuery, statement: statements.CreateQuery | rules.CreateRule, transaction: Transaction
    ) -> None:
        """Refuse a query that would break a MUST promise, unless it is forced."""
        if transaction.checks_admission and not statement.options.get("force"):
            facts, speed = self._measured(transaction), self._speed()
            check_admission(command, transaction.running, facts, speed, statement.name.span)

    def _promise(self, statement: statements.AlterPromises, transaction: Transaction) -> None:
        """Change the promises of a query; refuse those that MUST hold and would not, unless they are forced."""
        transaction.promise(statement)
        if transaction.checks_admission and not statement.options.get("force"):
            check_altered(
                transaction.altered(statement.query),
                statement.options.keys(),
                transaction.running,
                self._measured(transaction),
                self._speed(),
                statement.option_spans,
            )

    def _plan(self, statement: statements.Alter | statements.Migrate, transaction: Transaction) -> None:
        """Change the join tree of a query, or give it free."""
        assert statement.query is not None
        query, running = transaction.altered(statement.query), transaction.deployed
        boxes = self._deployment.control.migrations.boxes
        if isinstance(statement, statements.Migrate):
            commands = migrate(statement, query, running, boxes, self._buckets())
        else:
            commands = set_plan(statement, query, running, boxes, self._buckets())
        text = said(query.query, commands, running)
        for command in commands:
            transaction.send(command)
        transaction.outcomes.append(lambda: Message(text))

    def _move(self, statement: parcels.MoveParcels, transaction: Transaction) -> None:
        """Let parcels of a query go to another bucket."""
        query, running, buckets = transaction.altered(statement.query), transaction.deployed, self._buckets()
        commands = move(statement, query, running, buckets, self._deployment.control.balancer.loads)
        text = moves_said(statement, commands, running, buckets)
        for command in commands:
            transaction.send(command)
        transaction.outcomes.append(lambda: Message(text))

    def _rebucket(self, statement: statements.Alter, transaction: Transaction) -> None:
        """Divide the keys of all queries among more or fewer buckets."""
        count = read_count(statement)
        running, first = transaction.deployed, self._buckets()
        buckets = self._deployment.choose_buckets(count)
        for command in rebucketing(running, first, buckets) if buckets else ():
            transaction.send(command)
        text = buckets_said(count, running, first, buckets)
        transaction.outcomes.append(lambda: Message(text))

    def _buckets(self) -> list[int]:
        """Return the numbers of the buckets with which the checkpoint began; none before the first query has."""
        return self._deployment.buckets

    def _choose_grid(self, transaction: Transaction, name: str, reads: Iterable[str]) -> GridChoice:
        """Return which joins of a query run in a grid; it has those of the query of its name and of those it reads."""
        others = (transaction.running.get(other) for other in (name, *transaction.catalog.queries_in(reads)))
        return GridChoice(
            transaction.deployed.grid,
            self._count_of_buckets(transaction),
            lambda: self._measured(transaction).rates,
            [query.graph for query in others if query is not None],
        )

    def _count_of_buckets(self, transaction: Transaction) -> int:
        """Return among how many buckets keys are divided, or will be."""
        return len(transaction.deployed.in_use(self._buckets())) or self._deployment.expected_buckets()

    def _cells(self, transaction: Transaction) -> Callable[[VertexId], int]:
        """Return a function that says among how many buckets a vertex is divided, or would be."""
        return partial(transaction.deployed.cells, buckets=self._count_of_buckets(transaction))

    def _grid_of(self, statement: statements.Explain, transaction: Transaction) -> GridChoice:
        """Return the same for the target of an EXPLAIN."""
        if not isinstance(statement.target, Name):
            return self._choose_grid(transaction, "", references_of(statement.target).relations)
        known = transaction.catalog.get(statement.target.text)
        reads = references(known.text).relations if isinstance(known, Query) else ()
        return self._choose_grid(transaction, statement.target.text, reads)

    def _show(self, statement: statements.Show, transaction: Transaction) -> Outcome:
        if statement.what == "PROPOSALS":
            reactions = self._deployment.delivery.reactions
            return show_proposals(reactions, transaction.catalog, self._deployment.now())
        if statement.what == "PARCELS":
            loads = self._deployment.control.balancer.loads
            return show_parcels(self._deployments.newest(), self._buckets(), loads).redacted()
        return show(
            statement.what,
            transaction.catalog,
            self._deployments.newest(),
            self._statistics,
            self._deployment.now(),
            self._deployment.control.decisions.all(),
            self._deployment.failure(),
            read_progress(self._deployments.directory).budget if statement.what == "SETTINGS" else None,
            [note for report in self._deployment.delivery.reports for note in report.buckets],
            {
                "driver": OBJECTS.counted,
                "planning": left_requests(self._deployments.directory),
                "tasks": self._statistics.stores,
            },
            self._deployment.control.migrations,
            self._deployment.turn.refreshing.problems,
        ).redacted()

    def _describe(self, statement: statements.Describe, transaction: Transaction) -> None:
        catalog, name = transaction.catalog, statement.name
        if catalog.has_rule(name.text):
            rule = catalog.rule(name.text)
            transaction.outcomes.append(lambda: describe_rule(rule).redacted())
            return
        definition = catalog.find(name.text, span=name.span)
        transaction.outcomes.append(
            lambda: describe(
                definition, self._deployments.newest(), event_warnings(definition, catalog), self._statistics
            ).redacted()
        )

    def _explain(self, statement: statements.Explain, transaction: Transaction) -> None:
        if not isinstance(statement.target, Name) and is_on_tables(statement.target, transaction.catalog):
            text = explain_on_tables(statement.target, statement.text, transaction.catalog)
            transaction.outcomes.append(lambda: Message(text))
            return
        plan = plan_target(statement.target, statement.text, transaction.catalog)
        counters = self._counters(statement, transaction) if statement.analyze else None
        deferrals = transaction.deployed.deferrals if statement.analyze else ()
        name = statement.target.text if isinstance(statement.target, Name) else ""
        running = transaction.running.get(name), transaction.deployed.trees
        grid = self._grid_of(statement, transaction)
        shown = explain(
            plan,
            statement.form,
            transaction.catalog,
            counters,
            deferrals,
            running,
            choose_grid=grid,
            cells=self._cells(transaction),
        )
        if statement.form != "json":
            shown += explain_local(name, transaction.deployed)
            shown += explain_splits(name, transaction.deployed, self._buckets())
        transaction.outcomes.append(lambda: Message(shown))

    def _counters(self, statement: statements.Explain, transaction: Transaction) -> dict[VertexId, VertexStatistics]:
        """Return the counters of operators by what they compute: those of the target if it runs, else of any query."""
        name = statement.target.text if isinstance(statement.target, Name) else ""
        running = transaction.running.get(name)
        own = None if running is None else {vertex.id for vertex in running.graph}
        counted = self._statistics.vertices.items()
        return {meaning_of(vertex): counts for vertex, counts in counted if own is None or vertex in own}

    def _explain_capacity(self, statement: statements.Explain, transaction: Transaction) -> None:
        """Forecast a query beside all that run; one that does not run is treated as if it did."""
        known = transaction.catalog.get(statement.target.text) if isinstance(statement.target, Name) else None
        queries = dict(transaction.running)
        if known is not None and known.name in queries:
            name = known.name
        else:
            plan = plan_target(statement.target, statement.text, transaction.catalog)
            name, options = (known.name, known.options) if isinstance(known, Query) else ("this query", {})
            made, grid = Query(name, "", plan.schema, (), options), self._grid_of(statement, transaction)
            queries[name] = command_for(made, plan, transaction.catalog, choose_grid=grid)
        report = forecast_together(queries.values(), self._measured(transaction), speed=self._speed(), only=name)
        as_json = statement.form == "json"
        shown = msgspec.json.format(msgspec.json.encode(report)).decode() if as_json else format_report(report)
        if not as_json:
            shown += self._backlog(stream.name for stream in queries[name].streams)
            shown += "".join(
                f"\nnothing is shed before '{place}', where a loss would create results"
                for place in (unshed_places(queries[name]) if queries[name].qos.error else ())
            )
        transaction.outcomes.append(lambda: Message(shown))

    def _explain_plans(self, statement: statements.Explain, transaction: Transaction) -> None:
        """Show the plans of the joins of a query; of one that does not run, by assumed rates."""
        known = transaction.catalog.get(statement.target.text) if isinstance(statement.target, Name) else None
        query = transaction.running.get(known.name) if known is not None else None
        if query is None:
            plan = plan_target(statement.target, statement.text, transaction.catalog)
            name = known.name if known is not None else "this query"
            made, grid = Query(name, "", plan.schema, ()), self._grid_of(statement, transaction)
            query = command_for(made, plan, transaction.catalog, choose_grid=grid)
        control = self._deployment.control
        buckets = self._count_of_buckets(transaction)
        rates = self._measured(transaction).rates
        joins = explain_plans(query, transaction.deployed, control.views, rates, buckets)
        shown = plans_as_json(joins) if statement.form == "json" else format_plans(joins)
        transaction.outcomes.append(lambda: Message(shown))

    def _backlog(self, streams: Iterable[str]) -> str:
        """Return a note on streams of which the rate of reading, which the forecast uses, is not that of arrival."""
        latest = self._deployment.control.latest
        behind = {} if latest is None else {name: latest.behind[name] for name in streams if name in latest.behind}
        counted = self._statistics.streams
        unread = {name: f" ({counted[name].backlog} unread)" for name in behind if counted[name].unread}
        return "".join(
            f"\n{name} is {seconds:.1f} s behind{unread.get(name, '')}: the forecast goes by the rate at which it is "
            "read, which is less than the rate at which it arrives while it falls behind, and more while it catches up"
            for name, seconds in behind.items()
        )

    def _speed(self) -> float:
        """Return the busy seconds per second of a micro-batch: the number of cores, until it is measured."""
        latest = self._deployment.control.latest
        return float(self._deployment.cores) if latest is None else latest.machine.speed

    def _measured(self, transaction: Transaction) -> Facts:
        """Return what was measured in the deployment."""
        return measured(
            self._statistics,
            self._deployment.control.latest,
            transaction.catalog.streams(),
            overhead=self._deployment.overhead,
        )

    def _send_feedback(self, statement: statements.Tell, transaction: Transaction) -> None:
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

    def _ask(self, statement: statements.Ask, transaction: Transaction) -> None:
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
        counted = self._statistics.streams
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

    @property
    def _statistics(self) -> Statistics:
        return self._deployment.delivery.statistics


def _warn(statement: statements.CreateQuery | statements.Select, transaction: Transaction) -> None:
    """Warn of secrets in clear before the query starts."""
    warnings = secret_warnings(*statement.sinks)
    if warnings:
        transaction.outcomes.append(lambda: Message("\n".join(f"warning: {warning}" for warning in warnings)))
