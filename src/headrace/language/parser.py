"""Turns text into statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from headrace.errors import HeadraceError, NotSupported, Span, SyntaxFault
from headrace.language import other_systems
from headrace.language.dialect import parse_expressions, parse_select, tokenize
from headrace.language.names import did_you_mean
from headrace.language.read.create import read_connector, read_create
from headrace.language.read.events import read_detection, selects_event
from headrace.language.read.inserts import read_insert, without_sets
from headrace.language.read.options import read_options, read_promises
from headrace.language.read.parcels import read_buckets, read_move
from headrace.language.read.rules import read_decision, read_declared, read_enabling, read_raise, read_rule, read_sink
from headrace.language.read.stints import read_stint, read_turn
from headrace.language.read.views import read_split
from headrace.language.reader import Reader
from headrace.language.syntax import rules, statements
from headrace.language.syntax.names import ConnectorClause, Name
from headrace.language.syntax.statements import Statement
from headrace.model.time import parse_duration, parse_instant

STATEMENTS = (
    "CREATE", "SELECT", "WITH", "INSERT", "SPLIT", "START", "STOP", "ALTER", "ASSUME", "DESIRE", "DEMAND", "ENABLE",
    "DISABLE", "CONFIRM", "REJECT", "RAISE", "MOVE", "REFRESH", "DROP", "SHOW", "DESCRIBE", "EXPLAIN",
)  # fmt: skip
SHOWN: tuple[statements.Shown, ...] = (
    "STREAMS", "TABLES", "QUERIES", "EVENTS", "RULES", "AGGREGATES", "FUNCTIONS", "STATISTICS", "FEEDBACK",
    "SHEDDING", "DECISIONS", "SETTINGS", "BUCKETS", "STORES", "PLANS", "MIGRATIONS",
    "PARCELS", "PROPOSALS",
)  # fmt: skip
DROPPED: tuple[Literal["QUERY", "STREAM", "TABLE", "AGGREGATE", "FUNCTION", "RULE", "SINK"], ...] = (
    "QUERY",
    "STREAM",
    "TABLE",
    "AGGREGATE",
    "FUNCTION",
    "RULE",
    "SINK",
)
#: Tuples of a query on demand that wait in each bucket unless it says how many.
_MOST_HELD = 1_000_000
_INTENTS: tuple[Literal["ASSUME", "DESIRE", "DEMAND"], ...] = ("ASSUME", "DESIRE", "DEMAND")
_HINT = (
    "a statement is CREATE STREAM, CREATE TABLE, CREATE AGGREGATE, CREATE FUNCTION, CREATE QUERY, CREATE VIEW, "
    "CREATE EVENT, CREATE RULE, CREATE SINK, SELECT, INSERT, SPLIT, START QUERY, STOP QUERY, ALTER, ASSUME, DESIRE, "
    "DEMAND, ENABLE RULE, DISABLE RULE, CONFIRM, REJECT, RAISE EVENT, MOVE PARCELS, REFRESH TABLE, DROP, SHOW, "
    "DESCRIBE or EXPLAIN"
)

#: The highest priority of a desire.
_PRIORITY = 9
_BRACES = {TokenType.L_BRACE: 1, TokenType.R_BRACE: -1}


def parse(text: str) -> list[Statement]:
    """Read the statements of a text, which `;` separates.

    An error's span counts from the start of the whole text; the spans inside a statement from the start of the
    statement's own text.
    """
    if not isinstance(text, str):
        hint = "give the statements themselves; those of a file are Path(file).read_text()"
        raise SyntaxFault(f"statements are a text, and not a {type(text).__name__}", hint=hint)
    try:
        return [_cut_out(text, tokens) for tokens in without_sets(_separated(text))]
    except HeadraceError as error:
        error.text = text
        raise


def _cut_out(text: str, tokens: Sequence[Token]) -> Statement:
    """Read the statement of these tokens. Places in a statement count from its own start, so others are cut again."""
    start, end = tokens[0].start, tokens[-1].end + 1
    # a comment behind the statement is no part of it, but belongs to its last token
    is_same = start == 0 and not tokens[-1].comments
    return _statement(text[start:end], start, tokens if is_same else None)


def _separated(text: str) -> Iterator[list[Token]]:
    """Give the tokens of each statement that is not empty."""
    tokens: list[Token] = []
    depth = 0  # of braces, which hold the statements of an aggregate
    for token in tokenize(text):
        depth = max(0, depth + _BRACES.get(token.token_type, 0))
        if token.token_type != TokenType.SEMICOLON or depth > 0:
            tokens.append(token)
        elif tokens:
            yield tokens
            tokens = []
    if tokens:
        yield tokens


def _statement(text: str, offset: int, tokens: Sequence[Token] | None) -> Statement:
    try:
        reader = Reader(tokenize(text) if tokens is None else tokens, text)
        statement = _read(reader, offset)
        if not reader.done:
            into = reader.word() == "FROM" and isinstance(statement, statements.Select)
            hint = "write INTO at the end: SELECT item FROM bids INTO KIND (options)" if into else None
            reader.fail("the statement should end here", hint=hint or other_systems.ENDINGS.get(reader.word()))
    except RecursionError as error:
        raise NotSupported(
            "the statement is nested too deeply", span=Span(offset, offset + len(text)), hint="name parts of it"
        ) from error
    except HeadraceError as error:
        if error.span is not None:
            error.span = Span(error.span.start + offset, error.span.end + offset)
        raise
    return statement


def _read(reader: Reader, offset: int) -> Statement:
    match reader.word():
        case "CREATE":
            return _create(reader, offset)
        case "SELECT" | "WITH" | "(":
            select, span, sinks = _query(reader)
            return statements.Select(reader.text, offset, select, span, sinks)
        case "INSERT":
            return read_insert(reader, offset)
        case "DETECT":
            reader.position += 1
            return read_detection(reader, offset)
        case "SPLIT":
            return read_split(reader, offset)
        case "START" | "STOP":
            return read_turn(reader, offset)
        case "DROP":
            return _drop(reader, offset)
        case "ALTER":
            return _alter(reader, offset)
        case "ASSUME" | "DESIRE" | "DEMAND":
            return _tell(reader, offset)
        case "ENABLE" | "DISABLE":
            return read_enabling(reader, offset)
        case "CONFIRM" | "REJECT":
            return read_decision(reader, offset)
        case "RAISE":
            return read_raise(reader, offset)
        case "MOVE":
            return read_move(reader, offset)
        case "REFRESH":
            reader.expect("REFRESH", "TABLE", hint="REFRESH TABLE name")
            return statements.RefreshTable(reader.text, offset, reader.name("the table's name"))
        case "SHOW":
            return _show(reader, offset)
        case "DESCRIBE" | "DESC":
            reader.position += 1
            _refuse_detail(reader)
            return statements.Describe(reader.text, offset, reader.dotted())
        case "EXPLAIN":
            return _explain(reader, offset)
        case other:
            reader.fail(
                "expected a statement",
                hint=did_you_mean(other, STATEMENTS, elsewhere=other_systems.STATEMENTS, otherwise=_HINT),
            )


def _create(reader: Reader, offset: int) -> Statement:
    start = reader.position
    reader.expect("CREATE")
    or_replace = reader.accept("OR", "REPLACE")
    if reader.accept("MATERIALIZED", "VIEW"):
        return _materialized_view(reader, offset, or_replace)
    if reader.accept("VIEW") or reader.accept("TEMPORARY", "VIEW") or reader.accept("TEMP", "VIEW"):
        return _view(reader, offset, or_replace)
    if reader.accept("EVENT"):
        return _event(reader, offset, or_replace)
    if reader.accept("RULE"):
        return read_rule(reader, offset, or_replace)
    if reader.accept("SINK"):
        return read_sink(reader, offset, or_replace)
    if not reader.accept("QUERY"):
        reader.position = start
        return read_create(reader, offset)
    return _create_query(reader, offset, or_replace)


def _materialized_view(reader: Reader, offset: int, or_replace: bool) -> statements.CreateQuery:
    """Read CREATE MATERIALIZED VIEW as CREATE QUERY; without INTO, its results stay in memory."""
    query = _create_query(reader, offset, or_replace)
    return query if query.sinks else replace(query, sinks=(ConnectorClause("MEMORY", {}, query.name.span),))


def _create_query(reader: Reader, offset: int, or_replace: bool) -> statements.CreateQuery:
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name("the query's name")
    stint = read_stint(reader)
    options, spans = read_options(reader) if reader.accept("WITH") else ({}, {})
    stint = stint or read_stint(reader)
    demand = _on_demand(reader)
    reader.expect(
        "AS",
        hint="CREATE QUERY name [START time STOP time] [WITH (options)] [ON DEMAND] AS SELECT ... [INTO KIND (...)]",
    )
    select, span, sinks = _query(reader)
    return statements.CreateQuery(
        reader.text, offset, name, options, select, span, sinks, or_replace, if_not_exists, spans, stint, demand
    )


def _on_demand(reader: Reader) -> int | None:
    """Read ON DEMAND [KEEP n]: how many tuples may wait in each bucket; None if it is missing."""
    if not reader.accept("ON"):
        return None
    reader.expect("DEMAND", hint="CREATE QUERY name ON DEMAND [KEEP 1000000] AS SELECT ...")
    if not reader.accept("KEEP"):
        return _MOST_HELD
    hint = "write for example KEEP 1000000"
    span, most = reader.here(), reader.integer("how many tuples may wait", hint=hint)
    if most < 1:
        raise SyntaxFault("at least one tuple must be able to wait", span=span, hint=hint)
    return most


def _view(reader: Reader, offset: int, or_replace: bool) -> statements.CreateView:
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name("the view's name")
    named = "name the columns in SELECT: CREATE VIEW name AS SELECT item AS a"
    reader.expect("AS", hint=named if reader.word() == "(" else "CREATE VIEW name AS SELECT ...")
    select, span, sinks = _query(reader)
    if sinks:
        raise SyntaxFault(
            "a view cannot have INTO", span=sinks[0].span, hint="write CREATE QUERY instead of CREATE VIEW"
        )
    return statements.CreateView(reader.text, offset, name, select, span, or_replace, if_not_exists)


def _event(reader: Reader, offset: int, or_replace: bool) -> statements.CreateEvent | rules.DeclareEvent:
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name("the event's name")
    if reader.word() == "(":
        return read_declared(reader, offset, name, or_replace, if_not_exists)
    reader.expect(
        "AS",
        hint="CREATE EVENT name AS SELECT ..., or CREATE EVENT name AS a SEQUENCE b WITHIN 10 MINUTES WHERE a.x = b.x",
    )
    body: statements.Select | statements.Detection
    if reader.word() in ("SELECT", "WITH") and not (reader.word() == "SELECT" and selects_event(reader)):
        select, span, sinks = _query(reader)
        if sinks:
            raise SyntaxFault(
                "an event cannot have INTO",
                span=sinks[0].span,
                hint="CREATE QUERY q AS SELECT * FROM event INTO KIND (options) writes its occurrences",
            )
        body = statements.Select(reader.text, offset, select, span, ())
    else:
        body = read_detection(reader, offset)
    return statements.CreateEvent(reader.text, offset, name, body, or_replace, if_not_exists)


def _query(reader: Reader) -> tuple[exp.Expr, Span, tuple[ConnectorClause, ...]]:
    tokens: Sequence[Token] = reader.until("INTO")
    if not tokens:
        reader.fail("expected SELECT")
    select = parse_select(tokens, reader.text)
    sinks: list[ConnectorClause] = []
    if reader.accept("INTO"):
        sinks.append(read_connector(reader))
        while reader.accept(","):
            sinks.append(read_connector(reader))
    return select, Span(tokens[0].start, tokens[-1].end + 1), tuple(sinks)


def _alter(
    reader: Reader, offset: int
) -> (
    statements.Alter | statements.AlterPromises | statements.Migrate | statements.ResetFrontier | statements.SteerStream
):
    reader.expect("ALTER")
    query = None
    if reader.accept("STREAM"):
        return _alter_stream(reader, offset)
    if not reader.accept("SYSTEM"):
        hint = (
            "ALTER SYSTEM SET strategy = 'bfs', ALTER QUERY name SET strategy = 'bfs', "
            "or ALTER STREAM name RESET FRONTIER"
        )
        reader.expect("QUERY", hint=other_systems.ALTERED.get(reader.word(), hint))
        query = reader.name("the query's name")
        if reader.accept("MIGRATE"):
            return _migrate(reader, offset, query)
    reader.expect("SET")
    if query is not None and reader.word() == "(":
        return statements.AlterPromises(reader.text, offset, query, *read_promises(reader))
    setting = reader.name("the name of a setting")
    reader.accept("=")
    span = reader.here()
    value = reader.option()
    if value is None:
        reader.fail("expected a value", hint="write for example strategy = 'bfs'")
    return statements.Alter(reader.text, offset, query, setting, Name(str(value), span), read_buckets(reader))


def _migrate(reader: Reader, offset: int, query: Name) -> statements.Migrate:
    hint = (
        "ALTER QUERY name MIGRATE TO '((a b) c)' USING MOVING STATE, USING STEPWISE WITHIN '50 ms' "
        "or USING PARALLEL TRACK, and IN BUCKET 2 for one bucket alone"
    )
    reader.expect("TO", hint=hint)
    span = reader.here()
    plan = Name(reader.string("a plan such as '((a b) c)'"), span)
    how, within = _using(reader, hint) if reader.accept("USING") else (None, None)
    return statements.Migrate(reader.text, offset, query, plan, how, within, read_buckets(reader))


def _using(reader: Reader, hint: str) -> tuple[Literal["moving", "stepwise", "parallel"], int | None]:
    """Read how a plan changes, and how much longer a micro-batch may take for it."""
    if reader.accept("MOVING"):
        reader.expect("STATE", hint=hint)
        return "moving", None
    if reader.accept("PARALLEL"):
        reader.expect("TRACK", hint=hint)
        return "parallel", None
    reader.expect("STEPWISE", hint=hint)
    if not reader.accept("WITHIN"):
        return "stepwise", None
    span = reader.here()
    try:
        within = parse_duration(reader.string("a time such as '50 ms'"))
    except ValueError as error:
        raise SyntaxFault(str(error), span=span, hint=hint) from error
    if within <= 0:
        raise SyntaxFault("the time of a portion must be positive", span=span, hint=hint)
    return "stepwise", within


def _alter_stream(reader: Reader, offset: int) -> statements.ResetFrontier | statements.SteerStream:
    hint = (
        "ALTER STREAM name RESET FRONTIER, ALTER STREAM name RESET FRONTIER TO TIMESTAMP '2026-01-31 10:00:00', "
        "ALTER STREAM name SET rate = 500, ALTER STREAM name PAUSE, or ALTER STREAM name RESUME"
    )
    stream = reader.dotted()
    for word, paused in (("PAUSE", True), ("RESUME", False)):
        if reader.accept(word):
            return statements.SteerStream(reader.text, offset, stream, None, paused)
    if reader.accept("SET"):
        reader.expect("RATE", hint=hint)
        reader.expect("=", hint=hint)
        span = reader.here()
        rate = reader.option()
        if not isinstance(rate, int | float) or isinstance(rate, bool) or not 0 < rate < float("inf"):
            raise SyntaxFault("the rate must be a number above zero", span=span, hint=f"{hint}; PAUSE stops it")
        return statements.SteerStream(reader.text, offset, stream, float(rate), None)
    reader.expect("RESET", "FRONTIER", hint=hint)
    span = reader.here()
    if not reader.accept("TO"):
        return statements.ResetFrontier(reader.text, offset, stream, None, stream.span)
    reader.accept("TIMESTAMP")
    span = reader.here()
    written = reader.string("a timestamp")
    try:
        return statements.ResetFrontier(reader.text, offset, stream, parse_instant(written), span)
    except ValueError as error:
        raise SyntaxFault(f"{written!r} is not a timestamp", span=span, hint=hint) from error


def _tell(reader: Reader, offset: int) -> statements.Tell | statements.Ask:
    intent = next(intent for intent in _INTENTS if reader.accept(intent))
    query = reader.name("the query's name")
    if intent == "DEMAND" and reader.done:
        return statements.Ask(reader.text, offset, query)
    now = "DEMAND query WHERE segment = 3 shows what is not final; a query ON DEMAND is asked with DEMAND query"
    reader.expect("WHERE", hint=now if intent == "DEMAND" else f"{intent} query WHERE segment = 3 FOR 2 MINUTES")
    tokens = reader.until("FOR", "PRIORITY")
    if not tokens:
        reader.fail("expected a condition", hint=f"{intent} query WHERE segment = 3")
    condition = parse_expressions(tokens, reader.text)
    if len(condition) > 1:
        raise SyntaxFault(
            "expected one condition, but found several",
            span=Span(tokens[0].start, tokens[-1].end + 1),
            hint="join its parts with AND",
        )
    duration = reader.duration() if reader.accept("FOR") else None
    priority, span = 0, reader.here()
    if intent == "DESIRE" and reader.accept("PRIORITY"):
        span = reader.here()
        priority = reader.integer("a priority from 0 to 9")
    if not 0 <= priority <= _PRIORITY:
        raise SyntaxFault(f"the priority must be from 0 to {_PRIORITY}, not {priority}", span=span)
    where = Span(tokens[0].start, tokens[-1].end + 1)
    return statements.Tell(reader.text, offset, intent, query, condition[0], where, duration, priority)


def _drop(reader: Reader, offset: int) -> statements.Drop:
    reader.expect("DROP")
    for kind in DROPPED:
        # a view or an event is a query without sinks
        if reader.accept(kind) or (
            kind == "QUERY"
            and any(reader.accept(*words) for words in (("VIEW",), ("EVENT",), ("MATERIALIZED", "VIEW")))
        ):
            if_exists = reader.accept("IF", "EXISTS")
            return statements.Drop(reader.text, offset, kind, reader.name(), if_exists)
    reader.fail(
        "expected QUERY, VIEW, EVENT, RULE, SINK, STREAM, TABLE, AGGREGATE or FUNCTION",
        hint=did_you_mean(reader.word(), (*DROPPED, "VIEW", "EVENT"), elsewhere=other_systems.DROPPED),
    )


def _show(reader: Reader, offset: int) -> statements.Show | statements.ShowCreate:
    reader.expect("SHOW")
    if reader.accept("CREATE"):
        kinds = (
            " ".join(kind) for kind in _KINDS if reader.ahead(len(kind)) is not None and reader.word(len(kind)) != "."
        )
        kind = next((kind for kind in kinds if reader.accept(*kind.split())), "")
        return statements.ShowCreate(reader.text, offset, reader.dotted(), kind)
    for what in SHOWN:
        if reader.accept(what):
            if reader.word() in ("IN", "FROM", "LIKE"):
                reader.fail("the statement should end here", hint=f"write SHOW {what}: all names are in one catalog")
            return statements.Show(reader.text, offset, what)
    reader.fail(
        f"expected {', '.join(SHOWN[:-1])} or {SHOWN[-1]}",
        hint=did_you_mean(reader.word(), SHOWN, elsewhere=other_systems.SHOWN),
    )


#: What SHOW CREATE may name before the name.
_KINDS = (
    ("MATERIALIZED", "VIEW"), ("STREAM",), ("TABLE",), ("QUERY",), ("VIEW",), ("EVENT",), ("RULE",), ("SINK",),
    ("AGGREGATE",), ("FUNCTION",),
)  # fmt: skip

#: Words between DESCRIBE or EXPLAIN and what it is about that change nothing.
_DETAILS = (("EXTENDED",), ("FORMATTED",), ("PLAN", "FOR"), ("OPTIMIZED", "PLAN", "FOR"))


def _refuse_detail(reader: Reader) -> None:
    """Pass over words of another system between DESCRIBE or EXPLAIN and what it is about; refuse what means more."""
    if any(reader.word(len(words)) not in ("", ".") and reader.accept(*words) for words in _DETAILS):
        return
    hint = other_systems.DESCRIBED.get(reader.word())
    if hint is not None and reader.word(1) not in ("", "."):
        reader.fail("expected a name", hint=hint)


def _explain(reader: Reader, offset: int) -> statements.Explain | statements.ExplainReplace:
    reader.expect("EXPLAIN")
    if reader.accept("REPLACE", "QUERY") or reader.accept("CREATE", "OR", "REPLACE", "QUERY"):
        return statements.ExplainReplace(reader.text, offset, _create_query(reader, offset, or_replace=True))
    _refuse_detail(reader)
    analyze = reader.accept("ANALYZE")
    has_more = not analyze and reader.position + 1 < len(reader.tokens)
    capacity = has_more and reader.word() == "CAPACITY" and reader.accept("CAPACITY")
    plans = has_more and reader.word() == "PLANS" and reader.accept("PLANS")
    json = reader.accept("(", "FORMAT", "JSON", ")") or (
        reader.word() == "JSON" and reader.word(1) != "" and reader.accept("JSON")
    )
    if not json:
        reader.accept("(", "FORMAT", "TEXT", ")")
    target: Name | exp.Expr
    if reader.word() in ("SELECT", "WITH", "("):
        target, _, _ = _query(reader)
    else:
        target = reader.name("a SELECT or the name of a query")
    return statements.Explain(reader.text, offset, target, "json" if json else "text", analyze, capacity, plans)
