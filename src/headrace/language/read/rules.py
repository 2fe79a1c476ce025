"""Reads rules: `CREATE RULE name ON event CONTEXT RECENT (a BY x) WHEN a.x > 3 DO CALL notify`."""

from __future__ import annotations

from sqlglot import exp

from headrace.errors import Span, SyntaxFault
from headrace.language.dialect import parse_expressions
from headrace.language.names import did_you_mean
from headrace.language.read.columns import read_plain_columns
from headrace.language.read.conditions import read_condition
from headrace.language.read.create import read_connector
from headrace.language.read.events import OPERATORS, read_context, read_inline
from headrace.language.read.options import read_effort
from headrace.language.reader import Reader
from headrace.language.syntax.names import Name
from headrace.language.syntax.rules import (
    ActionClause,
    CallClause,
    ContextClause,
    CreateRule,
    CreateSink,
    Decide,
    DeclareEvent,
    EnableRule,
    InsertClause,
    RaiseByHand,
    RaiseClause,
    TurnClause,
    WebhookClause,
)
from headrace.language.syntax.statements import Detection
from headrace.model.time import parse_instant
from headrace.secrets import has_reference

_RULE = (
    "CREATE RULE name ON event [CONTEXT RECENT (part BY column)] [PRIORITY 1] [IMMEDIATE | DEFERRED] "
    "[CONFIRM WITHIN '10 minutes'] [WHEN condition] "
    "DO CALL function(columns)"
)
_BY_HAND = "RAISE EVENT name(value, ...), or RAISE EVENT name(value, ...) AT '2026-01-31 10:00:00'"
_ACTIONS = ("INSERT", "CALL", "START", "STOP", "RAISE")
_HINT = (
    "an action is INSERT INTO sink, CALL function(columns), CALL PYTHON 'module:function', CALL webhook('http://...'), "
    "START QUERY q, STOP QUERY q or RAISE EVENT e(columns)"
)
_CLAUSES = ("CONTEXT", "PRIORITY", "IMMEDIATE", "DEFERRED", "CONFIRM", "WHEN", "DO")


def read_rule(reader: Reader, offset: int, or_replace: bool) -> CreateRule:
    """Read what follows CREATE RULE."""
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name("the rule's name")
    options, spans = read_effort(reader) if reader.accept("WITH") else ({}, {})
    reader.expect("ON", hint=_RULE)
    event, inline = _watched(reader, offset, name)
    context = _context(reader) if reader.word() == "CONTEXT" else None
    priority, deferred = 1, False
    while reader.word() in ("PRIORITY", "IMMEDIATE", "DEFERRED"):
        if reader.accept("PRIORITY"):
            span = reader.here()
            priority = reader.integer("a priority")
            if priority < 1:
                hint = "1 is the highest priority"
                raise SyntaxFault(f"a priority must be at least 1, not {priority}", span=span, hint=hint)
        else:
            deferred = reader.word() == "DEFERRED"
            reader.position += 1
    confirm = _confirm(reader) if reader.accept("CONFIRM") else None
    condition = condition_span = None
    if reader.accept("WHEN"):
        condition, condition_span = read_condition(reader, "DO", hint="WHEN accident.segment > 0")
    if not reader.accept("DO"):
        reader.fail("expected DO and an action", hint=did_you_mean(reader.word(), _CLAUSES, otherwise=_RULE))
    actions: list[ActionClause] = []
    texts: list[str] = []
    while True:
        start = reader.position
        actions.append(_action(reader))
        texts.append(reader.text[reader.tokens[start].start : reader.tokens[reader.position - 1].end + 1])
        if not reader.accept(","):
            break
    return CreateRule(
        text=reader.text,
        offset=offset,
        name=name,
        event=event,
        context=context,
        priority=priority,
        deferred=deferred,
        condition=condition,
        condition_span=condition_span,
        actions=tuple(actions),
        action_texts=tuple(texts),
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        options=options,
        option_spans=spans,
        inline=inline,
        confirm=confirm,
    )


def _confirm(reader: Reader) -> int:
    reader.expect("WITHIN", hint="CONFIRM WITHIN '10 minutes'")
    span, within = reader.here(), reader.duration()
    if within <= 0:
        raise SyntaxFault("a person needs more time than none to agree", span=span, hint="CONFIRM WITHIN '10 minutes'")
    return within


def read_decision(reader: Reader, offset: int) -> Decide:
    """Read CONFIRM 'key' or REJECT 'key'."""
    agrees = reader.word() == "CONFIRM"
    reader.position += 1
    reader.accept("PROPOSAL")
    span = reader.here()
    return Decide(reader.text, offset, Name(reader.string("the key of a proposal"), span), agrees)


