"""CREATE RULE, ENABLE and DISABLE RULE, CREATE SINK, and events that rules raise."""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from headrace.catalog.catalog import Catalog
from headrace.catalog.define import define_connector
from headrace.catalog.definitions import LATE_BINDING, RAISED, Connector, Query, Rule, Sink, Stream, Timing
from headrace.catalog.journal import Entry
from headrace.commands.command import AddQuery
from headrace.connectors import check_sink
from headrace.driver.rules.functions import load_function
from headrace.errors import NameFault, NotSupported, QueryError, Span, SyntaxFault
from headrace.language.names import did_you_mean
from headrace.language.syntax import rules
from headrace.language.syntax.names import Name
from headrace.model.action import CASCADE, Action, CallFunction, CallWebhook, Effort, RaiseEvent, Reaction, SwitchQuery
from headrace.model.events.text import format_context
from headrace.model.expressions.expression import columns
from headrace.model.expressions.text import format_name
from headrace.model.limits import CALL_TIMEOUT, CALL_TRIES
from headrace.model.option import Option
from headrace.model.schema import Field, Schema
from headrace.model.time import format_duration, parse_duration
from headrace.model.types import Type
from headrace.optimizer.gathering import ChooseGrid, no_grid
from headrace.plan import nodes
from headrace.plan.binding.rule import BoundRule
from headrace.plan.traversal import walk
from headrace.session.compile import command_for, plan_event, plan_rule, rule_statement
from headrace.session.folders import check_folders
from headrace.session.inserting import goes_on_note, own_part
from headrace.session.outcome import Message, format_warnings
from headrace.session.secrets import check_secrets, check_webhook, rule_secret_warnings, secret_warnings
from headrace.session.stints import bound_late
from headrace.session.transaction import Transaction, digest_of

Functions = Collection[str]
#: Options of WITH that are stored with a rule.
_STORED = ("latency", LATE_BINDING)


def create_rule(
    statement: rules.CreateRule,
    transaction: Transaction,
    functions: Functions,
    admit: Callable[[AddQuery], None],
    grid_of: Callable[[Rule], ChooseGrid],
    now: int,
) -> None:
    """Check a rule and run it from the next micro-batch on.

    One that exists unchanged stays. `admit` may refuse to run it. `grid_of` says which joins that it reads run in a
    grid.
    """
    catalog = transaction.catalog
    if not (statement.if_not_exists and catalog.has_rule(statement.name.text)):
        define_inline(statement, transaction)
    bound = plan_rule(statement, catalog)
    rule = _rule(statement, bound, catalog, functions)
    name, choose_grid = rule.name, grid_of(rule)
    if catalog.has_rule(name) and (statement.if_not_exists or _same(rule, catalog.rule(name))):
        transaction.outcomes.append(lambda: Message(f"rule {name} already exists{transaction.failure_note(name)}"))
        rule = catalog.rule(name)
        if transaction.is_deployed_by(_command(rule, bound, catalog, choose_grid)) or statement.if_not_exists:
            return
    else:
        if statement.or_replace:
            catalog.replace(rule, span=statement.name.span)
        else:
            catalog.add(rule, span=statement.name.span)
        transaction.entries.append(Entry(statement.text, rule))
        warnings = format_warnings((*rule.warnings, *rule_secret_warnings(rule)))
        transaction.outcomes.append(lambda: Message(f"rule {name} created{warnings}"))
    command = _command(rule, bound, catalog, choose_grid)
    if rule.options.get(LATE_BINDING):
        command = bound_late(command, catalog.queries_in([rule.event]), transaction.running, now)
    check_folders(command, transaction.deployed, [statement.name.span])
    admit(command)
    transaction.run(command, [rule.event])


