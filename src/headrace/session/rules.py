"""Rules: statements to definitions and commands."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from headrace.catalog.catalog import Catalog
from headrace.catalog.define import define_connector
from headrace.catalog.definitions import RAISED, Connector, Query, Rule, Sink, Stream, Timing
from headrace.catalog.journal import Entry
from headrace.commands.command import AddQuery
from headrace.connectors import check_sink
from headrace.driver.rules.functions import load_function
from headrace.errors import NameFault, NotSupported, QueryError, Span, SyntaxFault
from headrace.language.names import did_you_mean
from headrace.language.syntax.names import Name
from headrace.language.syntax.rules import (
    ActionClause,
    CallClause,
    CreateRule,
    CreateSink,
    DeclareEvent,
    InsertClause,
    RaiseClause,
    SwitchRule,
    TurnClause,
    WebhookClause,
)
from headrace.model.action import CASCADE, Action, CallFunction, CallWebhook, Effort, RaiseEvent, Reaction, SwitchQuery
from headrace.model.events.text import format_context
from headrace.model.expressions.expression import columns
from headrace.model.option import Option
from headrace.model.schema import Field, Schema
from headrace.model.time import parse_duration
from headrace.model.types import Type
from headrace.plan.binding.rule import BoundRule
from headrace.session.compile import command_for, plan_rule, rule_statement
from headrace.session.outcome import Message
from headrace.session.transaction import Staged

Functions = Collection[str]


def stage_rule(statement: CreateRule, staged: Staged, functions: Functions, admit: Callable[[AddQuery], None]) -> None:
    """Check a rule and let it run from the next micro-batch on; just so there already, it is left as it is. `admit` may refuse to run it."""
    catalog = staged.catalog
    bound = plan_rule(statement, catalog)
    rule = _rule(statement, bound, catalog, functions)
    name = rule.name
    if catalog.has_rule(name) and (statement.if_not_exists or _same(rule, catalog.rule(name))):
        staged.outcomes.append(lambda: Message(f"rule {name} is there already"))
        rule = catalog.rule(name)
        if name in staged.running or statement.if_not_exists:
            return
    else:
        if statement.or_replace:
            catalog.replace(rule, span=statement.name.span)
        else:
            catalog.add(rule, span=statement.name.span)
        staged.entries.append(Entry(statement.text, rule))
        said = "".join(f"\nwarning: {warning}" for warning in rule.warnings)
        staged.outcomes.append(lambda: Message(f"rule {name} runs{said}"))
    command = _command(rule, bound, catalog)
    admit(command)
    _run(command, staged)


def stage_switch(statement: SwitchRule, staged: Staged) -> None:
    """Let a rule act, or only watch."""
    rule = staged.catalog.rule(statement.rule.text, span=statement.rule.span)
    changed = msgspec.structs.replace(rule, reaction=msgspec.structs.replace(rule.reaction, enabled=statement.on))
    staged.catalog.replace(changed)
    staged.entries.append(Entry(statement.text, changed))
    if rule.name in staged.running:  # else it is known from the journal alone
        _run(_command(changed, plan_rule(rule_statement(rule), staged.catalog), staged.catalog), staged)
    staged.outcomes.append(lambda: Message(f"rule {rule.name} {'acts' if statement.on else 'only watches'}"))


def stage_sink(statement: CreateSink, staged: Staged) -> None:
    """Name a place for detections."""
    staged.define(
        Sink(statement.name.text, define_connector(statement.connector)), statement, f"sink {statement.name.text}"
    )


def stage_declared(statement: DeclareEvent, staged: Staged) -> None:
    """Declare an event that rules raise: a stream that they write."""
    for field in statement.columns:
        if field.name.lower() == CASCADE:
            hint = "it says how many rules in a row led to the event; choose another name"
            raise NameFault(f"column {CASCADE!r} is there by itself", span=statement.name.span, hint=hint)
    schema = Schema((*statement.columns, Field(CASCADE, Type.INT)))
    stream = Stream(statement.name.text, schema, Connector(RAISED, {}), Timing.INTERNAL)
    staged.define(stream, statement, f"event {stream.name}")


def _rule(statement: CreateRule, bound: BoundRule, catalog: Catalog, functions: Functions) -> Rule:
    sinks: list[Connector] = []
    parts: list[str] = []
    actions: list[Action] = []
    texts: list[str] = []
    for clause, text in zip(statement.actions, statement.action_texts, strict=True):
        if isinstance(clause, InsertClause):
            named = catalog.sink(clause.name.text) if not clause.connector.options else None
            parts += [named.name] if named else []
            sinks.append(
                _own_part(named.connector, statement.name.text) if named else define_connector(clause.connector)
            )
            _check_sink(statement, sinks[-1], bound, clause.connector.span)
        else:
            actions.append(_action(clause, statement, bound, catalog, functions))
            texts.append(" ".join(text.split()))
    reaction = Reaction(tuple(actions), tuple(texts), statement.priority, statement.deferred, True, _effort(statement))
    _check_cascade(statement, bound, catalog)
    condition = statement.condition_span
    return Rule(
        statement.name.text, catalog.find(statement.event.text).name, statement.text, bound.plan.schema, tuple(sinks), reaction,
        "" if bound.context is None else format_context(bound.context),
        "" if condition is None else statement.text[condition.start : condition.end],
        bound.warnings, tuple(parts),
    )  # fmt: skip


def _action(
    clause: ActionClause, statement: CreateRule, bound: BoundRule, catalog: Catalog, functions: Functions
) -> Action:
    match clause:
        case CallClause(target=target, is_python=is_python, args=args):
            if is_python:
                _check_function(target)
            elif target.text not in functions:
                otherwise = f"session.register({target.text!r}, function) makes one known, and CALL PYTHON 'module:function' needs none"
                hint = did_you_mean(target.text, list(functions), otherwise=otherwise)
                raise NameFault(f"no function {target.text!r}", span=target.span, hint=hint)
            return CallFunction(
                target.text, None if args is None else tuple(bound.expression(arg, catalog) for arg in args)
            )
        case WebhookClause(url=url):
            return CallWebhook(url.text)
        case TurnClause(query=query, on=on):
            found = catalog.find(query.text, span=query.span)
            if not isinstance(found, Query) or found.is_view:
                raise NameFault(
                    f"{query.text!r} is not a query that runs",
                    span=query.span,
                    hint="START and STOP take what CREATE QUERY made",
                )
            return SwitchQuery(found.name, on)
        case RaiseClause():
            return _raise(clause, bound, catalog)
        case InsertClause():
            raise AssertionError("an INSERT is a sink")


def _raise(clause: RaiseClause, bound: BoundRule, catalog: Catalog) -> RaiseEvent:
    found = catalog.find(clause.event.text, span=clause.event.span)
    if not isinstance(found, Stream) or found.connector.kind != RAISED:
        hint = f"declare it with its columns: CREATE EVENT {clause.event.text}_raised (x INT, ...)"
        raise NameFault(f"{clause.event.text!r} is not an event that rules raise", span=clause.event.span, hint=hint)
    fields = [field for field in found.schema if field.name != CASCADE]
    if len(fields) != len(clause.args):
        declared = ", ".join(f"{field.name} {field.type.value}" for field in fields)
        raise SyntaxFault(
            f"{found.name} has {len(fields)} columns, not {len(clause.args)}",
            span=clause.span,
            hint=f"they are {declared}",
        )
    values = tuple(
        (field.name, bound.fitted(arg, field.type, catalog)) for field, arg in zip(fields, clause.args, strict=True)
    )
    return RaiseEvent(found.name, values, bound.cascade)


def _check_cascade(statement: CreateRule, bound: BoundRule, catalog: Catalog) -> None:
    """Rules that can bring themselves about must be able to count how often they did."""
    before = catalog.sources(statement.event.text)
    for clause in statement.actions:
        if not isinstance(clause, RaiseClause) or clause.event.text.lower() not in before:
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
            raise NotSupported(
                f"{who} can bring itself about, and nothing would count how often", span=clause.span, hint=hint
            )


def _counts(rule: Rule) -> bool:
    """Whether what a rule raises says how many rules led to it."""
    return all(columns(action.cascade) for action in rule.reaction.actions if isinstance(action, RaiseEvent))


def _check_sink(statement: CreateRule, connector: Connector, bound: BoundRule, span: Span) -> None:
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


def _effort(statement: CreateRule) -> Effort:
    chosen: dict[str, int] = {}
    for name, value in statement.options.items():
        if name == "force":
            continue
        span = statement.option_spans.get(name)
        chosen[name] = _duration(value, span) if name == "timeout" else _count(name, value, span)
    return Effort(**chosen)


def _duration(value: Option, span: Span | None) -> int:
    try:
        found = parse_duration(str(value))
    except ValueError as error:
        raise SyntaxFault(f"timeout: {error}", span=span, hint="timeout '2 s'") from error
    if found <= 0:
        raise SyntaxFault("a call needs some time", span=span, hint="timeout '2 s'")
    return found


def _count(name: str, value: Option, span: Span | None) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SyntaxFault(f"{name} is a whole number from 1", span=span, hint=f"{name} 3")
    return value


def _own_part(connector: Connector, rule: str) -> Connector:
    """A named sink as one rule sees it: rules of one batch would write the same files, so each has a folder, which readers see as a column `rule`."""
    if connector.kind != "FILES":
        return connector
    return msgspec.structs.replace(
        connector, options={**connector.options, "path": f"{connector.options.get('path')}/rule={rule}"}
    )


def _command(rule: Rule, bound: BoundRule, catalog: Catalog) -> AddQuery:
    return command_for(Query(rule.name, "", rule.columns, rule.sinks), bound.plan, catalog, rule.reaction)


def _run(command: AddQuery, staged: Staged) -> None:
    if staged.running.get(command.query) != command:
        staged.send(command)
        staged.running[command.query] = command


def _same(new: Rule, old: Rule) -> bool:
    """Whether two rules are one, switched on or not."""
    return (
        msgspec.structs.replace(new, reaction=msgspec.structs.replace(new.reaction, enabled=old.reaction.enabled))
        == old
    )


#: Takes a detection (or the arguments that CALL names) and `key`.
Function = Callable[..., Any]