def _watched(reader: Reader, offset: int, rule: Name) -> tuple[Name, Detection | None]:
    """Read the name of an event, or an event expression, which gets a name."""
    start = reader.position
    is_called = reader.word() in OPERATORS and (reader.word(1) in ("(", "*") or reader.word() == "AT")
    if reader.word() != "(" and not is_called:
        name = reader.dotted("the event's name")
        if reader.word() == "CONTEXT" or reader.word() not in OPERATORS:
            return name, None
    reader.position = start
    detection = read_inline(reader, offset, *_CLAUSES)
    return Name(f"{rule.text}_event", detection.span), detection


def read_enabling(reader: Reader, offset: int) -> EnableRule:
    """Read ENABLE RULE name or DISABLE RULE name."""
    on = reader.word() == "ENABLE"
    reader.position += 1
    reader.expect("RULE", hint="ENABLE RULE name, DISABLE RULE name")
    return EnableRule(reader.text, offset, reader.name("the rule's name"), on)


def read_sink(reader: Reader, offset: int, or_replace: bool) -> CreateSink:
    """Read what follows CREATE SINK."""
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name("the sink's name")
    hint = "CREATE SINK alarms INTO FILES (path 'out/alarms')"
    if reader.word() in ("FROM", "AS"):
        into = f"INTO KAFKA (bootstrap 'host:9092', topic '{name.text}')"
        select = "SELECT ..." if reader.word() == "AS" else "SELECT * FROM stream"
        hint = (
            f"write CREATE QUERY {name.text} AS {select} {into}; or, for several queries, CREATE SINK {name.text} "
            f"{into} and INSERT INTO {name.text} {select}"
        )
    reader.expect("INTO", hint=hint)
    return CreateSink(reader.text, offset, name, read_connector(reader), or_replace, if_not_exists)


def read_declared(reader: Reader, offset: int, name: Name, or_replace: bool, if_not_exists: bool) -> DeclareEvent:
    """Read the columns of an event that rules raise."""
    return DeclareEvent(reader.text, offset, name, read_plain_columns(reader), or_replace, if_not_exists)


def _context(reader: Reader) -> ContextClause:
    start = reader.here().start
    reader.expect("CONTEXT")
    context, parts, by = read_context(reader, None)
    return ContextClause(context, parts, by, Span(start, reader.tokens[reader.position - 1].end + 1))


def _action(reader: Reader) -> ActionClause:
    if reader.accept("INSERT"):
        reader.expect("INTO", hint=_HINT)
        start = reader.position
        name = reader.name("a sink")
        reader.position = start
        return InsertClause(name, read_connector(reader))
    if reader.accept("CALL"):
        return _call(reader)
    if reader.word() in ("START", "STOP"):
        on = reader.word() == "START"
        reader.position += 1
        reader.expect("QUERY", hint=_HINT)
        return TurnClause(reader.name("the query's name"), on)
    if reader.accept("RAISE"):
        return _raise(reader, _HINT)
    reader.fail("expected an action", hint=did_you_mean(reader.word(), _ACTIONS, otherwise=_HINT))


def read_raise(reader: Reader, offset: int) -> RaiseByHand:
    """Read RAISE EVENT name (values) [AT 'time']."""
    reader.expect("RAISE")
    clause = _raise(reader, _BY_HAND)
    if not reader.accept("AT"):
        return RaiseByHand(reader.text, offset, clause, None, None)
    reader.accept("TIMESTAMP")
    span = reader.here()
    written = reader.string("a timestamp")
    try:
        return RaiseByHand(reader.text, offset, clause, parse_instant(written), span)
    except ValueError as error:
        raise SyntaxFault(f"{written!r} is not a timestamp", span=span, hint=_BY_HAND) from error


def _raise(reader: Reader, hint: str) -> RaiseClause:
    reader.expect("EVENT", hint=hint)
    event = reader.name("the event's name")
    args = _arguments(reader)
    return RaiseClause(event, args or (), Span(event.span.start, reader.tokens[reader.position - 1].end + 1))


def _call(reader: Reader) -> ActionClause:
    if reader.word() == "WEBHOOK" and reader.word(1) == "(":
        reader.position += 2
        span = reader.here()
        url = reader.string("'http://...'")
        reader.expect(")")
        if not has_reference(url) and not url.lower().startswith(("http://", "https://")):
            raise SyntaxFault(
                f"{url!r} is not the address of a webhook",
                span=span,
                hint="CALL webhook('http://localhost:9000/alarm')",
            )
        return WebhookClause(Name(url, span))
    is_python = reader.accept("PYTHON")
    if not is_python:
        return CallClause(reader.name("the name of a function"), False, _arguments(reader))
    target = reader.python_target("function", "police:notify")
    return CallClause(target, True, _arguments(reader))


def _arguments(reader: Reader) -> tuple[exp.Expr, ...] | None:
    if not reader.accept("("):
        return None
    tokens = reader.until(")")
    reader.expect(")")
    return tuple(parse_expressions(tokens, reader.text)) if tokens else ()