def define_inline(statement: rules.CreateRule, transaction: Transaction) -> None:
    """Define the event that a rule has in place of a name; one that exists unchanged stays."""
    if statement.inline is None:
        return
    catalog, name, rule = transaction.catalog, statement.event.text, statement.name.text
    plan = plan_event(statement.inline, catalog)
    event = Query(name, statement.inline.event_text, plan.schema, (), {"event": True})
    if catalog.get(name) == event:
        return
    if statement.or_replace and catalog.has_rule(rule) and catalog.rule(rule).event == name:
        catalog.remove(rule, "rule")  # it comes back with its new event
        transaction.entries.append(Entry(f"DROP RULE {format_name(rule)}"))
        catalog.replace(event, span=statement.name.span)
    else:
        catalog.add(event, span=statement.name.span)
    shown = event.text.removeprefix("DETECT ")
    transaction.entries.append(Entry(f"CREATE OR REPLACE EVENT {format_name(name)} AS {shown}", event))


def enable_rule(statement: rules.EnableRule, transaction: Transaction) -> None:
    """Enable or disable the actions of a rule; it detects its event either way."""
    catalog = transaction.catalog
    rule = catalog.rule(statement.rule.text, span=statement.rule.span)
    changed = msgspec.structs.replace(rule, reaction=msgspec.structs.replace(rule.reaction, enabled=statement.on))
    catalog.replace(changed)
    transaction.entries.append(Entry(statement.text, changed))
    has_failed = any(failed.query == rule.name for failed in transaction.deployed.failed)
    if rule.name in transaction.running or (has_failed and statement.on):  # else it is only read from the journal
        transaction.run(
            _command(changed, plan_rule(rule_statement(rule), catalog), catalog, no_grid), [rule.event], goes_on=True
        )
    transaction.outcomes.append(lambda: Message(f"rule {rule.name} {'enabled' if statement.on else 'disabled'}"))


def create_sink(statement: rules.CreateSink, transaction: Transaction) -> None:
    """Name a sink for detections of rules and for queries that insert."""
    check_secrets(statement.connector)
    sink = Sink(statement.name.text, define_connector(statement.connector), statement.columns)
    note = format_warnings(secret_warnings(statement.connector))
    going_on = goes_on_note(transaction.catalog.sink(sink.name), transaction.catalog)
    transaction.define(sink, statement, f"sink {sink.name}", going_on + note)


def declare_event(statement: rules.DeclareEvent, transaction: Transaction) -> None:
    """Define an event that rules raise: a stream that they write."""
    for field in statement.columns:
        if field.name.lower() == CASCADE:
            hint = (
                "every raised event has this column: the number of rules in a row that led to it; choose another name"
            )
            raise NameFault(f"the column name {CASCADE!r} is reserved", span=statement.name.span, hint=hint)
    schema = Schema((*statement.columns, Field(CASCADE, Type.INT)))
    known = transaction.catalog.get(statement.name.text)
    # one of an earlier version goes on as it was: its tuples have the time at which they are read
    is_older = isinstance(known, Stream) and known.connector.kind == RAISED and known.timing is Timing.INTERNAL
    timing = Timing.INTERNAL if is_older and not statement.or_replace else Timing.CAUSED
    stream = Stream(statement.name.text, schema, Connector(RAISED, {}), timing)
    transaction.define(stream, statement, f"event {stream.name}")


def _rule(statement: rules.CreateRule, bound: BoundRule, catalog: Catalog, functions: Functions) -> Rule:
    sinks: list[Connector] = []
    parts: list[str] = []
    actions: list[Action] = []
    texts: list[str] = []
    for clause, text in zip(statement.actions, statement.action_texts, strict=True):
        _check_confirmed(clause, statement)
        if isinstance(clause, rules.InsertClause):
            named = catalog.sink(clause.name.text) if not clause.connector.options else None
            parts += [named.name] if named else []
            sinks.append(
                own_part(named.connector, "rule", statement.name.text) if named else define_connector(clause.connector)
            )
            _check_sink(statement, sinks[-1], bound, clause.connector.span)
        else:
            actions.append(_action(clause, statement, bound, catalog, functions))
            texts.append(" ".join(text.split()))
    effort = _effort(statement)
    reaction = Reaction(
        tuple(actions), tuple(texts), statement.priority, statement.deferred, True, effort, statement.confirm
    )
    _check_cascade(statement, bound, catalog)
    condition = statement.condition_span
    return Rule(
        statement.name.text, catalog.find(statement.event.text).name, statement.text, bound.plan.schema,
        tuple(sinks), reaction,
        "" if bound.context is None else format_context(bound.context),
        "" if condition is None else statement.text[condition.start : condition.end],
        (*bound.warnings, *_cycle_warnings(statement, bound, catalog)), tuple(parts),
        {name: value for name, value in statement.options.items() if name.partition(".")[0] in _STORED},
    )  # fmt: skip


