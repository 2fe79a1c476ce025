"""ASSUME, DESIRE and DEMAND: feedback of the readers of a running query, as a command."""

from __future__ import annotations

from headrace.catalog.catalog import Catalog
from headrace.commands.command import AddQuery, SendFeedback
from headrace.commands.running import MAX_ASSUMPTIONS, Running
from headrace.errors import NameFault, NotSupported, QueryError
from headrace.graph.feedback import invariants_of, stamped, supportable
from headrace.language.names import did_you_mean
from headrace.language.syntax.statements import Tell as Statement
from headrace.model.expressions.text import format_expr
from headrace.model.patterns.condition import pattern_of
from headrace.model.patterns.feedback import Feedback, Intent
from headrace.model.patterns.match import Between
from headrace.model.patterns.pattern import STAMP, Pattern, intersect, is_empty, pattern
from headrace.operators.feedback.invariants import until
from headrace.optimizer.folding import fold
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Scope, relation_of

_INTENTS = {"ASSUME": Intent.ASSUMED, "DESIRE": Intent.DESIRED, "DEMAND": Intent.DEMANDED}


def feedback_command(
    statement: Statement,
    catalog: Catalog,
    running: dict[str, AddQuery],
    in_force: Running,
    *,
    since: int,
    now: int | None,
    number: int,
) -> SendFeedback:
    """Check a statement and return its command.

    `since` is the bound of the query's results, and a duration begins at `now` (None: its time has not begun). A demand
    gets this `number`.
    """
    query = running.get(statement.query.text)
    if query is None:
        name = statement.query.text
        is_off = any(stopped.query == name for stopped in in_force.stopped)
        hint = f"it is off: START QUERY {name} first" if is_off else did_you_mean(name, list(running))
        raise NameFault(f"no running query {name!r}", span=statement.query.span, hint=hint)
    meant = _pattern(statement, query, catalog)
    intent = _INTENTS[statement.intent]
    times = {stream.name: stream.time_column for stream in query.streams if stream.time_column is not None}
    if statement.duration is not None:
        if now is None:
            raise NotSupported(
                f"no tuple of {query.query} has come yet, so a duration has no beginning in the time of its streams",
                span=statement.span,
                hint="say up to when it holds, such as rowtime < TIMESTAMP '2026-01-01 00:00:00', or wait for a tuple",
            )
        # feedback about a span of time ends by itself, so users need not revoke it
        meant = intersect(meant, pattern((STAMP, Between(low=now, high=now + statement.duration, open_high=True))))
    meant = stamped(query.graph, query.output, meant, times)
    if intent is Intent.ASSUMED:
        reason = supportable(query.graph, query.output, meant, times)
        if reason is not None:
            raise NotSupported(reason, span=statement.span, hint=f"{statement.text.rstrip('; ')} FOR 2 MINUTES")
    ends = until(meant, invariants_of(query.graph, times)[query.output])
    command = SendFeedback(query.query, Feedback(intent, meant, statement.priority), since, ends, number)
    if intent is Intent.ASSUMED and command not in in_force.after(command).feedback:
        raise NotSupported(
            f"{query.query} has {MAX_ASSUMPTIONS} assumptions in force, which is the limit",
            span=statement.span,
            hint="combine several into one, or wait until some have ended (SHOW FEEDBACK lists them)",
        )
    return command


def _pattern(statement: Statement, query: AddQuery, catalog: Catalog) -> Pattern:
    scope = Scope((relation_of((query.query,), query.schema),))
    condition = pattern_of(fold(ExpressionBinder(scope, catalog, "in feedback").predicate(statement.condition)))
    if not isinstance(condition, Pattern):
        raise NotSupported(
            f"feedback cannot use the condition {format_expr(condition)}",
            span=statement.span,
            hint="compare columns of the query with constants, and combine comparisons with AND",
        )
    if is_empty(condition):
        raise QueryError("no result can meet this condition", span=statement.span)
    return condition
