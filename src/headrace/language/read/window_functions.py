"""Reads the windows of Flink and Spark: functions in GROUP BY and table functions in FROM.

Both become a window after a FROM item, as if it were written in brackets. What a SELECT says about the window
(`TUMBLE_END(at, ...)`, `window.end`) becomes window_start or window_end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import get_args

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from headrace.errors import NotSupported, Span, SyntaxFault
from headrace.language.read.windows import cumulating
from headrace.language.reader import Reader
from headrace.language.syntax.clauses import CumulateClause, RangeClause, SessionClause, WindowCall, WindowFunction

#: Parses tokens as expressions separated by commas.
Expressions = Callable[[Sequence[Token], str], list[exp.Expr]]

_FUNCTIONS: tuple[WindowFunction, ...] = get_args(WindowFunction)
_PARTS = ("START", "END", "ROWTIME")
#: TUMBLE_START and the like, by the function whose window they are about.
_AUXILIARY = {f"{name}_{part}": (name, part) for name in ("TUMBLE", "HOP", "SESSION") for part in _PARTS}
#: The names of calls that `read_window_call` reads.
WINDOW_CALLS = (*(name for name in _FUNCTIONS if name != "CUMULATE"), *_AUXILIARY)
_FORMS: dict[str, str] = {
    "TUMBLE": "GROUP BY TUMBLE(at, INTERVAL '5' MINUTE)",
    "HOP": "GROUP BY HOP(at, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE), the slide first",
    "CUMULATE": "FROM TABLE(CUMULATE(TABLE s, DESCRIPTOR(at), INTERVAL '1' HOUR, INTERVAL '1' DAY))",
    "SESSION": "GROUP BY SESSION(at, INTERVAL '30' SECOND)",
    "WINDOW": "GROUP BY window(at, '5 minutes'), or window(at, '5 minutes', '1 minute')",
    "SESSION_WINDOW": "GROUP BY session_window(at, '30 seconds')",
}
_TABLE_FORMS: dict[str, str] = {
    "TUMBLE": "FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(at), INTERVAL '5' MINUTE))",
    "HOP": "FROM TABLE(HOP(TABLE s, DESCRIPTOR(at), INTERVAL '1' MINUTE, INTERVAL '5' MINUTE)), the slide first",
    "CUMULATE": "FROM TABLE(CUMULATE(TABLE s, DESCRIPTOR(at), INTERVAL '1' HOUR, INTERVAL '1' DAY)), the step first",
    "SESSION": "FROM TABLE(SESSION(TABLE s PARTITION BY id, DESCRIPTOR(at), INTERVAL '30' SECOND))",
}
_NAMED = "name the sub-query: WITH x AS (SELECT ...) SELECT ... FROM TABLE(TUMBLE(TABLE x, ...))"
#: The column that holds the window in Spark, by function.
_STRUCTS = {"WINDOW": "window", "SESSION_WINDOW": "session_window"}
_MILLISECOND = 1_000


def read_window_call(tokens: Sequence[Token], text: str, parse: Expressions) -> exp.Expr:
    """Read a call such as TUMBLE(at, INTERVAL '1' MINUTE) or TUMBLE_START(at, ...) up to its closing parenthesis."""
    name = tokens[0].text.upper()
    function = _function(_AUXILIARY[name][0] if name in _AUXILIARY else name)
    reader = Reader(tokens[2:-1], text, end=tokens[-1].start, whole="call")
    time = _time_column(reader, text, parse, function)
    call = exp.Anonymous(this=tokens[0].text, expressions=[time])
    span = Span(tokens[0].start, tokens[-1].end + 1)
    call.meta.update(start=span.start, end=span.end - 1, line=tokens[0].line, col=tokens[0].col)
    call.meta["window_call"] = WindowCall(function, _window(reader, function, span, _FORMS[function]), time, False)
    return call


def is_table_function(words: Sequence[str]) -> bool:
    """Return whether the next words of FROM are `TABLE (`, `TUMBLE (` or the like."""
    return len(words) == 2 and words[0] in ("TABLE", *_TABLE_FORMS) and words[1] == "("


def read_table_function(tokens: Sequence[Token], text: str, parse: Expressions) -> exp.Table:
    """Read TABLE(TUMBLE(TABLE s, DESCRIPTOR(at), INTERVAL '1' MINUTE)) as the item s with a window."""
    span = Span(tokens[0].start, tokens[-1].end + 1)
    if tokens[0].text.upper() == "TABLE":  # the parentheses around the call may be missing
        tokens = tokens[2:-1]
    name = tokens[0].text.upper() if tokens else ""
    if name not in _TABLE_FORMS or len(tokens) < 3:
        raise NotSupported(
            "TABLE(...) in FROM needs TUMBLE, HOP, CUMULATE or SESSION",
            span=span,
            hint=f"write {_TABLE_FORMS['TUMBLE']}",
        )
    function, hint = _function(name), _TABLE_FORMS[name]
    reader = Reader(tokens[2:-1], text, end=tokens[-1].start, whole="call")
    _named_argument(reader, "DATA")
    is_flink = reader.accept("TABLE")  # RisingWave writes tumble(s, at, INTERVAL '1 minute')
    item = exp.Table(this=_identifier(reader))
    while reader.accept("."):
        item = exp.Table(this=_identifier(reader), db=item.this)
    by: tuple[exp.Expr, ...] = ()
    if reader.word().split() == ["PARTITION", "BY"]:  # one token in sqlglot
        if function != "SESSION":
            raise SyntaxFault(
                f"{function} cannot have PARTITION BY",
                span=reader.here(),
                hint="leave it out, and write the columns in GROUP BY",
            )
        reader.position += 1
        by = tuple(_until_comma(reader, text, parse, hint))
    reader.expect(",", hint=hint)
    _named_argument(reader, "TIMECOL")
    if is_flink or reader.word() == "DESCRIPTOR":
        reader.expect("DESCRIPTOR", "(", hint=hint)
        descriptor = Reader(reader.until(")"), text, whole="descriptor")
        time = _time_column(descriptor, text, parse, function)
        reader.expect(")", hint=hint)
    else:
        time = _time_column(reader, text, parse, function)
    window = _window(reader, function, span, hint)
    item.meta["window"] = window
    item.meta["window_call"] = WindowCall(function, window, time, True, by)
    return item


def place_window(select: exp.Select) -> None:
    """Move the window function of GROUP BY to the FROM item whose time it names, and say window_start for its start."""
    group = select.args.get("group")
    if group is not None:
        _write_out(group, select)
    calls = [item for item in group.expressions if _is_window(item)] if group is not None else []
    if len(calls) > 1:
        raise NotSupported(
            "GROUP BY has two windows",
            span=_place(calls[1]),
            hint="aggregate by one window in a sub-query, and by the other over it",
        )
    table_call = _table_call(select)
    if not calls and table_call is None:
        return
    if group is not None and calls:
        call: WindowCall = calls[0].meta["window_call"]
        _give(select, call)
        group.set(
            "expressions",
            [
                part
                for item in group.expressions
                for part in ((_bound("start", item), _bound("end", item)) if item is calls[0] else (item,))
            ],
        )
    else:
        assert table_call is not None
        call = table_call
    _rewrite(select, call)


def _write_out(group: exp.Group, select: exp.Select) -> None:
    """Write a window in GROUP BY that is named as a column of SELECT, as Spark allows: GROUP BY w, or GROUP BY 1."""
    outputs = select.expressions
    named = {item.alias.lower(): item.this for item in outputs if isinstance(item, exp.Alias) and _is_window(item.this)}
    by_place = {str(place): item.unalias() for place, item in enumerate(outputs, 1) if _is_window(item.unalias())}

    def written_out(item: exp.Expr) -> exp.Expr:
        known: dict[str, exp.Expr] = {}
        if isinstance(item, exp.Column) and not item.table:
            known = named
        elif isinstance(item, exp.Literal) and not item.is_string:
            known = by_place
        window = known.get(item.name.lower())
        return item if window is None else window.copy()

    group.set("expressions", [written_out(item) for item in group.expressions])


def _function(name: str) -> WindowFunction:
    return next(function for function in _FUNCTIONS if function == name)


def _window(
    reader: Reader, function: WindowFunction, span: Span, hint: str
) -> RangeClause | CumulateClause | SessionClause:
    """Read the durations of a window, each after a comma."""
    durations: list[tuple[int, Span]] = []
    while not reader.done:
        reader.expect(",", hint=hint)
        _named_argument(reader, "SIZE", "SLIDE", "GAP", "OFFSET", "STEP")
        start = reader.here()
        if function in ("SESSION", "SESSION_WINDOW") and (reader.word() == "CASE" or reader.word(1) == "("):
            raise NotSupported(
                "the gap of a session must be constant",
                span=start,
                hint="write a query for each gap: ... WHERE item = 1 GROUP BY session_window(at, '5 seconds'), item",
            )
        durations.append((reader.offset(), start))
    most = {"TUMBLE": 2, "HOP": 3, "CUMULATE": 3, "SESSION": 1, "WINDOW": 3, "SESSION_WINDOW": 1}[function]
    least = 2 if function in ("HOP", "CUMULATE") else 1
    if not least <= len(durations) <= most:
        takes = f"{least} to {most} durations" if least < most else "one duration"
        raise SyntaxFault(f"{function} takes {takes}, not {len(durations)}", span=span, hint=f"write {hint}")
    for duration, place in durations[:least]:
        if duration <= 0:
            raise SyntaxFault("the duration of a window must be longer than zero", span=place)
    if function in ("SESSION", "SESSION_WINDOW"):
        return SessionClause(durations[0][0], span, inclusive=True)
    if function == "CUMULATE":
        (step, step_place), (whole, _), *offsets = durations
        if step > whole or whole % step != 0:
            raise NotSupported(
                "the size of a cumulative window must be a multiple of its step", span=step_place, hint=f"write {hint}"
            )
        return cumulating(whole, step, span, offsets[0][0] if offsets else 0)
    slide, size = (0, 1) if function == "HOP" else (1 if function == "WINDOW" and len(durations) > 1 else 0, 0)
    offset = durations[max(slide, size) + 1] if max(slide, size) + 1 < len(durations) else None
    window = RangeClause(durations[size][0], durations[slide][0] if slide != size else None, False, span)
    return _shifted(window, durations[slide][1], 0 if offset is None else offset[0])


def _shifted(window: RangeClause, slide_place: Span, offset: int) -> RangeClause:
    slide = window.size if window.slide is None else window.slide
    if not 0 < slide <= window.size:
        raise NotSupported(
            "the slide of a window must be longer than zero and not longer than the window",
            span=slide_place,
            hint="windows with gaps are written FROM s [RANGE 1 MINUTE SLIDE 5 MINUTES]",
        )
    return replace(window, offset=offset % slide)


def _named_argument(reader: Reader, *names: str) -> None:
    """Step over the name of an argument, as in SIZE => INTERVAL '1' MINUTE."""
    for name in names:
        if reader.accept(name, "=>"):
            return


def _time_column(reader: Reader, text: str, parse: Expressions, function: WindowFunction) -> exp.Column:
    start = reader.here()
    (first, *rest) = _until_comma(reader, text, parse, _FORMS[function])
    if isinstance(first, exp.Anonymous) and first.name.lower() == "window_time" and len(first.expressions) == 1:
        first = first.expressions[0]  # of Spark: the time of a window is that of its column
    if rest or not isinstance(first, exp.Column):
        raise NotSupported(
            f"{function} needs the column that is the event time of the stream", span=start, hint=_FORMS[function]
        )
    return first


def _until_comma(reader: Reader, text: str, parse: Expressions, hint: str) -> list[exp.Expr]:
    tokens = reader.until(",")
    if not tokens:
        reader.fail("expected a column", hint=hint)
    return parse(tokens, text)


def _identifier(reader: Reader) -> exp.Identifier:
    token = reader.token
    name = reader.name("the name of a stream or query", hint=_NAMED if reader.word() == "(" else None)
    assert token is not None
    quoted = token.token_type == TokenType.IDENTIFIER
    identifier: exp.Identifier = exp.to_identifier(name.text, quoted=quoted).update_positions(token)
    return identifier


def _is_window(node: exp.Expr) -> bool:
    return "window_call" in node.meta and isinstance(node, exp.Anonymous) and node.name.upper() in _FUNCTIONS


def _items(select: exp.Select) -> list[exp.Expr]:
    from_ = select.args.get("from_")
    return [] if from_ is None else [from_.this, *(join.this for join in select.args.get("joins") or [])]


def _table_call(select: exp.Select) -> WindowCall | None:
    return next((item.meta["window_call"] for item in _items(select) if "window_call" in item.meta), None)


def _give(select: exp.Select, call: WindowCall) -> None:
    items = _items(select)
    qualifier = call.time.table.lower()
    item = next((item for item in items if qualifier and item.alias_or_name.lower() == qualifier), None)
    item = item or (items[0] if items else None)
    if item is None:
        return  # the binder asks for FROM
    if "window" in item.meta or item.meta.get("unions"):
        raise NotSupported(
            f"the stream has a window already, besides {call.function}",
            span=call.span,
            hint="write one window, in GROUP BY or after the stream",
        )
    item.meta.update(window=call.window, window_call=call)


def _rewrite(select: exp.Select, call: WindowCall) -> None:
    """Say window_start and window_end for what a SELECT calls the ends of its window."""
    items = _items(select)
    alone = items[0].alias_or_name.lower() if len(items) == 1 else ""
    outputs: list[exp.Expr] = []
    struct = _STRUCTS.get(call.function)
    for item in select.expressions:
        if isinstance(item, exp.Column) and item.is_star and item.table.lower() == struct:  # window.* of Spark
            outputs += [exp.alias_(_bound(which, item), which, copy=False) for which in ("start", "end")]
            continue
        named = item.alias_or_name or (item.name if isinstance(item, exp.Dot | exp.Anonymous) else "")
        replaced = item.transform(lambda node: _end_of(node, call, alone), copy=False)
        if replaced is not item and isinstance(replaced, exp.Expression):
            replaced = exp.alias_(replaced, named.lower() or "expr", copy=False)
        outputs.append(replaced)
    select.set("expressions", outputs)
    for clause in ("group", "having", "qualify", "order"):
        if (tree := select.args.get(clause)) is not None:
            tree.transform(lambda node: _end_of(node, call, alone), copy=False)


def _end_of(node: exp.Expr, call: WindowCall, alone: str) -> exp.Expr:
    """Return what stands for a node that names an end of the window; the node itself if it names none.

    `alone` is the name of the only item of FROM, which the ends may be written with: t.window_start.
    """
    struct = _STRUCTS.get(call.function)
    match node:
        case exp.Column() if (
            struct is not None
            and node.table.lower() == struct
            and node.name.lower()
            in (
                "start",
                "end",
            )
        ):
            return _bound(node.name.lower(), node)
        case exp.Column() if struct is not None and node.name.lower() == struct and not node.table:
            return _struct(node)
        case exp.Column() if (
            call.is_table
            and node.name.lower() in ("window_start", "window_end")
            and alone
            and node.table.lower() == alone
        ):
            return _bound(node.name.lower().removeprefix("window_"), node)
        case exp.Column() if call.is_table and node.name.lower() == "window_time":
            return exp.Sub(this=_bound("end", node), expression=_interval(_MILLISECOND))
        case exp.Dot() if _is_window(node.this) and node.name.lower() in ("start", "end"):
            _check_same(node.this, call)
            return _bound(node.name.lower(), node.this)
        case exp.Anonymous() if struct is not None and _is_window(node) and node.name.lower() == struct:
            _check_same(node, call)
            return _struct(node)
        case exp.Anonymous() if node.name.lower() == "window_time" and struct is not None:
            return exp.Sub(this=_bound("end", node), expression=_interval(1))
        case exp.Anonymous() if node.name.upper() in _AUXILIARY and "window_call" in node.meta:
            _check_same(node, call)
            part = _AUXILIARY[node.name.upper()][1]
            bound = _bound("start" if part == "START" else "end", node)
            return exp.Sub(this=bound, expression=_interval(_MILLISECOND)) if part == "ROWTIME" else bound
        case _:
            return node


def _check_same(node: exp.Expr, call: WindowCall) -> None:
    named: WindowCall = node.meta["window_call"]
    windows = [replace(window, span=call.span) for window in (named.window, call.window)]
    if named.function != call.function or windows[0] != windows[1] or named.time.name != call.time.name:
        raise NotSupported(
            f"{node.name} is about another window than GROUP BY",
            span=_place(node),
            hint="write the same arguments in both, or window_start and window_end",
        )


def _bound(which: str, node: exp.Expr) -> exp.Column:
    column = exp.column(exp.to_identifier(f"window_{which}"))
    place = _place(node)
    if place is not None:
        column.this.meta.update(start=place.start, end=place.end - 1, line=1, col=1)
    return column


def _struct(node: exp.Expr) -> exp.Anonymous:
    """Return the window as Spark has it: a STRUCT of its start and its end."""
    parts = [part for which in ("start", "end") for part in (exp.Literal.string(which), _bound(which, node))]
    return exp.Anonymous(this="named_struct", expressions=parts)


def _interval(microseconds: int) -> exp.Interval:
    return exp.Interval(this=exp.Literal.string(str(microseconds)), unit=exp.Var(this="MICROSECONDS"))


def _place(node: exp.Expr) -> Span | None:
    places = [(part.meta["start"], part.meta["end"] + 1) for part in node.walk() if "start" in part.meta]
    return Span(min(start for start, _ in places), max(end for _, end in places)) if places else None
