"""Reads event expressions: `a SEQUENCE b WITHIN 10 MINUTES WHERE a.x = b.x CONTEXT RECENT (a BY x)`."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from headrace.errors import NameFault, Span, SyntaxFault
from headrace.language import other_systems
from headrace.language.dialect import parse_select
from headrace.language.names import did_you_mean
from headrace.language.read.conditions import read_condition
from headrace.language.reader import Reader
from headrace.language.syntax.names import Name
from headrace.language.syntax.statements import Detection, EventPart
from headrace.model.events import event as events
from headrace.model.events.event import Context, Event, Mode, Retention
from headrace.model.limits import SHORTEST_PERIOD
from headrace.model.time import format_duration
from headrace.model.wall_clock import clock_name, parse_times, times_named

OPERATORS = (
    "SEQUENCE",
    "AND",
    "OR",
    "PLUS",
    "WITHIN",
    "WHERE",
    "CONTEXT",
    "AS",
    "NOT",
    "ANY",
    "TIMES",
    "APERIODIC",
    "PERIODIC",
    "AT",
)
_MODES = tuple(mode.value for mode in Mode)
_SIGNS: dict[str, tuple[int, int | None]] = {"+": (1, None), "*": (0, None), "?": (0, 1)}
#: Words of a FROM clause that make it an event.
_COMPOSING = ("SEQUENCE", "AND", "OR", "PLUS", "WITHIN", "CONTEXT")
_SELECT_HINT = "write SELECT a.x, COUNT(b) AS n FROM a SEQUENCE b+ SEQUENCE c WITHIN 10 MINUTES"
_HINT = (
    "an event is a SEQUENCE b, a SEQUENCE b+ SEQUENCE c, a AND b, a OR b, NOT (b) [a, c], ANY (2, a, b, c), "
    "TIMES (3, a), APERIODIC (a, b, c), "
    "PERIODIC (a, '30 s', c), a PLUS '5 s' or AT '*:00:00'"
)


def read_detection(reader: Reader, offset: int) -> Detection:
    """Read an event expression with its conditions and its context."""
    detection = read_inline(reader, offset)
    if not reader.done:
        before = reader.tokens[reader.position - 1].text.upper()
        if reader.word() == "(" and before in other_systems.EVENTS:
            reader.position -= 1  # a word of another system, such as SEQ(a, b), was taken for a name
            reader.fail("expected the name of an event", hint=_word_hint(reader.word()))
        reader.fail("the event should end here", hint=_word_hint(reader.word()))
    return detection


def read_inline(reader: Reader, offset: int, *ends: str) -> Detection:
    """Read an event expression with its conditions and its context, behind which one of these words stands."""
    start = reader.here().start
    items = _items(reader) if reader.word() == "SELECT" else ()
    expression = _Expression(reader)
    event = expression.whole()
    where = None
    if reader.accept("WHERE"):
        where, _ = read_condition(reader, "CONTEXT", *ends, hint="WHERE a.x = b.x")
    context, names = Context(Mode.RECENT), tuple[Name, ...]()
    if reader.accept("CONTEXT"):
        context, _, names = read_context(reader, [name.text for name in expression.names])
    span = Span(start, reader.tokens[reader.position - 1].end + 1)
    return Detection(reader.text, offset, event, tuple(expression.parts), where, context, names, span, items)


def selects_event(reader: Reader) -> bool:
    """Return whether a SELECT reads an event expression, not a stream: by the operators in its FROM clause."""
    position = reader.position
    reader.until("FROM")
    reader.accept("FROM")
    called = reader.word() in OPERATORS and reader.word(1) in ("(", "*")
    clause = reader.until("JOIN", "ON", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "INTO")
    rest = reader.until("CONTEXT")
    has_context = reader.word() == "CONTEXT" and (not rest or rest[-1].text != ".")
    reader.position = position
    words = [token.text.upper() for token in clause]
    composed = any(
        word in _COMPOSING and before not in ("AS", ".") for before, word in zip(["", *words], words, strict=False)
    )
    return called or composed or has_context


def _items(reader: Reader) -> tuple[exp.Expr, ...]:
    """Read the SELECT list of a complex event, and FROM."""
    tokens = reader.until("FROM")
    select = parse_select(tokens, reader.text)
    extra = [name for name, value in select.args.items() if value and name not in ("expressions", "kind")]
    if extra or not isinstance(select, exp.Select):
        reader.fail("the SELECT list of an event has columns and aggregates only", hint=_SELECT_HINT)
    reader.expect("FROM", hint=_SELECT_HINT)
    return tuple(select.expressions)


class _Expression:
    """Reads operators by how tightly they bind: PLUS, SEQUENCE, AND, OR, WITHIN."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.parts: list[EventPart] = []
        self.aliases: list[Name] = []

    def whole(self) -> Event:
        event = self._or()
        return events.Within(event, self._span("WITHIN")) if self.reader.accept("WITHIN") else event

    def _or(self) -> Event:
        event = self._and()
        while self.reader.accept("OR"):
            event = events.Or(event, self._and())
        return event

    def _and(self) -> Event:
        event = self._sequence()
        while self.reader.accept("AND"):
            event = events.And(event, self._sequence())
        return event

    def _sequence(self) -> Event:
        """Read events that follow one another; those with a number behind them fill the gap between two others."""
        before: Event | None = None
        repeated: list[tuple[Event, tuple[int, int | None]]] = []
        while True:
            start = self.reader.here().start
            event = self._plus()
            count = self._quantifier()
            if count is not None:
                repeated.append((event, count))
            elif repeated:
                middles, counts = zip(*repeated, strict=True)
                before, repeated = events.Repetition(before, middles, counts, event), []
            else:
                before = event if before is None else events.Sequence(before, event)
            if not self.reader.accept("SEQUENCE"):
                break
        if repeated or before is None:
            raise SyntaxFault(
                "a repetition needs an event that ends it",
                span=Span(start, self.reader.tokens[self.reader.position - 1].end + 1),
                hint="write a SEQUENCE b+ SEQUENCE c, or TIMES (3, b) for a number of them",
            )
        return before

    def _quantifier(self) -> tuple[int, int | None] | None:
        """Read +, *, ?, {n}, {n,} or {n,m}: how often an event is repeated; None if it stands alone."""
        reader = self.reader
        for sign, count in _SIGNS.items():
            if reader.accept(sign):
                return count
        span = reader.here()
        if not reader.accept("{"):
            return None
        least = reader.integer("how often at least")
        most: int | None = least
        if reader.accept(","):
            most = None if reader.word() == "}" else reader.integer("how often at most")
        reader.expect("}", hint="write b{3}, b{2,4} or b{2,}")
        if most is not None and (most < least or most < 1):
            raise SyntaxFault(
                f"{{{least},{most}}} allows no number of repetitions",
                span=Span(span.start, reader.tokens[reader.position - 1].end + 1),
                hint="write b{2,4}, or NOT (b) [a, c] for none",
            )
        return least, most

    def _plus(self) -> Event:
        event = self._single()
        while self.reader.accept("PLUS"):
            event = events.Plus(event, self._span("PLUS"))
        return event

    def _single(self) -> Event:
        reader = self.reader
        if reader.word() == "(" and reader.word(1) in ("SELECT", "WITH"):
            return self._select()
        if reader.accept("("):
            event = self.whole()
            reader.expect(")")
            return self._alias(event) if reader.accept("AS") else event
        if reader.word() == "AT" and (token := reader.ahead(1)) is not None and token.token_type == TokenType.STRING:
            return self._temporal()
        called = reader.word(1) == "(" or (reader.word(1) == "*" and reader.word(2) == "(")
        match reader.word() if called else "":
            case "NOT":
                return self._not()
            case "ANY":
                return self._any()
            case "TIMES":
                reader.position += 2
                count = self._count("how often")
                event = events.Times(count, self.whole())
                reader.expect(")")
                return event
            case "APERIODIC":
                star = self._open("APERIODIC")
                start, middle, end = self._next(), self._next(), self.whole()
                reader.expect(")")
                return events.AperiodicStar(start, middle, end) if star else events.Aperiodic(start, middle, end)
            case "PERIODIC":
                star = self._open("PERIODIC")
                start, span = self._next(), self._span("PERIODIC", SHORTEST_PERIOD)
                reader.expect(",")
                end = self.whole()
                reader.expect(")")
                return events.PeriodicStar(start, span, end) if star else events.Periodic(start, span, end)
            case _:
                return self._primitive()

    def _not(self) -> Event:
        reader = self.reader
        reader.position += 2
        middle = self.whole()
        reader.expect(")")
        reader.expect(
            "[", hint="NOT (b) [a, c]: no b between a and c; NOT (b) [a, '5 minutes']: none within 5 minutes of a"
        )
        start = self._next()
        token = reader.token
        timed = token is not None and (token.text[:1].isdigit() or reader.text[token.start] == "'")
        event: Event = (
            events.Absent(middle, start, self._span("NOT")) if timed else events.Not(middle, start, self.whole())
        )
        reader.expect("]")
        return event

    def _any(self) -> Event:
        reader = self.reader
        reader.position += 2
        span = reader.here()
        count = self._count("how many")
        choices = [self.whole()]
        while reader.accept(","):
            choices.append(self.whole())
        reader.expect(")")
        if count > len(choices):
            raise SyntaxFault(
                f"ANY needs {count} events, but only {len(choices)} are named",
                span=span,
                hint="name more events, or write TIMES (n, event) for several of one kind",
            )
        return events.AnyOf(count, tuple(choices))

    def _primitive(self) -> Event:
        reader = self.reader
        if reader.word() in OPERATORS:
            reader.fail("expected the name of an event", hint=_HINT)
        source = reader.name("an event")
        while reader.accept("."):
            part = reader.name()
            source = Name(f"{source.text}.{part.text}", Span(source.span.start, part.span.end))
        alias = reader.name("another name for it") if reader.accept("AS") else source
        if "." in alias.text:
            raise NameFault(
                f"{alias.text!r} needs a name without a dot in an event",
                span=alias.span,
                hint=f"write for example {source.text} AS late",
            )
        return self._part(source, alias)

    def _select(self) -> Event:
        """Read (SELECT ...) AS name; one of a single stream goes by the stream's name."""
        reader = self.reader
        reader.expect("(")
        tokens = reader.until(")")
        select = parse_select(tokens, reader.text)
        reader.expect(")")
        span = Span(tokens[0].start, tokens[-1].end + 1)
        source = Name(reader.text[span.start : span.end], span)
        if reader.accept("AS"):
            return self._part(source, reader.name("a name for it"), select)
        streams = [table.name for table in select.find_all(exp.Table)]
        if len(streams) != 1:
            reader.fail("the event needs a name", hint="write (SELECT ...) AS name SEQUENCE ...")
        return self._part(source, Name(streams[0], span), select)

    def _alias(self, event: Event) -> Event:
        """Read the name of a composite event in parentheses, by which a context can refer to it."""
        alias = self.reader.name("a name for it")
        if isinstance(event, events.Primitive):
            raise SyntaxFault(
                "parentheses with a name are for events of several parts",
                span=alias.span,
                hint=f"write {event.name} AS {alias.text} without parentheses",
            )
        self._check_name(alias, "(a SEQUENCE b)")
        self.aliases.append(alias)
        return events.Alias(event, alias.text)

    def _check_name(self, alias: Name, written: str) -> None:
        if any(alias.text.lower() == known.text.lower() for known in self.names):
            raise NameFault(
                f"two parts of the event are called {alias.text!r}",
                span=alias.span,
                hint=f"give one of them another name: {written} AS another",
            )

    @property
    def names(self) -> list[Name]:
        """Return the names that a context can refer to."""
        return [*(part.alias for part in self.parts), *self.aliases]

    def _part(self, source: Name, alias: Name, select: exp.Expr | None = None) -> Event:
        self._check_name(alias, source.text)
        self.parts.append(EventPart(source, alias, select))
        return events.Primitive(alias.text, len(self.parts) - 1)

    def _temporal(self) -> Event:
        """Read AT '*:00:00': the clock, a stream without a definition."""
        reader = self.reader
        start = reader.here().start
        reader.position += 1
        span = reader.here()
        written = reader.string("a time such as '*:00:00'")
        try:
            parse_times(written)
        except ValueError as error:
            raise SyntaxFault(
                str(error),
                span=span,
                hint="write for example '*:00:00' (every hour), '*:*:00', '06:30:00' or '2026-*-01 00:00:00'",
            ) from error
        source = Name(clock_name(written), Span(start, span.end))
        number = sum(times_named(part.source.text) is not None for part in self.parts)
        alias = (
            reader.name("a name for it")
            if reader.accept("AS")
            else Name(f"at_{number}" if number else "at", source.span)
        )
        return self._part(source, alias)

    def _open(self, word: str) -> bool:
        self.reader.expect(word)
        star = self.reader.accept("*")
        self.reader.expect("(")
        return star

    def _next(self) -> Event:
        event = self.whole()
        self.reader.expect(",", hint=_HINT)
        return event

    def _count(self, what: str) -> int:
        span = self.reader.here()
        count = self.reader.integer(what)
        if count < 1:
            raise SyntaxFault(f"the number must be at least 1, not {count}", span=span)
        self.reader.expect(",")
        return count

    def _span(self, what: str, least: int = 1) -> int:
        span = self.reader.here()
        length = self.reader.duration()
        if 0 < length < least:
            raise SyntaxFault(
                f"the time between two occurrences of {what} is at least {format_duration(least)}", span=span
            )
        if length <= 0:
            raise SyntaxFault(
                f"{what} needs a duration above zero", span=span, hint="write for example 5 MINUTES or '500 ms'"
            )
        return length


