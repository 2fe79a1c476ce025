"""The statements about rules, as the parser reads them; positions count as in `statements`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from sqlglot import exp

from headrace.errors import Span
from headrace.language.syntax.names import ConnectorClause, Name
from headrace.model.events.event import Context
from headrace.model.option import Option
from headrace.model.schema import Schema

if TYPE_CHECKING:
    from headrace.language.syntax.statements import Detection


@dataclass(frozen=True, slots=True)
class InsertClause:
    """INSERT INTO sink | KIND (options): `name` is the word as written, which may be that of a sink."""

    name: Name
    connector: ConnectorClause


@dataclass(frozen=True, slots=True)
class CallClause:
    """CALL name [(arguments)], CALL PYTHON 'module:function' [(arguments)].

    Without arguments the function takes the whole detection.
    """

    target: Name
    is_python: bool
    args: tuple[exp.Expr, ...] | None


@dataclass(frozen=True, slots=True)
class WebhookClause:
    """CALL webhook('http://...')."""

    url: Name


@dataclass(frozen=True, slots=True)
class TurnClause:
    """START QUERY q, STOP QUERY q."""

    query: Name
    on: bool


@dataclass(frozen=True, slots=True)
class RaiseClause:
    """RAISE EVENT name (arguments)."""

    event: Name
    args: tuple[exp.Expr, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class RaiseByHand:
    """RAISE EVENT name (values) [AT 'time']: without a rule, at the time of the clock if none is given."""

    text: str
    offset: int
    clause: RaiseClause
    at: int | None
    at_span: Span | None


ActionClause: TypeAlias = InsertClause | CallClause | WebhookClause | TurnClause | RaiseClause


@dataclass(frozen=True, slots=True)
class ContextClause:
    """CONTEXT mode [POINT] [(constituent BY column KEEP n FOR duration, ...)].

    `parts` are the constituents it names, `by` the columns of BY as `part.column`.
    """

    context: Context
    parts: tuple[Name, ...]
    by: tuple[Name, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class CreateRule:
    """CREATE [OR REPLACE] RULE [IF NOT EXISTS] name [WITH (options)] ON event [CONTEXT ...] ... DO actions.

    Before DO: [PRIORITY n] [IMMEDIATE | DEFERRED] [WHEN condition]. `inline` is an event expression in place of a name;
    it is defined as an event called name_event.
    """

    text: str
    offset: int
    name: Name
    event: Name
    context: ContextClause | None
    priority: int
    deferred: bool
    condition: exp.Expr | None
    condition_span: Span | None
    actions: tuple[ActionClause, ...]
    action_texts: tuple[str, ...]
    or_replace: bool
    if_not_exists: bool
    options: dict[str, Option] = field(default_factory=dict)
    option_spans: dict[str, Span] = field(default_factory=dict)
    inline: Detection | None = None
    confirm: int | None = None  # how long a person may agree (microseconds)


@dataclass(frozen=True, slots=True)
class EnableRule:
    """ENABLE RULE name, DISABLE RULE name."""

    text: str
    offset: int
    rule: Name
    on: bool


@dataclass(frozen=True, slots=True)
class Decide:
    """CONFIRM 'key', REJECT 'key': what a person says to the proposal of a rule."""

    text: str
    offset: int
    key: Name
    agrees: bool


@dataclass(frozen=True, slots=True)
class CreateSink:
    """CREATE [OR REPLACE] SINK [IF NOT EXISTS] name INTO KIND (options).

    Or Flink's CREATE TABLE name (columns) WITH ('connector' = ...), which has columns.
    """

    text: str
    offset: int
    name: Name
    connector: ConnectorClause
    or_replace: bool
    if_not_exists: bool
    columns: Schema | None = None


@dataclass(frozen=True, slots=True)
class DeclareEvent:
    """CREATE [OR REPLACE] EVENT [IF NOT EXISTS] name (columns): an event that rules raise."""

    text: str
    offset: int
    name: Name
    columns: Schema
    or_replace: bool
    if_not_exists: bool
