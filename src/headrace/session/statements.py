"""What each statement does: it is checked and noted first, so that all statements of a text take effect or none."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from headrace.catalog.define import define_connector, define_query
from headrace.catalog.definitions import EARLY, LATE_BINDING, Connector, Query, Table
from headrace.catalog.references import learn_references, references, references_of
from headrace.commands.command import AddQuery
from headrace.commands.rebucketing import rebucketing
from headrace.driver.deployed import Deployments
from headrace.errors import HeadraceError, NameFault, NotSupported, Span
from headrace.hosts.host import Deployment
from headrace.language.names import did_you_mean
from headrace.language.read.options import result_order
from headrace.language.syntax import parcels, rules, statements, stints
from headrace.language.syntax.statements import Statement
from headrace.plan.nodes import Node
from headrace.session.admission import check_admission, check_altered
from headrace.session.answers import Answers
from headrace.session.circumstances import Circumstances
from headrace.session.compile import command_for, explain, plan_rule, plan_select, plan_target
from headrace.session.definitions import (
    create_aggregate,
    create_event,
    create_function,
    create_stream,
    create_table,
    create_view,
)
from headrace.session.demands import Demands
from headrace.session.early import check_early, with_early_results
from headrace.session.folders import check_folders, earlier_files
from headrace.session.frontiers import reset_frontier
from headrace.session.inserting import query_of
from headrace.session.outcome import Message, Outcome
from headrace.session.parcels import buckets_said, move, read_count
from headrace.session.parcels import said as moves_said
from headrace.session.plans import migrate, said, set_plan
from headrace.session.promises import check_on_demand, check_promises
from headrace.session.proposals import decide
from headrace.session.raising import raise_by_hand
from headrace.session.replacing import Kept, compare, replaced_by, with_state
from headrace.session.rules import create_rule, create_sink, declare_event, define_inline, enable_rule
from headrace.session.secrets import check_secrets, secret_warnings
from headrace.session.steering import steer_stream
from headrace.session.stints import bound_late, with_activation
from headrace.session.tables_alone import answer_on_tables, explain_on_tables, is_on_tables
from headrace.session.transaction import Transaction, digest_of


class Statements:
    """Checks statements against a catalog and a deployment, and notes in a transaction what they do."""

    def __init__(self, deployment: Deployment, deployments: Deployments) -> None:
        self._deployment = deployment
        self._around = Circumstances(deployment, deployments)
        self._answers, self.demands = Answers(self._around), Demands(self._around)

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
                self.demands.ask(statement, transaction)
            case statements.Tell():
                self.demands.send_feedback(statement, transaction)
            case statements.Show():
                transaction.outcomes.append(lambda: self._answers.show(statement, transaction))
            case statements.ShowCreate():
                self._answers.show_create(statement, transaction)
            case statements.Describe():
                self._answers.describe(statement, transaction)
            case statements.Explain(capacity=True):
                self._answers.explain_capacity(statement, transaction)
            case statements.Explain(plans=True):
                self._answers.explain_plans(statement, transaction)
            case statements.Explain():
                self._answers.explain(statement, transaction)
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
            grid = self._around.choose_grid(transaction, "", references_of(statement.select).relations)
            return [explain(plan, form, catalog, choose_grid=grid, cells=self._around.cells(transaction))]
        if isinstance(statement, statements.Explain):
            chosen = statement.form if form == "text" else form
            plan = plan_target(statement.target, statement.text, catalog)
            grid = self._around.grid_of(statement, transaction)
            return [explain(plan, chosen, catalog, choose_grid=grid, cells=self._around.cells(transaction))]
        shown = []
        if isinstance(statement, statements.Insert):
            statement = query_of(statement, catalog)
        if isinstance(statement, statements.CreateQuery):
            plan = plan_select(statement.select, statement.text, catalog)
            grid = self._around.choose_grid(transaction, statement.name.text, references_of(statement.select).relations)
            shown.append(explain(plan, form, catalog, choose_grid=grid, cells=self._around.cells(transaction)))
        elif isinstance(statement, rules.CreateRule):
            define_inline(statement, transaction)
            shown.append(explain(plan_rule(statement, catalog).plan, form, catalog))
        self.prepare(statement, transaction)
        return shown

    def _refresh(self, statement: statements.RefreshTable, transaction: Transaction) -> None:
        """Let a table be read again as soon as possible."""
        name = statement.name
        table = transaction.catalog.find(name.text, span=name.span)
        if isinstance(table, Table) and table.origin is not None:
            raise NameFault(
                f"{name.text!r} is no table with REFRESH",
                span=name.span,
                hint=f"{table.origin} feeds it: its rows are always the newest",
            )
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
        query, plan = self._planned(statement, transaction)
        if transaction.goes_on(query):
            return
        query, command, kept = self._compiled(statement, transaction, query, plan)
        check_promises(query.qos, command.streams, statement.option_spans)
        if transaction.define(query, statement, f"query {query.name}", command=command):
            self._check_sinks(command, statement, transaction)
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
        _, _, kept = self._compiled(statement.query, transaction, *self._planned(statement.query, transaction))
        assert kept is not None
        transaction.outcomes.append(kept.listing)

    def _planned(self, statement: statements.CreateQuery, transaction: Transaction) -> tuple[Query, Node]:
        """Return the definition of a query and its plan."""
        order = result_order(statement.options)
        plan = plan_select(statement.select, statement.text, transaction.catalog, ordered=order)
        check_secrets(*statement.sinks)
        early = statement.options.get(EARLY), statement.option_spans.get(EARLY)
        if early[0]:
            plan = with_early_results(plan, early[1])
        return define_query(statement, plan.schema), plan

    def _compiled(
        self, statement: statements.CreateQuery, transaction: Transaction, query: Query, plan: Node
    ) -> tuple[Query, AddQuery, Kept | None]:
        """Return the definition of a query, the command that starts it, and what it keeps of the one it replaces."""
        grid = self._around.choose_grid(transaction, statement.name.text, references_of(statement.select).relations)
        running = transaction.running.get(query.name) if statement.or_replace else None
        if running is not None:
            query, plan = with_state(query, plan, transaction, grid)
        if statement.on_demand is not None:
            check_on_demand(query.qos, statement.option_spans)
        command = command_for(query, plan, transaction.catalog, choose_grid=grid)
        if statement.options.get(EARLY):
            check_early(query.name, command.graph, statement.option_spans.get(EARLY))
        command = msgspec.structs.replace(command, definition=digest_of(query))
        if query.options.get(LATE_BINDING):
            command = self._bound_late(statement, command, transaction)
        if statement.stint is not None:
            watched = self._around.choose_grid(transaction, "", query.watched)
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
        sinks = tuple(map(define_connector, statement.sinks)) or (Connector("CONSOLE", {}),)
        learn_references(statement.select_text, statement.select)
        query = Query(name, statement.select_text, plan.schema, sinks)
        grid = self._around.choose_grid(transaction, name, references(query.text).relations)
        command = command_for(query, plan, transaction.catalog, choose_grid=grid)
        self._check_sinks(command, statement, transaction)
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

        def admit(command: AddQuery) -> None:
            self._admit(command, statement, transaction)
            self._warn(command, transaction)

        create_rule(
            statement,
            transaction,
            functions,
            admit,
            lambda rule: self._around.choose_grid(transaction, rule.name, [rule.event]),
            self._deployment.now(),
        )

    def _check_sinks(
        self, command: AddQuery, statement: statements.CreateQuery | statements.Select, transaction: Transaction
    ) -> None:
        """Refuse a folder that another query writes into; warn of results there, and of secrets in clear."""
        spans = [clause.span for clause in statement.sinks if clause.kind == "FILES"]
        if spans:
            check_folders(command, transaction.deployed, spans)
        self._warn(command, transaction, secret_warnings(*statement.sinks))

    def _warn(self, command: AddQuery, transaction: Transaction, warnings: Sequence[str] = ()) -> None:
        """Say these warnings, and which results of an earlier deployment a new one replaces."""
        folders = earlier_files(command, self._deployment.directory)
        texts = [
            *warnings,
            *(f"{folder} has files of an earlier run; those of the same names are replaced" for folder in folders),
        ]
        if texts:
            transaction.outcomes.append(lambda: Message("\n".join(f"warning: {text}" for text in texts)))

    def _admit(
        self, command: AddQuery, statement: statements.CreateQuery | rules.CreateRule, transaction: Transaction
    ) -> None:
        """Refuse a query that would break a MUST promise, unless it is forced."""
        if transaction.checks_admission and not statement.options.get("force"):
            facts, speed = self._around.measured(transaction), self._around.speed()
            check_admission(command, transaction.running, facts, speed, statement.name.span)

    def _promise(self, statement: statements.AlterPromises, transaction: Transaction) -> None:
        """Change the promises of a query; refuse those that MUST hold and would not, unless they are forced."""
        transaction.promise(statement)
        if transaction.checks_admission and not statement.options.get("force"):
            check_altered(
                transaction.altered(statement.query),
                statement.options.keys(),
                transaction.running,
                self._around.measured(transaction),
                self._around.speed(),
                statement.option_spans,
            )

    def _plan(self, statement: statements.Alter | statements.Migrate, transaction: Transaction) -> None:
        """Change the join tree of a query, or give it free."""
        assert statement.query is not None
        query, running = transaction.altered(statement.query), transaction.deployed
        boxes = self._deployment.control.migrations.boxes
        if isinstance(statement, statements.Migrate):
            commands = migrate(statement, query, running, boxes, self._deployment.buckets)
        else:
            commands = set_plan(statement, query, running, boxes, self._deployment.buckets)
        text = said(query.query, commands, running)
        for command in commands:
            transaction.send(command)
        transaction.outcomes.append(lambda: Message(text))

    def _move(self, statement: parcels.MoveParcels, transaction: Transaction) -> None:
        """Let parcels of a query go to another bucket."""
        query, running, buckets = transaction.altered(statement.query), transaction.deployed, self._deployment.buckets
        commands = move(statement, query, running, buckets, self._deployment.control.balancer.loads)
        text = moves_said(statement, commands, running, buckets)
        for command in commands:
            transaction.send(command)
        transaction.outcomes.append(lambda: Message(text))

    def _rebucket(self, statement: statements.Alter, transaction: Transaction) -> None:
        """Divide the keys of all queries among more or fewer buckets."""
        count = read_count(statement)
        running, first = transaction.deployed, self._deployment.buckets
        buckets = self._deployment.choose_buckets(count)
        for command in rebucketing(running, first, buckets) if buckets else ():
            transaction.send(command)
        text = buckets_said(count, running, first, buckets)
        transaction.outcomes.append(lambda: Message(text))