def _word_hint(word: str) -> str | None:
    return did_you_mean(word, OPERATORS, elsewhere=other_systems.EVENTS, otherwise=_HINT)


def read_context(reader: Reader, parts: Sequence[str] | None) -> tuple[Context, tuple[Name, ...], tuple[Name, ...]]:
    """Read a context; return it with the parts as written and the columns of BY. `parts` None: not known yet."""
    if reader.word() not in _MODES:
        reader.fail(
            "expected a mode of the context",
            hint=did_you_mean(reader.word(), _MODES, otherwise=f"modes are {', '.join(_MODES)}"),
        )
    mode = Mode(reader.word())
    reader.position += 1
    point = reader.accept("POINT")
    retentions: list[Retention] = []
    named: list[Name] = []
    written: list[Name] = []
    if reader.accept("("):
        while True:
            retention, part, columns = _retention(reader, parts)
            retentions.append(retention)
            written.append(part)
            named += columns
            if reader.accept(")"):
                break
            reader.expect(",", hint="CONTEXT RECENT (a BY x KEEP 3, b AGE '5 minutes')")
    return Context(mode, tuple(retentions), point), tuple(written), tuple(named)


def part_named(name: Name, parts: Sequence[str]) -> str:
    """Return the part of the event with this name, whatever the case."""
    part = next((known for known in parts if known.lower() == name.text.lower()), None)
    if part is None:
        hint = did_you_mean(name.text, parts, otherwise=f"its parts are {', '.join(parts)}")
        raise NameFault(f"the event has no part {name.text!r}", span=name.span, hint=hint)
    return part


def _retention(reader: Reader, parts: Sequence[str] | None) -> tuple[Retention, Name, list[Name]]:
    name = reader.name("one of the events")
    part = name.text if parts is None else part_named(name, parts)
    by: list[Name] = []
    keep = age = None
    if reader.accept("BY"):
        if reader.accept("("):
            by.append(_column(reader))
            while reader.accept(","):
                by.append(_column(reader))
            reader.expect(")")
        else:
            by.append(_column(reader))
    if reader.accept("KEEP"):
        span = reader.here()
        keep = reader.integer("how many are kept")
        if keep < 1:
            raise SyntaxFault(f"KEEP needs a number of at least 1, not {keep}", span=span)
    if reader.accept("AGE") or reader.accept("FOR"):
        age = reader.duration()
    columns = [Name(f"{part}.{column.text}", column.span) for column in by]
    return Retention(part, tuple(column.text for column in by), keep, age), name, columns


def _column(reader: Reader) -> Name:
    """Read a column; of an event with an alias, with the constituent that has it."""
    column = reader.name("a column")
    if not reader.accept("."):
        return column
    own = reader.name("a column")
    return Name(f"{column.text}.{own.text}", Span(column.span.start, own.span.end))