def _check_confirmed(clause: rules.ActionClause, statement: rules.CreateRule) -> None:
    """Refuse what is delivered with its micro-batch, and cannot wait for a person."""
    if statement.confirm is None or not isinstance(clause, rules.InsertClause | rules.RaiseClause):
        return
    what, span = (
        ("INSERT", clause.connector.span) if isinstance(clause, rules.InsertClause) else ("RAISE EVENT", clause.span)
    )
    raise NotSupported(
        f"{what} cannot wait until somebody confirms it",
        span=span,
        hint="write CALL, START QUERY or STOP QUERY here, and a second rule without CONFIRM for the rest; "
        "a person can also RAISE EVENT by hand",
    )


def _action(
    clause: rules.ActionClause, statement: rules.CreateRule, bound: BoundRule, catalog: Catalog, functions: Functions
) -> Action:
    match clause:
        case rules.CallClause(target=target, is_python=is_python, args=args):
            if is_python:
                _check_function(target)
            elif target.text not in functions:
                otherwise = f"call session.register({target.text!r}, function), or use CALL PYTHON 'module:function'"
                hint = did_you_mean(target.text, list(functions), otherwise=otherwise)
                raise NameFault(f"no function {target.text!r}", span=target.span, hint=hint)
            return CallFunction(
                target.text, None if args is None else tuple(bound.expression(arg, catalog) for arg in args)
            )
        case rules.WebhookClause(url=url):
            check_webhook(url)
            return CallWebhook(url.text)
        case rules.TurnClause(query=query, on=on):
            turned = catalog.find(query.text, span=query.span)
            if not isinstance(turned, Query) or turned.is_view:
                hint = "START and STOP take the name of a query that CREATE QUERY made"
                raise NameFault(f"{query.text!r} is not a query that runs", span=query.span, hint=hint)
            return SwitchQuery(turned.name, on)
        case rules.RaiseClause():
            return raise_action(clause, bound, catalog)
        case rules.InsertClause():
            raise AssertionError("INSERT is a sink, not an action")


def raise_action(clause: rules.RaiseClause, bound: BoundRule, catalog: Catalog) -> RaiseEvent:
    """Bind the values of an event to its columns."""
    event = catalog.find(clause.event.text, span=clause.event.span)
    if not isinstance(event, Stream) or event.connector.kind != RAISED:
        hint = f"declare it with its columns: CREATE EVENT {clause.event.text}_raised (x INT, ...)"
        raise NameFault(f"{clause.event.text!r} is not an event that rules raise", span=clause.event.span, hint=hint)
    fields = [field for field in event.schema if field.name != CASCADE]
    if len(fields) != len(clause.args):
        declared = ", ".join(f"{field.name} {field.type.value}" for field in fields)
        raise SyntaxFault(
            f"{event.name} has {len(fields)} columns, not {len(clause.args)}",
            span=clause.span,
            hint=f"its columns are {declared}",
        )
    values = tuple(
        (field.name, bound.fitted(arg, field.type, catalog)) for field, arg in zip(fields, clause.args, strict=True)
    )
    return RaiseEvent(event.name, values, bound.cascade)


def _check_cascade(statement: rules.CreateRule, bound: BoundRule, catalog: Catalog) -> None:
    """Raise if a rule can trigger itself, directly or through others, and nothing counts how often."""
    before = catalog.sources(statement.event.text)
    for clause in statement.actions:
        if not isinstance(clause, rules.RaiseClause) or clause.event.text.lower() not in before:
            continue
        event = clause.event.text.lower()
        others = [
            rule
            for rule in catalog.rules()
            if event in catalog.sources(rule.event) and before & {name.lower() for name in rule.raises}
        ]
        blind = [rule.name for rule in others if not _counts(rule)]
        if not bound.depths or blind:
            hint = f"let the SELECTs between them keep the column {CASCADE} of {clause.event.text}"
            who = f"rule {blind[0]}" if bound.depths else "this rule"
            raise NotSupported(f"{who} can trigger itself, and nothing counts how often", span=clause.span, hint=hint)


def _cycle_warnings(statement: rules.CreateRule, bound: BoundRule, catalog: Catalog) -> list[str]:
    """Say which events of a cycle of rules come too late.

    A rule that waits until an event is complete up to a time can no longer raise it at that time.
    """
    if all(isinstance(node, _AT_ONCE) for node in walk(bound.plan)):
        return []
    before = catalog.sources(statement.event.text)
    return [
        f"this rule waits for the time of {clause.event.text}, which it raises itself: "
        f"what it raises is late, and goes to {clause.event.text}.late"
        for clause in statement.actions
        if isinstance(clause, rules.RaiseClause) and clause.event.text.lower() in before
    ]


#: Nodes that pass tuples on as they come.
_AT_ONCE = (nodes.Scan, nodes.Filter, nodes.Project, nodes.Union, nodes.TableJoin, nodes.Membership, nodes.Impute)


def _counts(rule: Rule) -> bool:
    """Return whether the events that a rule raises carry the number of rules that led to them."""
    return all(columns(action.cascade) for action in rule.reaction.actions if isinstance(action, RaiseEvent))


def _check_sink(statement: rules.CreateRule, connector: Connector, bound: BoundRule, span: Span) -> None:
    try:
        check_sink(statement.name.text, connector, bound.plan.schema)
    except QueryError as error:
        error.span = span
        raise


def _check_function(target: Name) -> None:
    try:
        load_function(target.text)
    except QueryError as error:
        error.span = target.span
        raise


def _effort(statement: rules.CreateRule) -> Effort:
    chosen: dict[str, int] = {}
    for name, value in statement.options.items():
        if name == "force" or name.partition(".")[0] in _STORED:
            continue
        span = statement.option_spans.get(name)
        chosen[name] = _duration(value, span) if name == "timeout" else _count(name, value, span)
    return Effort(**chosen)


def _duration(value: Option, span: Span | None) -> int:
    try:
        timeout = parse_duration(str(value))
    except ValueError as error:
        raise SyntaxFault(f"timeout: {error}", span=span, hint="timeout '2 s'") from error
    if timeout <= 0:
        raise SyntaxFault("timeout must be longer than 0", span=span, hint="timeout '2 s'")
    if timeout > CALL_TIMEOUT:
        raise SyntaxFault(
            f"timeout must be at most {format_duration(CALL_TIMEOUT)}: the calls of all rules wait for each other",
            span=span,
            hint="timeout '2 s'",
        )
    return timeout


def _count(name: str, value: Option, span: Span | None) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SyntaxFault(f"{name} must be a whole number of at least 1", span=span, hint=f"{name} 3")
    if value > CALL_TRIES:
        raise SyntaxFault(f"{name} must be at most {CALL_TRIES}", span=span, hint=f"{name} 3")
    return value


def _command(rule: Rule, bound: BoundRule, catalog: Catalog, choose_grid: ChooseGrid) -> AddQuery:
    query = Query(rule.name, "", rule.columns, rule.sinks, rule.options)
    command = command_for(query, bound.plan, catalog, rule.reaction, choose_grid=choose_grid)
    return msgspec.structs.replace(command, definition=digest_of(rule))


def _same(new: Rule, old: Rule) -> bool:
    """Return whether two rules are the same, except that one may be disabled."""
    return (
        msgspec.structs.replace(new, reaction=msgspec.structs.replace(new.reaction, enabled=old.reaction.enabled))
        == old
    )
